package mixer

import (
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Interior is what the last projection of a mixer is given: channels, which may belong to heads. Each channel of a
// recurrent mixer is the output of systems of its own, after the gate where there is one.
type Interior struct {
	Channels int
	Heads    int // 0 for a mixer without heads
	// Head tells which head a channel belongs to.
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

// Parts are the names of the mixers that m is the sum of, nil where it is one.
func Parts(m Mixer) []string {
	if p, ok := m.(*parallel); ok {
		return p.names
	}
	return nil
}

// InsidePart is Inside for one of the Parts of m, or for m itself where part is empty.
func InsidePart(m Mixer, part string, edit func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor) (Mixer, Interior,
	bool) {
	if part == "" {
		return Inside(m, edit)
	}
	i := slices.Index(Parts(m), part)
	if i < 0 {
		return m, Interior{}, false
	}
	c := *m.(*parallel)
	c.parts = slices.Clone(c.parts)
	inner, interior, ok := Inside(c.parts[i], edit)
	c.parts[i] = inner
	return &c, interior, ok
}

// Inside returns a mixer that shares the parameters of m and calls edit with what the last projection is given, (n,
// channels). The projection takes what edit returns. It is false for a mixer of several, or of a feed-forward part.
func Inside(m Mixer, edit func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor) (Mixer, Interior, bool) {
	in := func(out **nn.Linear, heads int) Interior {
		edited := **out
		edited.Edit = edit
		*out = &edited
		return headsOf(&edited, heads)
	}
	switch m := m.(type) {
	case scaled:
		inner, interior, ok := Inside(m.Mixer, edit)
		return scaled{inner, m.in, m.out}, interior, ok
	case *H3:
		c := *m
		interior := in(&c.Out, m.D.Len())
		if m.order == engine.DimMajor {
			interior.Head = func(channel int) int { return channel % interior.Heads }
		}
		return &c, interior, true
	case *BlockRecurrent:
		c := *m
		return &c, in(&c.Out, 2*m.heads), true // those of the window, then those that see the state
	case *LMU: // not copied as a whole: what it has kept must not be
		c := &LMU{In: m.In, Out: m.Out, H: m.H, M: m.M, EX: m.EX, E: m.E, hidden: m.hidden, order: m.order,
			constants: m.constants}
		return c, in(&c.Out, 0), true
	case *Attention:
		c := *m
		return &c, in(&c.Out, m.opt.Heads), true
	case *SpAtten:
		c := *m
		return &c, in(&c.Out, m.opt.Heads), true
	case *Sinkhorn:
		c := *m
		return &c, in(&c.Out, m.opt.Heads), true
	case *LinearAttention:
		c := *m
		return &c, in(&c.Out, m.opt.Heads), true
	case *Retention:
		c := *m
		return &c, in(&c.Out, m.heads), true
	case *Mamba2:
		c := *m
		return &c, in(&c.Out, m.heads), true
	case *Mamba:
		c := *m
		return &c, in(&c.Out, 0), true
	case *S4:
		c := *m
		return &c, in(&c.Out, 0), true
	case *S4D:
		c := *m
		return &c, in(&c.Out, 0), true
	case *DSS:
		c := *m
		return &c, in(&c.Out, 0), true
	case *GSS:
		c := *m
		return &c, in(&c.OutputGate, 0), true
	case *GMLP:
		c := *m
		return &c, in(&c.V, 0), true
	case *GAU:
		c := *m
		return &c, in(&c.Out, 0), true
	case *Hyena:
		c := *m
		return &c, in(&c.Out, 0), true
	case *RGLRU:
		c := *m
		return &c, in(&c.Out, 0), true
	case *RNN:
		c := *m
		return &c, in(&c.Out, 0), true
	case *GatedConv:
		c := *m
		return &c, in(&c.Out, 0), true
	}
	return m, Interior{}, false
}

// headsOf is the interior in front of a projection, whose heads lie one behind the other.
func headsOf(out *nn.Linear, heads int) Interior {
	channels := out.Weight.Dim(1)
	return Interior{Channels: channels, Heads: heads, Head: func(channel int) int { return channel * heads / channels }}
}
