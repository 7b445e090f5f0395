package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// sortedRun is a call of SparseSinkhorn. It cuts rows into pieces, one for each block, which become rows of one
// attention: the sorted block, whose queries are unused zeros, followed by the positions of the piece.
type sortedRun struct {
	m          *SparseSinkhorn
	t          *autograd.Tape
	r          *Rows
	qkv, q, kv *tensor.Tensor // for all positions (n, 3d), and its parts (n, d) and (n, 2d)
	scores     *tensor.Tensor // of blocks that begin in the rows (blocks, heads·columns), or nil
	begun      []int          // number of blocks that begin in each row

	pieces *engine.Rows
	parts  []*tensor.Tensor  // the input of attention
	at, n  []int             // start of a piece's positions in its row, and their number
	caches []*engine.KVCache // of the pieces
	zeros  *tensor.Tensor    // queries of a sorted block
	cut    []*tensor.Tensor  // with sortcut, the keys and values that each row sees
}

// state returns the state of row i, or nil if it has none.
func (run *sortedRun) state(i int) *sortedState {
	s, _ := run.r.state(i).(*sortedState)
	return s
}

// past returns the number of previous positions in the sequence of row i.
func (run *sortedRun) past(i int) int {
	if s := run.state(i); s != nil {
		return s.kv.Len
	}
	return 0
}

// summarize computes the scores of all blocks that begin in the rows, from ψ, a mean.
func (run *sortedRun) summarize(u *tensor.Tensor) {
	m, t, r := run.m, run.t, run.r
	var psi []*tensor.Tensor
	blocks := &engine.Rows{}
	if m.opt.Ahead {
		psi = append(psi, t.MeanPositions(u, engine.EqualRows(r.Total()/m.block, m.block)))
	} else { // the running mean is linear attention with equal queries and keys
		one := t.New(r.Total(), 1)
		one.Zero()
		sum, count := run.sums()
		u = t.LinearAttention(one, one, u, engine.LinearOptions{Heads: 1}, r.Rows, sum, count)
	}
	var seeds []uint64
	for i := range r.Count() {
		before := len(psi)
		for at := range r.Len(i) {
			if (run.past(i)+at)%m.block == 0 && !m.opt.Ahead {
				psi = append(psi, t.Slice(u, r.From(i)+at, 1))
			}
		}
		n := len(psi) - before
		if m.opt.Ahead {
			n = r.Len(i) / m.block
		}
		if run.begun = append(run.begun, n); n > 0 {
			blocks.Add(n, 0)
			if r.Trains() {
				seeds = append(seeds, r.Seed(i, 0))
			}
		}
	}
	if len(psi) == 0 {
		return
	}
	if r.Trains() {
		blocks.Train(seeds)
	}
	scores := m.Columns.Forward(t, m.Sort.Forward(t, stacked(t, psi)))
	run.scores = t.Scale(t.AddGumbel(scores, blocks), 1/m.temperature)
}

// sums returns what the running means of the rows continue from: sums, and the numbers of summed positions.
func (run *sortedRun) sums() (sum, count engine.Slots) {
	r := run.r
	return collect(r, r.slotsOf(0), 0, func(s *sortedState, _ int) *engine.Slot {
			s.sum.own()
			return &s.sum.slots[0]
		}), collect(r, r.slotsOf(1), 0, func(s *sortedState, _ int) *engine.Slot {
			s.count = engine.Slot{X: number(s.kv.Len)}
			return &s.count
		})
}

// row cuts row i into pieces.
func (run *sortedRun) row(i int) {
	m, t, r, s := run.m, run.t, run.r, run.state(i)
	past, begun, from, l := run.past(i), run.begun[i], r.From(i), r.Len(i)
	kv := t.Slice(run.kv, from, l)
	var scores, sorted *tensor.Tensor // sorted: those of the blocks that begin here; the first may have none
	if begun > 0 {
		before := 0
		for j := range i {
			before += run.begun[j]
		}
		scores = t.Slice(run.scores, before, begun)
	}
	all := kv
	if s != nil {
		all = s.grow(t, kv, &scores, begun > 0)
	}
	first := (past + m.block - 1) / m.block // index of the first block that begins here
	none := 0                               // number of blocks without a sorted one: the first of a causal sequence
	if !m.opt.Ahead && first == 0 {
		none = 1
	}
	if count := begun - none; count > 0 {
		p := t.SinkhornBalance(scores, m.balance)
		whole := p.Rows() // number of blocks that are mixed
		if !m.opt.Ahead {
			whole-- // the last one
		} else if m.most > 0 {
			count = min(m.most, count)
		}
		p = t.Slice(p, first+none, count)
		parts := t.Split(t.Slice(all, 0, whole*m.block), m.d, m.d)
		sorted = t.Join(t.MixBlocks(parts[0], p, m.opt.Heads, m.block), t.MixBlocks(parts[1], p, m.opt.Heads, m.block))
	}
	if m.most > 0 {
		run.cut = append(run.cut, sorted)
		return
	}
	for at := 0; at < l; {
		u, filled := (past+at)/m.block, (past+at)%m.block
		n := min(m.block-filled, l-at)
		var before *tensor.Tensor
		if filled == 0 && u >= first+none {
			before = t.Slice(sorted, (u-first-none)*m.block, m.block)
		}
		run.piece(s, before, t.Slice(run.qkv, from+at, n), u, filled)
		at += n
	}
}

// piece adds the positions x (n, 3d) of block u, which follow filled others. The first ones are preceded by the sorted
// block.
func (run *sortedRun) piece(s *sortedState, sorted, x *tensor.Tensor, u, filled int) {
	m, t, n := run.m, run.t, x.Rows()
	start := filled
	if u > 0 && filled > 0 {
		start += m.block
	}
	if sorted == nil {
		run.pieces.Add(n, start)
		run.at = append(run.at, 0)
	} else {
		if run.zeros == nil {
			run.zeros = t.New(m.block, m.d)
			run.zeros.Zero()
		}
		run.pieces.Add(m.block+n, 0)
		run.parts, run.at = append(run.parts, t.Join(run.zeros, sorted)), append(run.at, m.block)
	}
	run.parts, run.n = append(run.parts, x), append(run.n, n)
	if s == nil {
		run.caches = append(run.caches, nil)
		return
	}
	if filled == 0 {
		s.window = m.newWindow()
	}
	run.caches = append(run.caches, &s.window.KVCache)
	if filled+n == m.block { // the block is complete and its window no longer needed
		s.window = m.newWindow()
	}
}

// attend computes the attention of all pieces.
func (run *sortedRun) attend() *tensor.Tensor {
	m, t := run.m, run.t
	if m.most > 0 {
		seen := &engine.Rows{}
		for _, kv := range run.cut {
			seen.Add(kv.Rows(), 0)
		}
		return t.CrossAttention(run.q, stacked(t, run.cut), m.opt.Heads, run.r.Rows, seen)
	}
	caches := run.caches
	if !run.r.carry() {
		caches = nil
	}
	y := t.Attention(stacked(t, run.parts), run.pieces, caches, m.opt)
	return t.Cut(y, run.pieces, run.at, run.n)
}
