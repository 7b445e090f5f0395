package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// deltaGrads are the gradients of a DeltaRule during Backward. With dS the gradient of the state after a block, and
// what else forward has, decayed,
//
//	dX = (qa)ᵀ·dY + A·dS, then dX ← dX + (pa)ᵀ·dX by substitution,   dV = (qk)ᵀ·dY + K·dS + (pk)ᵀ·dX, or dX with β
//	d(qa) = dY·Xᵀ,   d(pa) = dX·Xᵀ,   dQ = dY·Sᵀ,   dP = dX·Sᵀ,   dA = X·dSᵀ, as d(qk), d(pk) and dK with V
//	dS ← D·dS + Qᵀ·dY + Pᵀ·dX
//
// X is kept from forward; the states at the borders are computed again from it. All decays are exponentials of sums of
// g. The gradient of a g is the sum over the decays that it is part of. It is summed over these only: as a difference
// of larger sums it would cancel where decays are small.
type deltaGrads struct {
	*deltaOp
	dy []float32
	to struct{ q, k, v, g, beta, a, b []float32 } // nil where one is not wanted
}

func (o *deltaOp) Backward(eng *Engine) {
	o.makeGrads(eng)
	w := deltaGrads{deltaOp: o, dy: eng.grad(o.y)}
	to := &w.to
	to.q, to.k, to.v, to.g = eng.gradOf(o.Q), eng.gradOf(o.K), eng.gradOf(o.V), eng.gradOf(o.G)
	to.beta, to.a, to.b = eng.gradOf(o.Beta), eng.gradOf(o.A), eng.gradOf(o.B)
	o.eachHeads(o.Heads/o.KeyHeads, w.heads)
}

// deltaGrad is what a task of Backward has besides.
type deltaGrad struct {
	*delta
	w       *deltaGrads
	memory  *[]float32
	borders [][]float32 // the states before each block, of each head
	ds      [][]float32 // of each head

	dx, given []float32       // (q, dv)
	dreads    [2][]float32    // (q, dk)
	dwrites   [2][]float32    // (q, dk)
	dscores   [2][2][]float32 // (q, q)
	draw      [2][2][]float32 // of products before decays
	ddecay    []float32       // of the exponent of the state's decay, one number or dk

	din, dout [2]matrix // gradients of readers and writers as they are given, nil where one is not wanted
	sums      []float32 // (q)
	exponents []float32 // (q, q)
	rowGrads
}

// heads are the heads from h on that share a key head.
func (w *deltaGrads) heads(k *delta, row, h int) {
	each, n := w.Heads/w.KeyHeads, w.dk*w.dv
	blocks := w.cuts.of(row)
	q := min(deltaBlock, w.rows.Longest())
	g := deltaGrad{delta: k, w: w}
	g.memory = getFloats(each*(blocks+1)*n + 2*q*w.dv + 4*q*w.dk + 9*q*q + w.dk + q + g.sizeRowGrads(q))
	defer putFloats(g.memory)
	f := floats(*g.memory)
	for range each {
		g.borders, g.ds = append(g.borders, f.take(blocks*n)), append(g.ds, f.take(n))
	}
	g.dx, g.given = f.take(q*w.dv), f.take(q*w.dv)
	for i := range 2 {
		g.dreads[i], g.dwrites[i] = f.take(q*w.dk), f.take(q*w.dk)
		for j := range 2 {
			g.dscores[i][j], g.draw[i][j] = f.take(q*q), f.take(q*q)
		}
	}
	g.ddecay, g.sums, g.exponents = f.take(w.dk), f.take(q), f.take(q*q)
	g.makeRowGrads(&f, q)
	before, _ := w.carried.at(row)
	for j := range each {
		s := k.states[j]
		clear(s)
		if before != nil {
			copy(s, w.stateOf(before, h+j))
		}
		copyOrClear(g.ds[j], w.states[row].after, h+j)
	}
	for b := range blocks {
		k.start(w.first[row]+b, h)
		for j := range each {
			copy(g.borders[j][b*n:][:n], k.states[j])
			k.ends(h + j)
			k.advance(k.states[j])
		}
	}
	for b := blocks - 1; b >= 0; b-- {
		k.start(w.first[row]+b, h)
		g.startShared()
		for j := range each {
			k.head(h + j)
			g.head(g.borders[j][b*n:][:n], g.ds[j])
		}
		g.endShared()
	}
	if to := w.states[row].before; to != nil {
		for j := range each {
			kernel.Add(w.stateOf(to, h+j), g.ds[j])
		}
	}
}

// head computes the gradients of a head's block, with s the state before it, and makes ds, the gradient of the state
// after it, that of s.
func (g *deltaGrad) head(s, ds []float32) {
	k, q, dk, dv := g.delta, g.q, g.dk, g.dv
	dy := g.at(g.w.dy, g.Heads*dv, g.h*dv)
	dx, dvs := matrix{g.dx, dv}, matrix{g.given, dv}
	state, dstate := matrix{s, dv}, matrix{ds, dv}
	for _, w := range g.writers() {
		to := dx
		if w == byK {
			to = dvs
		}
		product(kernel.NN, q, dv, dk, matrix{g.writes[w], dk}, dstate, to, false)
		k.upper(g.scores[byQ][w], dy, to)
		product(kernel.NT, q, dk, dv, g.values(w), dstate, matrix{g.dwrites[w], dk}, false)
		product(kernel.NT, q, q, dv, dy, g.values(w), matrix{g.dscores[byQ][w], q}, false)
	}
	if g.solves() {
		k.solveBack(dx)
		for _, w := range g.writers() {
			product(kernel.NT, q, q, dv, dx, g.values(w), matrix{g.dscores[byP][w], q}, false)
		}
		if g.free() {
			k.upper(g.scores[byP][byK], dx, dvs)
		} else {
			dvs = dx
		}
	}
	if to := g.at(g.w.to.v, g.Heads*dv, g.h*dv); to.x != nil {
		for t := range q {
			kernel.Add(to.row(t)[:dv], dvs.row(t)[:dv])
		}
	}
	g.decayGrad(s, ds)
	k.fade(ds)
	for _, r := range g.readers() {
		if g.fromZero {
			clear(g.dreads[r][:q*dk])
			continue
		}
		from := dy
		if r == byP {
			from = dx
		}
		product(kernel.NT, q, dk, dv, from, state, matrix{g.dreads[r], dk}, false)
		product(kernel.TN, dk, dv, q, matrix{g.reads[r], dk}, from, dstate, true)
	}
	g.places()
	if g.ByRow() {
		g.rows()
	} else {
		g.numbers()
	}
}

// decayGrad computes the gradient of the exponent of the state's decay.
func (g *deltaGrad) decayGrad(s, ds []float32) {
	if !g.ByRow() {
		g.ddecay[0] = g.decay[0] * kernel.Dot(s, ds)
		return
	}
	dv := g.dv
	for i, d := range g.decay {
		g.ddecay[i] = d * kernel.Dot(s[i*dv:][:dv], ds[i*dv:][:dv])
	}
}

// places finds where the gradients of the head's readers and writers go.
func (g *deltaGrad) places() {
	keys, wide, dk := g.KeyHeads*g.dk, g.Heads*g.dk, g.dk
	key := g.KeyHead(g.h) * dk
	g.din[byQ], g.dout[byK] = g.at(g.w.to.q, keys, key), g.at(g.w.to.k, keys, key)
	g.din[byP], g.dout[byA] = g.at(g.w.to.b, wide, g.h*dk), g.at(g.w.to.a, wide, g.h*dk)
	if !g.free() {
		g.din[byP], g.dout[byA] = g.dout[byK], g.dout[byK]
	}
}
