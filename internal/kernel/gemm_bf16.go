package kernel

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// GemmBF16 is Gemm with the operands rounded to bfloat16 first, to nearest, ties to even. C and the sums are float32.
// Infinities stay infinite, numbers above the largest bfloat16 become infinite, and NaN stays NaN.
//
// At level avx512bf16 it is about twice as fast as Gemm. That level adds two terms at a time and treats denormal
// operands, products and sums of a block as zero. With tiles (AMX) sums are those of vecGemmTiles, and denormals are
// zero, too. Other levels give the bits of Gemm with rounded operands, and take somewhat longer than Gemm. As with
// Gemm, row i of C does not depend on the other rows, but without tiles Aᵀ·B of more than 768 terms may round
// differently from A·B.
func GemmBF16(p Product) {
	p.bf16 = true
	p.compute(p.workers())
}

// GemmBF16Inline is GemmBF16 on the calling goroutine only, like GemmInline.
func GemmBF16Inline(p Product) {
	p.bf16 = true
	p.compute(1)
}

// RoundBF16 sets y[i] to x[i] rounded to the nearest bfloat16, ties to even. NaN stays NaN.
func RoundBF16(y, x []float32) {
	y = y[:len(x)]
	if cpu.has(roundBF16Code) && len(x) > 0 {
		vecRoundBF16(len(x), &y[0], &x[0])
		return
	}
	for i, v := range x {
		y[i] = math.Float32frombits(bf16Bits(v))
	}
}

// bf16Bits returns the bits of x rounded to bfloat16 as RoundBF16 does: the lower half is zero.
func bf16Bits(x float32) uint32 {
	bits := math.Float32bits(x)
	if x != x {
		bits |= 1 << 22 // quiet: the mantissa must not become zero when its lower half is cut off
	} else {
		bits += 0x7fff + bits>>16&1
	}
	return bits &^ 0xffff
}

// At levels that cannot multiply bfloat16, blocks of the operands are rounded into buffers and multiplied as float32.
// roundedK is a multiple of blockK and blockedK, so that the sums equal those of one call of Gemm.
const (
	roundedK = 768
	roundedN = 768
	roundedM = 384
)

// roundedBuffers holds rounded blocks of A and B for a goroutine.
type roundedBuffers struct {
	a [roundedM * roundedK]float32
	b [roundedK * roundedN]float32
}

var roundedPool = sync.Pool{New: func() any { return new(roundedBuffers) }}

// rounded computes a product of k ≥ 1 terms with rounded operands by a number of workers.
func (p *Product) rounded(workers int) {
	switch {
	case cpu.has(gemmPairsCode):
		p.pairs(workers)
	case workers == 1:
		p.roundedTile(0, p.M, 0, p.N)
	default:
		p.roundedShared()
	}
}

// roundedShared computes C tile by tile on all cores.
func (p Product) roundedShared() {
	down, across := ceil(p.M, roundedM), ceil(p.N, roundedN)
	parallel.For(down*across, 1, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			i, j := t%down*roundedM, t/down*roundedN
			p.roundedTile(i, min(p.M, i+roundedM), j, min(p.N, j+roundedN))
		}
	})
}

// roundedTile computes C[i0:i1, j0:j1].
func (p *Product) roundedTile(i0, i1, j0, j1 int) {
	buf := roundedPool.Get().(*roundedBuffers)
	defer roundedPool.Put(buf)
	for j := j0; j < j1; j += roundedN {
		q := Product{Op: p.Op, N: min(roundedN, j1-j), A: buf.a[:], B: buf.b[:], LDC: p.LDC}
		for k := 0; k < p.K; k += roundedK {
			q.K = min(roundedK, p.K-k)
			if p.Op == NT {
				q.LDB = roundRows(buf.b[:], p.B[j*p.LDB+k:], q.N, q.K, p.LDB)
			} else {
				q.LDB = roundRows(buf.b[:], p.B[k*p.LDB+j:], q.K, q.N, p.LDB)
			}
			q.Add = p.Add || k > 0
			if k == 0 && p.Bias != nil {
				q.Bias = p.Bias[j:]
			} else {
				q.Bias = nil
			}
			for i := i0; i < i1; i += roundedM {
				q.M = min(roundedM, i1-i)
				if p.Op == TN {
					q.LDA = roundRows(buf.a[:], p.A[k*p.LDA+i:], q.K, q.M, p.LDA)
				} else {
					q.LDA = roundRows(buf.a[:], p.A[i*p.LDA+k:], q.M, q.K, p.LDA)
				}
				q.C = p.C[i*p.LDC+j:]
				q.unrounded(1)
			}
		}
	}
}

// roundRows rounds rows of n floats, ld apart, into dst without gaps. It returns their distance in dst, n.
func roundRows(dst, src []float32, rows, n, ld int) int {
	for i := range rows {
		RoundBF16(dst[i*n:], src[i*ld:][:n])
	}
	return n
}
