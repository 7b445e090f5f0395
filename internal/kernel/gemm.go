package kernel

import "github.com/hippo-ssm/hippo/internal/parallel"

// Op tells which operand of a matrix product is stored transposed.
type Op int

const (
	NN Op = iota // C = A·B:  A (m, k), B (k, n)
	NT           // C = A·Bᵀ: A (m, k), B (n, k)
	TN           // C = Aᵀ·B: A (k, m), B (k, n)
)

// Product is a matrix product C = op(A)·op(B), row-major, with rows LDA, LDB and LDC floats apart. C (M, N) must not
// overlap the operands.
type Product struct {
	Op      Op
	M, N, K int
	A       []float32
	LDA     int
	B       []float32
	LDB     int
	C       []float32
	LDC     int
	Bias    []float32 // (N), added to every row of C unless nil
	Add     bool      // add to C instead of overwriting it

	bf16 bool // round the operands to bfloat16
}

// Gemm computes a product.
//
// Row i of C is the same to the last bit whether it is computed alone or within a larger product, at any place in it
// and on any number of cores, for one level of processor features (see CPULevel): each element is the sum over blocks
// of terms, blocks and terms in ascending order, and only C is divided into tiles, never K. So a member of a batch
// gives the same result as alone, and a sequence the same as its chunks.
func Gemm(p Product) {
	p.bf16 = false
	p.compute(p.workers())
}

// GemmInline is Gemm on the calling goroutine only, for the bodies of parallel loops, in which the other cores are
// already busy. It allocates nothing.
func GemmInline(p Product) {
	p.bf16 = false
	p.compute(1)
}

// workers returns the number of workers for which the product has enough work.
func (p *Product) workers() int {
	if p.M*p.N*p.K > cpu.grainWork() {
		return parallel.Workers()
	}
	return 1
}

// grainWork returns the smallest number of multiply-adds that is worth another core, about 10 to 50 µs.
func (l level) grainWork() int {
	if l == generic {
		return 1 << 18
	}
	return 1 << 19
}

// compute computes the product with the given number of workers.
func (p *Product) compute(workers int) {
	switch {
	case p.M <= 0 || p.N <= 0:
	case p.bf16 && p.K > 0:
		p.rounded(workers)
	default:
		p.unrounded(workers)
	}
}

// unrounded computes the product without rounding the operands.
func (p *Product) unrounded(workers int) {
	if p.K <= 0 || !cpu.has(gemmCode) {
		p.portable(workers)
	} else {
		p.blocked(workers)
	}
}

// ceil returns ⌈n / d⌉.
func ceil(n, d int) int { return (n + d - 1) / d }

// roundUp returns the smallest multiple of unit that is at least n and positive.
func roundUp(n, unit int) int { return max(ceil(n, unit), 1) * unit }
