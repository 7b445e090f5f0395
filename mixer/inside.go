package mixer

import (
	"reflect"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Interior describes the input of a mixer's last projection: channels, which may belong to heads. Each channel of a
// recurrent mixer is the output of its own systems, after the gate if there is one.
type Interior struct {
	Channels int
	Heads    int // number of heads, 0 for a mixer without heads
	// Head returns the head that a channel belongs to.
	Head func(channel int) int
}

// Of returns the channels of a head, in order.
func (in Interior) Of(head int) (channels []int) {
	for c := range in.Channels {
		if in.Head(c) == head {
			channels = append(channels, c)
		}
	}
	return channels
}

// projected is a mixer with one last projection. Every mixer of the registry is one.
type projected interface {
	Mixer
	// last returns the last projection and the heads before it. If Head is nil, the heads are consecutive.
	last() (**nn.Linear, Interior)
}

// opened returns a copy of a mixer that applies edit to the input of its last projection.
func opened(m projected, edit func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor) (Mixer, Interior) {
	c := reflect.New(reflect.TypeOf(m).Elem())
	c.Elem().Set(reflect.ValueOf(m).Elem())
	m = c.Interface().(projected)
	out, in := m.last()
	own := **out
	own.Edit = edit
	*out = &own
	in.Channels = own.Weight.Dim(1)
	if in.Head == nil {
		in.Head = func(channel int) int { return channel * in.Heads / in.Channels }
	}
	return m, in
}

// Parts returns the names of the mixers that m is the sum of, or nil for a single mixer.
func Parts(m Mixer) []string {
	if p, ok := m.(*parallel); ok {
		return p.names
	}
	return nil
}

// Inside returns a mixer that shares the parameters of m and applies edit to the input of the last projection, (n,
// channels). part selects one of the Parts of m, and must be empty if there are none. Inside reports false if m is a
// sum and part is empty, if there is no last projection, and for a feed-forward part.
func Inside(m Mixer, part string, edit func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor) (Mixer, Interior,
	bool) {
	if part != "" {
		i := slices.Index(Parts(m), part)
		if i < 0 {
			return m, Interior{}, false
		}
		c := *m.(*parallel)
		c.parts = slices.Clone(c.parts)
		inner, interior, ok := Inside(c.parts[i], "", edit)
		c.parts[i] = inner
		return &c, interior, ok
	}
	if s, ok := m.(scaled); ok {
		inner, interior, ok := Inside(s.Mixer, "", edit)
		return scaled{inner, s.in, s.out, s.after}, interior, ok
	}
	p, ok := m.(projected)
	if !ok {
		return m, Interior{}, false
	}
	if out, _ := p.last(); *out == nil {
		return m, Interior{}, false
	}
	inner, interior := opened(p, edit)
	return inner, interior, true
}
