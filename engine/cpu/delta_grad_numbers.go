package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// numberGrads holds the gradients for heads with one decay each.
type numberGrads struct {
	dproducts [2][2][]float32 // (q, q)
	exponents []float32       // of the exponents of between (q, q)
	ones      []float32       // (q)
	sums      []float32       // scratch (q)
	upTo, on  []float64       // of exponents from the border before up to a position, and of those from it on (q)
}

func (g *deltaGrad) sizeNumbers(q int) int { return 5*q*q + 2*q }

func (g *deltaGrad) makeNumbers(f *floats, q int) {
	g.numberGrads = numberGrads{dproducts: f.four(q * q), exponents: f.take(q * q), ones: f.take(q), sums: f.take(q),
		upTo: make([]float64, q), on: make([]float64, q)}
	for i := range g.ones {
		g.ones[i] = 1
	}
}

// startProducts clears the gradients of the products that heads of one key head share.
func (g *deltaGrad) startProducts() {
	for i := range 2 {
		for j := range 2 {
			clear(g.dproducts[i][j][:g.q*g.q])
		}
	}
}

// endProducts is the backward pass of compareKeys.
func (g *deltaGrad) endProducts() {
	if g.solves() && !g.free() {
		g.compared(byQ, byA)
		// Keys by keys: the gradient of a key is the sum of that of a reader and that of a writer.
		d := g.dproducts[byP][byA]
		for t := range g.q {
			for s := range t {
				d[s*g.q+t] = d[t*g.q+s]
			}
		}
		product(kernel.NN, g.q, g.dk, g.q, matrix{d, g.q}, matrix{g.out[byA], g.dk}, matrix{g.dout[byA], g.dk}, true)
	} else {
		g.compared(byQ, byK)
	}
}

// compared is the backward pass of products of readers and writers.
func (g *deltaGrad) compared(r, w int) {
	g.lower(g.dproducts[r][w], g.out[w], matrix{g.din[r], g.dk}, g.dk, true)
	g.upper(g.dproducts[r][w], g.in[r], g.dout[w], g.dk)
}

// numbers is the backward pass of numberEnds and numberScores.
func (g *deltaGrad) numbers() {
	clear(g.exponents[:g.q*g.q])
	clear(g.upTo)
	clear(g.on)
	for _, w := range g.writers {
		for _, r := range g.readers {
			g.score(r, w)
		}
	}
	if g.free() {
		for _, rw := range [][2]int{{byQ, byA}, {byP, byA}, {byP, byK}} { // these are not shared by key heads
			g.compared(rw[0], rw[1])
			clear(g.dproducts[rw[0]][rw[1]][:g.q*g.q])
		}
	}
	g.betas()
	for _, r := range g.readers {
		g.fromBorder(r)
	}
	for _, w := range g.writers {
		g.toBorder(w)
	}
	g.steps()
}

// score is the backward pass of a score, a product of a reader and a writer times weights. It overwrites dscores, and
// adds to exponents the gradients of the exponents, without the factor β.
func (g *deltaGrad) score(r, w int) {
	n, q := g.q*g.q, g.q
	d, dproducts, weights := g.dscores[r][w][:n], g.dproducts[r][w][:n], g.weights[:n]
	if r == byP && g.free() { // the decays are those of the previous position
		kernel.MulAdd(dproducts[q:], d[q:], weights[:n-q])
		kernel.MulAdd(g.exponents[:n-q], d[q:], g.scores[r][w][q:n])
		return
	}
	if r == byP { // it is -k, and does not see its own position
		kernel.Scale(d, -1)
		for t := range q {
			d[t*q+t] = 0
		}
	}
	kernel.MulAdd(dproducts, d, weights)
	kernel.Mul(d, g.products[r][w][:n])
	kernel.MulAdd(g.exponents[:n], d, g.between[:n])
}

// betas adds to the gradients of β the part that comes from scores, and multiplies exponents by β, which they lack
// until then.
func (g *deltaGrad) betas() {
	if g.Beta == nil {
		return
	}
	q := g.q
	kernel.RowSums(q, q, g.exponents, q, g.ones, g.sums, false)
	kernel.MulMatrix(g.exponents, q, g.exponents, q, g.beta, 0, q, q)
	for t, v := range g.sums[:q] {
		g.addBeta(t, v)
	}
}

// addBeta adds to the gradient of β at a position.
func (g *deltaGrad) addBeta(t int, v float32) {
	if to := g.w.to.beta; to != nil {
		to[(g.first+t)*g.Heads+g.h] += v
	}
}

// fromBorder is the backward pass of decaying a reader from the border before.
func (g *deltaGrad) fromBorder(r int) {
	before := 0
	if r == byP && g.free() {
		before = 1 // p reads before the decay
	}
	g.addTimes(g.din[r], g.starts[r], g.dreads[r], g.reads[r])
	for t := before; t < g.q; t++ {
		g.upTo[t-before] += float64(g.sums[t])
	}
}

// toBorder is the backward pass of decaying a writer to the border after.
func (g *deltaGrad) toBorder(w int) {
	g.addTimes(g.dout[w], g.ends, g.dwrites[w], g.out[w])
	for t, dot := range g.sums[:g.q] {
		g.on[t] += float64(g.ends[t] * dot)
		if g.Beta != nil {
			g.addBeta(t, g.toEnd[t]*dot)
		}
	}
}

// addTimes adds the rows of d times factors to rows, and sets sums to the products of the rows of d and w.
func (g *deltaGrad) addTimes(to, factors, d, w []float32) {
	kernel.AxpyDots(g.sums, to, g.dk, factors, d, g.dk, w, g.dk, g.q, g.dk)
}

// steps sums up the gradients of g. The exponent of between[t, s] is the sum of g from s+1 to t. So the gradient of g
// at i includes those of t ≥ i and s < i: each row gets the sum over the rows from it on.
func (g *deltaGrad) steps() {
	to, q, sums := g.at(g.w.to.g, g.Heads, g.h), g.q, g.sums[:g.q]
	if to.x == nil {
		return
	}
	for t := q - 1; t > 0; t-- {
		g.exponents[t*q+t] = 0
		kernel.Add(g.exponents[(t-1)*q:][:t-1], g.exponents[t*q:][:t-1])
	}
	g.exponents[0] = 0
	kernel.RowDots(q, q, g.exponents, q, g.ones, sums)
	ahead := float64(g.ddecay[0])
	for t := q - 1; t >= 0; t-- {
		ahead += g.upTo[t]
		g.upTo[t] = ahead + float64(sums[t])
	}
	behind := 0.0
	for t := range q {
		to.row(t)[0] += float32(g.upTo[t] + behind)
		behind += g.on[t]
	}
}
