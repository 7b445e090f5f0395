package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// blockState holds the state vectors S with their queries, keys and values; the keys and values of the incomplete
// block, as the next state will see them, and those of the window; and the number of the block's positions.
type blockState struct {
	rows, qkv *tensor.Tensor // (rows, d), (rows, 3·d); zeros before the first position
	block     *tensor.Tensor // keys and values (at least filled, 2·d), or nil
	own       bool           // block does not belong to a tape
	filled    int            // number of positions of the block so far
	whole     int            // number of positions of a complete block
	begun     bool           // whether any position has been processed
	window    *attentionState
}

// windows returns the window caches of the rows. Their states must be blockStates.
func (r *Rows) windows() []*engine.KVCache {
	return collect(r, &r.kv, 0, func(s *blockState, _ int) *engine.KVCache { return &s.window.KVCache })
}

func (s *blockState) width() int { return s.qkv.Dim(-1) / 3 * 2 }

// Size counts the filled positions of the block, not the space allocated for more.
func (s *blockState) Size() int {
	return 4*(s.rows.Len()+s.qkv.Len()+1+s.filled*s.width()) + s.window.Size()
}

// Pages visits the pages of the window.
func (s *blockState) Pages(f func(page *engine.Page, bytes, seen int)) { s.window.Pages(f) }

func (s *blockState) Clone() State {
	c := *s
	c.rows, c.qkv, c.window = s.rows.Clone(), s.qkv.Clone(), s.window.Clone().(*attentionState)
	c.block, c.own = s.keys(s.filled), true
	return &c
}

// keys returns a copy of the block's keys and values, with space for room positions. It returns nil if the block is
// empty.
func (s *blockState) keys(room int) *tensor.Tensor {
	if s.filled == 0 {
		return nil
	}
	x := tensor.NewBeside(s.block, room, s.width())
	tensor.CopyRows(x, 0, s.block, 0, s.filled)
	return x
}

// put appends positions x (n, 2·d), which belong to a tape, to the block, in memory of the state's own.
func (s *blockState) put(x *tensor.Tensor) {
	if !s.own || s.block == nil || s.block.Dim(0) < s.filled+x.Rows() {
		if s.filled == 0 {
			s.block = tensor.NewBeside(x, s.whole, s.width())
		} else {
			s.block = s.keys(s.whole)
		}
		s.own = true
	}
	tensor.CopyRows(s.block, s.filled, x, 0, x.Rows())
	s.filled += x.Rows()
}

func (s *blockState) Detach() { *s = *s.Clone().(*blockState) }

func (s *blockState) Keep(int) {}

// Tensors visits the state. "position" is the number of positions, with all complete blocks counted as one.
func (s *blockState) Tensors(visit func(string, *tensor.Tensor)) {
	visit("rows", s.rows)
	visit("qkv", s.qkv)
	if s.filled > 0 {
		visit("block", s.keys(s.filled))
	}
	s.window.Tensors(visit)
	position := s.filled
	if s.begun && position == 0 {
		position = s.whole
	}
	visit("position", number(position))
}

func (s *blockState) Restore(name string, shape []int, data []float32) error {
	switch name {
	case "rows":
		return restored(s.rows, name, shape, data)
	case "qkv":
		return restored(s.qkv, name, shape, data)
	case "position":
		n, err := positions(name, shape, data)
		s.begun = n > 0
		return err
	case "block":
		one := ofOne(shape, 2)
		if len(one) != 2 || one[0] < 1 || one[0] >= s.whole || one[1] != s.width() || len(data) != one[0]*one[1] {
			return fmt.Errorf("state %q has shape %v and %d values, want (1 to %d positions, %d)", name,
				shape, len(data), s.whole-1, s.width())
		}
		s.block, s.own, s.filled = tensor.New(one...), true, one[0]
		s.block.CopyFrom(data)
		return nil
	}
	return s.window.Restore(name, shape, data)
}

func (s *blockState) kind(name string) PartKind {
	return map[string]PartKind{"qkv": Copied, "block": BlockRows, "position": Position}[name]
}
