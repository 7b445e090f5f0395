package ssm

import (
	"cmp"
	"errors"
	"fmt"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// FrequencyResponse returns H(ω) = C (iωI - A)⁻¹ B + D: an input cos ωt gives the output Re H exp(iωt), after the
// transient. At an eigenvalue of A it is not finite.
func (s *Continuous) FrequencyResponse(omega float64) complex128 {
	return transfer(complex(0, omega), -1, s.A, s.B, s.C) + complex(s.D, 0)
}

// FrequencyResponse returns H = Σ_l K_l exp(-iθl) + D for a stable s: an input cos θk gives the output Re H exp(iθk),
// after the transient. θ is the angle from one sample to the next, ω dt; θ and θ + 2π are the same signal, see [Alias].
func (s *Discrete) FrequencyResponse(theta float64) complex128 {
	return transfer(1, -cmplx.Exp(complex(0, -theta)), s.Abar, s.Bbar, s.C) + complex(s.D, 0)
}

// FrequencyResponse returns H = Σ_l K_l exp(-iθl) for the kernel K of a stable s sampled by the rule m. With z =
// exp(-iθ) a mode gives the geometric series C Bbar/(1 - Abar z). As K is the real part of the modes' sum, or twice
// that with Pairs,
//
//	H = Σ_i C_i Bbar_i/(1 - Abar_i z) + conj(C_i Bbar_i)/(1 - conj(Abar_i) z),  half of it without Pairs
//
// θ is the angle from one sample to the next.
func (s *Diagonal) FrequencyResponse(m Method, theta float64) complex128 {
	Abar, Bbar := s.Discretize(m)
	z := cmplx.Exp(complex(0, -theta))
	var sum complex128
	for i, a := range Abar {
		gain := s.C[i] * Bbar[i]
		sum += gain/(1-a*z) + cmplx.Conj(gain)/(1-cmplx.Conj(a)*z)
	}
	if !s.Pairs {
		sum /= 2
	}
	return sum
}

// Poles returns the eigenvalues of a square matrix a, sorted by their real and then their imaginary parts. The
// eigenvalues of A are the poles of a system in continuous time, which is stable if all are left of the imaginary axis.
// The eigenvalues of Abar are the poles of a sampled system, which is stable if all are inside the unit circle. Poles
// returns an error if a has no rows, is not square, or is not finite.
func Poles(a *mat.Dense) ([]complex128, error) {
	rows, cols := a.Dims()
	if rows != cols || rows == 0 {
		return nil, fmt.Errorf("ssm: poles: A is (%d, %d), want a square matrix", rows, cols)
	}
	if !finite(mat.DenseCopyOf(a).RawMatrix().Data) {
		return nil, errors.New("ssm: poles: found a number that is not finite, want a finite A")
	}
	var eigen mat.Eigen
	if !eigen.Factorize(a, mat.EigenNone) {
		return nil, errors.New("ssm: poles: the eigenvalues did not converge")
	}
	poles := eigen.Values(nil)
	slices.SortFunc(poles, func(x, y complex128) int {
		return cmp.Or(cmp.Compare(real(x), real(y)), cmp.Compare(imag(x), imag(y)))
	})
	return poles, nil
}

// transfer returns c (v I + w a)⁻¹ b.
func transfer(v, w complex128, a *mat.Dense, b, c []float64) complex128 {
	m := make([][]complex128, len(b))
	right := make([]complex128, len(b))
	for i := range m {
		m[i] = make([]complex128, len(b))
		for j := range m[i] {
			m[i][j] = w * complex(a.At(i, j), 0)
		}
		m[i][i] += v
		right[i] = complex(b[i], 0)
	}
	var sum complex128
	for i, x := range solveComplex(m, right) {
		sum += complex(c[i], 0) * x
	}
	return sum
}
