package ssm

import (
	"cmp"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// LegS returns HiPPO-LegS as x' = Ax + Bu, A (n, n), B (n), n ≥ 1:
//
//	A_ij = -√(2i+1) √(2j+1) for i > j,  -(i+1) for i = j,  0 for i < j
//	B_i  = √(2i+1)
//
// HiPPO, arXiv:2008.07669, theorem 2, prints -A; its memory of all the past is x' = (Ax + Bu)/t.
// S4 and S4D leave 1/t out.
func LegS(n int) (a *mat.Dense, b []float64) {
	a = mat.NewDense(n, n, nil)
	b = make([]float64, n)
	for i := range n {
		b[i] = math.Sqrt(float64(2*i + 1))
		for j := range i {
			a.Set(i, j, -b[i]*b[j])
		}
		a.Set(i, i, -float64(i+1))
	}
	return a, b
}

// legsNormal diagonalizes the normal part of LegS. With P_i = √(i+½),
//
//	A + P Pᵀ = -½ I + S,  S_ij = -½ √(2i+1) √(2j+1) for i > j,  S skew-symmetric
//
// so its eigenvalues are -½ ± i w and its eigenvectors orthonormal. Of every pair it returns the one below the real
// axis, A_k = -½ - i|w_k|, |w| falling, and B in that basis, B_k = v_k^H B. An eigenvector is known up to a phase; here
// its first entry is real and positive. n is even. S4, arXiv:2111.00396, appendix C.1; S4D, arXiv:2206.11893, §4.1.
func legsNormal(n int) (A, B []complex128, err error) {
	_, b := LegS(n)
	skew := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range i {
			skew.Set(i, j, -b[i]*b[j]/2)
			skew.Set(j, i, b[i]*b[j]/2)
		}
	}
	var eigen mat.Eigen
	if !eigen.Factorize(skew, mat.EigenRight) {
		return nil, nil, fmt.Errorf("ssm: the eigenvalues of LegS did not converge for n = %d", n)
	}
	values := eigen.Values(nil)
	var vectors mat.CDense
	eigen.VectorsTo(&vectors)

	order := make([]int, n)
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(imag(values[i]), imag(values[j])) })
	for _, k := range order[:n/2] {
		A = append(A, complex(-0.5, imag(values[k])))
		first := vectors.At(0, k)
		phase := first / complex(cmplx.Abs(first), 0)
		var sum complex128
		for i := range n {
			sum += cmplx.Conj(vectors.At(i, k)) * complex(b[i], 0)
		}
		B = append(B, sum*phase)
	}
	return A, B, nil
}
