package ssm

import "math"

// Chebyshev is the Basis 1, √2 T_1(2x-1), √2 T_2(2x-1), ...: the Chebyshev polynomials shifted to [0, 1]. Unlike the
// other families it is orthonormal under a weight that grows toward both ends,
//
//	∫₀¹ phi_i phi_j w dx = 1 for i = j, otherwise 0,  w(x) = 1/(π √(x(1-x)))
//
// so its coefficients are those of [ProjectChebyshev], not those of [Project].
func Chebyshev(n int, x float64) []float64 {
	phi := ChebyshevT(n, 2*x-1)
	for i := 1; i < n; i++ {
		phi[i] *= math.Sqrt2
	}
	return phi
}

// ChebyshevT returns the Chebyshev polynomials T_0 to T_{n-1} at x, by T_0 = 1, T_1 = x, T_{i+1} = 2x T_i - T_{i-1}. On
// [-1, 1] T_i(cos θ) is cos iθ.
func ChebyshevT(n int, x float64) []float64 {
	t := make([]float64, n)
	before, now := x, 1.0 // T_{-1} = T_1
	for i := range t {
		t[i] = now
		before, now = now, 2*x*now-before
	}
	return t
}

// ProjectChebyshev returns the n coefficients c_i = ∫₀¹ f phi_i w dx of a signal f (l) in the basis [Chebyshev], where
// sample f_k is held from x = k/l to (k+1)/l. No other n coefficients have a smaller ∫ (f - Σ c_i phi_i)² w. With
// x = (1 + cos θ)/2 the weight becomes w dx = dθ/π, and a held sample contributes in closed form
//
//	1/π ∫ √2 cos iθ dθ = √2/(iπ) (sin iθ_k - sin iθ_{k+1}),  cos θ_k = 2k/l - 1
func ProjectChebyshev(n int, f []float64) []float64 {
	c := make([]float64, n)
	l := float64(len(f))
	for k, v := range f {
		from, to := math.Acos(2*float64(k)/l-1), math.Acos(2*float64(k+1)/l-1) // from > to
		for i := range c {
			if i == 0 {
				c[i] += v * (from - to) / math.Pi
				continue
			}
			w := float64(i)
			c[i] += v * math.Sqrt2 / (w * math.Pi) * (math.Sin(w*from) - math.Sin(w*to))
		}
	}
	return c
}
