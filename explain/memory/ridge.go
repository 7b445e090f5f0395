package memory

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	lapack "gonum.org/v1/gonum/lapack/gonum"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// ridges solves ridge regressions for many λ in their dual form:
//
//	G_λ = L (K + λ k̄ I)⁻¹ Y
//
// K (n, n) contains the products of the fitted states with each other, k̄ is the mean of their squares, L (r, n)
// contains the products of later states with the fitted ones, and Y (n, m) the targets. With K = Q T Qᵀ, where Q is
// orthogonal and T tridiagonal (Golub and Van Loan, Matrix Computations, §8.3.1), all λ share the expensive part:
//
//	G_λ = (L Q) (T + λ k̄ I)⁻¹ (Qᵀ Y)
type ridges struct {
	n, m             int
	diagonal, beside []float64 // of T: (n), and next to the diagonal (n-1)
	mean             float64   // k̄
	later            []float32 // L Q
	y                []float32 // Qᵀ Y
}

// newRidges prepares the regressions of y (n, m) on the first n rows of x, the states. numbers is the length of a row.
func newRidges(x []float32, numbers, n int, y []float32) *ridges {
	all := len(x) / numbers
	r := &ridges{n: n, m: len(y) / n, diagonal: make([]float64, n), beside: make([]float64, n-1)}
	products := make([]float32, all*n)
	kernel.Gemm(kernel.Product{Op: kernel.NT, M: all, N: n, K: numbers, A: x, LDA: numbers, B: x, LDB: numbers,
		C: products, LDC: n})
	q := make([]float64, n*n)
	for i, v := range products[:n*n] {
		q[i] = float64(v)
	}
	for i := range n {
		r.mean += q[i*n+i] / float64(n)
	}
	if !(r.mean > 0) || !kernel.AllFinite(products) {
		return r // there is nothing to read
	}
	tridiagonal(q, r.diagonal, r.beside)
	turn := make([]float32, n*n)
	for i, v := range q {
		turn[i] = float32(v)
	}
	r.later, r.y = make([]float32, (all-n)*n), make([]float32, n*r.m)
	kernel.Gemm(kernel.Product{Op: kernel.NN, M: all - n, N: n, K: n, A: products[n*n:], LDA: n, B: turn, LDB: n,
		C: r.later, LDC: n})
	kernel.Gemm(kernel.Product{Op: kernel.TN, M: n, N: r.m, K: n, A: turn, LDA: n, B: y, LDB: r.m, C: r.y, LDC: r.m})
	return r
}

// tridiagonal replaces a symmetric matrix a (n, n) by Q, and sets the diagonal (n) of T and the numbers next to it
// (n-1), with a = Q T Qᵀ.
func tridiagonal(a, diagonal, beside []float64) {
	n := len(diagonal)
	tau, size := make([]float64, n), make([]float64, 1)
	var of lapack.Implementation
	of.Dsytrd(blas.Lower, n, a, n, diagonal, beside, tau[:n-1], size, -1)
	work := make([]float64, int(size[0]))
	of.Dsytrd(blas.Lower, n, a, n, diagonal, beside, tau[:n-1], work, len(work))
	of.Dorgtr(blas.Lower, n, a, n, tau[:n-1], size, -1)
	work = make([]float64, int(size[0]))
	of.Dorgtr(blas.Lower, n, a, n, tau[:n-1], work, len(work))
}

// guess returns G_λ (r, m), nil if the matrix is lost to rounding.
func (r *ridges) guess(lambda float64) []float32 {
	if r.y == nil {
		return nil
	}
	n, m := r.n, r.m
	x := make([]float64, n*m)
	for i, v := range r.y {
		x[i] = float64(v)
	}
	// T + λ k̄ I = B D Bᵀ, where B has ones on the diagonal and the numbers left next to it.
	d, left := slices.Clone(r.diagonal), make([]float64, n)
	for i := range d {
		d[i] += lambda * r.mean
		if i > 0 {
			left[i] = r.beside[i-1] / d[i-1]
			d[i] -= left[i] * r.beside[i-1]
			subtract(x[i*m:][:m], left[i], x[(i-1)*m:])
		}
		if !(d[i] > 0) || math.IsInf(d[i], 0) {
			return nil
		}
	}
	turned := make([]float32, n*m)
	for i := n - 1; i >= 0; i-- {
		row := x[i*m:][:m]
		for j := range row {
			row[j] /= d[i]
		}
		if i < n-1 {
			subtract(row, left[i+1], x[(i+1)*m:])
		}
		for j, v := range row {
			turned[i*m+j] = float32(v)
		}
	}
	y := make([]float32, len(r.later)/n*m)
	kernel.Gemm(kernel.Product{Op: kernel.NN, M: len(r.later) / n, N: m, K: n, A: r.later, LDA: n, B: turned, LDB: m,
		C: y, LDC: m})
	return y
}

// subtract subtracts k·x from y.
func subtract(y []float64, k float64, x []float64) {
	x = x[:len(y)]
	for i, v := range x {
		y[i] -= k * v
	}
}
