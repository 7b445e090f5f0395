package reference

import (
	"cmp"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SpAtten is causal softmax attention that prunes tokens and heads along the sequence (arXiv:2012.09852, §III). A position sees the
// tokens that are left and itself; with s = 1/√head_dim,
//
//	P_j = softmax(s·q·k_j),   y = Σ_j P_j·v_j
//
// A token's importance is the sum of all P that all heads gave it, a head's the sum of |y| over its outputs. After every Block positions
// the Keep most important tokens are left, and one head less while there are more than KeepHeads. A pruned head gives 0. The choice has
// no gradient. Progressive quantization is a way to compute scores, not part of the definition: keys are whole here. Backward is that of
// Attention.
func (eng *Engine) oldSpAtten(qkv *tensor.Tensor, state engine.SpAttenState, o engine.SpAttenOptions) (y *tensor.Tensor, next engine.SpAttenState) {
	b, l, d := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)/3
	y = eng.New(b, l, d)
	var sequences []*spatten
	for i := range b {
		s := &spatten{o: o, b: i, l: l, d: d, hd: d / o.Heads, mass: make([]float64, o.Heads)}
		s.begin(eng, state)
		for t := range l {
			s.step(eng.values(qkv), eng.values(y), t)
		}
		sequences = append(sequences, s)
	}
	if state.K != nil {
		next = spattenNext(eng, state, o, sequences)
	}
	eng.record("SpAtten", list{y, next.K, next.V}, list{qkv, state.K, state.V}, func() {
		for _, s := range sequences {
			s.gradients(eng, qkv, y, state, next)
		}
	})
	return y, next
}

// spatten is one sequence on its way.
type spatten struct {
	o          engine.SpAttenOptions
	b, l, d    int
	hd         int
	start      int // positions before the chunk
	left, from []*spattenToken
	chunk      []*spattenToken // all tokens of the chunk
	mass       []float64       // importance of heads, -1 for pruned ones
	seen       [][]spattenRow  // of every position and head
}

// spattenToken is a token: keys and values of every head, and their gradients.
type spattenToken struct {
	k, v, dk, dv [][]float64
	importance   float64
}

// spattenRow is what a head's query saw.
type spattenRow struct {
	q      []float64
	tokens []*spattenToken
	p      []float64
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

// begin takes the tokens and heads that are left from a state.
func (s *spatten) begin(eng *Engine, state engine.SpAttenState) {
	if state.K == nil {
		return
	}
	position := eng.values(state.Position)[2*s.b:]
	s.start = int(position[0])<<20 + int(position[1])
	copy(s.mass, eng.values(state.Heads)[s.b*s.o.Heads:])
	k, v, low := eng.values(state.K), eng.values(state.V), eng.values(state.Low)
	for i := range s.o.Left(s.start) {
		x := newSpattenToken(s.o.Heads, s.hd)
		x.importance = eng.values(state.Importance)[s.b*s.o.Rows()+i]
		for h := range s.o.Heads {
			at := s.place(h, i)
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

// place is where the part of head h of token i begins in K and V of a state.
func (s *spatten) place(h, i int) int { return ((s.b*s.o.Heads+h)*s.o.Rows() + i) * s.hd }

// step takes position t of the chunk.
func (s *spatten) step(x, y []float64, t int) {
	row, p := x[(s.b*s.l+t)*3*s.d:][:3*s.d], s.start+t
	own := newSpattenToken(s.o.Heads, s.hd)
	for h := range s.o.Heads {
		copy(own.k[h], row[s.d+h*s.hd:])
		copy(own.v[h], row[2*s.d+h*s.hd:])
		rotate(s.o.Rotary, own.k[h], p, -1, false)
	}
	s.left, s.chunk = append(s.left, own), append(s.chunk, own)
	rows := make([]spattenRow, s.o.Heads)
	for h := range s.o.Heads {
		if s.mass[h] < 0 {
			continue
		}
		r := spattenRow{q: append([]float64(nil), row[h*s.hd:][:s.hd]...), tokens: slices.Clone(s.left), p: make([]float64, len(s.left))}
		rotate(s.o.Rotary, r.q, p, 1, false)
		for j, x := range r.tokens {
			r.p[j] = dot(r.q, x.k[h]) / math.Sqrt(float64(s.hd))
		}
		softmax(r.p)
		out := y[(s.b*s.l+t)*s.d+h*s.hd:][:s.hd]
		for j, x := range r.tokens {
			x.importance += r.p[j]
			for c := range out {
				out[c] += r.p[j] * x.v[h][c]
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

// prune leaves the most important tokens, in order, and one head less if there are too many.
func (s *spatten) prune() {
	least, count := -1, 0
	for h, m := range s.mass {
		if m < 0 {
			continue
		}
		if count++; least < 0 || m < s.mass[least] {
			least = h
		}
	}
	if count > s.o.KeepHeads {
		s.mass[least] = -1
	}
	if len(s.left) <= s.o.Keep {
		return
	}
	order := make([]int, len(s.left))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(s.left[j].importance, s.left[i].importance) })
	order = order[:s.o.Keep]
	slices.Sort(order)
	var left []*spattenToken
	for _, i := range order {
		left = append(left, s.left[i])
	}
	s.left = left
}

// spattenNext is the state after the chunk.
func spattenNext(eng *Engine, state engine.SpAttenState, o engine.SpAttenOptions, sequences []*spatten) (next engine.SpAttenState) {
	k, v := make([]float64, state.K.Len()), make([]float64, state.V.Len())
	importance, heads, position := make([]float64, state.Importance.Len()), make([]float64, state.Heads.Len()), make([]float64, state.Position.Len())
	for _, s := range sequences {
		for i, x := range s.left {
			importance[s.b*o.Rows()+i] = x.importance
			for h := range o.Heads {
				copy(k[s.place(h, i):], x.k[h])
				copy(v[s.place(h, i):], x.v[h])
			}
		}
		copy(heads[s.b*o.Heads:], s.mass)
		n := s.start + s.l
		position[2*s.b], position[2*s.b+1] = float64(n>>20), float64(n&(1<<20-1))
	}
	next = engine.SpAttenState{
		K: eng.next(state.K, k), V: eng.next(state.V, v), Importance: eng.next(state.Importance, importance),
		Heads: eng.next(state.Heads, heads), Position: eng.next(state.Position, position),
	}
	if state.Low != nil {
		next.Low = eng.next(state.Low, make([]float64, state.Low.Len()))
	}
	return next
}

// gradients goes back through all queries to the tokens, and from these to the inputs and to the state before.
func (s *spatten) gradients(eng *Engine, qkv, y *tensor.Tensor, state, next engine.SpAttenState) {
	scale := 1 / math.Sqrt(float64(s.hd))
	dx, dy := eng.gradOf(qkv), eng.gradOf(y)
	if next.K != nil {
		dk, dv := eng.gradOf(next.K), eng.gradOf(next.V)
		for i, x := range s.left {
			for h := range s.o.Heads {
				add(x.dk[h], dk[s.place(h, i):][:s.hd])
				add(x.dv[h], dv[s.place(h, i):][:s.hd])
			}
		}
	}
	for t, rows := range s.seen {
		for h, r := range rows {
			g := dy[(s.b*s.l+t)*s.d+h*s.hd:][:s.hd]
			dq, mean := make([]float64, s.hd), 0.0
			for j, x := range r.tokens {
				mean += r.p[j] * dot(g, x.v[h])
			}
			for j, x := range r.tokens {
				ds := scale * r.p[j] * (dot(g, x.v[h]) - mean)
				for c := range g {
					x.dv[h][c] += r.p[j] * g[c]
					x.dk[h][c] += ds * r.q[c]
					dq[c] += ds * x.k[h][c]
				}
			}
			rotate(s.o.Rotary, dq, s.start+t, 1, true)
			add(dx[(s.b*s.l+t)*3*s.d+h*s.hd:][:s.hd], dq)
		}
	}
	for t, x := range s.chunk {
		row := dx[(s.b*s.l+t)*3*s.d:]
		for h := range s.o.Heads {
			rotate(s.o.Rotary, x.dk[h], s.start+t, -1, true)
			add(row[s.d+h*s.hd:][:s.hd], x.dk[h])
			add(row[2*s.d+h*s.hd:][:s.hd], x.dv[h])
		}
	}
	for i, x := range s.from {
		dk, dv := eng.gradOf(state.K), eng.gradOf(state.V)
		for h := range s.o.Heads {
			add(dk[s.place(h, i):][:s.hd], x.dk[h])
			add(dv[s.place(h, i):][:s.hd], x.dv[h])
		}
	}
}

// add adds x to y.
func add(y, x []float64) {
	for i, v := range x {
		y[i] += v
	}
}
