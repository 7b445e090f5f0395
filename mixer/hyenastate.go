package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// hyenaState holds the inputs of the filters that later positions see.
type hyenaState struct {
	short engine.Slot        // inputs of the short filter, (taps-1, (order+1)·d)
	long  []engine.ConvCache // inputs of each long convolution
	d     int
}

// short returns the previous inputs of the rows' short filter. Their states must be hyenaStates.
func (r *Rows) short() engine.Slots {
	return collect(r, r.slotsOf(0), 0, func(s *hyenaState, _ int) *engine.Slot { return &s.short })
}

// past returns the caches of long convolution i, with the inputs before the rows.
func (r *Rows) past(i int) []*engine.ConvCache {
	for len(r.long) <= i {
		r.long = append(r.long, nil)
	}
	return collect(r, &r.long[i], i, func(s *hyenaState, i int) *engine.ConvCache { return &s.long[i] })
}

// Size counts the inputs that are seen, not the space allocated for more.
func (s *hyenaState) Size() int {
	n := s.short.X.Len()
	for i := range s.long {
		n += s.long[i].Past() * s.d
	}
	return 4 * n
}

func (s *hyenaState) Clone() State {
	c := &hyenaState{short: engine.Slot{X: s.short.X.Clone()}, d: s.d}
	for i := range s.long {
		c.long = append(c.long, s.long[i].Clone())
	}
	return c
}

func (s *hyenaState) Detach() { *s = *s.Clone().(*hyenaState) }

// Keep drops all but the last n inputs of the long convolutions, which truncates their filters to n+1 taps.
func (s *hyenaState) Keep(n int) {
	for i := range s.long {
		s.long[i].Keep(n)
	}
}

// Tensors visits the inputs of the short filter as "short" and those of each nonempty long convolution as "long0" and
// so on.
func (s *hyenaState) Tensors(visit func(string, *tensor.Tensor)) {
	visit("short", s.short.X)
	for i := range s.long {
		if c := s.long[i].Clone(); c.Len > 0 {
			visit(fmt.Sprint("long", i), c.U)
		}
	}
}

func (s *hyenaState) Restore(name string, shape []int, data []float32) error {
	if name == "short" {
		return restored(s.short.X, name, shape, data)
	}
	for i := range s.long {
		if name != fmt.Sprint("long", i) {
			continue
		}
		c, one := &s.long[i], ofOne(shape, 2)
		if len(one) != 2 || one[0] < 1 || one[0] >= c.Window || one[1] != s.d || len(data) != one[0]*s.d {
			return fmt.Errorf("state %q has shape %v and %d values, want (1 to %d positions, %d)", name, shape,
				len(data), c.Window-1, s.d)
		}
		c.U, c.Len = tensor.New(one...), one[0]
		c.U.CopyFrom(data)
		return nil
	}
	return fmt.Errorf("state has no part %q, only short and long0 to long%d", name, len(s.long)-1)
}

func (s *hyenaState) kind(string) PartKind { return PositionRows }
