package ssm

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// LegS returns HiPPO-LegS as x' = Ax + Bu, A (n, n), B (n), n ≥ 1:
//
//	A_ij = -√(2i+1) √(2j+1) for i > j,  -(i+1) for i = j,  0 for i < j
//	B_i  = √(2i+1)
//
// HiPPO, arXiv:2008.07669, theorem 2, prints -A. Its memory of the whole past is x' = (Ax + Bu)/t, see [MemorizeLegS].
// S4 and S4D leave out 1/t. Then x_i is the integral of the past against √(2i+1) P_i(2exp(-s) - 1) exp(-s), with s the
// time before now: Legendre polynomials warped so that the far past becomes ever coarser. How to Train Your HiPPO,
// arXiv:2206.12037, §3.1.
func LegS(n int) (a *mat.Dense, b []float64) {
	a = mat.NewDense(n, n, nil)
	b = legendreEnds(n)
	for i := range n {
		for j := range i {
			a.Set(i, j, -b[i]*b[j])
		}
		a.Set(i, i, -float64(i+1))
	}
	return a, b
}

// LegSD returns the normal part of LegS with half of its B, which initializes the diagonal model that the S4 repository
// calls legsd:
//
//	A_ij = -½ √(2i+1) √(2j+1) for i > j,  -½ for i = j,  +½ √(2i+1) √(2j+1) for i < j
//	B_i  = ½ √(2i+1)
//
// As n grows C exp(tA) B tends to the kernel of LegS for any fixed C. S4D, arXiv:2206.11893, theorem 3.
func LegSD(n int) (a *mat.Dense, b []float64) {
	a, b = LegS(n)
	for i := range n {
		for j := range n {
			a.Set(i, j, a.At(i, j)+b[i]*b[j]/2)
		}
		a.Set(i, i, -0.5) // (2i+1)/2 - (i+1) exactly
	}
	for i := range b {
		b[i] /= 2
	}
	return a, b
}

// legendreEnds returns √(2i+1) for i < n: the orthonormal Legendre polynomials on [0, 1] at 1.
func legendreEnds(n int) []float64 {
	b := make([]float64, n)
	for i := range b {
		b[i] = math.Sqrt(float64(2*i + 1))
	}
	return b
}
