package ssm

import (
	"math/cmplx"
	"slices"
)

// Diagonal is a state-space model of n complex modes that do not mix, sampled every Dt:
//
//	x'_i = A_i x_i + B_i u,  y = Re Σ_i C_i x_i
//
// With Pairs, every mode also represents its complex conjugate, and y = 2 Re Σ_i C_i x_i: n modes then describe a real
// system of 2n states. S4D, arXiv:2206.11893, §3; H3, arXiv:2212.14052, §3.1. The skip D u belongs to the layer.
//
// A, B and C have n entries each and Dt > 0. A state has n entries.
type Diagonal struct {
	A, B, C []complex128
	Dt      float64
	Pairs   bool
}

// Discretize returns Abar (n) and Bbar (n) of every mode:
//
//	bilinear, euler, backward_diff:  Abar = (1 + (1-α) dt A) / (1 - α dt A),  Bbar = dt B / (1 - α dt A),  α = ½, 0, 1
//	zoh:                             Abar = exp(dt A),  Bbar = (exp(dt A) - 1)/A · B, or dt B where A = 0
//
// At a pole, dt A = 1/α, they are not finite. A mode with Re A ≤ 0 has no pole. Discretize panics if m is not one of
// the constants.
func (s *Diagonal) Discretize(m Method) (Abar, Bbar []complex128) {
	Abar = make([]complex128, len(s.A))
	Bbar = make([]complex128, len(s.A))
	for i, a := range s.A {
		z := complex(s.Dt, 0) * a
		var gain complex128 // Bbar / (dt B)
		if m == ZOH {
			Abar[i], gain = cmplx.Exp(z), 1
			if z != 0 {
				gain = expm1(z) / z
			}
		} else {
			alpha := complex(m.alpha(), 0)
			gain = 1 / (1 - alpha*z)
			Abar[i] = (1 + (1-alpha)*z) * gain
		}
		Bbar[i] = complex(s.Dt, 0) * s.B[i] * gain
	}
	return Abar, Bbar
}

// Kernel returns K_j = Re Σ_i C_i Abar_iʲ Bbar_i for j < l, or twice that with Pairs.
func (s *Diagonal) Kernel(m Method, l int) []float64 {
	Abar, x := s.Discretize(m)
	kernel := make([]float64, l)
	for j := range kernel {
		kernel[j] = s.output(x)
		for i := range x {
			x[i] *= Abar[i]
		}
	}
	return kernel
}

// ZeroInput returns Re Σ_i C_i Abar_iᵏ⁺¹ x0_i for k < l, or twice that with Pairs: the response to the initial state x0
// (n). Scan's y is ZeroInput + Kernel * u.
func (s *Diagonal) ZeroInput(m Method, x0 []complex128, l int) []float64 {
	x := slices.Clone(x0)
	return s.Scan(m, x, make([]float64, l))
}

// Scan steps through u (l) from the state x (n) and replaces x by the state after u. If x is nil, the state starts at
// zero and is not returned.
//
//	x_k = Abar x_{k-1} + Bbar u_k,  y_k = Re Σ C x_k, twice that with Pairs
func (s *Diagonal) Scan(m Method, x []complex128, u []float64) (y []float64) {
	if x == nil {
		x = make([]complex128, len(s.A))
	}
	Abar, Bbar := s.Discretize(m)
	y = make([]float64, len(u))
	for k, uk := range u {
		for i := range x {
			x[i] = Abar[i]*x[i] + Bbar[i]*complex(uk, 0)
		}
		y[k] = s.output(x)
	}
	return y
}

// output returns Re Σ_i C_i x_i, doubled with Pairs.
func (s *Diagonal) output(x []complex128) float64 {
	y := real(dot(s.C, x))
	if s.Pairs {
		y *= 2
	}
	return y
}
