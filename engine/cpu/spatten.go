package cpu

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// positionUnit keeps both numbers of Position exact in float32.
const positionUnit = 1 << 20

// SpAtten computes all rows at once, each block by block. Backward gathers the keys of a block again.
func (eng *Engine) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows,
	states []*engine.SpAttenState) *tensor.Tensor {
	n, d := qkv.Dim(0), qkv.Dim(-1)/3
	op := take[spattenOp](eng)
	op.spatten = spatten{SpAttenOptions: o, qkv: qkv, rows: r, hd: d / o.Heads, precision: eng.precision(),
		quantised: !eng.Recording && o.Progressive > 0, each: resize(op.each, r.Count())}
	s := &op.spatten
	s.scale = float32(1 / math.Sqrt(float64(s.hd)))
	s.q, s.k, s.v, s.y = eng.New(n, d), eng.New(n, d), eng.New(n, d), eng.New(n, d)
	s.lse = eng.arena.Floats(n * o.Heads)
	s.record = eng.wants(qkv)
	for i := range s.each {
		var state *engine.SpAttenState
		if i < len(states) {
			state = states[i]
		}
		s.begin(eng, i, state)
	}
	parallel.For(r.Count(), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s.unpack(i)
			s.forward(&s.each[i], i)
		}
	})
	if s.record {
		made := eng.push("SpAtten", op, s.y)
		for i := range s.each {
			if w := &s.each[i]; w.carries {
				made.add(w.after.K, w.after.V)
			}
		}
		return s.y
	}
	for i := range s.each { // the operation stays in a pool and would keep the states in memory
		s.each[i].before, s.each[i].after, s.each[i].past = engine.SpAttenState{}, engine.SpAttenState{}, nil
	}
	return s.y
}

type spatten struct {
	engine.SpAttenOptions
	qkv, y    *tensor.Tensor
	q, k, v   *tensor.Tensor // for each row (heads, l, head_dim), rotated
	lse       []float32      // for each row (heads, l)
	rows      *engine.Rows
	each      []spattenRow
	hd        int
	scale     float32
	precision kernel.Precision
	quantised bool
	record    bool
}

// spattenRow is a row while it is computed.
type spattenRow struct {
	from, l       int // its first position in the tensor, and its length
	before, after engine.SpAttenState
	carries       bool           // the row has a state
	past          *tensor.Tensor // the keys before the row, not quantised
	pieces        []spattenPiece // for backward, if the tape records
	origins       []int32
	order         []int // scratch
}

// spattenPiece is a run of queries of one block: the positions [i0, i0+rows) of the row. origins tells where its keys
// came from: numbers below the number of tokens in the state are tokens of the state, others are positions of the row,
// counted after these.
type spattenPiece struct {
	i0, rows int
	origins  []int32
	pruned   []bool // heads
}

// begin prepares row i, starting from a state, which may be nil.
func (s *spatten) begin(eng *Engine, i int, state *engine.SpAttenState) {
	w := &s.each[i]
	*w = spattenRow{from: s.rows.From(i), l: s.rows.Len(i), carries: state != nil, pieces: w.pieces,
		origins: w.origins, order: w.order}
	if state != nil {
		w.before, w.past = *state, state.K
		s.record = eng.wants(state.K, state.V) || s.record
	}
	w.after = w.before
	if state != nil && !eng.Recording {
		return
	}
	heads, most := s.Heads, s.Rows()
	w.after = engine.SpAttenState{K: eng.New(heads, most, s.hd), V: eng.New(heads, most, s.hd),
		Importance: eng.New(most), Heads: eng.New(heads), Position: eng.New(2)}
	if s.Progressive > 0 {
		w.after.Low = eng.New(heads, most, s.hd)
	}
	if s.Cascade {
		w.after.Places = eng.New(most)
	}
	copySpAtten(&w.after, &w.before)
	if eng.Recording && w.before.Low != nil { // keys that are not quantised
		kernel.Add(w.after.K.Data(), w.before.Low.Data())
		w.after.Low.Zero()
		w.past = eng.like(w.after.K)
		copy(w.past.Data(), w.after.K.Data())
	}
	if state != nil {
		*state = w.after
	}
}

// copySpAtten copies the state from to s, or clears s if there is none.
func copySpAtten(s, from *engine.SpAttenState) {
	parts := func(s *engine.SpAttenState) [7]*tensor.Tensor {
		return [7]*tensor.Tensor{s.K, s.V, s.Importance, s.Heads, s.Position, s.Low, s.Places}
	}
	sources := parts(from)
	for i, x := range parts(s) {
		switch {
		case x == nil:
		case sources[i] == nil:
			x.Zero()
		default:
			x.CopyFrom(sources[i].Data())
		}
	}
}

// eachRows calls f for the tensors of s that have a row for each token.
func eachRows(s *engine.SpAttenState, f func(x *tensor.Tensor)) {
	f(s.K)
	f(s.V)
	if s.Low != nil {
		f(s.Low)
	}
}

// positionOf returns the number of positions of the sequence so far.
func positionOf(s *engine.SpAttenState) int {
	p := s.Position.Data()
	return int(p[0])*positionUnit + int(p[1])
}

func setPosition(s *engine.SpAttenState, n int) {
	p := s.Position.Data()
	p[0], p[1] = float32(n/positionUnit), float32(n%positionUnit)
}

// place returns the index of position i of head h of row w in q, k and v.
func (s *spatten) place(w *spattenRow, h, i int) int { return w.from*s.Heads*s.hd + (h*w.l+i)*s.hd }

// out returns the index of position i of head h of row w in y.
func (s *spatten) out(w *spattenRow, h, i int) int { return ((w.from+i)*s.Heads + h) * s.hd }

// unpack splits the positions of row i into heads, and rotates queries and keys to their positions.
func (s *spatten) unpack(i int) {
	w, d := &s.each[i], s.Heads*s.hd
	start := positionOf(&w.after)
	parallel.For(w.l, rowGrain(3*d), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := s.qkv.Data()[(w.from+i)*3*d:][:3*d]
			turnQ, turnK := turns(s.Rotary, start+i)
			for h := range s.Heads {
				at := s.place(w, h, i)
				q, k := s.q.Data()[at:][:s.hd], s.k.Data()[at:][:s.hd]
				copy(q, row[h*s.hd:])
				copy(k, row[d+h*s.hd:])
				copy(s.v.Data()[at:][:s.hd], row[2*d+h*s.hd:])
				turnQ.rotate(q)
				turnK.rotate(k)
			}
		}
	})
}

// forward computes row w, which is row i of the call, block by block.
func (s *spatten) forward(w *spattenRow, i int) {
	most := s.Rows()
	origins := w.origins[:0]
	w.pieces, w.order = w.pieces[:0], resize(w.order, most)
	left := s.LeftOf(w.places(), positionOf(&w.after))
	below, over := engine.SpAttenRow{Block: s.Block, Left: left}, left // over: tokens in the layer before
	var above engine.SpAttenRow
	if s.Above != nil {
		above = s.Above[i]
		over = above.Left
	}
	if s.record {
		for i := range left {
			origins = append(origins, int32(i))
		}
	}
	for i0 := 0; i0 < w.l; {
		p := positionOf(&w.after)
		rows := min(s.Block-p%s.Block, w.l-i0)
		if s.record {
			for i := range rows {
				origins = append(origins, int32(most+i0+i))
			}
			s.remember(w, i0, rows, origins)
		}
		s.attend(w, i0, rows, left)
		for i := range min(rows, len(w.places())) {
			w.places()[left+i] = float32(over + i + 1)
		}
		setPosition(&w.after, p+rows)
		i0, left, over = i0+rows, left+rows, over+rows
		if (p+rows)%s.Block == 0 {
			var cut *engine.SpAttenCut
			if s.Above != nil {
				cut = &above.Cuts[len(below.Cuts)]
				over = len(cut.Importance)
			}
			var own engine.SpAttenCut
			left, own = s.prune(w, w.order[:left], cut, origins)
			if below.Cuts = append(below.Cuts, own); s.Above == nil {
				over = left
			}
			if s.record {
				origins = origins[:left]
			}
		}
	}
	if s.record {
		s.remember(w, w.l, 0, origins)
	}
	if w.origins = origins; s.Below != nil {
		s.Below[i] = below
	}
}

// places returns the indices of the tokens of w in the layer before, or nil without a cascade.
func (w *spattenRow) places() []float32 {
	if w.after.Places == nil {
		return nil
	}
	return w.after.Places.Data()
}

// remember records a piece of row w for backward. It reuses memory.
func (s *spatten) remember(w *spattenRow, i0, rows int, origins []int32) {
	n := len(w.pieces)
	w.pieces = slices.Grow(w.pieces, 1)[:n+1]
	p := &w.pieces[n]
	p.i0, p.rows, p.origins, p.pruned = i0, rows, append(p.origins[:0], origins...), p.pruned[:0]
	for _, x := range w.after.Heads.Data() {
		p.pruned = append(p.pruned, x < 0)
	}
}

// headWork is the smallest number of multiply-adds of a task.
const headWork = 1 << 16

// attend computes the queries [i0, i0+rows) of row w, after the n tokens that are left.
func (s *spatten) attend(w *spattenRow, i0, rows, n int) {
	columns := n + rows
	buf := getFloats(s.Heads * columns)
	defer putFloats(buf)
	importance := *buf
	clear(importance)
	parallel.For(s.Heads, max(1, headWork/(rows*columns*s.hd)), func(lo, hi int) {
		for h := lo; h < hi; h++ {
			s.attendHead(w, h, i0, rows, n, importance[h*columns:][:columns])
		}
	})
	for h := range s.Heads {
		kernel.Add(w.after.Importance.Data()[:columns], importance[h*columns:])
	}
}

// attendHead is attend for head h. It adds to the importance of tokens.
func (s *spatten) attendHead(w *spattenRow, h, i0, rows, n int, importance []float32) {
	columns, size, d := n+rows, s.Rows()*s.hd, s.Heads*s.hd
	k, v := w.after.K.Data()[h*size:][:size], w.after.V.Data()[h*size:][:size]
	own := s.place(w, h, i0)
	copy(k[n*s.hd:], s.k.Data()[own:][:rows*s.hd])
	copy(v[n*s.hd:], s.v.Data()[own:][:rows*s.hd])
	y := s.y.Data()[s.out(w, h, i0):]
	mass := &w.after.Heads.Data()[h]
	if s.Counts != nil {
		s.Counts.All.Add(int64(rows*positionOf(&w.after) + rows*(rows+1)/2))
	}
	if *mass < 0 { // pruned
		for r := range rows {
			clear(y[r*d:][:s.hd])
		}
		return
	}
	p := getFloats(rows * columns)
	defer putFloats(p)
	var low []float32
	if s.quantised {
		low = w.after.Low.Data()[h*size:][:size]
		for r := n; r < columns; r++ {
			quantise(k[r*s.hd:][:s.hd], low[r*s.hd:][:s.hd])
		}
	}
	s.weights(*p, w, h, i0, rows, k, low, false)
	for r := range rows {
		kernel.Add(importance, (*p)[r*columns:])
		weights := (*p)[r*columns:][:n+r+1]
		drop(weights, s.reads(weights))
		if s.Counts != nil {
			s.Counts.Keys.Add(int64(n + r + 1))
			if s.quantised {
				s.Counts.High.Add(int64(n + r + 1))
			}
			s.Counts.Values.Add(int64(s.ValuesOf(n + r + 1)))
		}
	}
	s.precision.GemmInline(kernel.Product{Op: kernel.NN, M: rows, N: s.hd, K: columns, A: *p, LDA: columns,
		B: v, LDB: s.hd, C: y, LDC: d})
	for r := range rows {
		for _, x := range y[r*d:][:s.hd] {
			*mass += max(x, -x)
		}
	}
}

// weights fills p (rows, columns) with the softmax weights of the queries [i0, i0+rows) of row w over the keys k, which
// end with the queries' own keys. Their log-sum-exp is an input if known is true, else a result. low holds the lower
// bits of quantised keys, or is nil for keys that are not quantised.
func (s *spatten) weights(p []float32, w *spattenRow, h, i0, rows int, k, low []float32, known bool) {
	columns := len(p) / rows
	q, lse := s.q.Data()[s.place(w, h, i0):], s.lse[w.from*s.Heads+h*w.l+i0:]
	s.precision.GemmInline(kernel.Product{Op: kernel.NT, M: rows, N: columns, K: s.hd, A: q, LDA: s.hd, B: k, LDB: s.hd,
		C: p, LDC: columns})
	for r := range rows {
		row, sees := p[r*columns:][:columns], columns-rows+r+1
		if low != nil {
			s.refine(row[:sees], q[r*s.hd:], low)
		}
		if known {
			kernel.SoftmaxAgain(row[:sees], s.scale, lse[r])
		} else {
			lse[r] = kernel.Softmax(row[:sees], s.scale)
		}
		clear(row[sees:])
	}
}

// reads reports which values a query with these weights reads. It returns nil if it reads all.
func (s *spatten) reads(weights []float32) []bool {
	if s.ValuesOf(len(weights)) == len(weights) {
		return nil
	}
	return s.Reads(weights)
}

// drop zeroes the elements of a row whose values are not read.
func drop(row []float32, reads []bool) {
	for i, read := range reads {
		if !read {
			row[i] = 0
		}
	}
}

// refine adds the contribution of the lower bits to the scores of query q, if the scores of the upper bits give no
// weight above Progressive.
func (s *spatten) refine(scores, q, low []float32) {
	most := slices.Max(scores)
	sum := float32(0)
	for _, x := range scores {
		sum += kernel.Exp((x - most) * s.scale)
	}
	if 1/sum < s.Progressive {
		if s.Counts != nil {
			s.Counts.Low.Add(int64(len(scores)))
		}
		s.precision.GemmInline(kernel.Product{Op: kernel.NT, M: 1, N: len(scores), K: s.hd, A: q, LDA: s.hd,
			B: low, LDB: s.hd, C: scores, LDC: len(scores), Add: true})
	}
}

// quantise rounds a key to 8 bits. It leaves the upper four in key, and stores the lower four, values of -8 to 7, in
// low.
func quantise(key, low []float32) {
	most := float32(0)
	for _, x := range key {
		most = max(most, x, -x)
	}
	step := most / 119 // so that the upper bits range from -7 to 7
	if step == 0 {
		clear(low)
		return
	}
	for i, x := range key {
		n := int32(math.RoundToEven(float64(x / step)))
		high := (n + 8) &^ 15
		key[i], low[i] = step*float32(high), step*float32(n-high)
	}
}

// prune keeps the tokens of row w, in order, and the heads that SpAttenOptions.Leave chooses, and moves origins along.
// order is scratch, with one element for every token. It returns the number of tokens that are left.
func (s *spatten) prune(w *spattenRow, order []int, above *engine.SpAttenCut, origins []int32) (n int,
	cut engine.SpAttenCut) {
	importance, most := w.after.Importance.Data(), s.Rows()
	left, cut := s.Leave(order, importance[:len(order)], w.after.Heads.Data(), w.places(), above)
	for to, from := range left {
		if to == from {
			continue
		}
		importance[to] = importance[from]
		if s.record {
			origins[to] = origins[from]
		}
		eachRows(&w.after, func(x *tensor.Tensor) {
			for h := range s.Heads {
				rows := x.Data()[h*most*s.hd:]
				copy(rows[to*s.hd:][:s.hd], rows[from*s.hd:])
			}
		})
	}
	// The memory of pruned tokens is cleared, so that the state does not depend on how the sequence was cut into rows.
	n = len(left)
	clear(importance[n:])
	eachRows(&w.after, func(x *tensor.Tensor) {
		for h := range s.Heads {
			clear(x.Data()[(h*most+n)*s.hd : (h+1)*most*s.hd])
		}
	})
	return n, cut
}
