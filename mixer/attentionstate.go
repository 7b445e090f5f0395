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
	most           int // positions that can still be seen
}

// keysAndValues are the caches of the rows, whose states are attentionStates.
func (r *Rows) keysAndValues() []*engine.KVCache {
	return collect(r, &r.kv, 0, func(s *attentionState, _ int) *engine.KVCache { return &s.KVCache })
}

// Size counts the positions that can still be seen, not the room kept for more.
func (s *attentionState) Size() int { return min(s.Len, s.most) * s.rowBytes() }

// Pages calls f for each page of keys and values of some states, as KVCache.Pages does.
func Pages(f func(page *engine.Page, bytes, seen int), states ...State) {
	for _, s := range states {
		if p, ok := s.(interface {
			Pages(f func(page *engine.Page, bytes, seen int))
		}); ok {
			p.Pages(f)
		}
	}
}

// rowBytes is the memory of the keys and values of one position.
func (s *attentionState) rowBytes() int { return 2 * s.heads * s.RowBytes(s.headDim) }

func (s *attentionState) Clone() State {
	c := *s
	c.KVCache = s.KVCache.Clone()
	return &c
}

// Tensors visits keys and values, (heads, positions, head_dim).
func (s *attentionState) Tensors(visit func(string, *tensor.Tensor)) {
	if s.Len > 0 && s.most > 0 {
		k, v := s.KVCache.Tensors(s.most)
		visit("k", k)
		visit("v", v)
	}
}

func (s *attentionState) Restore(name string, shape []int, data []float32) error {
	switch name {
	case "k", "v":
	case "start": // of earlier versions: a row knows at which position it begins
		_, err := positions(name, shape, data)
		return err
	default:
		return fmt.Errorf("state has no part %q, only k and v", name)
	}
	one := ofOne(shape, 3)
	if len(one) != 3 || one[0] != s.heads || one[2] != s.headDim || one[1] < 1 || one[1] > s.most ||
		len(data) != one[0]*one[1]*one[2] {
		return fmt.Errorf("state %q has shape %v and %d values, want (%d, positions, %d)", name, shape,
			len(data), s.heads, s.headDim)
	}
	which := 0
	if name == "v" {
		which = 1
	}
	if !s.Fill(which, tensor.FromSlice(data, one...)) {
		return fmt.Errorf("state %q has %d positions, want the %d of what is there", name, one[1], s.Len)
	}
	return nil
}
