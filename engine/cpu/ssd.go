package cpu

import (
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
	// ssdShort is the length below which a row is stepped position by position if the tape does not record.
	ssdShort = 4
)

// SSD steps short rows. It computes others in blocks, which start at the first position of the row.
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
		eng.push("SSD", o, o.y).add(o.after...)
	}
	return o.y
}

type ssdOp struct {
	xbc, dt, a, d, y    *tensor.Tensor
	groups, heads, p, n int
	scanRows
	borders []float32 // (blocks, h, p, n): first the contribution of each block to the state, then the state before it
	decays  []float32 // (blocks, h): of a state over a whole block
}

// Indices of a head's channels and of a group's B and C in a row of xbc.
func (o *ssdOp) width() int      { return o.xbc.Dim(-1) }
func (o *ssdOp) atB(g int) int   { return o.heads*o.p + g*o.n }
func (o *ssdOp) atC(g int) int   { return o.heads*o.p + (o.groups+g)*o.n }
func (o *ssdOp) group(h int) int { return h / (o.heads / o.groups) }

// stateOf returns the state of head h in x (h, p, n).
func (o *ssdOp) stateOf(x []float32, h int) []float32 { return x[h*o.p*o.n:][:o.p*o.n] }

// halvesOf is stateOf for a state in bfloat16.
func (o *ssdOp) halvesOf(x []uint16, h int) []uint16 { return x[h*o.p*o.n:][:o.p*o.n] }

// border returns the part of block i, counted through all rows, and head h in x, which is laid out like borders.
func (o *ssdOp) border(x []float32, i, h int) []float32 { return x[(i*o.heads+h)*o.p*o.n:][:o.p*o.n] }

// bordersFrom returns the borders of block i of the heads from h on.
func (o *ssdOp) bordersFrom(i, h int) []float32 {
	return o.borders[(i*o.heads+h)*o.p*o.n:][:(o.heads-h)*o.p*o.n]
}

// eachHead calls f for all heads of the rows that are not stepped, on all cores.
func (o *ssdOp) eachHead(f func(row, h int)) {
	parallel.For(len(o.whole)*o.heads, max(1, grain/(o.p*o.n)*len(o.whole)/o.count()), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(o.whole[i/o.heads], i%o.heads)
		}
	})
}

// step computes short rows position by position, and updates their states in place.
func (o *ssdOp) step() {
	d, xbc := o.heads*o.p, o.xbc.Data()
	parallel.For(len(o.steps)*o.heads, max(1, grain/(o.p*o.n)), func(lo, hi int) {
		buf := getFloats(o.p + 2*o.n)
		defer putFloats(buf)
		dtx, apart := (*buf)[:o.p], apart{b: (*buf)[o.p:][:o.n], c: (*buf)[o.p+o.n:], t: -1}
		for i := lo; i < hi; i++ {
			row, h := o.steps[i/o.heads], i%o.heads
			g, half := o.group(h), o.halves(row)
			for t := o.rows.From(row); t < o.rows.From(row)+o.rows.Len(row); t++ {
				in := xbc[t*o.width():][:o.width()]
				dt := o.dt.Data()[t*o.heads+h]
				x, y := in[h*o.p:][:o.p], o.y.Data()[t*d+h*o.p:][:o.p]
				copy(dtx, x)
				kernel.Scale(dtx, dt)
				b, c, decay := in[o.atB(g):][:o.n], in[o.atC(g):][:o.n], kernel.Exp(dt*o.a.Data()[h])
				if half != nil {
					apart.set(t, g, b, c)
					kernel.SSDStepHalves(y, o.halvesOf(half, h), dtx, apart.b, apart.c, decay)
				} else {
					kernel.SSDStep(y, o.stateOf(o.after[row].Data(), h), dtx, b, c, decay)
				}
				kernel.Axpy(o.d.Data()[h], x, y)
			}
		}
	})
}

// apart holds B and C of a group at a position in the order of kernel.Apart, for the heads that share them.
type apart struct {
	b, c []float32
	t, g int
}

func (a *apart) set(t, g int, b, c []float32) {
	if a.t == t && a.g == g {
		return
	}
	a.t, a.g = t, g
	kernel.Apart(a.b, b)
	kernel.Apart(a.c, c)
}

// block is a task: the heads [h0, h1) of q positions of one row, with space for matrices.
type block struct {
	i, q     int // i is its number, counted through all rows
	first    int // its first position, counted through all rows
	h0, h1   int
	fromZero bool // the state before the block is zero
	dt       []float32
	steps    []float32 // dt·A
	g        []float32 // C Bᵀ of a group (q, q)
	decay    []float32 // L of a head (q, q): exp of the steps between, zero above the diagonal
	m        []float32 // L ⊙ C Bᵀ
	x        []float32 // dt·x (q, p)
	w        []float32 // scratch: inputs with other weights (q, p) of some heads, or gradients of a border (q, n)
	start    []float32 // decays from the border (q)
	ones     []float32
}

// fewHeads is the smallest number of heads that share C Bᵀ, if their group has that many.
const fewHeads = 4

// headsAtOnce returns the number of heads of a task: all of them, so that C Bᵀ of a group is computed once, unless
// there are fewer blocks than cores. The results do not depend on this choice.
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
		wide := max(o.p*o.headsTogether(), o.n)
		buf := getFloats(3*q*q + q*o.p + q*wide + 4*q)
		defer putFloats(buf)
		rest := *buf
		take := func(n int) []float32 {
			x := rest[:n:n]
			rest = rest[n:]
			return x
		}
		k := block{dt: take(q), steps: take(q), g: take(q * q), decay: take(q * q), m: take(q * q), x: take(q * o.p),
			w: take(q * wide), start: take(q), ones: take(q)}
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

// rows returns the positions of a block in x, of width elements each, from column at on.
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
	q, a, width := k.q, o.a.Data()[h], o.width()
	for t := range q {
		k.dt[t] = o.dt.Data()[(k.first+t)*o.heads+h]
		k.steps[t] = k.dt[t] * a
	}
	o.starts(k, h)
	l := k.decay[:q*q]
	kernel.Decays(l, k.steps[:q])
	kernel.MulInto(k.m[:q*q], l, k.g[:q*q])
	kernel.ScaleRows(k.x, o.p, k.rows(o.xbc.Data(), width, h*o.p), width, k.dt, 1, q, o.p)
}

// toBorder sets w, whose rows are ld floats apart, to the inputs of a head, each multiplied by its decay to the end of
// the block.
func (k *block) toBorder(w []float32, ld, p int) {
	kernel.ScaleRows(w, ld, k.x, p, k.decay[(k.q-1)*k.q:], 1, k.q, p)
}

// togetherWidth is the largest number of channels of heads that are multiplied together by a shared matrix, unless a
// single head has more.
const togetherWidth = 512

// headsTogether returns the largest number of heads that are multiplied together.
func (o *ssdOp) headsTogether() int { return max(1, min(o.heads/o.groups, togetherWidth/o.p)) }

// eachRun calls f for runs [a, b) of the heads of a block that belong to one group.
func (o *ssdOp) eachRun(k *block, f func(a, b int)) {
	perGroup := o.heads / o.groups
	for a := k.h0; a < k.h1; {
		b := min(k.h1, a+o.headsTogether(), (a/perGroup+1)*perGroup)
		f(a, b)
		a = b
	}
}

// insideRows is the number of rows of L ⊙ C Bᵀ that are multiplied at a time, without the zeros that follow.
const insideRows = 16

// inside computes the contributions of the inputs of a block to its outputs and to the state after it.
func (o *ssdOp) inside(k *block) {
	d, q, in, w := o.heads*o.p, k.q, o.xbc.Data(), o.width()
	known := -1 // the group whose scores k.g holds
	o.eachRun(k, func(a, b int) {
		g, ld := o.group(a), (b-a)*o.p
		if g != known {
			o.scores(k, g)
			known = g
		}
		for h := a; h < b; h++ {
			o.head(k, h)
			y := k.rows(o.y.Data(), d, h*o.p)
			for t := 0; t < q; t += insideRows {
				rows := min(insideRows, q-t)
				kernel.GemmInline(kernel.Product{Op: kernel.NN, M: rows, N: o.p, K: t + rows, A: k.m[t*q:], LDA: q,
					B: k.x, LDB: o.p, C: y[t*d:], LDC: d})
			}
			k.toBorder(k.w[(h-a)*o.p:], ld, o.p)
			o.decays[k.i*o.heads+h] = k.start[q-1]
		}
		kernel.GemmInline(kernel.Product{Op: kernel.TN, M: ld, N: o.n, K: q, A: k.w, LDA: ld,
			B: k.rows(in, w, o.atB(g)), LDB: w, C: o.bordersFrom(k.i, a), LDC: o.n})
	})
}

// between replaces the contribution of each block of a row to the state of a head by the state before that block.
func (o *ssdOp) between(row, h int) {
	buf := getFloats(o.p * o.n)
	defer putFloats(buf)
	state, half := *buf, o.halves(row)
	before, after := o.carried.at(row)
	switch {
	case half != nil:
		kernel.Widen(state, o.halvesOf(half, h))
	case before != nil:
		copy(state, o.stateOf(before, h))
	default:
		clear(state)
	}
	for i := o.first[row]; i < o.first[row+1]; i++ {
		kernel.CarryState(state, o.border(o.borders, i, h), o.decays[i*o.heads+h])
	}
	switch {
	case half != nil:
		kernel.Narrow(o.halvesOf(half, h), state)
	case after != nil:
		copy(o.stateOf(after, h), state)
	}
}

// fromBorder adds the contribution of the state before a block to its outputs, and D·x.
func (o *ssdOp) fromBorder(k *block) {
	d, q, in, w := o.heads*o.p, k.q, o.xbc.Data(), o.width()
	o.eachRun(k, func(a, b int) {
		ld := (b - a) * o.p
		if !k.fromZero {
			kernel.GemmInline(kernel.Product{Op: kernel.NT, M: q, N: ld, K: o.n,
				A: k.rows(in, w, o.atC(o.group(a))), LDA: w, B: o.bordersFrom(k.i, a), LDB: o.n, C: k.w, LDC: ld})
		}
		for h := a; h < b; h++ {
			y := k.rows(o.y.Data(), d, h*o.p)
			if !k.fromZero {
				o.starts(k, h)
				kernel.AxpyRows(y, d, k.w[(h-a)*o.p:], ld, k.start, 1, q, o.p)
			}
			kernel.AxpyRows(y, d, k.rows(in, w, h*o.p), w, o.d.Data()[h:], 0, q, o.p)
		}
	})
}
