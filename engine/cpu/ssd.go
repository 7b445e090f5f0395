package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mamba-2's state-space duality is computed by blocks (arXiv:2405.21060, §6): products of matrices inside a block of positions, and
// between blocks the states at their borders alone.
const (
	// ssdBlock is the number of positions of a block.
	ssdBlock = 64
	// ssdShort is the length below which states are stepped one by one where the tape does not record.
	ssdShort = 4
)

// SSD runs Mamba-2's selective state-space model over a chunk (arXiv:2405.21060, §3), for each head of headDim channels:
//
//	h[t] = exp(dt[t]·A)·h[t-1] + dt[t]·x[t]·B[t]ᵀ,   y[t] = h[t]·C[t] + D·x[t]
//
// xbc (b, l, d + 2·g·n) holds x of d channels, then B and then C of g groups, d/headDim/g heads each side by side. dt (b, l, h),
// A (h) with A ≤ 0, D (h). state (b, h, headDim, n) is the state before the chunk, nil for zero with none wanted after it;
// next is the state after it: state itself, updated in place, when the tape does not record.
func (eng *Engine) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, state *tensor.Tensor) (y, next *tensor.Tensor) {
	o := ssdOp{xbc: xbc, dt: dt, a: a, d: dw, state: state, groups: groups, batch: xbc.Dim(0), l: xbc.Dim(1), heads: a.Len(), p: headDim}
	d := o.heads * headDim
	o.n = (xbc.Dim(-1) - d) / (2 * groups)
	o.blocks = (o.l + ssdBlock - 1) / ssdBlock
	y = eng.withLast(xbc, d)
	o.y = y
	if state != nil {
		next = state
		if eng.Recording {
			next = eng.like(state)
		}
		o.next = next
	}
	if state != nil && !eng.Recording && o.l < ssdShort {
		o.step()
		return y, next
	}
	o.borders = eng.arena.Floats(o.batch * o.blocks * d * o.n)
	o.decays = eng.arena.Floats(o.batch * o.blocks * o.heads)
	o.eachBlock(o.inside)
	parallel.For(o.batch*o.heads, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			o.between(i/o.heads, i%o.heads)
		}
	})
	o.eachBlock(o.fromBorder)
	if eng.wants(xbc, dt, a, dw, state) {
		op := take[ssdOp](eng)
		*op = o
		eng.push(op)
	}
	return y, next
}

type ssdOp struct {
	xbc, dt, a, d, state, y, next         *tensor.Tensor
	groups, batch, l, heads, p, n, blocks int
	borders                               []float32 // (b, blocks, h, p, n): what each block adds to its state, then the state before it
	decays                                []float32 // (b, blocks, h): of a state over a whole block
}

func (o *ssdOp) Name() string { return "SSD" }

func (o *ssdOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	if o.next != nil {
		f(o.next)
	}
}

// The places of a head's channels and of a group's B and C in a row of xbc.
func (o *ssdOp) width() int      { return o.xbc.Dim(-1) }
func (o *ssdOp) atB(g int) int   { return o.heads*o.p + g*o.n }
func (o *ssdOp) atC(g int) int   { return o.heads*o.p + (o.groups+g)*o.n }
func (o *ssdOp) group(h int) int { return h / (o.heads / o.groups) }

// state is that of head h of sequence b in x.
func (o *ssdOp) stateOf(x []float32, b, h int) []float32 {
	return x[(b*o.heads+h)*o.p*o.n:][:o.p*o.n]
}

// border is the place of block i, sequence b, head h in x, which is laid out as borders.
func (o *ssdOp) border(x []float32, b, i, h int) []float32 {
	return x[((b*o.blocks+i)*o.heads+h)*o.p*o.n:][:o.p*o.n]
}

// step takes a few positions one by one, in place.
func (o *ssdOp) step() {
	d, xbc := o.heads*o.p, o.xbc.Data()
	parallel.For(o.batch*o.heads, max(1, grain/(o.p*o.n)), func(lo, hi int) {
		buf := getFloats(o.p)
		defer putFloats(buf)
		for i := lo; i < hi; i++ {
			b, h := i/o.heads, i%o.heads
			g := o.group(h)
			for row := b * o.l; row < (b+1)*o.l; row++ {
				in := xbc[row*o.width():][:o.width()]
				dt := o.dt.Data()[row*o.heads+h]
				x, y := in[h*o.p:][:o.p], o.y.Data()[row*d+h*o.p:][:o.p]
				copy(*buf, x)
				kernel.Scale(*buf, dt)
				kernel.SSDStep(y, o.stateOf(o.state.Data(), b, h), *buf, in[o.atB(g):][:o.n], in[o.atC(g):][:o.n], kernel.Exp(dt*o.a.Data()[h]))
				kernel.Axpy(o.d.Data()[h], x, y)
			}
		}
	})
}

// block is a task: the positions [t0, t0+q) of one sequence, with room for matrices.
type block struct {
	b, i, t0, q int
	first       int // row of the first position in all
	dt          []float32
	g           []float32 // C Bᵀ of a group (q, q)
	decay       []float32 // L of a head (q, q): exp of the steps between, zero above the diagonal
	m           []float32 // L ⊙ C Bᵀ
	x           []float32 // dt·x (q, p)
	w           []float32 // what has some other weight (q, p), or of a border (q, n)
	start       []float32 // decay from the border (q)
	ones        []float32
}

// eachBlock calls f for all blocks, on all cores.
func (o *ssdOp) eachBlock(f func(k *block)) {
	q := min(ssdBlock, o.l)
	parallel.For(o.batch*o.blocks, 1, func(lo, hi int) {
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
			k.b, k.i = i/o.blocks, i%o.blocks
			k.t0 = k.i * ssdBlock
			k.q = min(ssdBlock, o.l-k.t0)
			k.first = k.b*o.l + k.t0
			f(&k)
		}
	})
}

// rows are the rows of a block in x, whose rows have width elements, from column at on.
func (k *block) rows(x []float32, width, at int) []float32 { return x[k.first*width+at:] }

// scores computes C Bᵀ of group g.
func (o *ssdOp) scores(k *block, g int) {
	in, w := o.xbc.Data(), o.width()
	kernel.GemmInline(kernel.Product{
		Op: kernel.NT, M: k.q, N: k.q, K: o.n, A: k.rows(in, w, o.atC(g)), LDA: w, B: k.rows(in, w, o.atB(g)), LDB: w,
		C: k.g, LDC: k.q,
	})
}

// starts computes the decays of head h from the border on.
func (o *ssdOp) starts(k *block, h int) {
	sum, a := float32(0), o.a.Data()[h]
	for t := range k.q {
		sum += float32(o.dt.Data()[(k.first+t)*o.heads+h] * a)
		k.start[t] = sum
	}
	kernel.ExpShift(k.start[:k.q], 0, 1)
}

// head makes ready the decays and the inputs of head h: L, L ⊙ C Bᵀ, dt·x and start.
func (o *ssdOp) head(k *block, h int) {
	q, a, in := k.q, o.a.Data()[h], o.xbc.Data()
	for t := range q {
		k.dt[t] = o.dt.Data()[(k.first+t)*o.heads+h]
	}
	o.starts(k, h)
	// Row t of the exponents is row t-1 and one step more: each is summed up at its own size, so that none of them cancels.
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

// toBorder are the inputs of a head by what is left of them at the end of the block.
func (k *block) toBorder(p int) []float32 {
	last := k.decay[(k.q-1)*k.q:][:k.q]
	w := k.w[:k.q*p]
	copy(w, k.x)
	for s, v := range last {
		kernel.Scale(w[s*p:][:p], v)
	}
	return w
}

// inside computes what the positions of a block give to each other and to the state after it.
func (o *ssdOp) inside(k *block) {
	d, q, in, w := o.heads*o.p, k.q, o.xbc.Data(), o.width()
	for h := range o.heads {
		g := o.group(h)
		if h%(o.heads/o.groups) == 0 {
			o.scores(k, g)
		}
		o.head(k, h)
		kernel.GemmInline(kernel.Product{
			Op: kernel.NN, M: q, N: o.p, K: q, A: k.m, LDA: q, B: k.x, LDB: o.p,
			C: k.rows(o.y.Data(), d, h*o.p), LDC: d,
		})
		kernel.GemmInline(kernel.Product{
			Op: kernel.TN, M: o.p, N: o.n, K: q, A: k.toBorder(o.p), LDA: o.p, B: k.rows(in, w, o.atB(g)), LDB: w,
			C: o.border(o.borders, k.b, k.i, h), LDC: o.n,
		})
		o.decays[(k.b*o.blocks+k.i)*o.heads+h] = k.start[q-1]
	}
}

// between replaces what the blocks add to the state of a head by the state before each.
func (o *ssdOp) between(b, h int) {
	buf := getFloats(2 * o.p * o.n)
	defer putFloats(buf)
	state, added := (*buf)[:o.p*o.n], (*buf)[o.p*o.n:]
	if o.state != nil {
		copy(state, o.stateOf(o.state.Data(), b, h))
	} else {
		clear(state)
	}
	for i := range o.blocks {
		at := o.border(o.borders, b, i, h)
		copy(added, at)
		copy(at, state)
		kernel.Scale(state, o.decays[(b*o.blocks+i)*o.heads+h])
		kernel.Add(state, added)
	}
	if o.next != nil {
		copy(o.stateOf(o.next.Data(), b, h), state)
	}
}

// fromBorder adds what the state before a block gives to its outputs, and the skip.
func (o *ssdOp) fromBorder(k *block) {
	d, q, in, w := o.heads*o.p, k.q, o.xbc.Data(), o.width()
	for h := range o.heads {
		o.starts(k, h)
		isZero := o.state == nil && k.i == 0
		if !isZero {
			kernel.GemmInline(kernel.Product{
				Op: kernel.NT, M: q, N: o.p, K: o.n, A: k.rows(in, w, o.atC(o.group(h))), LDA: w,
				B: o.border(o.borders, k.b, k.i, h), LDB: o.n, C: k.w, LDC: o.p,
			})
		}
		for t := range q {
			y := k.rows(o.y.Data(), d, t*d+h*o.p)[:o.p]
			if !isZero {
				kernel.Axpy(k.start[t], k.w[t*o.p:][:o.p], y)
			}
			kernel.Axpy(o.d.Data()[h], k.rows(in, w, t*w+h*o.p)[:o.p], y)
		}
	}
}
