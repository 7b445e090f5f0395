package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// attentionState is the keys and values of the positions that can still be seen.
type attentionState struct {
	engine.KVCache
	heads, headDim int
	most           int  // positions that can still be seen
	places         bool // where a position is matters, not only how far from others
}

// keysAndValues are the states of the rows, which are attentionStates.
func (r *Rows) keysAndValues() []*engine.KVCache {
	return collect(r, &r.kv, 0, func(s *attentionState, _ int) *engine.KVCache { return &s.KVCache })
}

// Size counts the positions that can still be seen, not the room kept for more.
func (s *attentionState) Size() int {
	n := min(s.Len, s.most) * s.rowBytes()
	if s.first() > 0 {
		n += 4
	}
	return n
}

// rowBytes is the memory of a position.
func (s *attentionState) rowBytes() int { return 2 * s.heads * s.RowBytes(s.headDim) }

// first is the number of positions before those that can still be seen, 0 where it does not matter.
func (s *attentionState) first() int {
	if !s.places {
		return 0
	}
	return s.Start + max(s.Len-s.most, 0)
}

func (s *attentionState) Clone() State {
	c := *s
	c.KVCache = s.KVCache.Clone(s.most)
	return &c
}

func (s *attentionState) Detach() { s.KVCache = s.KVCache.Clone(s.most) }

// Keep forgets all keys and values but those of the last n positions.
func (s *attentionState) Keep(n int) { s.KVCache.Keep(n) }

// Tensors visits keys and values, (heads, positions, head_dim), and, where earlier ones have been forgotten, how many.
func (s *attentionState) Tensors(visit func(string, *tensor.Tensor)) {
	if s.Len > 0 && s.most > 0 {
		k, v := s.KVCache.Tensors(s.most)
		n := min(s.Len, s.most)
		visit("k", k.As(s.heads, n, s.headDim))
		visit("v", v.As(s.heads, n, s.headDim))
	}
	if first := s.first(); first > 0 {
		visit("start", number(first))
	}
}

func (s *attentionState) Restore(name string, shape []int, data []float32) error {
	if name == "start" {
		n, err := positions(name, shape, data)
		if err == nil {
			s.Start = n
		}
		return err
	}
	if name != "k" && name != "v" {
		return fmt.Errorf("state has no part %q, only k, v and start", name)
	}
	one := ofOne(shape, 3)
	if len(one) != 3 || one[0] != s.heads || one[2] != s.headDim || one[1] < 1 || one[1] > s.most ||
		len(data) != one[0]*one[1]*one[2] {
		return fmt.Errorf("state %q has shape %v and %d values, want (%d, positions, %d)", name, shape, len(data), s.heads,
			s.headDim)
	}
	which := 0
	if name == "v" {
		which = 1
	}
	if !s.Fill(which, tensor.FromSlice(data, 1, s.heads, one[1], s.headDim)) {
		return fmt.Errorf("state %q has %d positions, want the %d of what is there", name, one[1], s.Len)
	}
	return nil
}
