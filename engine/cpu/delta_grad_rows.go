package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// rowGrads are gradients where each row of a state has decays of its own.
type rowGrads struct {
	dg         []float32    // (q, dk)
	din1, out1 [2][]float32 // of readers and writers as they are given, but for a sign or β (q, dk)
	dreader    []float32    // of a reader decayed from the start of its part (q, dk)
	acc        []float32    // (dk)
	drun       []float32    // of a writer decayed position by position (dk)
}

func (g *deltaGrad) sizeRows(q int) int {
	if !g.ByRow() {
		return 0
	}
	return 6*q*g.dk + 2*g.dk
}

func (g *deltaGrad) makeRows(f *floats, q int) {
	n := q * g.dk
	g.rowGrads = rowGrads{dg: f.take(n), din1: [2][]float32{f.take(n), f.take(n)}, out1: [2][]float32{f.take(n), f.take(n)},
		dreader: f.take(n), acc: f.take(g.dk), drun: f.take(g.dk)}
}

// rows is the backward of what is decayed by row, for the head. It goes through the parts from the last.
func (g *deltaGrad) rows() {
	k, n := g.delta, g.q*g.dk
	clear(g.dg[:n])
	for i := range 2 {
		clear(g.din1[i][:n])
		clear(g.out1[i][:n])
	}
	g.rowsFromBorder()
	for i := range k.passed {
		k.passed[i] = 1
	}
	for t0 := 0; t0 < g.q; t0 += deltaPart {
		for _, r := range g.readers {
			g.readers1(r, t0, k.partEnd(t0))
		}
		kernel.Mul(k.passed, k.total(k.partEnd(t0)))
	}
	for t0 := (g.q - 1) / deltaPart * deltaPart; t0 >= 0; t0 -= deltaPart {
		for _, w := range g.writers {
			g.writers1(w, t0, k.partEnd(t0))
			for s := t0; s < k.partEnd(t0); s++ {
				g.inside(w, s, k.partEnd(t0))
			}
		}
	}
	g.given1()
}

// last is the last position whose decay a reader at t sees: p of the free form reads before the decay.
func (g *deltaGrad) last(r, t int) int {
	if r == byP && g.free() {
		return t - 1
	}
	return t
}

// rowsFromBorder adds to the gradients of g what comes from the state before the block, and from its decay.
func (g *deltaGrad) rowsFromBorder() {
	k := g.delta
	copy(g.acc, g.ddecay)
	for t := g.q - 1; t >= 0; t-- {
		for _, r := range g.readers {
			if at := t + t - g.last(r, t); at < g.q {
				kernel.MulAdd(g.acc, k.of(g.dreads[r], at), k.of(k.reads[r], at))
			}
		}
		kernel.Add(k.of(g.dg, t), g.acc)
	}
}

// readers1 is the backward of readers of the part [t0, t1) decayed from its start.
func (g *deltaGrad) readers1(r, t0, t1 int) {
	k, q, dk := g.delta, g.q, g.dk
	for i, w := range g.writers {
		if t0 > 0 {
			product(kernel.NN, t1-t0, dk, t0, matrix{g.dscores[r][w][t0*q:], q}, matrix{k.decayed(w, t0), dk},
				matrix{g.dreader, dk}.from(t0), i > 0)
		}
	}
	if t0 == 0 {
		clear(g.dreader[:t1*dk])
	}
	clear(g.acc)
	for t := t1 - 1; t >= t0; t-- {
		if at := t + t - g.last(r, t); at < t1 {
			kernel.MulAdd(g.acc, k.of(g.dreader, at), k.of(k.reader[r], at))
		}
		kernel.Add(k.of(g.dg, t), g.acc)
	}
	for t := t0; t < t1; t++ {
		d := k.of(g.dreader, t)
		kernel.MulAdd(d, k.of(g.dreads[r], t), k.passed)
		if last := g.last(r, t); last < t0 {
			kernel.Add(k.of(g.din1[r], t), d)
		} else {
			kernel.MulAdd(k.of(g.din1[r], t), d, k.of(k.since, last))
		}
	}
}

// writers1 is the backward of decaying writers over the part [t0, t1). dwrites holds the gradients of writers decayed to
// its end, and then of those decayed to its start.
func (g *deltaGrad) writers1(w, t0, t1 int) {
	k, q, dk := g.delta, g.q, g.dk
	d, after := g.dwrites[w], k.decayed(w, t1)
	clear(g.acc)
	for s := range t0 {
		kernel.MulAdd(g.acc, k.of(d, s), k.of(after, s))
		kernel.Mul(k.of(d, s), k.total(t1))
	}
	for s := t0; s < t1; s++ {
		kernel.Add(k.of(g.dg, s), g.acc)
		kernel.MulAdd(g.acc, k.of(d, s), k.of(after, s))
		kernel.MulAdd(k.of(g.out1[w], s), k.of(d, s), k.of(k.upTo, s))
	}
	if t0 == 0 {
		return
	}
	for _, r := range g.readers {
		product(kernel.TN, t0, dk, t1-t0, matrix{g.dscores[r][w][t0*q:], q}, matrix{k.reader[r], dk}.from(t0),
			matrix{d, dk}, true)
	}
}

// inside is the backward of the scores of writer s and the readers of its part.
func (g *deltaGrad) inside(w, s, t1 int) {
	k, q, dk := g.delta, g.q, g.dk
	score := func(r, t int) float32 { return g.dscores[r][w][t*q+s] }
	row := func(m matrix, t int) []float32 { return m.row(t)[:dk] }
	run := func(t int) []float32 { return k.of(k.run, t-s) } // the writer decayed to t
	copy(run(s), row(k.out[w], s))
	kernel.Axpy(score(byQ, s), run(s), k.of(g.din1[byQ], s))
	kernel.Axpy(score(byQ, s), row(k.in[byQ], s), k.of(g.out1[w], s))
	for t := s + 1; t < t1; t++ {
		kernel.MulInto(run(t), run(t-1), k.of(k.each, t))
		for _, r := range g.readers {
			kernel.Axpy(score(r, t), run(g.last(r, t)), k.of(g.din1[r], t))
		}
	}
	d := g.drun
	clear(d)
	for t := t1 - 1; t > s; t-- {
		kernel.Axpy(score(byQ, t), row(k.in[byQ], t), d)
		if k.solves() && !k.free() {
			kernel.Axpy(score(byP, t), row(k.in[byP], t), d)
		}
		kernel.MulAdd(k.of(g.dg, t), d, run(t))
		kernel.Mul(d, k.of(k.each, t))
		if k.free() {
			kernel.Axpy(score(byP, t), row(k.in[byP], t), d)
		}
	}
	kernel.Add(k.of(g.out1[w], s), d)
}

// given1 adds the gradients of what is given.
func (g *deltaGrad) given1() {
	k, dk := g.delta, g.dk
	dbeta := g.at(g.w.to.beta, g.Heads, g.h)
	for t := range g.q {
		for _, r := range g.readers {
			if to := g.din[r]; to.x != nil {
				sign := float32(1)
				if r == byP && !g.free() {
					sign = -1
				}
				kernel.Axpy(sign, k.of(g.din1[r], t), to.row(t)[:dk])
			}
		}
		for _, w := range g.writers {
			factor := float32(1)
			if k.Beta != nil {
				factor = k.Beta.Data()[(k.first+t)*k.Heads+k.h]
				if dbeta.x != nil {
					dbeta.row(t)[0] += kernel.Dot(k.of(g.out1[w], t), k.out[byK].row(t)[:dk])
				}
			}
			if to := g.dout[w]; to.x != nil {
				kernel.Axpy(factor, k.of(g.out1[w], t), to.row(t)[:dk])
			}
		}
	}
	if to := g.at(g.w.to.g, g.Heads*dk, g.h*dk); to.x != nil {
		for t := range g.q {
			kernel.Add(to.row(t)[:dk], k.of(g.dg, t))
		}
	}
}
