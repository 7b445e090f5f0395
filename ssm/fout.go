package ssm

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// FouT returns HiPPO-FouT with a window of one unit of time as x' = Ax + Bu, A (n, n), B (n), n even:
//
//	A = S - 2 b bᵀ,  B = 2b,  b = (1, 0, √2, 0, √2, 0, ...)
//	S_{2k,2k+1} = -2πk,  S_{2k+1,2k} = 2πk, otherwise 0
//
// x is the Fourier series of the last unit of time in the basis [Fourier] with v = s, the time before now: u(t-s) ≈ x_0
// + √2 Σ_k (x_{2k} cos 2πks + x_{2k+1} sin 2πks). x_1 belongs to sin 0 and stays 0. A window of θ is A/θ and B/θ. The
// value that leaves the window, u(t-1), is estimated by the series, which at its ends converges to the mean of both:
// u(t-1) = 2bᵀx - u(t). How to Train Your HiPPO, arXiv:2206.12037, §3.3 and appendix; the S4 repository's fourier2.
func FouT(n int) (a *mat.Dense, b []float64) {
	a, b = foutWith(n, 2)
	for i := range b {
		b[i] *= 2
	}
	return a, b
}

// FouTDecay returns [FouT] with A = S - b bᵀ and B = b: the value that leaves the window is estimated as bᵀx, as if the
// series did not jump. The S4 repository's fourier_decay has a window of 2.
func FouTDecay(n int) (a *mat.Dense, b []float64) { return foutWith(n, 1) }

// FouTD returns the diagonal relative of [FouT], A = S - ½ I and B = b: modes -½ ± 2πik that do not mix, the S4
// repository's foud. [DiagonalInit] lin has half its frequencies. S4D, arXiv:2206.11893, §4.
func FouTD(n int) (a *mat.Dense, b []float64) {
	a, b = foutWith(n, 0)
	for i := range n {
		a.Set(i, i, -0.5)
	}
	return a, b
}

// foutWith returns S - gain·b bᵀ and b.
func foutWith(n int, gain float64) (a *mat.Dense, b []float64) {
	a = mat.NewDense(n, n, nil)
	b = make([]float64, n)
	for i := 0; i < n; i += 2 {
		b[i] = math.Sqrt2
	}
	b[0] = 1
	for i := range n {
		for j := range n {
			a.Set(i, j, -gain*b[i]*b[j])
		}
	}
	for i := 0; i+1 < n; i += 2 {
		a.Set(i, i+1, -math.Pi*float64(i))
		a.Set(i+1, i, math.Pi*float64(i))
	}
	return a, b
}
