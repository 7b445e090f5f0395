package kernel

import "github.com/hippo-ssm/hippo/internal/parallel"

// Op says which operand of a matrix product is stored transposed.
type Op int

const (
	NN Op = iota // C = A·B:  A (m, k), B (k, n)
	NT           // C = A·Bᵀ: A (m, k), B (n, k)
	TN           // C = Aᵀ·B: A (k, m), B (k, n)
)

// product is one call of Gemm: operands, shapes and what to do with C.
type product struct {
	op      Op
	m, n, k int
	a       []float32
	lda     int
	b       []float32
	ldb     int
	c       []float32
	ldc     int
	bias    []float32 // added to every row of C unless nil
	add     bool      // add to C instead of overwriting it
}

// Gemm computes C = op(A)·op(B), row-major, with rows lda, ldb and ldc floats apart. C (m, n) is overwritten, or added to
// when add is true; bias (n), unless nil, is added to each of its rows. C must not overlap the operands.
//
// Row i of C is the same to the last bit whether it is computed alone or within a larger product, wherever it stands in it
// and on any number of cores: each element is the sum over blocks of blockK terms, blocks and terms in ascending order,
// and only C is cut into tiles, never k. So a batch gives what each of its members gives alone, and a sequence what its
// chunks give.
func Gemm(op Op, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, bias []float32, add bool) {
	if m <= 0 || n <= 0 {
		return
	}
	p := product{op, m, n, k, a, lda, b, ldb, c, ldc, bias, add}
	if m*n*k <= tileWork || parallel.Workers() == 1 {
		p.tile(0, m, 0, n)
		return
	}
	p.shared()
}

// GemmInline is Gemm on the calling goroutine alone, for the bodies of parallel loops: there the other cores are busy
// already. It allocates nothing.
func GemmInline(op Op, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, bias []float32, add bool) {
	p := product{op, m, n, k, a, lda, b, ldb, c, ldc, bias, add}
	p.tile(0, m, 0, n)
}

// tileWork is the number of multiply-adds worth a task of its own, some 50 µs.
const tileWork = 1 << 18

// shared computes C tile by tile on all cores. Tiles are one column block wide and as high as tileWork asks for, in
// multiples of the heights of both inner kernels (2 and 3). It is apart from Gemm so that small products allocate nothing.
func (p product) shared() {
	cols := min(p.n, blockN)
	rows := (tileWork/(cols*p.k) + 6) / 6 * 6
	down, across := (p.m+rows-1)/rows, (p.n+cols-1)/cols
	parallel.For(down*across, 1, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			// Neighbours share the columns of B, so that a core finds them in its cache.
			i, j := t%down*rows, t/down*cols
			p.tile(i, min(p.m, i+rows), j, min(p.n, j+cols))
		}
	})
}

// tile computes C[i0:i1, j0:j1] over all of k.
func (p *product) tile(i0, i1, j0, j1 int) {
	for j := j0; j < j1; j += blockN {
		end := min(j1, j+blockN)
		if p.k == 0 {
			var zero [blockN]float32
			for i := i0; i < i1; i++ {
				p.store(zero[:end-j], i, j, 0)
			}
		}
		for k := 0; k < p.k; k += blockK {
			if p.op == NT {
				p.blockDot(i0, i1, j, end, k, min(p.k, k+blockK))
			} else {
				p.blockAxpy(i0, i1, j, end, k, min(p.k, k+blockK))
			}
		}
	}
}

// store puts s, the sums of block k0 of row i from column j on, into C.
func (p *product) store(s []float32, i, j, k0 int) {
	c := p.c[i*p.ldc+j:]
	c = c[:len(s)]
	switch {
	case k0 > 0 || (p.add && p.bias == nil):
		for t, v := range s {
			c[t] += v
		}
	case p.bias == nil:
		copy(c, s)
	case p.add:
		bias := p.bias[j:]
		bias = bias[:len(s)]
		for t, v := range s {
			c[t] += v + bias[t]
		}
	default:
		bias := p.bias[j:]
		bias = bias[:len(s)]
		for t, v := range s {
			c[t] = v + bias[t]
		}
	}
}
