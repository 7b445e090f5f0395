package dashboard

import "math"

// Limits on the points of a curve that a client may request.
const (
	minPoints     = 10
	defaultPoints = 2000
	maxPoints     = 100_000
)

// Curve is a measurement over the steps of a run. If there are more points than requested, the curve has only the
// minimum and the maximum of each part of the run, so that spikes stay visible. A value that is not finite is null.
type Curve struct {
	Step    []int64    `json:"step"`
	Seconds []float64  `json:"seconds"`
	Value   []*float64 `json:"value"`
}

// Curves holds all measurements of a run.
type Curves struct {
	Run
	Version int64            `json:"version"` // grows with the measurements
	Curves  map[string]Curve `json:"curves"`
	Samples []Sample         `json:"samples"`
	Bad     int              `json:"bad,omitempty"` // lines that could not be read
}

// curves returns all measurements, each as a curve of at most the given number of points.
func (m *metrics) curves(points int) Curves {
	out := Curves{Version: m.version, Curves: make(map[string]Curve, len(m.series)), Samples: m.samples, Bad: m.bad}
	if out.Samples == nil {
		out.Samples = []Sample{}
	}
	for name, s := range m.series {
		out.Curves[name] = s.thin(points)
	}
	return out
}

// thin returns the values as a curve of at most the given number of points.
func (s *series) thin(points int) Curve {
	c := Curve{Step: []int64{}, Seconds: []float64{}, Value: []*float64{}}
	add := func(i int) {
		c.Step, c.Seconds = append(c.Step, s.step[i]), append(c.Seconds, s.seconds[i])
		if v := s.value[i]; math.IsNaN(v) {
			c.Value = append(c.Value, nil)
		} else {
			c.Value = append(c.Value, &s.value[i])
		}
	}
	n := len(s.value)
	if n <= points {
		for i := range n {
			add(i)
		}
		return c
	}
	parts := points / 2
	for k := range parts {
		low, high := s.extremes(k*n/parts, (k+1)*n/parts)
		add(min(low, high))
		if low != high {
			add(max(low, high))
		}
	}
	return c
}

// extremes returns the indices of the minimum and maximum in the half-open range from a to b. A value that is not
// finite counts as both.
func (s *series) extremes(a, b int) (low, high int) {
	low, high = a, a
	for i := a; i < b; i++ {
		switch v := s.value[i]; {
		case math.IsNaN(v):
			return i, i
		case v < s.value[low]:
			low = i
		case v > s.value[high]:
			high = i
		}
	}
	return low, high
}
