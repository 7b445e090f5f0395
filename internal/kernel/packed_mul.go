package kernel

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// Mul computes y = x Wᵀ + bias: x (m, k) with rows ldx floats apart, y (m, n) with rows ldy apart, bias (n) or nil. Row
// i of y does not depend on the other rows, on how many there are, or on the number of cores, for one CPU level.
//
// At Float32 the result equals, to the last bit, Gemm with the weights that Row returns. At BF16 x is rounded as the
// weights are, and the sums are those of Gemm over 256 terms at a time, at every CPU level. At Int8 each row of x
// is rounded to integers from -127 to 127 times a factor, its largest magnitude over 127 (as in LLM.int8(),
// arXiv:2208.07339, §2.1); then
//
//	y[i,j] = (xScale[i]·wScale[j])·Σ_p q[i,p]·W8[j,p] + bias[j]
//
// The sum is exact and every other operation is rounded to float32: the bits are the same at every CPU level. A row of
// x that holds a NaN or an infinity gives a row of NaN.
func (w *Packed) Mul(m int, x []float32, ldx int, y []float32, ldy int, bias []float32) {
	if m <= 0 || w.n <= 0 {
		return
	}
	p := packedProduct{Packed: w, m: m, x: x, ldx: ldx, y: y, ldy: ldy, bias: bias}
	if w.precision == Int8 {
		p.q = quantizedPool.Get().(*quantized)
		defer quantizedPool.Put(p.q)
		p.q.set(m, w.k, x, ldx)
	}
	if w.precision == BF16 {
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
	q    *quantized // Int8: x
}

// shared computes y on all cores. It is a function of its own so that a product on one core makes no garbage.
func (p packedProduct) shared() {
	const chunks, most = 16, 16 // the fewest chunks of a large product, and the most panels of a chunk
	parallel.For(p.panels(), min(max(1, p.panels()/chunks), most), p.compute)
}

// compute computes the columns of panels lo to hi.
func (p *packedProduct) compute(lo, hi int) {
	for panel := lo; panel < hi; panel++ {
		switch j := panel * packedWidth; {
		case p.precision == Int8:
			p.panelInt8(j)
		case p.precision == BF16 && cpu == avx512bf16 && p.m > fewPairs:
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

// biasFrom is bias from column j on, or nil.
func (p *packedProduct) biasFrom(j int) []float32 {
	if p.bias == nil {
		return nil
	}
	return p.bias[j:]
}

// quantized is x in int8: rows of ld bytes, those past k zero.
type quantized struct {
	x     []int8
	ld    int
	scale []float32
	sum   []int32
}

var quantizedPool = sync.Pool{New: func() any { return new(quantized) }}

// set quantizes m rows of k floats.
func (q *quantized) set(m, k int, x []float32, ldx int) {
	q.ld = roundUp(k, 4)
	if cap(q.x) < m*q.ld {
		q.x = make([]int8, m*q.ld)
	}
	if cap(q.scale) < m {
		q.scale, q.sum = make([]float32, m), make([]int32, m)
	}
	q.x, q.scale, q.sum = q.x[:m*q.ld], q.scale[:m], q.sum[:m]
	for i := range m {
		row := q.x[i*q.ld:][:q.ld]
		clear(row[k:])
		q.scale[i], q.sum[i] = quantizeRow(row[:k], x[i*ldx:][:k])
	}
}

// panelInt8 computes the columns of the panel that begins with column j.
func (p *packedProduct) panelInt8(j int) {
	at, _ := p.at(j)
	w := p.int8[at:]
	const most = 8 // rows at a time
	rows := cpu.packedRows()
	if j+packedWidth <= p.n {
		for i := 0; i < p.m; i += rows {
			p.rowsInt8(i, min(rows, p.m-i), w, p.y[i*p.ldy+j:], p.ldy, p.scale[j:], p.biasFrom(j))
		}
		return
	}
	var tile [most * packedWidth]float32
	for i := 0; i < p.m; i += rows { // columns past the last one of y go to a tile, without bias
		n := min(rows, p.m-i)
		p.rowsInt8(i, n, w, tile[:], packedWidth, p.scale[j:], nil)
		for r := range n {
			row := p.y[(i+r)*p.ldy+j:][:p.n-j]
			copy(row, tile[r*packedWidth:])
			if p.bias != nil {
				for t, b := range p.bias[j:][:len(row)] {
					row[t] += b
				}
			}
		}
	}
}

// rowsInt8Portable computes 48 columns of m rows of y from row i of x on.
func (p *packedProduct) rowsInt8Portable(i, m int, w []int8, y []float32, ldy int, scale, bias []float32) {
	steps := p.panelSteps()
	for r := range m {
		var sums [packedWidth]int32
		for s, at := 0, 0; s < steps; s, at = s+1, at+4*packedWidth {
			x := p.q.x[(i+r)*p.q.ld+4*s:][:4]
			x0, x1, x2, x3 := int32(x[0]), int32(x[1]), int32(x[2]), int32(x[3])
			words := w[at:][:4*packedWidth]
			for j := range sums {
				v := words[4*j:][:4]
				sums[j] += x0*int32(v[0]) + x1*int32(v[1]) + x2*int32(v[2]) + x3*int32(v[3])
			}
		}
		row := y[r*ldy:][:packedWidth]
		for j, sum := range sums {
			row[j] = float32(float32(sum) * float32(p.q.scale[i+r]*scale[j]))
		}
		if bias != nil {
			for j, b := range bias[:packedWidth] {
				row[j] += b
			}
		}
	}
}
