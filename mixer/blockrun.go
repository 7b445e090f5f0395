package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// blockVectors holds the state vectors of several sequences, concatenated, or of one of them.
type blockVectors struct {
	rows, qkv *tensor.Tensor // (n·rows, d), (n·rows, 3·d)
	kv        *tensor.Tensor // keys and values of qkv, computed on first use

	of    *blockVectors // the vectors of several sequences that include these, or nil
	place int           // index of this sequence in of
}

// seen returns the keys and values of one sequence.
func (v *blockVectors) seen(run *blockRun) *tensor.Tensor {
	if v.of != nil {
		return run.m.part(run.t, v.of.seen(run), v.place)
	}
	if v.kv == nil {
		v.kv = run.t.Split(v.qkv, run.m.d, 2*run.m.d)[1]
	}
	return v.kv
}

// tensors returns the vectors of one sequence, and their queries, keys and values.
func (v *blockVectors) tensors(run *blockRun) (rows, qkv *tensor.Tensor) {
	if v.of == nil {
		return v.rows, v.qkv
	}
	return run.m.part(run.t, v.of.rows, v.place), run.m.part(run.t, v.of.qkv, v.place)
}

// part returns the part of x for the sequence with the given index.
func (m *BlockRecurrent) part(t *autograd.Tape, x *tensor.Tensor, place int) *tensor.Tensor {
	if x.Rows() == m.rows {
		return x
	}
	return t.Slice(x, place*m.rows, m.rows)
}

// blockRun processes rows block by block.
type blockRun struct {
	m    *BlockRecurrent
	t    *autograd.Tape
	r    *Rows
	keys *tensor.Tensor // (n, 2·d)

	now    []*blockVectors   // current vectors of each row
	heard  [][]*blockVectors // for each row, the vectors that each of its pieces attends to
	pieces [][]int           // for each row, the number of its positions in each block
	at     []int             // for each row, the number of processed positions
	filled []int             // for each row, the number of processed positions in its current block
}

// state returns the state of row i, or nil if it has none.
func (run *blockRun) state(i int) *blockState {
	s, _ := run.r.state(i).(*blockState)
	return s
}

// begin sets the vectors at the beginning of the rows.
func (run *blockRun) begin() {
	var start *blockVectors // vectors of all rows without earlier positions
	run.at = make([]int, run.r.Count())
	for i := range run.r.Count() {
		s := run.state(i)
		switch {
		case s != nil && s.begun:
			run.now = append(run.now, &blockVectors{rows: s.rows, qkv: s.qkv})
			run.filled = append(run.filled, s.filled)
			continue
		case start == nil:
			start = run.m.enter(run.t, run.m.Start.Forward(run.t, run.m.numbers(1)))
		}
		run.now, run.filled = append(run.now, start), append(run.filled, 0)
	}
}

// round processes each row to the end of its block, or to its own end, and reports whether rows have positions left.
func (run *blockRun) round() (more bool) {
	m, t := run.m, run.t
	var ends []int // rows whose block is complete
	var blocks []*tensor.Tensor
	for i := range run.r.Count() {
		n := min(m.block-run.filled[i], run.r.Len(i)-run.at[i])
		if n == 0 {
			continue
		}
		x := t.Slice(run.keys, run.r.From(i)+run.at[i], n)
		run.pieces[i], run.heard[i] = append(run.pieces[i], n), append(run.heard[i], run.now[i])
		run.at[i] += n
		left := run.at[i] < run.r.Len(i)
		more = more || left
		s := run.state(i)
		if run.filled[i]+n < m.block { // the row ends within the block
			if s != nil {
				run.keep(s, x)
			}
			continue
		}
		run.filled[i] = 0
		if s != nil && s.filled > 0 {
			x = t.Stack(t.Slice(s.block, 0, s.filled), x)
		}
		if s != nil {
			s.filled = 0
		}
		if left || s != nil {
			ends, blocks = append(ends, i), append(blocks, x)
		}
	}
	if len(ends) > 0 {
		run.next(ends, t.Stack(blocks...))
	}
	return more
}

// next updates the vectors of rows whose block is complete.
func (run *blockRun) next(ends []int, blocks *tensor.Tensor) {
	// The rows of a round are among those of the previous round, whose vectors are in one tensor. That tensor is used
	// as it is if the rows are the same.
	before := run.now[ends[0]].of
	for k, i := range ends {
		if run.now[i].place != k {
			before = nil
		}
	}
	var rows, qkv *tensor.Tensor
	if before != nil && before.rows.Rows() == len(ends)*run.m.rows {
		rows, qkv = before.rows, before.qkv
	} else {
		var all, allQKV []*tensor.Tensor
		for _, i := range ends {
			one, oneQKV := run.now[i].tensors(run)
			all, allQKV = append(all, one), append(allQKV, oneQKV)
		}
		rows, qkv = run.t.Stack(all...), run.t.Stack(allQKV...)
	}
	after := run.m.next(run.t, rows, qkv, blocks, len(ends))
	for k, i := range ends {
		run.now[i] = &blockVectors{of: after, place: k}
	}
}

// keep appends the keys and values x to those of a state's block.
func (run *blockRun) keep(s *blockState, x *tensor.Tensor) {
	if !run.t.Recording() {
		s.put(x)
		return
	}
	if s.filled > 0 {
		x = run.t.Stack(run.t.Slice(s.block, 0, s.filled), x)
	}
	s.block, s.own, s.filled = x, false, x.Rows()
}

// store stores the vectors after the rows in their states.
func (run *blockRun) store() {
	for i := range run.r.Count() {
		s := run.state(i)
		if s == nil || s.begun && len(run.pieces[i]) == 1 && run.now[i] == run.heard[i][0] {
			continue // no block has ended
		}
		s.rows, s.qkv = run.now[i].tensors(run)
		s.begun = true
		if !run.t.Recording() { // tensors of the tape do not outlive it
			s.rows, s.qkv = s.rows.Clone(), s.qkv.Clone()
		}
	}
}
