package mixer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// attentionState holds the keys and values of the positions that can still be seen, or keys that are also the values.
type attentionState struct {
	engine.KVCache
	heads, headDim int
	most           int // number of positions that can still be seen
}

// keysAndValues returns the caches of the rows. Their states must be attentionStates.
func (r *Rows) keysAndValues() []*engine.KVCache {
	return collect(r, &r.kv, 0, func(s *attentionState, _ int) *engine.KVCache { return &s.KVCache })
}

// Size counts the positions that can still be seen, not the space allocated for more.
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

// names returns the names of keys and values, or of keys alone.
func (s *attentionState) names() []string {
	if s.KeysAsValues {
		return []string{"k"}
	}
	return []string{"k", "v"}
}

// rowBytes returns the memory of one position's keys and values.
func (s *attentionState) rowBytes() int { return len(s.names()) * s.heads * s.RowBytes(s.headDim) }

func (s *attentionState) Clone() State {
	c := *s
	c.KVCache = s.KVCache.Clone()
	return &c
}

// Tensors visits keys and values, (heads, positions, head_dim).
func (s *attentionState) Tensors(visit func(string, *tensor.Tensor)) {
	if s.Len > 0 && s.most > 0 {
		for which, name := range s.names() {
			visit(name, s.KVCache.Tensor(which, s.most))
		}
	}
}

// parts returns the tensors of Tensors as parts.
func (s *attentionState) parts() (parts []StatePart) {
	if s.Len == 0 || s.most == 0 {
		return nil
	}
	for which, name := range s.names() {
		parts = append(parts, StatePart{Name: name, Integers: s.Integers(which, s.most), tensor: func() *tensor.Tensor {
			return s.KVCache.Tensor(which, s.most)
		}})
	}
	return parts
}

func (s *attentionState) Restore(name string, shape []int, data []float32) error {
	if name == "start" { // of earlier versions: rows now know the positions at which they begin
		_, err := positions(name, shape, data)
		return err
	}
	which, one, err := s.place(name, shape, len(data))
	if err == nil && !s.Fill(which, tensor.FromSlice(data, one...)) {
		err = s.others(name, one)
	}
	return err
}

// restoreIntegers implements RestoreIntegers.
func (s *attentionState) restoreIntegers(name string, shape []int, q []int8, factors []float32) (bool, error) {
	if !s.InIntegers() {
		return false, nil
	}
	which, one, err := s.place(name, shape, len(q))
	if err == nil && len(factors)*s.headDim != len(q) {
		err = fmt.Errorf("state %q has %d factors, want one for each row of %v", name, len(factors), shape)
	}
	if err == nil && !s.FillIntegers(which, one, q, factors) {
		err = s.others(name, one)
	}
	return true, err
}

// place checks the shape of keys (0) or values (1), and returns it without the axis of a single sequence.
func (s *attentionState) place(name string, shape []int, n int) (which int, one []int, err error) {
	if which = slices.Index(s.names(), name); which < 0 {
		return 0, nil, fmt.Errorf("state has no part %q, only %s", name, strings.Join(s.names(), " and "))
	}
	one = ofOne(shape, 3)
	if len(one) != 3 || one[0] != s.heads || one[2] != s.headDim || one[1] < 1 || one[1] > s.most ||
		n != one[0]*one[1]*one[2] {
		return 0, nil, fmt.Errorf("state %q has shape %v and %d values, want (%d, positions, %d)", name, shape, n,
			s.heads, s.headDim)
	}
	return which, one, nil
}

// others returns the error of keys and values with different numbers of positions.
func (s *attentionState) others(name string, shape []int) error {
	return fmt.Errorf("state %q has %d positions, want the %d of what is there", name, shape[1], s.Len)
}
