package ssm

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/integrate/quad"
)

// Basis returns the values at x of the first n functions of an orthonormal family: ∫ phi_i phi_j = 1 for i = j,
// otherwise 0. [Legendre] and [Fourier] are orthonormal on [0, 1], [Laguerre] on [0, ∞), and [Chebyshev] under a
// weight.
type Basis func(n int, x float64) []float64

// Legendre is the Basis √(2i+1) P_i(2x-1): the Legendre polynomials shifted to [0, 1]. Outside this interval they grow
// like xⁱ.
func Legendre(n int, x float64) []float64 {
	p := LegendreP(n, 2*x-1)
	floats.Mul(p, legendreEnds(n))
	return p
}

// LegendreP returns the Legendre polynomials P_0 to P_{n-1} at x, by P_0 = 1, P_1 = x,
// (i+1) P_{i+1} = (2i+1) x P_i - i P_{i-1}.
func LegendreP(n int, x float64) []float64 {
	p := make([]float64, n)
	before, now := 0.0, 1.0 // P_{i-1}, P_i
	for i := range p {
		p[i] = now
		k := float64(i)
		before, now = now, ((2*k+1)*x*now-k*before)/(k+1)
	}
	return p
}

// Laguerre is the Basis exp(-x/2) L_i(x), with the Laguerre polynomials L_0 = 1, L_1 = 1 - x,
// (i+1) L_{i+1} = (2i+1-x) L_i - i L_{i-1}. Note L_i'(0) = -i.
func Laguerre(n int, x float64) []float64 {
	l := make([]float64, n)
	before, now := 0.0, math.Exp(-x/2)
	for i := range l {
		l[i] = now
		k := float64(i)
		before, now = now, ((2*k+1-x)*now-k*before)/(k+1)
	}
	return l
}

// Fourier is the Basis 1, √2 cos 2πx, √2 sin 2πx, √2 cos 4πx, ... Outside [0, 1] it repeats.
func Fourier(n int, x float64) []float64 {
	phi := make([]float64, n)
	for i := range phi {
		sin, cos := math.Sincos(2 * math.Pi * float64((i+1)/2) * x)
		switch {
		case i == 0:
			phi[i] = 1
		case i%2 == 1:
			phi[i] = math.Sqrt2 * cos
		default:
			phi[i] = math.Sqrt2 * sin
		}
	}
	return phi
}

// FourierHiPPO is the basis of [FouT]'s state: [Fourier] with sin 0 = 0 at index 1, so that index 2k is √2 cos 2πkx and
// index 2k+1 is √2 sin 2πkx.
func FourierHiPPO(n int, x float64) []float64 {
	phi := make([]float64, n)
	copy(phi, Fourier(1, x)) // the constant
	if n > 2 {
		copy(phi[2:], Fourier(n-1, x)[1:])
	}
	return phi
}

// Project returns the n coefficients c_i = ∫₀^end f(x) phi_i(x) dx of the function nearest to f in the span of phi: no
// other n coefficients have a smaller ∫ (f - Σ c_i phi_i)². For [Laguerre], end must be so large that f phi_i has
// vanished there.
//
// The integral is computed by Gauss's rule on 2n + 2end panels of 16 points. f should be smooth except for a few jumps.
func Project(phi Basis, n int, end float64, f func(x float64) float64) []float64 {
	c := make([]float64, n)
	eachGaussPoint(0, end, 2*n+int(math.Ceil(2*end)), func(x, weight float64) {
		floats.AddScaled(c, weight*f(x), phi(n, x))
	})
	return c
}

// ProjectSamples is [Project] for a signal f (l) of samples: f_k is held from x = k·end/l to (k+1)·end/l. The basis
// must be smooth over a sample and over 1/n of the interval.
func ProjectSamples(phi Basis, n int, end float64, f []float64) []float64 {
	c := make([]float64, n)
	width := end / float64(len(f))
	panels := 1 + n/max(1, len(f))
	for k, v := range f {
		eachGaussPoint(float64(k)*width, float64(k+1)*width, panels, func(x, weight float64) {
			floats.AddScaled(c, weight*v, phi(n, x))
		})
	}
	return c
}

// quadPoints is the number of Gauss points in a panel. The rule is exact for polynomials up to degree 31.
const quadPoints = 16

// eachGaussPoint visits the points and weights of Gauss's rule on equal panels between from and to.
func eachGaussPoint(from, to float64, panels int, visit func(x, weight float64)) {
	x, weight := make([]float64, quadPoints), make([]float64, quadPoints)
	width := (to - from) / float64(panels)
	for p := range panels {
		quad.Legendre{}.FixedLocations(x, weight, from+float64(p)*width, from+float64(p+1)*width)
		for k := range x {
			visit(x[k], weight[k])
		}
	}
}
