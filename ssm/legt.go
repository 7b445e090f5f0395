package ssm

import "gonum.org/v1/gonum/mat"

// LegT returns HiPPO-LegT with a window of one unit of time as x' = Ax + Bu, A (n, n), B (n), n ≥ 1:
//
//	A_ij = -√(2i+1) √(2j+1) · (1 for i ≥ j, (-1)^(i-j) for i < j)
//	B_i  = √(2i+1)
//
// x_i is the integral of the last unit of time against √(2i+1) P_i(2v-1), where v runs from 0, the oldest moment, to 1,
// now: u(t-1+v) ≈ Σ_i x_i √(2i+1) P_i(2v-1). For a window of θ, use A/θ and B/θ. HiPPO, arXiv:2008.07669, theorem 1
// with λ_n = 1, prints -A.
func LegT(n int) (a *mat.Dense, b []float64) {
	a = mat.NewDense(n, n, nil)
	b = legendreEnds(n)
	for i := range n {
		for j := range n {
			v := -b[i] * b[j]
			if i < j {
				v *= alternate(i - j)
			}
			a.Set(i, j, v)
		}
	}
	return a, b
}

// LMU returns the matrices of the Legendre Memory Unit with a window of one unit of time:
//
//	A_ij = (2i+1) · ((-1)^(i-j+1) for i ≥ j, -1 for i < j)
//	B_i  = (2i+1) (-1)^i
//
// It is [LegT] in another basis, x_LMU = T x_LegT with T_ii = (-1)^i √(2i+1), see [FromLMU]; there
// u(t-1+v) ≈ Σ_i x_i P_i(1-2v). Voelker, Kajić and Eliasmith, Legendre Memory Units, 2019, eq. 1 and 2; HiPPO, theorem
// 1.
func LMU(n int) (a *mat.Dense, b []float64) {
	a = mat.NewDense(n, n, nil)
	b = make([]float64, n)
	for i := range n {
		r := float64(2*i + 1)
		b[i] = r * alternate(i)
		for j := range n {
			v := -r
			if i >= j {
				v *= alternate(i - j)
			}
			a.Set(i, j, v)
		}
	}
	return a, b
}

// FromLMU returns the state of LegT for the state x of a Legendre Memory Unit (n): x_i (-1)^i / √(2i+1).
func FromLMU(x []float64) []float64 {
	y := legendreEnds(len(x))
	for i, v := range x {
		y[i] = alternate(i) * v / y[i]
	}
	return y
}

// alternate returns (-1)^k.
func alternate(k int) float64 {
	if k%2 != 0 {
		return -1
	}
	return 1
}
