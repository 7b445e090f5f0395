package ssm

import (
	"math/cmplx"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

func drawDiagonal(t *rapid.T) *Diagonal {
	rng := drawRNG(t)
	n := rapid.IntRange(1, 5).Draw(t, "n")
	s := &Diagonal{
		A: complexNormals(rng, n), B: complexNormals(rng, n), C: complexNormals(rng, n),
		Dt: rapid.Float64Range(0.01, 0.4).Draw(t, "dt"), Pairs: rapid.Bool().Draw(t, "pairs"),
	}
	for i, a := range s.A {
		s.A[i] = complex(-real(a)*real(a), 3*imag(a))
	}
	return s
}

// dense returns a diagonal system in real numbers: mode i is the pair (Re x_i, Im x_i), rotated and scaled by a 2×2
// block.
func dense(s *Diagonal) *Continuous {
	n := len(s.A)
	a := mat.NewDense(2*n, 2*n, nil)
	c := make([]float64, 0, 2*n)
	scale := 1.0
	if s.Pairs {
		scale = 2
	}
	for i, z := range s.A {
		setComplex(a, i, i, z)
		c = append(c, scale*real(s.C[i]), -scale*imag(s.C[i]))
	}
	return &Continuous{A: a, B: ReIm(s.B), C: c}
}

func TestDiagonalIsDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawDiagonal(t)
		m := drawMethod(t)
		d, err := dense(s).Discretize(s.Dt, m)
		check(t, err)
		l := rapid.IntRange(0, 30).Draw(t, "l")
		near(t, "kernel", s.Kernel(m, l), d.Kernel(l), 1e-11)

		rng := drawRNG(t)
		u, x := normals(rng, l), complexNormals(rng, len(s.A))
		xd := ReIm(x)
		near(t, "echo", s.ZeroInput(m, x, l), d.ZeroInput(xd, l), 1e-11)
		near(t, "y", s.Scan(m, x, u), d.Scan(xd, u), 1e-11)
		near(t, "state", ReIm(x), xd, 1e-11)
		near(t, "y from zero", s.Scan(m, nil, u), Convolve(s.Kernel(m, l), u), 1e-11)
	})
}

// TestDiagonalZOHOfSlowModes checks that exp(dt A) - 1 does not lose digits for a tiny dt A, and that at A = 0 the mode
// is a plain sum.
func TestDiagonalZOHOfSlowModes(t *testing.T) {
	for _, a := range []complex128{0, -1e-12, 1e-9i, complex(-1e-7, 1e-7)} {
		s := &Diagonal{A: []complex128{a}, B: []complex128{2}, Dt: 0.5}
		_, Bbar := s.Discretize(ZOH)
		z := a / 2
		want := 1 + z/2 + z*z/6 // (exp(z) - 1)/z, the next term is below 1e-21
		if cmplx.Abs(Bbar[0]-want) > 4e-16 {
			t.Errorf("A = %v: Bbar = %v, want %v", a, Bbar[0], want)
		}
	}
}
