package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// deltaGrads holds the gradients of a DeltaRule during Backward. With dS the gradient of the state after a block, and
// the decayed values of forward,
//
//	dX = (qa)ᵀ·dY + A·dS, then dX ← dX + (pa)ᵀ·dX by substitution,   dV = (qk)ᵀ·dY + K·dS + (pk)ᵀ·dX, or dX with β
//	d(qa) = dY·Xᵀ,   d(pa) = dX·Xᵀ,   dQ = dY·Sᵀ,   dP = dX·Sᵀ,   dA = X·dSᵀ, and with V for X d(qk), d(pk) and dK
//	dS ← D·dS + Qᵀ·dY + Pᵀ·dX
//
// X and scores are kept from forward; X takes dv floats for each position and head. The states before most blocks are
// computed again from X by one product each (see deltaSegment). States and their gradients are transposed here (dv,
// dk), so that every product reads them in place.
//
// All decays are exponentials of sums of g. The gradient of a g is the sum over the decays that contain it. It is
// computed from these only: a difference of larger sums would cancel where decays are small.
type deltaGrads struct {
	*deltaOp
	dy []float32
	to struct{ q, k, v, g, beta, a, b []float32 } // nil for a gradient that is not wanted
}

func (o *deltaOp) Backward(eng *Engine) {
	o.makeGrads(eng)
	w := deltaGrads{deltaOp: o, dy: eng.grad(o.y)}
	to := &w.to
	to.q, to.k, to.v, to.g = eng.gradOf(o.Q), eng.gradOf(o.K), eng.gradOf(o.V), eng.gradOf(o.G)
	to.beta, to.a, to.b = eng.gradOf(o.Beta), eng.gradOf(o.A), eng.gradOf(o.B)
	o.eachHeads(o.Heads/o.KeyHeads, w.heads)
}

// deltaGrad is the additional memory of a task of Backward.
type deltaGrad struct {
	*delta
	w *deltaGrads

	back    []float32       // dY and dX, one after the other (2·q, dv)
	given   []float32       // dV, unless it is dX (q, dv)
	across  []float32       // gradients of X and V that come through a state, transposed (dv, q)
	dreads  [2][]float32    // (q, dk), one after the other
	dwrites [2][]float32    // (q, dk)
	dscores [2][2][]float32 // (q, q)
	ddecay  []float32       // of the exponent of the state's decay, one number or dk

	din, dout [2][]float32 // gradients of readers and writers as given (q, dk)
	numberGrads
	rowGrads
}

// heads runs backward through the heads from h on, which share a key head.
func (w *deltaGrads) heads(k *delta, row, h int) {
	heads := w.Heads / w.KeyHeads
	n, q, blocks := heads*w.dk*w.dv, w.widest(), w.cuts.of(row)
	k.again = true
	held := min(blocks, deltaSegment)
	g := deltaGrad{delta: k, w: w}
	buf := getFloats((held+1)*n + 4*q*w.dv + 8*q*w.dk + 4*q*q + w.dk + g.sizeNumbers(q) + g.sizeRows(q))
	defer putFloats(buf)
	f := floats(*buf)
	ds, borders := f.take(n), f.take(held*n)
	g.back, g.given, g.across = f.take(2*q*w.dv), f.take(q*w.dv), f.take(q*w.dv)
	g.dreads[byQ], g.dwrites, g.dscores, g.ddecay = f.take(2*q*w.dk), f.two(q*w.dk), f.four(q*q), f.take(w.dk)
	g.din, g.dout = f.two(q*w.dk), f.two(q*w.dk)
	if !g.free() {
		g.din[byP], g.dout[byA] = g.dout[byK], g.dout[byK]
	}
	if g.ByRow() {
		g.makeRows(&f, q)
	} else {
		g.makeNumbers(&f, q)
	}
	before, _ := w.carried.at(row)
	w.turnStates(ds, w.states[row].after, h, heads)

	border := func(b int) []float32 { return borders[b%held*n:][:n] } // the states before block b
	for lo := (blocks - 1) / held * held; lo >= 0; lo -= held {
		hi := min(blocks, lo+held)
		if lo == 0 {
			w.turnStates(border(0), before, h, heads)
		} else {
			w.turnStates(border(lo), w.border(w.first[row]+lo, h), 0, heads)
		}
		for b := lo; b < hi-1; b++ {
			k.start(w.first[row]+b, h)
			for j := range heads {
				k.headEnds(h + j)
				k.advanceTurned(w.stateOf(border(b+1), j), w.stateOf(border(b), j))
			}
		}
		for b := hi - 1; b >= lo; b-- {
			k.start(w.first[row]+b, h)
			k.queries()
			g.startKeys()
			for j := range heads {
				k.head(h + j)
				g.head(w.stateOf(border(b), j), w.stateOf(ds, j))
			}
			g.endKeys()
		}
	}
	if to := w.states[row].before; to != nil {
		back := borders[:w.dk*w.dv]
		for j := range heads {
			kernel.Transpose(w.dv, w.dk, back, w.dv, w.stateOf(ds, j), w.dk)
			kernel.Add(w.stateOf(to, h+j), back)
		}
	}
}

// turnStates sets y to the states in x of some heads from h on, each transposed, or to zeros if x is nil.
func (o *deltaOp) turnStates(y, x []float32, h, heads int) {
	if x == nil {
		clear(y)
		return
	}
	for j := range heads {
		kernel.Transpose(o.dk, o.dv, o.stateOf(y, j), o.dk, o.stateOf(x, h+j), o.dv)
	}
}

// advanceTurned is advance for states that are transposed.
func (k *delta) advanceTurned(next, s []float32) {
	k.fadeTurned(next, s)
	for _, w := range k.writers {
		product(kernel.TN, k.dv, k.dk, k.q, matrix{k.values(w), k.dv}, matrix{k.writes[w], k.dk},
			matrix{next, k.dk}, true)
	}
}

// fadeTurned is fade for states that are transposed.
func (k *delta) fadeTurned(y, s []float32) {
	if k.ByRow() {
		kernel.MulMatrix(y, k.dk, s, k.dk, k.decay, 0, k.dv, k.dk)
	} else {
		k.fade(y, s)
	}
}

// head computes the gradients of a head's block. s is the state before it. ds is the gradient of the state after it,
// which head turns into the gradient of s.
func (g *deltaGrad) head(s, ds []float32) {
	k, q, dk, dv := g.delta, g.q, g.dk, g.dv
	state, dstate := matrix{s, dk}, matrix{ds, dk}
	dy, dx, given := g.back[:q*dv], g.back[q*dv:], g.given
	k.gather(dy, g.w.dy, g.Heads, g.h, dv)
	if g.free() {
		clear(g.din[byP][:q*dk])
		clear(g.dout[byA][:q*dk])
	}
	for _, w := range g.writers {
		to := dx
		if w == byK {
			to = given
		}
		k.turn(g.writes[w], dk)
		product(kernel.NN, dv, q, dk, dstate, matrix{k.turned, q}, matrix{g.across, q}, false)
		kernel.Transpose(dv, q, to, dv, g.across, q)
		k.upper(g.scores[byQ][w], dy, to, dv)
		product(kernel.NN, q, dk, dv, matrix{g.values(w), dv}, dstate, matrix{g.dwrites[w], dk}, false)
	}
	rows := q // number of readers
	if g.solves() {
		rows = 2 * q
		kernel.SolveUpper(dx, dv, g.scores[byP][byA], q, q, dv)
		if g.free() {
			k.upper(g.scores[byP][byK], dx, given, dv)
		} else {
			given = dx
		}
	}
	for _, w := range g.writers {
		k.turn(g.values(w), dv)
		for _, r := range g.readers {
			k.compare(g.back[r*q*dv:], dv, g.dscores[r][w])
		}
	}
	g.spread(g.w.to.v, given, g.Heads, g.h, dv)
	g.decayGrad(s, ds)
	k.fadeTurned(ds, ds)
	if g.dreads[byP] = g.dreads[byQ][q*dk:]; g.fromZero {
		clear(g.dreads[byQ][:rows*dk])
	} else {
		product(kernel.NN, rows, dk, dv, matrix{g.back, dv}, state, matrix{g.dreads[byQ], dk}, false)
		product(kernel.TN, dv, dk, rows, matrix{g.back, dv}, matrix{g.reads[byQ], dk}, dstate, true)
	}
	if g.ByRow() {
		g.rows()
	} else {
		g.numbers()
	}
	if g.free() {
		g.spread(g.w.to.b, g.din[byP], g.Heads, g.h, dk)
		g.spread(g.w.to.a, g.dout[byA], g.Heads, g.h, dk)
	}
}

// spread adds the rows of a block x (q, n) to those of a head in a gradient, if that is wanted. It is the backward pass
// of gather.
func (g *deltaGrad) spread(to, x []float32, heads, h, n int) {
	if at := g.at(to, heads*n, h*n); at.x != nil {
		kernel.AxpyRows(at.x, at.ld, x, n, deltaOne[:], 0, g.q, n)
	}
}

var deltaOne = [1]float32{1}

// startKeys clears the gradients that heads of one key head share.
func (g *deltaGrad) startKeys() {
	clear(g.din[byQ][:g.q*g.dk])
	clear(g.dout[byK][:g.q*g.dk])
	if !g.ByRow() {
		g.startProducts()
	}
}

// endKeys adds these gradients to those of the inputs.
func (g *deltaGrad) endKeys() {
	if !g.ByRow() {
		g.endProducts()
	}
	g.spread(g.w.to.q, g.din[byQ], g.KeyHeads, g.KeyHead(g.h), g.dk)
	g.spread(g.w.to.k, g.dout[byK], g.KeyHeads, g.KeyHead(g.h), g.dk)
}

// decayGrad computes the gradient of the exponent of the state's decay.
func (g *deltaGrad) decayGrad(s, ds []float32) {
	if !g.ByRow() {
		g.ddecay[0] = g.decay[0] * kernel.Dot(s, ds)
		return
	}
	clear(g.ddecay)
	kernel.MulAddMatrix(g.ddecay, 0, s, g.dk, ds, g.dk, g.dv, g.dk)
	kernel.Mul(g.ddecay, g.decay)
}
