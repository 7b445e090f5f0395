package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// sortedState holds the sum of the positions so far, the keys and values of all of them, the scores of all blocks that
// have begun, and attention's cache for the incomplete block: the sorted block and the block's own positions.
type sortedState struct {
	sum        *fixedState
	count      engine.Slot // number of positions, set for each call
	kv, scores engine.RowCache
	window     *attentionState
	d, columns int
	block      int
}

// NewState returns the state before the first position. A bidirectional layer leaves it empty.
func (m *SparseSinkhorn) NewState() State {
	sum := newFixedState([]string{"sum"}, []int{m.d})
	Begin(sum)
	return &sortedState{sum: sum, window: m.newWindow(), d: m.d, columns: m.Columns.Weight.Dim(0), block: m.block}
}

func (m *SparseSinkhorn) newWindow() *attentionState {
	return &attentionState{heads: m.opt.Heads, headDim: m.d / m.opt.Heads, most: 2 * m.block}
}

// grow adds the keys and values of a row, and the scores of the blocks that begin in it. If any begin, it replaces
// scores by those of all blocks, and returns the keys and values of all positions.
func (s *sortedState) grow(t *autograd.Tape, kv *tensor.Tensor, scores **tensor.Tensor, begun bool) *tensor.Tensor {
	all := func(c *engine.RowCache, x *tensor.Tensor) *tensor.Tensor {
		if past := c.Rows(); past != nil {
			return t.Stack(past, x)
		}
		return x
	}
	var whole *tensor.Tensor
	if t.Recording() || begun {
		whole = all(&s.kv, kv)
	}
	old := *scores
	if begun {
		*scores = all(&s.scores, old)
	}
	if t.Recording() {
		s.kv.Replace(whole)
		if begun {
			s.scores.Replace(*scores)
		}
		return whole
	}
	s.kv.Append(s.kv.Len, kv, 0, kv.Rows())
	if begun {
		s.scores.Append(s.scores.Len, old, 0, old.Rows())
	}
	return whole
}

// Size counts the filled part.
func (s *sortedState) Size() int {
	return s.sum.Size() + s.kv.Len*rowBytes(2*s.d) + s.scores.Len*rowBytes(s.columns) + s.window.Size()
}

// Pages visits the pages of the window.
func (s *sortedState) Pages(f func(page *engine.Page, bytes, seen int)) { s.window.Pages(f) }

func (s *sortedState) Clone() State {
	c := *s
	c.sum, c.window = s.sum.Clone().(*fixedState), s.window.Clone().(*attentionState)
	c.kv, c.scores = s.kv.Clone(), s.scores.Clone()
	return &c
}

func (s *sortedState) Detach() { *s = *s.Clone().(*sortedState) }

// Keep does nothing, since any block may be sorted to the next place.
func (s *sortedState) Keep(int) {}

// Tensors visits the sum, the rows of positions and of blocks, and the window.
func (s *sortedState) Tensors(visit func(string, *tensor.Tensor)) {
	s.sum.Tensors(visit)
	if s.kv.Len == 0 {
		return
	}
	visit("kv", s.kv.Rows())
	visit("scores", s.scores.Rows())
	s.window.Tensors(visit)
}

func (s *sortedState) Restore(name string, shape []int, data []float32) error {
	c, d := &s.kv, 2*s.d
	switch name {
	case "sum":
		return s.sum.Restore(name, shape, data)
	case "kv":
	case "scores":
		c, d = &s.scores, s.columns
	default:
		return s.window.Restore(name, shape, data)
	}
	one := ofOne(shape, 2)
	if len(one) != 2 || one[0] < 1 || one[1] != d || len(data) != one[0]*d {
		return fmt.Errorf("state %q has shape %v and %d values, want (n, %d)", name, shape, len(data), d)
	}
	c.Fill(tensor.FromSlice(data, one...))
	if blocks := (s.kv.Len + s.block - 1) / s.block; s.kv.Len > 0 && s.scores.Len > 0 && s.scores.Len != blocks {
		return fmt.Errorf("state has %d positions and scores of %d blocks, want those of %d", s.kv.Len, s.scores.Len,
			blocks)
	}
	return nil
}

func (s *sortedState) kind(name string) PartKind {
	return map[string]PartKind{"kv": PositionRows, "scores": Scores}[name]
}
