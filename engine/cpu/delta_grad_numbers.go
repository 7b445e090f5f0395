package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// startShared begins the gradients of products that heads of one key head share.
func (g *deltaGrad) startShared() {
	if !g.ByRow() {
		for i := range 2 {
			for j := range 2 {
				clear(g.draw[i][j][:g.q*g.q])
			}
		}
	}
}

// endShared is the backward of sharedScores.
func (g *deltaGrad) endShared() {
	switch {
	case g.ByRow():
	case !g.free() && g.solves():
		g.products(byQ, byA)
		g.products(byP, byA)
	default:
		g.products(byQ, byK)
	}
}

// products is the backward of products before decays.
func (g *deltaGrad) products(r, w int) {
	q, dk, d := g.q, g.dk, matrix{g.draw[r][w], g.q}
	if to := g.din[r]; to.x != nil {
		product(kernel.NN, q, dk, q, d, g.out[w], to, true)
	}
	if to := g.dout[w]; to.x != nil {
		product(kernel.TN, q, dk, q, d, g.in[r], to, true)
	}
}

// numbers is the backward of what is decayed by one number, for the head.
func (g *deltaGrad) numbers() {
	k, q, dk := g.delta, g.q, g.dk
	h, sums, e := g.h, g.sums[:q], g.exponents[:q*q]
	dbeta := g.at(g.w.to.beta, g.Heads, h)
	clear(e)
	weights := k.between
	if k.Beta != nil {
		weights = k.weights
	}
	for _, w := range g.writers() {
		for _, r := range g.readers() {
			d, raw, draw := g.dscores[r][w][:q*q], g.raw[r][w][:q*q], g.draw[r][w][:q*q]
			if r == byP && g.free() {
				clear(d[:q])
				kernel.MulAdd(e[:q*q-q], d[q:], g.scores[r][w][q:q*q])
				kernel.MulAdd(draw[q:], d[q:], weights[:q*q-q])
				continue
			}
			if r == byP {
				clearDiagonal(d, q)
				kernel.Scale(d, k.sign())
			}
			kernel.MulAdd(draw, d, weights[:q*q])
			kernel.Mul(d, raw)
			kernel.MulAdd(e, d, k.between[:q*q])
		}
	}
	if k.Beta != nil { // so far e is the gradient of β
		clear(sums)
		for t := range q {
			kernel.Add(sums, e[t*q:][:q])
			kernel.Mul(e[t*q:][:q], k.beta[:q])
		}
		if dbeta.x != nil {
			for s, v := range sums {
				dbeta.row(s)[0] += v
			}
		}
	}
	if g.free() {
		g.products(byQ, byA)
		g.products(byP, byA)
		g.products(byP, byK)
		for _, rw := range [][2]int{{byQ, byA}, {byP, byA}, {byP, byK}} {
			clear(g.draw[rw[0]][rw[1]][:q*q])
		}
	}
	dstart, dend := make([]float64, q), make([]float64, q)
	for _, r := range g.readers() {
		factors := k.starts[r]
		for t := range q {
			row := g.dreads[r][t*dk:][:dk]
			dot := float64(kernel.Dot(row, g.reads[r][t*dk:][:dk]))
			if r == byQ || !g.free() {
				dstart[t] += dot
			} else if t > 0 {
				dstart[t-1] += dot
			}
			if to := g.din[r]; to.x != nil {
				kernel.Axpy(factors[t], row, to.row(t)[:dk])
			}
		}
	}
	for _, w := range g.writers() {
		factors := k.toEnd
		if k.Beta != nil {
			factors = k.to
		}
		for t := range q {
			row := g.dwrites[w][t*dk:][:dk]
			dot := kernel.Dot(row, g.out[w].row(t)[:dk])
			dend[t] += float64(factors[t] * dot)
			if dbeta.x != nil {
				dbeta.row(t)[0] += k.toEnd[t] * dot
			}
			if to := g.dout[w]; to.x != nil {
				kernel.Axpy(factors[t], row, to.row(t)[:dk])
			}
		}
	}
	dg := g.at(g.w.to.g, g.Heads, h)
	if dg.x == nil {
		return
	}
	clear(sums)
	steps := make([]float64, q)
	ahead := float64(g.ddecay[0])
	for t := q - 1; t >= 0; t-- {
		kernel.Add(sums[:t], e[t*q:][:t])
		ahead += dstart[t]
		total := ahead
		for _, v := range sums[:t] {
			total += float64(v)
		}
		steps[t] = total
	}
	behind := 0.0
	for t := range q {
		dg.row(t)[0] += float32(steps[t] + behind)
		behind += dend[t]
	}
}
