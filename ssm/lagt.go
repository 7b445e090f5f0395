package ssm

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// LagT returns HiPPO-LagT as x' = Ax + Bu, A (n, n), B (n), n ≥ 1:
//
//	A_ij = -1 for i > j,  -½ for i = j,  0 for i < j
//	B_i  = beta
//
// For beta = 1, x_i is the integral of the past against exp(-s/2) L_i(s), with L_i the Laguerre polynomials and s the
// time before now. That is the orthonormal basis [Laguerre], so u(t-s) ≈ Σ_i x_i exp(-s/2) L_i(s). The S4 repository,
// lagt. HiPPO, arXiv:2008.07669, appendix D.2.
func LagT(n int, beta float64) (a *mat.Dense, b []float64) { return lowerOnes(n, 0.5, beta) }

// TiltedLagT returns [LagT] with A_ii = -(1+beta)/2: the S4 repository's tlagt, where beta = 1 is the untilted measure
// exp(-s).
func TiltedLagT(n int, beta float64) (a *mat.Dense, b []float64) {
	return lowerOnes(n, (1+beta)/2, beta)
}

// GeneralizedLagT returns the LagT of HiPPO's theorem for the measure s^alpha exp(-s) tilted by beta, alpha < 1, beta >
// 0:
//
//	A_ij = -Λ_j/Λ_i for i > j,  -(1+beta)/2 for i = j,  0 for i < j
//	B_i  = binom(alpha+i, i)/Λ_i · beta^((1-alpha)/2) / √Γ(1-alpha),  Λ_i = √(Γ(i+alpha+1)/Γ(i+1))
//
// The state s after an impulse is exp(-(1+beta)s/2) L_i^(alpha)(s), the generalized Laguerre polynomials, divided by
// Λ_i and times the constant of B. alpha = 0 and a small beta is the stable choice. HiPPO, arXiv:2008.07669, appendix
// D.2; the S4 repository, glagt, where alpha = 0, beta = 0.01.
func GeneralizedLagT(n int, alpha, beta float64) (a *mat.Dense, b []float64) {
	a, b = lowerOnes(n, (1+beta)/2, 0)
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v } // of positive x here: the sign is +
	norm := func(i int) float64 {
		return math.Exp((lgamma(float64(i)+alpha+1) - lgamma(float64(i)+1)) / 2)
	}
	scale := math.Pow(beta, (1-alpha)/2) * math.Exp(-lgamma(1-alpha)/2)
	binomial := 1.0 // binom(alpha+i, i) = Π_{k≤i} (alpha+k)/k
	for i := range n {
		if i > 0 {
			binomial *= (alpha + float64(i)) / float64(i)
		}
		b[i] = scale * binomial / norm(i)
		for j := range i {
			a.Set(i, j, -norm(j)/norm(i))
		}
	}
	return a, b
}

// lowerOnes returns an A that is -1 below the diagonal, -diagonal on it and 0 above, with a constant B.
func lowerOnes(n int, diagonal, beta float64) (a *mat.Dense, b []float64) {
	a = mat.NewDense(n, n, nil)
	b = make([]float64, n)
	for i := range n {
		for j := range i {
			a.Set(i, j, -1)
		}
		a.Set(i, i, -diagonal)
		b[i] = beta
	}
	return a, b
}
