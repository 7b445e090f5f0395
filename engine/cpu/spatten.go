package cpu

import (
	"cmp"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// positionUnit keeps both numbers of Position exact in float32.
const positionUnit = 1 << 20

// SpAtten is causal softmax attention with the cascade pruning of tokens and heads of "SpAtten: Efficient Sparse Attention
// Architecture with Cascade Token and Head Pruning" (arXiv:2012.09852, §III), along the sequence. Over qkv (b, l, 3·d) as in
// Attention, a position sees the tokens that are left and those of its own block. The importance of a token is the sum of all
// weights that all heads have given it, that of a head the sum of the absolute values of its outputs. After each block the Keep most
// important tokens are left, and one head less while there are more than KeepHeads. What has been pruned is gone: it costs nothing
// any more. The choice has no gradient.
//
// state is what came before the chunk, none for nothing with none wanted after it; next is the state after it: state itself,
// updated in place, when the tape does not record.
func (eng *Engine) SpAtten(qkv *tensor.Tensor, state engine.SpAttenState, o engine.SpAttenOptions) (y *tensor.Tensor, next engine.SpAttenState) {
	b, l, d := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)/3
	hd := d / o.Heads
	s := spatten{SpAttenOptions: o, qkv: qkv, batch: b, l: l, hd: hd, precision: eng.precision(), before: state, past: state.K,
		quantised: !eng.Recording && o.Progressive > 0}
	s.scale = float32(1 / math.Sqrt(float64(hd)))
	s.after = state
	if state.K == nil || eng.Recording {
		s.after = engine.SpAttenState{K: eng.New(b, o.Heads, o.Rows(), hd), V: eng.New(b, o.Heads, o.Rows(), hd),
			Importance: eng.New(b, o.Rows()), Heads: eng.New(b, o.Heads), Position: eng.New(b, 2)}
		if o.Progressive > 0 {
			s.after.Low = eng.New(b, o.Heads, o.Rows(), hd)
		}
		copySpAtten(&s.after, &state)
		if eng.Recording && state.Low != nil { // whole keys
			kernel.Add(s.after.K.Data(), state.Low.Data())
			s.after.Low.Zero()
			s.past = eng.New(b, o.Heads, o.Rows(), hd)
			copy(s.past.Data(), s.after.K.Data())
		}
	}
	s.q, s.k, s.v = eng.New(b, o.Heads, l, hd), eng.New(b, o.Heads, l, hd), eng.New(b, o.Heads, l, hd)
	s.y = eng.New(b, l, d)
	s.lse = eng.arena.Floats(b * o.Heads * l)
	record := eng.wants(qkv, state.K, state.V)
	var op *spattenOp
	if record {
		op = take[spattenOp](eng)
		s.pieces = resize(op.pieces, b)
	}
	s.unpack()
	parallel.For(b, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s.forward(i)
		}
	})
	if record {
		op.spatten = s
		eng.push(op)
	}
	if state.K != nil {
		next = s.after
	}
	return s.y, next
}

// copySpAtten copies the state from to s, zeros where there is none.
func copySpAtten(s, from *engine.SpAttenState) {
	parts := func(s *engine.SpAttenState) [6]*tensor.Tensor {
		return [6]*tensor.Tensor{s.K, s.V, s.Importance, s.Heads, s.Position, s.Low}
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

// eachRows calls f for the parts that have rows of tokens.
func eachRows(s *engine.SpAttenState, f func(x *tensor.Tensor)) {
	f(s.K)
	f(s.V)
	if s.Low != nil {
		f(s.Low)
	}
}

type spatten struct {
	engine.SpAttenOptions
	qkv, q, k, v, y *tensor.Tensor // q, k, v (b, heads, l, head_dim), rotated
	lse             []float32      // (b, heads, l)
	before, after   engine.SpAttenState
	past            *tensor.Tensor // the keys before, whole
	quantised       bool
	batch, l, hd    int
	scale           float32
	precision       kernel.Precision
	pieces          [][]spattenPiece // of every sequence, for backward; nil where the tape does not record
}

// spattenPiece is a run of queries of one block: the positions [i0, i0+rows) of the chunk. Its keys came from the places origins:
// rows of the state before the chunk, and from the number of these on, positions of the chunk.
type spattenPiece struct {
	i0, rows int
	origins  []int32
	pruned   []bool // heads
}

// positionOf is how many positions sequence b has had.
func positionOf(s *engine.SpAttenState, b int) int {
	p := s.Position.Data()[2*b:]
	return int(p[0])*positionUnit + int(p[1])
}

func setPosition(s *engine.SpAttenState, b, n int) {
	p := s.Position.Data()[2*b:]
	p[0], p[1] = float32(n/positionUnit), float32(n%positionUnit)
}

// unpack splits qkv into heads and rotates queries and keys to their positions.
func (s *spatten) unpack() {
	d := s.Heads * s.hd
	parallel.For(s.batch*s.l, rowGrain(3*d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			b, i := r/s.l, r%s.l
			row := s.qkv.Data()[r*3*d:][:3*d]
			turnQ, turnK := turns(s.Rotary, positionOf(&s.after, b)+i)
			for h := range s.Heads {
				at := ((b*s.Heads+h)*s.l + i) * s.hd
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

// forward runs sequence b, block by block.
func (s *spatten) forward(b int) {
	var origins []int32
	record, order := s.pieces != nil, make([]int, s.Rows())
	if record {
		s.pieces[b] = s.pieces[b][:0]
		for i := range s.Left(positionOf(&s.after, b)) {
			origins = append(origins, int32(i))
		}
	}
	for i0 := 0; i0 < s.l; {
		p := positionOf(&s.after, b)
		rows := min(s.Block-p%s.Block, s.l-i0)
		if record {
			for i := range rows {
				origins = append(origins, int32(s.Rows()+i0+i))
			}
			s.remember(b, i0, rows, origins)
		}
		s.attend(b, i0, rows, s.Left(p))
		setPosition(&s.after, b, p+rows)
		i0 += rows
		if (p+rows)%s.Block == 0 {
			origins = s.prune(b, order[:s.Left(p)+rows], origins)
		}
	}
	if record {
		s.remember(b, s.l, 0, origins)
	}
}

// remember notes a piece of sequence b for backward, in memory of an earlier step if there is some.
func (s *spatten) remember(b, i0, rows int, origins []int32) {
	n := len(s.pieces[b])
	s.pieces[b] = slices.Grow(s.pieces[b], 1)[:n+1]
	p := &s.pieces[b][n]
	p.i0, p.rows, p.origins, p.pruned = i0, rows, append(p.origins[:0], origins...), p.pruned[:0]
	for _, x := range s.after.Heads.Data()[b*s.Heads:][:s.Heads] {
		p.pruned = append(p.pruned, x < 0)
	}
}

// headWork is how many products are worth a task of their own.
const headWork = 1 << 16

// attend runs the queries [i0, i0+rows) of the chunk, behind n tokens that are left.
func (s *spatten) attend(b, i0, rows, n int) {
	d, most, columns := s.Heads*s.hd, s.Rows(), n+rows
	buf := getFloats(s.Heads * columns)
	defer putFloats(buf)
	importance := *buf
	clear(importance)
	parallel.For(s.Heads, max(1, headWork/(rows*columns*s.hd)), func(lo, hi int) {
		for h := lo; h < hi; h++ {
			bh := b*s.Heads + h
			from, to := (bh*s.l+i0)*s.hd, bh*most*s.hd
			k, v := s.after.K.Data()[to:][:most*s.hd], s.after.V.Data()[to:][:most*s.hd]
			copy(k[n*s.hd:], s.k.Data()[from:][:rows*s.hd])
			copy(v[n*s.hd:], s.v.Data()[from:][:rows*s.hd])
			y := s.y.Data()[(b*s.l+i0)*d+h*s.hd:]
			mass := &s.after.Heads.Data()[bh]
			if *mass < 0 { // pruned
				for r := range rows {
					clear(y[r*d:][:s.hd])
				}
				continue
			}
			w := getFloats(rows * columns)
			var low []float32
			if s.quantised {
				low = s.after.Low.Data()[to:][:most*s.hd]
				for r := n; r < columns; r++ {
					quantise(k[r*s.hd:][:s.hd], low[r*s.hd:][:s.hd])
				}
			}
			s.weights(*w, bh, i0, rows, n, k, low, false)
			for r := range rows {
				kernel.Add(importance[h*columns:][:columns], (*w)[r*columns:])
			}
			s.precision.GemmInline(kernel.Product{
				Op: kernel.NN, M: rows, N: s.hd, K: columns, A: *w, LDA: columns, B: v, LDB: s.hd, C: y, LDC: d,
			})
			putFloats(w)
			for r := range rows {
				for _, x := range y[r*d:][:s.hd] {
					*mass += max(x, -x)
				}
			}
		}
	})
	for h := range s.Heads {
		kernel.Add(s.after.Importance.Data()[b*most:][:columns], importance[h*columns:])
	}
}

// weights fills p (rows, n+rows) with the softmax weights of the queries [i0, i0+rows) over n tokens and themselves, whose keys are
// k, given or making their log-sum-exp. low are the lower bits of quantised keys, nil for whole ones.
func (s *spatten) weights(p []float32, bh, i0, rows, n int, k, low []float32, known bool) {
	columns := n + rows
	q := s.q.Data()[(bh*s.l+i0)*s.hd:]
	s.precision.GemmInline(kernel.Product{
		Op: kernel.NT, M: rows, N: columns, K: s.hd, A: q, LDA: s.hd, B: k, LDB: s.hd, C: p, LDC: columns,
	})
	for r := range rows {
		row, sees := p[r*columns:][:columns], n+r+1
		if low != nil {
			s.refine(row[:sees], q[r*s.hd:], low)
		}
		if lse := &s.lse[bh*s.l+i0+r]; known {
			kernel.SoftmaxAgain(row[:sees], s.scale, *lse)
		} else {
			*lse = kernel.Softmax(row[:sees], s.scale)
		}
		clear(row[sees:])
	}
}

// refine adds the part of the lower bits to the scores of query q where those of the upper bits leave no weight above the threshold.
func (s *spatten) refine(scores, q, low []float32) {
	most := slices.Max(scores)
	sum := float32(0)
	for _, x := range scores {
		sum += kernel.Exp((x - most) * s.scale)
	}
	if 1/sum < s.Progressive {
		s.precision.GemmInline(kernel.Product{
			Op: kernel.NT, M: 1, N: len(scores), K: s.hd, A: q, LDA: s.hd, B: low, LDB: s.hd,
			C: scores, LDC: len(scores), Add: true,
		})
	}
}

// quantise rounds a key to 8 bits, of which it leaves the upper four and puts the lower four into low, for values of -8 to 7.
func quantise(key, low []float32) {
	most := float32(0)
	for _, x := range key {
		most = max(most, x, -x)
	}
	step := most / 119 // so that the upper bits go from -7 to 7
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

// prune leaves the Keep most important tokens of sequence b, in order, and one head less if there are too many. It returns what is
// left of origins. order is for use here, one for every token.
func (s *spatten) prune(b int, order []int, origins []int32) []int32 {
	n := len(order)
	s.pruneHead(s.after.Heads.Data()[b*s.Heads:][:s.Heads])
	importance := s.after.Importance.Data()[b*s.Rows():][:s.Rows()]
	if n > s.Keep {
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(importance[j], importance[i]) })
		left := order[:s.Keep]
		slices.Sort(left)
		for to, from := range left {
			importance[to] = importance[from]
			if origins != nil {
				origins[to] = origins[from]
			}
			eachRows(&s.after, func(x *tensor.Tensor) {
				for h := range s.Heads {
					rows := x.Data()[(b*s.Heads+h)*s.Rows()*s.hd:]
					copy(rows[to*s.hd:][:s.hd], rows[from*s.hd:])
				}
			})
		}
		n = s.Keep
	}
	clear(importance[n:]) // what is behind is no one's, and should not look different from one way of cutting to another
	eachRows(&s.after, func(x *tensor.Tensor) {
		for h := range s.Heads {
			clear(x.Data()[((b*s.Heads+h)*s.Rows()+n)*s.hd:][:(s.Rows()-n)*s.hd])
		}
	})
	if origins != nil {
		origins = origins[:n]
	}
	return origins
}

// pruneHead marks the least important head as pruned if there are more than KeepHeads.
func (s *spatten) pruneHead(importance []float32) {
	least, left := -1, 0
	for h, x := range importance {
		if x < 0 {
			continue
		}
		left++
		if least < 0 || x < importance[least] {
			least = h
		}
	}
	if left > s.KeepHeads {
		importance[least] = -1
	}
}
