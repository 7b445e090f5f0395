package task

// ettPublished holds the published mean squared errors by horizon, for the oil temperature alone and for all seven
// variables.
type ettPublished struct{ one, all map[int]float64 }

var (
	s4OnETTh1 = ettPublished{
		one: map[int]float64{24: .061, 48: .079, 168: .104, 336: .080, 720: .116},
		all: map[int]float64{24: .525, 48: .641, 168: .980, 336: 1.407, 720: 1.162},
	}
	s4OnETTh2 = ettPublished{
		one: map[int]float64{24: .095, 48: .191, 168: .167, 336: .189, 720: .187},
		all: map[int]float64{24: .871, 48: 1.240, 168: 2.580, 336: 1.980, 720: 2.650},
	}
)

// of returns the published error for the options, or 0 if there is none.
func (p *ettPublished) of(o *ETTOptions) float64 {
	if o.Multivariate {
		return p.all[o.Horizon]
	}
	return p.one[o.Horizon]
}
