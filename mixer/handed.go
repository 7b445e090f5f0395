package mixer

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// Handed is what layers of one call hand to later ones.
type Handed struct {
	Values *tensor.Tensor // those of the first RWKV-7 (n, d_model)
}

// Hands reports whether later layers need what m hands on.
func Hands(m Mixer) (some bool) {
	each(m, func(_ string, m Mixer) {
		if m, ok := m.(interface{ hands() bool }); ok && m.hands() {
			some = true
		}
	})
	return some
}

// Given returns m with a copy of what earlier layers have handed to it in the rows of one whole sequence, so that it
// computes any positions of that sequence without them.
func Given(m Mixer, h *Handed) Mixer {
	switch m := m.(type) {
	case interface{ given(h *Handed) Mixer }:
		return m.given(h)
	case scaled:
		return scaled{Given(m.Mixer, h), m.in, m.out, m.after}
	case *parallel:
		c := &parallel{m.names, slices.Clone(m.parts)}
		for i, part := range m.parts {
			c.parts[i] = Given(part, h)
		}
		return c
	}
	return m
}
