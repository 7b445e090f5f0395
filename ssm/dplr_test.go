package ssm

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// drawDPLR returns a stable system of up to 4 pairs and rank 2.
func drawDPLR(t *rapid.T) *DPLR {
	rng := drawRNG(t)
	n := rapid.IntRange(1, 4).Draw(t, "n")
	s := &DPLR{
		Lambda: complexNormals(rng, n), B: complexNormals(rng, n), C: complexNormals(rng, n),
		Dt: rapid.Float64Range(0.01, 0.4).Draw(t, "dt"),
	}
	for i, a := range s.Lambda {
		s.Lambda[i] = complex(-0.1-math.Abs(real(a)), 3*imag(a))
	}
	for range rapid.IntRange(0, 2).Draw(t, "rank") {
		s.P = append(s.P, complexNormals(rng, n))
	}
	return s
}

// TestDenseIsDPLRIsCauchy checks that the three ways of S4 agree: the dense matrix, the recurrence by the Woodbury
// identity and the Cauchy kernel.
func TestDenseIsDPLRIsCauchy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawDPLR(t)
		dense, err := s.Continuous().Discretize(s.Dt, Bilinear)
		check(t, err)
		rng := drawRNG(t)
		l := rapid.IntRange(1, 40).Draw(t, "l") // odd and even: an even l has z = -1
		u, x := normals(rng, l), complexNormals(rng, len(s.Lambda))
		xd := ReIm(x)
		kernel := s.Kernel(l)
		near(t, "kernel", kernel, dense.Kernel(l), 1e-11)
		near(t, "echo", s.ZeroInput(x, l), dense.ZeroInput(xd, l), 1e-11)
		near(t, "y", s.Scan(x, u), dense.Scan(xd, u), 1e-11)
		near(t, "state", ReIm(x), xd, 1e-11)
		near(t, "y by convolution", s.Scan(nil, u), Convolve(kernel, u), 1e-11)

		trained := *s
		trained.C = s.TruncatedC(l)
		near(t, "Cauchy kernel", trained.CauchyKernel(l), kernel, 1e-10)
		back, err := trained.UntruncatedC(l)
		check(t, err)
		// I - Abar^l may be near 0 for a slow mode and a short l, which loses that many digits.
		near(t, "C", ReIm(back), ReIm(s.C), 1e-8)
	})
}

// TestCauchyGradient compares the gradient of the Cauchy kernel with central differences in every parameter.
func TestCauchyGradient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawDPLR(t)
		for i := range s.Lambda {
			s.Lambda[i]-- // the loss is then smooth over the steps below
		}
		g := normals(drawRNG(t), rapid.IntRange(1, 20).Draw(t, "l"))
		loss := func() float64 { return floats.Dot(s.CauchyKernel(len(g)), g) }
		d := s.CauchyKernelGrad(g)
		const step = 1e-4
		slope := func(move func(by float64)) float64 { // with an error of O(step⁴)
			var at [5]float64
			move(-2 * step)
			for i := range at {
				at[i] = loss()
				move(step)
			}
			move(-3 * step)
			return (at[0] - 8*at[1] + 8*at[3] - at[4]) / (12 * step)
		}
		complexSlopes := func(z []complex128) (x []float64) {
			for i := range z {
				x = append(x, slope(func(by float64) { z[i] += complex(by, 0) }),
					slope(func(by float64) { z[i] += complex(0, by) }))
			}
			return x
		}
		const tol = 1e-6
		near(t, "dC", ReIm(d.C), complexSlopes(s.C), tol)
		near(t, "dB", ReIm(d.B), complexSlopes(s.B), tol)
		near(t, "dΛ", ReIm(d.Lambda), complexSlopes(s.Lambda), tol)
		for r := range s.P {
			near(t, "dP", ReIm(d.P[r]), complexSlopes(s.P[r]), tol)
		}
		near(t, "dDt", []float64{d.Dt}, []float64{slope(func(by float64) { s.Dt += by })}, tol)
	})
}

// TestDPLROfRankZeroIsDiagonal checks that DPLR without a low-rank part is Diagonal with Pairs.
func TestDPLROfRankZeroIsDiagonal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawDPLR(t)
		s.P = nil
		d := &Diagonal{A: s.Lambda, B: s.B, C: s.C, Dt: s.Dt, Pairs: true}
		near(t, "kernel", s.Kernel(20), d.Kernel(Bilinear, 20), 1e-11)
	})
}

// TestLegSThroughNPLR checks that HiPPO-LegS through NPLR has the same output as its dense matrix, at a size where
// naive diagonalization has no correct digit.
func TestLegSThroughNPLR(t *testing.T) {
	const n, l, dt = 64, 200, 0.01
	s, v, err := NPLR("legs", n)
	check(t, err)
	a, b := LegS(n)
	c := make([]float64, n)
	for i := range c {
		c[i] = math.Cos(float64(i))
	}
	s.Dt, s.C = dt, conjugates(toBasis(v, c)) // C V = conj(V^H Cᵀ)ᵀ
	dense, err := (&Continuous{A: a, B: b, C: c}).Discretize(dt, Bilinear)
	check(t, err)
	near(t, "kernel", s.Kernel(l), dense.Kernel(l), 1e-10)
	trained := *s
	trained.C = s.TruncatedC(l)
	near(t, "Cauchy kernel", trained.CauchyKernel(l), dense.Kernel(l), 1e-9)
}
