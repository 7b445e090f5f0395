package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// rowGrads holds the gradients for states with separate decays for each row.
type rowGrads struct {
	dg        []float32    // (q, dk)
	dreadIn   [2][]float32 // (q, dk)
	dwriteIn  [2][]float32 // (q, dk)
	dreadPart []float32    // of a reader (q, dk)
	sum       []float32    // of gradients of exponents (dk)
	dummy     []float32    // (dk)
	dots      []float32    // scratch (q)
	work      []float32
}

func (g *deltaGrad) sizeRows(q int) int {
	if !g.ByRow() {
		return 0
	}
	return (6*q+2)*g.dk + q + kernel.DecayedWork
}

func (g *deltaGrad) makeRows(f *floats, q int) {
	n := q * g.dk
	g.rowGrads = rowGrads{dg: f.take(n), dreadIn: f.two(n), dwriteIn: f.two(n), dreadPart: f.take(n), sum: f.take(g.dk),
		dummy: f.take(g.dk), dots: f.take(q), work: f.take(kernel.DecayedWork)}
	for w := range 2 { // without p, its scores have no gradients
		clear(g.dscores[byP][w])
	}
}

// rows is the backward pass of rowEnds and rowScores.
func (g *deltaGrad) rows() {
	k, dk := g.delta, g.dk
	clear(g.dg[:g.q*dk])
	copy(g.sum, g.ddecay)
	for _, r := range g.readers {
		g.readExponents(r, 0, g.q, g.dreads[r], g.reads[r])
		clear(g.sum)
	}
	fill(k.passed, 1)
	k.parts(func(t0, t1 int) {
		for _, r := range g.readers {
			g.readersBack(r, t0, t1)
		}
		k.pass(k.passed, t0)
	})
	for t0 := (g.q - 1) / deltaPart * deltaPart; t0 >= 0; t0 -= deltaPart {
		for _, w := range g.writers {
			g.writersBack(w, t0, min(g.q, t0+deltaPart))
		}
	}
	for _, r := range g.readers {
		g.readInBack(r)
	}
	for _, w := range g.writers {
		g.writeInBack(w)
	}
	g.spread(g.w.to.g, g.dg, g.Heads, g.h, dk)
}

// readExponents adds to the gradients of g at [t0, t1) those of the exponents of the readers' factors. For each
// position they are the sum over the readers that see its decay. x are the readers, d their gradients.
func (g *deltaGrad) readExponents(r, t0, t1 int, d, x []float32) {
	from, dk, rows := (t1-1)*g.dk, g.dk, t1-t0
	to := from
	if r == byP {
		to, rows = from-dk, rows-1 // p reads before the decay
	}
	if rows > 0 {
		kernel.AddRunning(g.sum, g.dg, to, -dk, d, from, -dk, x, from, -dk, rows)
	}
}

// readersBack is the backward pass of decaying the readers of a part from its start and from the border.
func (g *deltaGrad) readersBack(r, t0, t1 int) {
	k, q, dk, at, rows := g.delta, g.q, g.dk, t0*g.dk, t1-t0
	d, dreads, in := g.dreadPart[at:], g.dreads[r][at:], g.dreadIn[r][at:]
	if t0 == 0 {
		copy(d, dreads[:rows*dk])
	} else {
		for i, w := range g.writers {
			product(kernel.NN, rows, dk, t0, matrix{g.dscores[r][w][t0*q:], q}, matrix{k.earlier(w, t0), dk},
				matrix{d, dk}, i > 0)
		}
		clear(g.sum)
		g.readExponents(r, t0, t1, g.dreadPart, k.readPart[r])
		kernel.MulAddMatrix(d, dk, dreads, dk, k.passed, 0, rows, dk)
	}
	if r == byQ {
		kernel.MulMatrix(in, dk, d, dk, k.since[at:], dk, rows, dk)
		return
	}
	copy(in[:dk], d)
	kernel.MulMatrix(in[dk:], dk, d[dk:], dk, k.since[at:], dk, rows-1, dk)
}

// writersBack is the backward pass of decaying writers over a part, and of the scores of its readers. dwrites holds the
// gradients of writers decayed to the end of the part, and afterwards of those decayed to its start.
func (g *deltaGrad) writersBack(w, t0, t1 int) {
	k, q, dk, at, rows := g.delta, g.q, g.dk, t0*g.dk, t1-t0
	d, after := g.dwrites[w], k.earlier(w, t1)
	// The gradient of g at a position includes those of the writers before it.
	clear(g.sum)
	kernel.AddRunning(g.sum, g.dummy, 0, 0, d, 0, dk, after, 0, dk, t0)
	kernel.Add(g.dg[at:at+dk], g.sum)
	if rows > 1 {
		kernel.AddRunning(g.sum, g.dg, at+dk, dk, d, at, dk, after, at, dk, rows-1)
	}
	kernel.MulMatrix(g.dwriteIn[w][at:], dk, d[at:], dk, k.upTo[at:], dk, rows, dk)
	kernel.MulMatrix(d, dk, d, dk, k.over(t0), 0, t0, dk)
	p := byQ // replaces p in the form that has none
	if k.solves() {
		p = byP
	}
	for _, r := range g.readers {
		if t0 > 0 {
			product(kernel.TN, t0, dk, rows, matrix{g.dscores[r][w][t0*q:], q}, matrix{k.readPart[r][at:], dk},
				matrix{d, dk}, true)
		}
	}
	diagonal := t0*q + t0
	kernel.DecayedScoresGrad(g.dreadIn[byQ][at:], g.dreadIn[byP][at:], g.dwriteIn[w][at:], g.dg[at:],
		g.dscores[byQ][w][diagonal:], g.dscores[byP][w][diagonal:], q, k.each[at:], k.readIn[byQ][at:],
		k.readIn[p][at:], k.writeIn[w][at:], g.work, rows, dk)
}

// readInBack is the backward pass of computing a reader from the inputs.
func (g *deltaGrad) readInBack(r int) {
	k, q, dk, d := g.delta, g.q, g.dk, g.dreadIn[r]
	if r == byQ || g.free() {
		kernel.Add(g.din[r][:q*dk], d[:q*dk])
		return
	}
	// -e^g ⊙ k
	kernel.MulAdd(g.dg[:q*dk], d[:q*dk], k.readIn[r][:q*dk])
	kernel.Scale(d[:q*dk], -1)
	kernel.MulAdd(g.din[r][:q*dk], d[:q*dk], k.each[:q*dk])
}

// writeInBack is the backward pass of computing a writer from the inputs.
func (g *deltaGrad) writeInBack(w int) {
	q, dk, d := g.q, g.dk, g.dwriteIn[w]
	if g.Beta == nil {
		kernel.Add(g.dout[w][:q*dk], d[:q*dk])
		return
	}
	kernel.AxpyDots(g.dots, g.dout[w], dk, g.beta, d, dk, g.out[w], dk, q, dk)
	for t, v := range g.dots[:q] {
		g.addBeta(t, v)
	}
}
