package kernel

import "github.com/hippo-ssm/hippo/internal/parallel"

// Mul computes y = x Wᵀ + bias, where x (m, k) has rows ldx floats apart, y (m, n) has rows ldy apart, and bias is (n)
// or nil. For one CPU level, row i of y does not depend on the other rows, on their number, or on the number of cores.
//
// At Float32, and for PackExact, the result equals, to the last bit, Gemm with the weights that Row returns. At BF16 x
// is rounded like the weights, and the sums are those of Gemm over 256 terms at a time, at every CPU level except those
// with tiles (AMX), where they are those of vecGemmTiles. At the other precisions each row of x is rounded in groups of
// 32 to integers from -127 to 127 times a factor, the largest magnitude of the group over 127; then, with the integers
// and factors of the weights and c[j] a power of two,
// factors of the weights and c[j] a power of two,
//
//	y[i,j] = c[j]·Σ_g (xFactor[i,g]·wFactor[j,g])·Σ_p q[i,g,p]·W[j,g,p] + bias[j]
//
// The inner sum is exact. The product of the factors is rounded to float32, and each term of the sum over g is rounded,
// in order, once it is multiplied and added: the bits are the same at every CPU level. With a least number m for each
// group, m[j,g] times the sum of the numbers of the group of x is added in the same way after each g. A row of x that
// contains a NaN or an infinity gives a row of NaN.
// an infinity gives a row of NaN.
func (w *Packed) Mul(m int, x []float32, ldx int, y []float32, ldy int, bias []float32) {
	if m <= 0 || w.n <= 0 {
		return
	}
	p := packedProduct{Packed: w, m: m, x: x, ldx: ldx, y: y, ldy: ldy, bias: bias}
	if w.inGroups() {
		p.q = quantizedPool.Get().(*quantized)
		defer quantizedPool.Put(p.q)
		p.q.set(m, w.k, x, ldx, w.form())
	}
	if w.roundsX() {
		r := roundedXPool.Get().(*roundedX)
		defer roundedXPool.Put(r)
		r.set(m, w.k, x, ldx)
		p.x, p.ldx = r.x, r.ld
	}
	if m*w.n*w.k <= cpu.grainWork() || parallel.Workers() == 1 {
		p.compute(0, w.panels())
		return
	}
	p.shared()
}

// packedProduct is one call of Mul.
type packedProduct struct {
	*Packed
	m    int
	x    []float32 // at BF16 rounded, see roundedX
	ldx  int
	y    []float32
	ldy  int
	bias []float32
	q    *quantized // x, if it is rounded
}

// shared computes y on all cores. It is its own function so that a product on one core makes no garbage.
func (p packedProduct) shared() {
	const chunks, most = 16, 16 // the fewest chunks of a large product, and the most panels of a chunk
	chunk := min(max(1, p.panels()/chunks), most)
	if p.roundsX() && cpu.has(gemmTilesCode) {
		chunk = roundUp(chunk, expandedPanels)
	}
	parallel.For(p.panels(), chunk, p.compute)
}

// compute computes the columns of panels lo to hi.
func (p *packedProduct) compute(lo, hi int) {
	if p.inGroups() {
		p.panelsOfGroups(lo, hi)
		return
	}
	if p.roundsX() && p.k > 0 && cpu.has(gemmTilesCode) {
		p.panelTiles(lo, hi)
		return
	}
	for panel := lo; panel < hi; panel++ {
		switch j := panel * packedWidth; {
		case p.roundsX() && inPairs() && p.m > fewPairs:
			p.panelPairs(j)
		case p.directFloat(j):
		case p.precision == BF16:
			p.panelUnpacked(j)
		default:
			at, step := p.at(j)
			GemmInline(Product{
				Op: NN, M: p.m, N: min(packedWidth, p.n-j), K: p.k, A: p.x, LDA: p.ldx, B: p.f32[at:], LDB: step,
				C: p.y[j:], LDC: p.ldy, Bias: p.biasFrom(j),
			})
		}
	}
}

// biasFrom returns bias from column j on, or nil.
func (p *packedProduct) biasFrom(j int) []float32 {
	if p.bias == nil {
		return nil
	}
	return p.bias[j:]
}
