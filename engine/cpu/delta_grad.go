package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// deltaGrads are the gradients of a DeltaRule during Backward. With dS the gradient of the state after a block, and
// what else forward has, decayed,
//
//	dX = (qa)ᵀ·dY + A·dS, then dX ← dX + (pa)ᵀ·dX by substitution,   dV = (qk)ᵀ·dY + K·dS + (pk)ᵀ·dX, or dX with β
//	d(qa) = dY·Xᵀ,   d(pa) = dX·Xᵀ,   dQ = dY·Sᵀ,   dP = dX·Sᵀ,   dA = X·dSᵀ, and with V for X d(qk), d(pk) and dK
//	dS ← D·dS + Qᵀ·dY + Pᵀ·dX
//
// X is kept from forward: that is dv floats of each position and head. The states before blocks are computed again from
// it by one product for each: to keep them would take dk·dv/deltaBlock floats, four times as much for heads of 128
// components.
//
// All decays are exponentials of sums of g. The gradient of a g is the sum over the decays that it is part of. It is
// summed over these only: as a difference of larger sums it would cancel where decays are small.
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

// deltaSegment is the most blocks whose first states are held at once. Of longer rows one state for each such segment
// is held besides, and the others are computed when it is its turn.
const deltaSegment = 128

// deltaGrad is what a task of Backward has besides.
type deltaGrad struct {
	*delta
	w *deltaGrads

	back    []float32       // dY and dX, one behind the other (2·q, dv)
	given   []float32       // dV (q, dv)
	dreads  [2][]float32    // (q, dk), one behind the other
	dwrites [2][]float32    // (q, dk)
	dscores [2][2][]float32 // (q, q)
	ddecay  []float32       // of the exponent of the state's decay, one number or dk

	din, dout [2]matrix // gradients of readers and writers as they are given, nil where one is not wanted
	numberGrads
	rowGrads
}

// heads are the heads from h on that share a key head.
func (w *deltaGrads) heads(k *delta, row, h int) {
	heads := w.Heads / w.KeyHeads
	n, q, blocks := heads*w.dk*w.dv, min(deltaBlock, w.rows.Longest()), w.cuts.of(row)
	held := min(blocks, deltaSegment)
	segments := (blocks + held - 1) / held
	g := deltaGrad{delta: k, w: w}
	buf := getFloats((held+segments+1)*n + 3*q*w.dv + 4*q*w.dk + 4*q*q + w.dk + g.sizeNumbers(q) + g.sizeRows(q))
	defer putFloats(buf)
	f := floats(*buf)
	ds, borders, firsts := f.take(n), f.take(held*n), f.take(segments*n)
	g.back, g.given, g.dreads[byQ], g.dwrites = f.take(2*q*w.dv), f.take(q*w.dv), f.take(2*q*w.dk), f.two(q*w.dk)
	g.dscores, g.ddecay = f.four(q*q), f.take(w.dk)
	if g.ByRow() {
		g.makeRows(&f, q)
	} else {
		g.makeNumbers(&f, q)
	}
	before, _ := w.carried.at(row)
	copyOrClear(firsts[:n], before, h/heads)
	copyOrClear(ds, w.states[row].after, h/heads)

	border := func(b int) []float32 { return borders[b%held*n:][:n] } // the states before block b
	// advance computes the states after block b.
	advance := func(next, states []float32, b int) {
		k.start(w.first[row]+b, h)
		for j := range heads {
			k.headEnds(h + j)
			k.advance(w.stateOf(next, j), w.stateOf(states, j))
		}
	}
	for i := range segments - 1 {
		next := firsts[(i+1)*n:][:n]
		copy(next, firsts[i*n:])
		for b := i * held; b < (i+1)*held; b++ {
			advance(next, next, b)
		}
	}
	for i := segments - 1; i >= 0; i-- {
		lo, hi := i*held, min(blocks, (i+1)*held)
		copy(border(lo), firsts[i*n:])
		for b := lo; b < hi-1; b++ {
			advance(border(b+1), border(b), b)
		}
		for b := hi - 1; b >= lo; b-- {
			k.start(w.first[row]+b, h)
			k.compareKeys()
			g.startKeys()
			for j := range heads {
				k.head(h + j)
				g.head(w.stateOf(border(b), j), w.stateOf(ds, j))
			}
			g.endKeys()
		}
	}
	addTo(w.states[row].before, ds, h/heads)
}

// head computes the gradients of a head's block, with s the state before it, and makes ds, the gradient of the state
// after it, that of s.
func (g *deltaGrad) head(s, ds []float32) {
	k, q, dk, dv := g.delta, g.q, g.dk, g.dv
	state, dstate := matrix{s, dv}, matrix{ds, dv}
	dy, dx, given := matrix{g.back, dv}, matrix{g.back, dv}.from(q), matrix{g.given, dv}
	g.at(g.w.dy, g.Heads*dv, g.h*dv).copyTo(dy, q, dv)
	for _, w := range g.writers {
		to := dx
		if w == byK {
			to = given
		}
		product(kernel.NN, q, dv, dk, matrix{g.writes[w], dk}, dstate, to, false)
		k.upper(g.scores[byQ][w], dy, to, dv)
		product(kernel.NT, q, dk, dv, g.values(w), dstate, matrix{g.dwrites[w], dk}, false)
	}
	rows := q // of what is read
	if g.solves() {
		rows = 2 * q
		kernel.SolveUpper(dx.x, dx.ld, g.scores[byP][byA], q, q, dv)
		if g.free() {
			k.upper(g.scores[byP][byK], dx, given, dv)
		} else {
			given = dx
		}
	}
	for _, w := range g.writers {
		k.turn(g.values(w), dv)
		for _, r := range g.readers {
			k.compare(dy.from(r*q), dv, g.dscores[r][w])
		}
	}
	if to := g.at(g.w.to.v, g.Heads*dv, g.h*dv); to.x != nil {
		for t := range q {
			kernel.Add(to.row(t)[:dv], given.row(t)[:dv])
		}
	}
	g.decayGrad(s, ds)
	k.fade(ds, ds)
	if g.dreads[byP] = g.dreads[byQ][q*dk:]; g.fromZero {
		clear(g.dreads[byQ][:rows*dk])
	} else {
		product(kernel.NT, rows, dk, dv, dy, state, matrix{g.dreads[byQ], dk}, false)
		product(kernel.TN, dk, dv, rows, matrix{g.reads[byQ], dk}, dy, dstate, true)
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
	for i, d := range g.decay {
		g.ddecay[i] = d * kernel.Dot(s[i*g.dv:][:g.dv], ds[i*g.dv:][:g.dv])
	}
}

// places finds where the gradients of the head's readers and writers go.
func (g *deltaGrad) places() {
	keys, wide, key := g.KeyHeads*g.dk, g.Heads*g.dk, g.KeyHead(g.h)*g.dk
	g.din[byQ], g.dout[byK] = g.at(g.w.to.q, keys, key), g.at(g.w.to.k, keys, key)
	g.din[byP], g.dout[byA] = g.at(g.w.to.b, wide, g.h*g.dk), g.at(g.w.to.a, wide, g.h*g.dk)
	if !g.free() {
		g.din[byP], g.dout[byA] = g.dout[byK], g.dout[byK]
	}
}
