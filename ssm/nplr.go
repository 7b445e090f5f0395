package ssm

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// NPLR decomposes the HiPPO matrix of a measure into a normal matrix plus one of low rank. It changes to the basis of
// the eigenvectors of the normal part, in which A is diagonal plus low rank:
//
//	A = V (Λ - P P^*) V^H,  B_S4 = V^H B
//
// It returns Λ, P (rank, n/2) and B as a [DPLR] whose C and Dt are left to the caller, and V as V[k] (n) for k < n/2.
// It keeps the mode with Im Λ ≤ 0 of every conjugate pair, in ascending order of Im Λ. An eigenvector is determined up
// to a phase; here its first nonzero entry is real and positive. The normal part of every measure here is a multiple of
// I plus a real skew-symmetric matrix, so all Re Λ are equal, the eigenvectors are orthonormal, and no complex
// eigensolver is needed.
//
// measure is a name that [LowRank] knows. S4, arXiv:2111.00396, theorem 1 and appendix C.1. Diagonalizing A itself is
// useless: the condition number of its eigenvectors grows exponentially with n (lemma 3.2).
//
// It returns the errors of [HiPPO] and [LowRank], and an error for an odd n.
func NPLR(measure string, n int) (s *DPLR, v [][]complex128, err error) {
	a, b, err := HiPPO(measure, n)
	if err != nil {
		return nil, nil, err
	}
	if n%2 != 0 {
		return nil, nil, fmt.Errorf("ssm: NPLR of %s: d_state is %d, want an even number", measure, n)
	}
	p, err := LowRank(measure, n)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range p {
		a.RankOne(a, 1, mat.NewVecDense(n, row), mat.NewVecDense(n, row))
	}
	freq, v, err := diagonalizeSkew(a)
	if err != nil {
		return nil, nil, fmt.Errorf("ssm: NPLR of %s, d_state %d: %w", measure, n, err)
	}
	shift := math.Round(mat.Trace(a)/float64(n)*1e12) / 1e12 // -½ or 0, without rounding errors
	s = &DPLR{Lambda: make([]complex128, n/2), B: toBasis(v, b)}
	for k, w := range freq {
		s.Lambda[k] = complex(shift, w)
	}
	for _, row := range p {
		s.P = append(s.P, toBasis(v, row))
	}
	return s, v, nil
}

// LowRank returns the real P (rank, n) that makes A + Σ_r P_r P_rᵀ normal for the A of [HiPPO] of the same name:
//
//	legs                          P_i = √(i+½)
//	legt                          the odd and the even entries of √(i+½), one row each
//	lagt, tlagt, glagt            P_i = √½
//	fout, fourier2, fourier_decay P = B √-A₀₀ / B₀
//	legsd, foud                   none: they are normal
//
// S4, arXiv:2111.00396, appendix C.1. It returns an error for lmu, which is normal plus low rank only in the basis of
// legt, and for names unknown to HiPPO.
func LowRank(measure string, n int) (p [][]float64, err error) {
	a, b, err := HiPPO(measure, n)
	if err != nil {
		return nil, err
	}
	root := make([]float64, n)
	for i := range root {
		root[i] = math.Sqrt(float64(i) + 0.5)
	}
	switch measure {
	case "legs":
		return [][]float64{root}, nil
	case "legt":
		odd, even := slices.Clone(root), slices.Clone(root)
		for i := range n {
			if i%2 == 0 {
				odd[i] = 0
			} else {
				even[i] = 0
			}
		}
		return [][]float64{odd, even}, nil
	case "lagt", "tlagt", "glagt":
		return [][]float64{slices.Repeat([]float64{math.Sqrt(0.5)}, n)}, nil
	case "fout", "fourier2", "fourier_decay":
		for i, bi := range b {
			root[i] = bi * math.Sqrt(-a.At(0, 0)) / b[0]
		}
		return [][]float64{root}, nil
	case "legsd", "foud":
		return nil, nil
	}
	return nil, fmt.Errorf("ssm: HiPPO measure %s has no low-rank correction in its own basis; use legt", measure)
}

// diagonalizeSkew returns the eigenvalues i·freq, with freq ≤ 0 ascending, and the eigenvectors of the skew-symmetric
// part of a (n, n), n even: one of each conjugate pair.
func diagonalizeSkew(a *mat.Dense) (freq []float64, v [][]complex128, err error) {
	n, _ := a.Dims()
	skew := mat.NewDense(n, n, nil)
	skew.Sub(a, a.T())
	skew.Scale(0.5, skew)
	var eigen mat.Eigen
	if !eigen.Factorize(skew, mat.EigenRight) {
		return nil, nil, errors.New("the eigenvalues did not converge")
	}
	values := eigen.Values(nil)
	var vectors mat.CDense
	eigen.VectorsTo(&vectors)

	order := make([]int, n)
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(imag(values[i]), imag(values[j])) })
	for half, k := range order[:n/2] {
		w := min(imag(values[k]), 0)
		column := make([]complex128, n)
		for i := range column {
			column[i] = vectors.At(i, k)
		}
		if twin := order[n/2]; half == n/2-1 && imag(values[twin]) == 0 {
			// The eigenvalue 0 of the Fourier measures is double: its two real eigenvectors act as a conjugate pair.
			for i := range column {
				column[i] = complex(real(column[i])*math.Sqrt2/2, real(vectors.At(i, twin))*math.Sqrt2/2)
			}
		}
		freq = append(freq, w)
		v = append(v, fixPhase(column))
	}
	return freq, v, nil
}

// fixPhase rotates v, in place, so that its first nonzero entry is real and positive.
func fixPhase(v []complex128) []complex128 {
	const zero = 1e-8 // far above rounding errors in a vector of norm 1
	first := v[max(0, slices.IndexFunc(v, func(z complex128) bool { return cmplx.Abs(z) > zero }))]
	for i := range v {
		v[i] *= cmplx.Conj(first) / complex(cmplx.Abs(first), 0)
	}
	return v
}

// toBasis returns V^H x.
func toBasis(v [][]complex128, x []float64) []complex128 {
	y := make([]complex128, len(v))
	for k, column := range v {
		for i, z := range column {
			y[k] += cmplx.Conj(z) * complex(x[i], 0)
		}
	}
	return y
}
