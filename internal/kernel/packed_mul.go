package kernel

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// Mul computes y = x Wᵀ + bias: x (m, k) with rows ldx floats apart, y (m, n) with rows ldy apart, bias (n) or nil. Row
// i of y does not depend on the other rows, on how many there are, or on the number of cores, for one CPU level.
//
// At Float32 and BF16 the result equals, to the last bit, Gemm with the weights that Row returns. At the others each
// row of x is rounded in groups of 32 to integers from -127 to 127 times a factor, the largest magnitude of the group
// over 127; then, with the integers and factors of the weights and c[j] a power of two,
//
//	y[i,j] = c[j]·Σ_g (xFactor[i,g]·wFactor[j,g])·Σ_p q[i,g,p]·W[j,g,p] + bias[j]
//
// The inner sum is exact and every other operation is rounded to float32, in the order of g: the bits are the same at
// every CPU level. With a least number m for each group, m[j,g] times the sum of the numbers of the group of x is added
// after each g. A row of x that holds a NaN or an infinity gives a row of NaN.
func (w *Packed) Mul(m int, x []float32, ldx int, y []float32, ldy int, bias []float32) {
	if m <= 0 || w.n <= 0 {
		return
	}
	p := packedProduct{Packed: w, m: m, x: x, ldx: ldx, y: y, ldy: ldy, bias: bias}
	if w.inGroups() {
		p.q = quantizedPool.Get().(*quantized)
		defer quantizedPool.Put(p.q)
		p.q.set(m, w.k, x, ldx, w.form().zero)
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
	x    []float32
	ldx  int
	y    []float32
	ldy  int
	bias []float32
	q    *quantized // x, where it is rounded
}

// shared computes y on all cores. It is a function of its own so that a product on one core makes no garbage.
func (p packedProduct) shared() {
	const chunks, most = 16, 16 // the fewest chunks of a large product, and the most panels of a chunk
	parallel.For(p.panels(), min(max(1, p.panels()/chunks), most), p.compute)
}

// compute computes the columns of panels lo to hi.
func (p *packedProduct) compute(lo, hi int) {
	for panel := lo; panel < hi; panel++ {
		switch j := panel * p.width(); {
		case p.inGroups():
			p.panelGroups(j)
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

// unpackedTerms is the number of terms of a panel that are unpacked to float32 at a time. It is a multiple of blockK
// and blockedK, so that the sums equal those of one product.
const unpackedTerms = 768

var unpackedPool = sync.Pool{New: func() any { return new([unpackedTerms * packedWidth]float32) }}

// panelUnpacked computes the columns of the panel that begins with column j from its weights in float32.
func (p *packedProduct) panelUnpacked(j int) {
	buf := unpackedPool.Get().(*[unpackedTerms * packedWidth]float32)
	defer unpackedPool.Put(buf)
	at, step := p.at(j)
	for k := 0; k < p.k; k += unpackedTerms {
		depth := min(unpackedTerms, p.k-k)
		if p.short != nil {
			p.unpackShort(buf[:], j/packedWidth, k, depth)
		} else {
			unpackBF16(buf[:], p.bf16[at+k/2*step:], depth)
		}
		bias := p.biasFrom(j)
		if k > 0 {
			bias = nil
		}
		GemmInline(Product{
			Op: NN, M: p.m, N: min(packedWidth, p.n-j), K: depth, A: p.x[k:], LDA: p.ldx, B: buf[:], LDB: packedWidth,
			C: p.y[j:], LDC: p.ldy, Bias: bias, Add: k > 0,
		})
	}
}

// unpackBF16 sets dst[p·48 + j] to term p of column j of a panel.
func unpackBF16(dst []float32, src []uint16, terms int) {
	for k := 0; k < terms; k += 2 {
		words := src[k*packedWidth:][:2*packedWidth]
		even := dst[k*packedWidth:][:packedWidth]
		for j := range even {
			even[j] = math.Float32frombits(uint32(words[2*j]) << 16)
		}
		if k+1 < terms {
			odd := dst[(k+1)*packedWidth:][:packedWidth]
			for j := range odd {
				odd[j] = math.Float32frombits(uint32(words[2*j+1]) << 16)
			}
		}
	}
}
