package reference

import (
	"cmp"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SpAtten is causal softmax attention that prunes tokens and heads along the sequence (arXiv:2012.09852, §III). A
// position sees the tokens that are left and itself. With s = 1/√head_dim,
//
//	P_j = softmax(s·q·k_j),   y = Σ_j P_j·v_j
//
// A token's importance is the sum of all P that the heads gave it. A head's importance is the sum of |y| over its
// outputs. After every Block positions, SpAtten keeps the Keep most important tokens, and drops one head as long as
// there are more than KeepHeads. A pruned head gives 0. With Values, y sums only the Values terms with the largest P;
// of equal ones the earlier. With Cascade, tokens and heads that the layer before has pruned are pruned first, and
// importance is the sum over the layers so far; further heads are pruned only when the layer before has no more to
// prune. The choices have no gradient. Progressive quantization is a way to compute scores, not part of the definition:
// here keys are not quantized. Backward is as in Attention.
// whole here. Backward is that of Attention.
func (eng *Engine) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows,
	states []*engine.SpAttenState) *tensor.Tensor {
	d := qkv.Dim(-1) / 3
	y := eng.New(qkv.Dim(0), d)
	var all []*spatten
	outputs, inputs := list{y}, list{qkv}
	for i := range r.Count() {
		s := &spatten{o: o, place: r.From(i), l: r.Len(i), d: d, hd: d / o.Heads, mass: make([]float64, o.Heads)}
		if i < len(states) && states[i] != nil {
			s.before = *states[i]
			s.begin(eng)
		}
		s.over, s.below = len(s.left), engine.SpAttenRow{Block: o.Block, Left: len(s.left)}
		if o.Above != nil {
			s.above = &o.Above[i]
			s.over = s.above.Left
		}
		for t := range s.l {
			s.step(eng.values(qkv), eng.values(y), t)
		}
		if o.Below != nil {
			o.Below[i] = s.below
		}
		if s.before.K != nil {
			s.after = s.state(eng)
			*states[i] = s.after
		}
		outputs, inputs = append(outputs, s.after.K, s.after.V), append(inputs, s.before.K, s.before.V)
		all = append(all, s)
	}
	eng.record("SpAtten", outputs, inputs, func() {
		for _, s := range all {
			s.gradients(eng, qkv, y)
		}
	})
	return y
}

// spatten is one row while it is computed.
type spatten struct {
	o             engine.SpAttenOptions
	place         int // index of the row's first position in the tensors
	l, d, hd      int
	before, after engine.SpAttenState // with nil tensors if the row has none
	start         int                 // positions before the row
	left, from    []*spattenToken
	row           []*spattenToken  // all tokens of the row
	mass          []float64        // importance of heads, -1 for pruned ones
	seen          [][]spattenQuery // of every position and head
	above         *engine.SpAttenRow
	below         engine.SpAttenRow
	over          int // number of tokens that the layer before has
}

// spattenToken holds the keys and values of every head for a token, and their gradients.
type spattenToken struct {
	k, v, dk, dv [][]float64
	importance   float64
	place        int // index in the layer before
}

// spattenQuery holds the query of a head, and the tokens that it saw.
type spattenQuery struct {
	q      []float64
	tokens []*spattenToken
	p      []float64
	reads  []bool // whether the value is read
}

func newSpattenToken(heads, hd int) *spattenToken {
	x := &spattenToken{}
	for _, part := range []*[][]float64{&x.k, &x.v, &x.dk, &x.dv} {
		for range heads {
			*part = append(*part, make([]float64, hd))
		}
	}
	return x
}

// begin loads the remaining tokens and heads from the state before.
func (s *spatten) begin(eng *Engine) {
	position := eng.values(s.before.Position)
	s.start = int(position[0])<<20 + int(position[1])
	copy(s.mass, eng.values(s.before.Heads))
	k, v, low := eng.values(s.before.K), eng.values(s.before.V), eng.values(s.before.Low)
	places := eng.values(s.before.Places)
	for i := range s.o.Left(s.start) {
		x := newSpattenToken(s.o.Heads, s.hd)
		if places != nil {
			if x.place = int(places[i]) - 1; x.place < 0 {
				break
			}
		}
		x.importance = eng.values(s.before.Importance)[i]
		for h := range s.o.Heads {
			at := s.at(h, i)
			copy(x.k[h], k[at:])
			copy(x.v[h], v[at:])
			for c := range s.hd {
				if low != nil {
					x.k[h][c] += low[at+c]
				}
			}
		}
		s.left, s.from = append(s.left, x), append(s.from, x)
	}
}

// at returns the index of the part of head h of token i in K and V of a state.
func (s *spatten) at(h, i int) int { return (h*s.o.Rows() + i) * s.hd }

// step computes position t of the row.
func (s *spatten) step(x, y []float64, t int) {
	row, p := x[(s.place+t)*3*s.d:][:3*s.d], s.start+t
	own := newSpattenToken(s.o.Heads, s.hd)
	for h := range s.o.Heads {
		copy(own.k[h], row[s.d+h*s.hd:])
		copy(own.v[h], row[2*s.d+h*s.hd:])
		rotate(s.o.Rotary, own.k[h], p, -1, false)
	}
	own.place = s.over
	s.over++
	s.left, s.row = append(s.left, own), append(s.row, own)
	rows := make([]spattenQuery, s.o.Heads)
	for h := range s.o.Heads {
		if s.mass[h] < 0 {
			continue
		}
		r := spattenQuery{q: slices.Clone(row[h*s.hd:][:s.hd]), tokens: slices.Clone(s.left)}
		r.p = make([]float64, len(s.left))
		rotate(s.o.Rotary, r.q, p, 1, false)
		for j, x := range r.tokens {
			r.p[j] = dot(r.q, x.k[h]) / math.Sqrt(float64(s.hd))
		}
		softmax(r.p)
		r.reads = s.largest(r.p)
		out := y[(s.place+t)*s.d+h*s.hd:][:s.hd]
		for j, x := range r.tokens {
			x.importance += r.p[j]
			for c := range out {
				if r.reads[j] {
					out[c] += r.p[j] * x.v[h][c]
				}
			}
		}
		for _, v := range out {
			s.mass[h] += math.Abs(v)
		}
		rows[h] = r
	}
	s.seen = append(s.seen, rows)
	if (p+1)%s.o.Block == 0 {
		s.prune()
	}
}

// largest reports for each weight of p whether its value is read.
func (s *spatten) largest(p []float64) []bool {
	reads, order := make([]bool, len(p)), make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[j], p[i]) })
	for at, i := range order {
		reads[i] = s.o.Values == 0 || at < s.o.Values
	}
	return reads
}

// prune keeps the most important of the tokens that the layer before has left, in order, and drops one head if there
// are too many.
func (s *spatten) prune() {
	var above engine.SpAttenCut
	cut := engine.SpAttenCut{Done: true, To: make([]int32, len(s.left))}
	if s.above != nil {
		above = s.above.Cuts[len(s.below.Cuts)]
		cut.Done = above.Done
	}
	least, count, total := -1, 0, make([]float64, s.o.Heads)
	for h := range s.mass {
		if s.above != nil && above.Heads[h] < 0 {
			s.mass[h] = -1
		}
		if total[h] = s.mass[h]; s.mass[h] < 0 {
			continue
		}
		if s.above != nil {
			total[h] += float64(above.Heads[h])
		}
		if count++; least < 0 || total[h] < total[least] {
			least = h
		}
	}
	if count > s.o.KeepHeads && cut.Done {
		s.mass[least], total[least] = -1, -1
		count--
	}
	cut.Done = cut.Done && count <= s.o.KeepHeads
	for _, x := range total {
		cut.Heads = append(cut.Heads, float32(x))
	}
	var order []int
	sums := make([]float64, len(s.left))
	for i, x := range s.left {
		if sums[i], cut.To[i] = x.importance, -1; s.above != nil {
			if x.place = above.At(x.place); x.place < 0 {
				continue
			}
			sums[i] += float64(above.Importance[x.place])
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(sums[j], sums[i]) })
	order = order[:min(s.o.Keep, len(order))]
	slices.Sort(order)
	var left []*spattenToken
	for to, i := range order {
		cut.To[i], cut.Importance = int32(to), append(cut.Importance, float32(sums[i]))
		if left = append(left, s.left[i]); s.above == nil {
			s.left[i].place = to
		}
	}
	if s.left, s.over = left, len(left); s.above != nil {
		s.over = len(above.Importance)
	}
	s.below.Cuts = append(s.below.Cuts, cut)
}

// state returns the state after the row.
func (s *spatten) state(eng *Engine) engine.SpAttenState {
	size, n := s.before.K.Len(), s.start+s.l
	k, v, importance := make([]float64, size), make([]float64, size), make([]float64, s.o.Rows())
	places := make([]float64, s.o.Rows())
	for i, x := range s.left {
		importance[i], places[i] = x.importance, float64(x.place+1)
		for h := range s.o.Heads {
			copy(k[s.at(h, i):], x.k[h])
			copy(v[s.at(h, i):], x.v[h])
		}
	}
	position := []float64{float64(n >> 20), float64(n & (1<<20 - 1))}
	return engine.SpAttenState{
		K: eng.next(s.before.K, k), V: eng.next(s.before.V, v), Importance: eng.next(s.before.Importance, importance),
		Heads: eng.next(s.before.Heads, s.mass), Position: eng.next(s.before.Position, position),
		Low: eng.next(s.before.Low, make([]float64, size)), Places: eng.next(s.before.Places, places),
	}
}

// gradients propagates gradients backward through all queries to the tokens, and from these to the inputs and to the
// state before.
func (s *spatten) gradients(eng *Engine, qkv, y *tensor.Tensor) {
	scale := 1 / math.Sqrt(float64(s.hd))
	dx, dy := eng.gradOf(qkv), eng.gradOf(y)
	if s.after.K != nil {
		dk, dv := eng.gradOf(s.after.K), eng.gradOf(s.after.V)
		for i, x := range s.left {
			for h := range s.o.Heads {
				add(x.dk[h], dk[s.at(h, i):][:s.hd])
				add(x.dv[h], dv[s.at(h, i):][:s.hd])
			}
		}
	}
	for t, rows := range s.seen {
		for h, r := range rows {
			g := dy[(s.place+t)*s.d+h*s.hd:][:s.hd]
			dq, mean := make([]float64, s.hd), 0.0
			dp := make([]float64, len(r.tokens))
			for j, x := range r.tokens {
				if r.reads[j] {
					dp[j] = dot(g, x.v[h])
				}
				mean += r.p[j] * dp[j]
			}
			for j, x := range r.tokens {
				ds := scale * r.p[j] * (dp[j] - mean)
				for c := range g {
					if r.reads[j] {
						x.dv[h][c] += r.p[j] * g[c]
					}
					x.dk[h][c] += ds * r.q[c]
					dq[c] += ds * x.k[h][c]
				}
			}
			rotate(s.o.Rotary, dq, s.start+t, 1, true)
			add(dx[(s.place+t)*3*s.d+h*s.hd:][:s.hd], dq)
		}
	}
	for t, x := range s.row {
		row := dx[(s.place+t)*3*s.d:]
		for h := range s.o.Heads {
			rotate(s.o.Rotary, x.dk[h], s.start+t, -1, true)
			add(row[s.d+h*s.hd:][:s.hd], x.dk[h])
			add(row[2*s.d+h*s.hd:][:s.hd], x.dv[h])
		}
	}
	for i, x := range s.from {
		dk, dv := eng.gradOf(s.before.K), eng.gradOf(s.before.V)
		for h := range s.o.Heads {
			add(dk[s.at(h, i):][:s.hd], x.dk[h])
			add(dv[s.at(h, i):][:s.hd], x.dv[h])
		}
	}
}

// add adds x to y.
func add(y, x []float64) {
	for i, v := range x {
		y[i] += v
	}
}
