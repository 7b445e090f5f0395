package paths

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
)

// squares holds the sums of squares that determine a relative distance.
type squares struct{ difference, a, b float64 }

func (s *squares) add(x, y float32) {
	d := float64(x) - float64(y)
	s.difference += d * d
	s.a += float64(x) * float64(x)
	s.b += float64(y) * float64(y)
}

// distance returns the relative distance, 0 if there are no numbers.
func (s *squares) distance() float64 {
	if s.difference == 0 {
		return 0
	}
	return 2 * math.Sqrt(s.difference) / (math.Sqrt(s.a) + math.Sqrt(s.b))
}

// meter measures distances of states. It combines the channels of a layer into groups, so that maps stay small.
type meter struct {
	g    *explain.Language
	rows int // maximum number of groups of a layer
}

func newMeter(g *explain.Language, places int) *meter {
	return &meter{g, max(8, min(128, maxCellsSum/max(1, len(g.Backbone.Blocks)*places)))}
}

// part is a tensor of a layer's state.
type part struct {
	name    string
	shape   []int
	values  []float32
	channel int // axis of channels or heads
}

// partsOf returns the tensors of a layer's state that contain numbers of the model.
func partsOf(s *model.State, layer int) (out []part) {
	for _, from := range mixer.StateParts(s.Mixers[layer]) {
		shape, values := from.Values()
		if from.Kind.Bookkeeping() || len(values) == 0 {
			continue
		}
		p := part{name: from.Name, shape: shape, values: values}
		if from.Kind == mixer.PositionRows || from.Kind == mixer.BlockRows {
			p.channel = 1
		}
		out = append(out, p)
	}
	return out
}

// channels returns the number of channels of a part.
func (p *part) channels() int { return p.shape[p.channel] }

// of returns the channel of value i.
func (p *part) of(i int) int {
	for axis := len(p.shape) - 1; axis > p.channel; axis-- {
		i /= p.shape[axis]
	}
	return i % p.shape[p.channel]
}

// layerDistance returns the relative distance of the states of a layer.
func layerDistance(g *explain.Language, a, b *model.State, layer int) float64 {
	var all squares
	second := partsOf(b, layer)
	for _, p := range partsOf(a, layer) {
		q := partOf(second, &p)
		for i, x := range p.values {
			all.add(x, q[i])
		}
	}
	return all.distance()
}

// partOf returns the values of the part with that name and shape, zeros if there is none.
func partOf(all []part, like *part) []float32 {
	for i := range all {
		if all[i].name == like.name && slices.Equal(all[i].shape, like.shape) {
			return all[i].values
		}
	}
	return make([]float32, len(like.values))
}

// measure appends the distances of a and b to a report.
func (m *meter) measure(rep *Report, a, b *model.State) {
	for k := range m.g.Backbone.Blocks {
		if len(rep.Distance) == k {
			rep.Distance = append(rep.Distance, nil)
			rep.Channels = append(rep.Channels, ChannelDistance{rows: map[string]int{}})
		}
		first, second := partsOf(a, k), partsOf(b, k)
		place, of := len(rep.Distance[k]), &rep.Channels[k]
		var all squares
		for i, x := range m.groups(first) {
			p := &first[i]
			q := partOf(second, p)
			for j, v := range p.values {
				x.sums[x.group[p.of(j)]].add(v, q[j])
			}
			for j, s := range x.sums {
				all.difference, all.a, all.b = all.difference+s.difference, all.a+s.a, all.b+s.b
				of.put(x.names[j], place, s.distance())
			}
		}
		rep.Distance[k] = append(rep.Distance[k], all.distance())
	}
}

// put sets a value at a place. Places at which a row has no value, because what it shows does not exist yet, are NaN.
func (c *ChannelDistance) put(name string, place int, v float64) {
	row, ok := c.rows[name]
	if !ok {
		row = len(c.Names)
		c.rows[name], c.Names, c.Values = row, append(c.Names, name), append(c.Values, nil)
	}
	for len(c.Values[row]) < place {
		c.Values[row] = append(c.Values[row], math.NaN())
	}
	c.Values[row] = append(c.Values[row], v)
}

// at returns a value, NaN if there is none.
func (c *ChannelDistance) at(row, place int) float64 {
	if place >= len(c.Values[row]) {
		return math.NaN()
	}
	return c.Values[row][place]
}

// grouped holds the groups of a part's channels.
type grouped struct {
	group []int // group of each channel
	names []string
	sums  []squares
}

// groups divides the rows of a layer's map among the parts of its state.
func (m *meter) groups(all []part) (out []grouped) {
	total := 0
	for i := range all {
		total += all[i].channels()
	}
	for i := range all {
		n := all[i].channels()
		rows := n
		if total > m.rows {
			rows = max(1, n*m.rows/total)
		}
		of := grouped{group: make([]int, n), sums: make([]squares, rows)}
		for c := range n {
			of.group[c] = c * rows / n
			if c == 0 || of.group[c] != of.group[c-1] {
				of.names = append(of.names, fmt.Sprintf("%s %d", all[i].name, c))
			}
		}
		out = append(out, of)
	}
	return out
}
