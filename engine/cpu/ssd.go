package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mamba-2's state-space duality is computed in blocks (arXiv:2405.21060, §6): by products of matrices inside a block of
// positions, and between blocks by the states at their borders.
const (
	// ssdBlock is the number of positions of a block.
	ssdBlock = 64
	// ssdShort is the length below which a row is stepped position by position where the tape does not record.
	ssdShort = 4
)

// SSD steps short rows, and computes others in blocks, which begin at the first position of the row.
func (eng *Engine) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	o := take[ssdOp](eng)
	record := eng.wantsRows(slots, xbc, dt, a, dw)
	d := a.Len() * headDim
	*o = ssdOp{xbc: xbc, dt: dt, a: a, d: dw, y: eng.withLast(xbc, d), groups: groups, heads: a.Len(), p: headDim,
		n: (xbc.Dim(-1) - d) / (2 * groups), scanRows: eng.scanRows(o.scanRows, r, slots, ssdBlock, ssdShort)}
	if len(o.steps) > 0 {
		o.step()
	}
	if len(o.whole) > 0 {
		o.borders = eng.arena.Floats(o.count() * d * o.n)
		o.decays = eng.arena.Floats(o.count() * o.heads)
		o.eachBlock(o.headsAtOnce(), o.inside)
		o.eachHead(o.between)
		o.eachBlock(o.headsAtOnce(), o.fromBorder)
	}
	if record {
		eng.push(o)
	}
	return o.y
}

type ssdOp struct {
	xbc, dt, a, d, y    *tensor.Tensor
	groups, heads, p, n int
	scanRows
	borders []float32 // (blocks, h, p, n): first what each block adds to the state, then the state before it
	decays  []float32 // (blocks, h): of a state over a whole block
}

func (o *ssdOp) Name() string { return "SSD" }

func (o *ssdOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	o.outputs(f)
}

// The places of a head's channels and of a group's B and C in a row of xbc.
func (o *ssdOp) width() int      { return o.xbc.Dim(-1) }
func (o *ssdOp) atB(g int) int   { return o.heads*o.p + g*o.n }
func (o *ssdOp) atC(g int) int   { return o.heads*o.p + (o.groups+g)*o.n }
func (o *ssdOp) group(h int) int { return h / (o.heads / o.groups) }

// stateOf is the state of head h in x (h, p, n).
func (o *ssdOp) stateOf(x []float32, h int) []float32 { return x[h*o.p*o.n:][:o.p*o.n] }

// border is the part of block i, counted in all rows, and head h in x, which is laid out as borders.
func (o *ssdOp) border(x []float32, i, h int) []float32 { return x[(i*o.heads+h)*o.p*o.n:][:o.p*o.n] }

// eachHead calls f for all heads of the rows that are not stepped, on all cores.
func (o *ssdOp) eachHead(f func(row, h int)) {
	parallel.For(len(o.whole)*o.heads, max(1, grain/(o.p*o.n)*len(o.whole)/o.count()), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(o.whole[i/o.heads], i%o.heads)
		}
	})
}

// step steps the states of short rows in place, position by position.
func (o *ssdOp) step() {
	d, xbc := o.heads*o.p, o.xbc.Data()
	parallel.For(len(o.steps)*o.heads, max(1, grain/(o.p*o.n)), func(lo, hi int) {
		buf := getFloats(o.p)
		defer putFloats(buf)
		for i := lo; i < hi; i++ {
			row, h := o.steps[i/o.heads], i%o.heads
			g, state := o.group(h), o.stateOf(o.after[row].Data(), h)
			for t := o.rows.From(row); t < o.rows.From(row)+o.rows.Len(row); t++ {
				in := xbc[t*o.width():][:o.width()]
				dt := o.dt.Data()[t*o.heads+h]
				x, y := in[h*o.p:][:o.p], o.y.Data()[t*d+h*o.p:][:o.p]
				copy(*buf, x)
				kernel.Scale(*buf, dt)
				kernel.SSDStep(y, state, *buf, in[o.atB(g):][:o.n], in[o.atC(g):][:o.n], kernel.Exp(dt*o.a.Data()[h]))
				kernel.Axpy(o.d.Data()[h], x, y)
			}
		}
	})
}

// block is a task: the heads [h0, h1) of q positions of one row, with room for matrices.
type block struct {
	i, q     int // i is its number in all
	first    int // its first position in all
	h0, h1   int
	fromZero bool // the state before it is zero
	dt       []float32
	g        []float32 // C Bᵀ of a group (q, q)
	decay    []float32 // L of a head (q, q): exp of the steps between, zero above the diagonal
	m        []float32 // L ⊙ C Bᵀ
	x        []float32 // dt·x (q, p)
	w        []float32 // scratch: inputs with other weights (q, p), or gradients of a border (q, n)
	start    []float32 // decays from the border (q)
	ones     []float32
}

// fewHeads is the least number of heads that share C Bᵀ, if their group has as many.
const fewHeads = 4

// headsAtOnce is the number of heads of a task: all of them, so that C Bᵀ of a group is computed once, unless there are
// fewer blocks than cores. No bit depends on it.
func (o *ssdOp) headsAtOnce() int {
	cores := parallel.Workers()
	if o.count() >= cores {
		return o.heads
	}
	return max(fewHeads, (o.heads*o.count()+cores-1)/cores)
}

// eachBlock calls f on all cores for all blocks, each with up to the given number of heads at a time.
func (o *ssdOp) eachBlock(heads int, f func(k *block)) {
	parts := (o.heads + heads - 1) / heads
	q := min(ssdBlock, o.rows.Longest())
	parallel.For(o.count()*parts, 1, func(lo, hi int) {
		wide := max(o.p, o.n)
		buf := getFloats(3*q*q + q*o.p + q*wide + 3*q)
		defer putFloats(buf)
		rest := *buf
		take := func(n int) []float32 {
			x := rest[:n:n]
			rest = rest[n:]
			return x
		}
		k := block{dt: take(q), g: take(q * q), decay: take(q * q), m: take(q * q), x: take(q * o.p), w: take(q * wide),
			start: take(q), ones: take(q)}
		for i := range k.ones {
			k.ones[i] = 1
		}
		for i := lo; i < hi; i++ {
			k.i, k.h0 = i/parts, i%parts*heads
			k.h1 = min(o.heads, k.h0+heads)
			row, lo, hi := o.cuts.at(k.i)
			k.q, k.first = hi-lo, o.rows.From(row)+lo
			k.fromZero = lo == 0 && !o.has(row)
			f(&k)
		}
	})
}

// rows are the positions of a block in x, of width elements each, from column at on.
func (k *block) rows(x []float32, width, at int) []float32 { return x[k.first*width+at:] }

// scores computes C Bᵀ of group g.
func (o *ssdOp) scores(k *block, g int) {
	in, w := o.xbc.Data(), o.width()
	kernel.GemmInline(kernel.Product{Op: kernel.NT, M: k.q, N: k.q, K: o.n, A: k.rows(in, w, o.atC(g)), LDA: w,
		B: k.rows(in, w, o.atB(g)), LDB: w, C: k.g, LDC: k.q})
}

// starts computes the decays of head h from the border to each position.
func (o *ssdOp) starts(k *block, h int) {
	sum, a := float32(0), o.a.Data()[h]
	for t := range k.q {
		sum += float32(o.dt.Data()[(k.first+t)*o.heads+h] * a)
		k.start[t] = sum
	}
	kernel.ExpShift(k.start[:k.q], 0, 1)
}

// head computes the decays and the inputs of head h: L, L ⊙ C Bᵀ, dt·x and start.
func (o *ssdOp) head(k *block, h int) {
	q, a, in := k.q, o.a.Data()[h], o.xbc.Data()
	for t := range q {
		k.dt[t] = o.dt.Data()[(k.first+t)*o.heads+h]
	}
	o.starts(k, h)
	// Row t of the exponents is row t-1 plus one step. Each is a sum of its own steps only, so that nothing cancels.
	l := k.decay[:q*q]
	minusInf := float32(math.Inf(-1))
	for t := range q {
		row := l[t*q:][:q]
		if t > 0 {
			copy(row[:t], l[(t-1)*q:])
			kernel.Axpy(float32(k.dt[t]*a), k.ones[:t], row[:t])
		}
		row[t] = 0
		for s := t + 1; s < q; s++ {
			row[s] = minusInf
		}
	}
	kernel.ExpShift(l, 0, 1)
	kernel.MulInto(k.m[:q*q], l, k.g[:q*q])
	for t := range q {
		row := k.x[t*o.p:][:o.p]
		copy(row, k.rows(in, o.width(), t*o.width()+h*o.p))
		kernel.Scale(row, k.dt[t])
	}
}

// toBorder are the inputs of a head, each times its decay to the end of the block.
func (k *block) toBorder(p int) []float32 {
	last := k.decay[(k.q-1)*k.q:][:k.q]
	w := k.w[:k.q*p]
	copy(w, k.x)
	for s, v := range last {
		kernel.Scale(w[s*p:][:p], v)
	}
	return w
}

// inside computes what the inputs of a block give to its outputs and to the state after it.
func (o *ssdOp) inside(k *block) {
	d, q, in, w := o.heads*o.p, k.q, o.xbc.Data(), o.width()
	for h := k.h0; h < k.h1; h++ {
		g := o.group(h)
		if h == k.h0 || h%(o.heads/o.groups) == 0 {
			o.scores(k, g)
		}
		o.head(k, h)
		kernel.GemmInline(kernel.Product{Op: kernel.NN, M: q, N: o.p, K: q, A: k.m, LDA: q, B: k.x, LDB: o.p,
			C: k.rows(o.y.Data(), d, h*o.p), LDC: d})
		kernel.GemmInline(kernel.Product{Op: kernel.TN, M: o.p, N: o.n, K: q, A: k.toBorder(o.p), LDA: o.p,
			B: k.rows(in, w, o.atB(g)), LDB: w, C: o.border(o.borders, k.i, h), LDC: o.n})
		o.decays[k.i*o.heads+h] = k.start[q-1]
	}
}

// between replaces what each block of a row adds to the state of a head by the state before that block.
func (o *ssdOp) between(row, h int) {
	buf := getFloats(2 * o.p * o.n)
	defer putFloats(buf)
	state, added := (*buf)[:o.p*o.n], (*buf)[o.p*o.n:]
	before, after := o.carried.at(row)
	if before != nil {
		copy(state, o.stateOf(before, h))
	} else {
		clear(state)
	}
	for i := o.first[row]; i < o.first[row+1]; i++ {
		at := o.border(o.borders, i, h)
		copy(added, at)
		copy(at, state)
		kernel.Scale(state, o.decays[i*o.heads+h])
		kernel.Add(state, added)
	}
	if after != nil {
		copy(o.stateOf(after, h), state)
	}
}

// fromBorder adds what the state before a block gives to its outputs, and D·x.
func (o *ssdOp) fromBorder(k *block) {
	d, q, in, w := o.heads*o.p, k.q, o.xbc.Data(), o.width()
	for h := k.h0; h < k.h1; h++ {
		o.starts(k, h)
		if !k.fromZero {
			kernel.GemmInline(kernel.Product{Op: kernel.NT, M: q, N: o.p, K: o.n,
				A: k.rows(in, w, o.atC(o.group(h))), LDA: w, B: o.border(o.borders, k.i, h), LDB: o.n,
				C: k.w, LDC: o.p})
		}
		for t := range q {
			y := k.rows(o.y.Data(), d, t*d+h*o.p)[:o.p]
			if !k.fromZero {
				kernel.Axpy(k.start[t], k.w[t*o.p:][:o.p], y)
			}
			kernel.Axpy(o.d.Data()[h], k.rows(in, w, t*w+h*o.p)[:o.p], y)
		}
	}
}
