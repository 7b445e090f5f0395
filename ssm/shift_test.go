package ssm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

func drawShift(t *rapid.T, rng *rand.Rand) *Shift {
	n := rapid.IntRange(1, 8).Draw(t, "n")
	return &Shift{B: normals(rng, n), C: normals(rng, n)}
}

// TestShiftIsDense checks that the shift SSM is the dense one whose matrix has ones below the diagonal.
func TestShiftIsDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		s := drawShift(t, rng)
		n := len(s.B)
		a := mat.NewDense(n, n, nil)
		for i := range n - 1 {
			a.Set(i+1, i, 1)
		}
		d := &Discrete{Abar: a, Bbar: s.B, C: s.C}

		l := rapid.IntRange(0, 20).Draw(t, "l")
		u, x0 := normals(rng, l), normals(rng, n)
		near(t, "kernel", s.Kernel(l), d.Kernel(l), 1e-12)
		near(t, "echo", s.ZeroInput(x0, l), d.ZeroInput(x0, l), 1e-12)
		near(t, "y from zero", s.Scan(nil, u), Convolve(s.Kernel(l), u), 1e-12)

		final := s.FinalState(x0, u)
		x, xd := slices.Clone(x0), slices.Clone(x0)
		near(t, "y", s.Scan(x, u), d.Scan(xd, u), 1e-12)
		near(t, "state", x, xd, 1e-12)
		near(t, "state in one sum", final, xd, 1e-12)
	})
}

// TestShiftKernelGrad checks the gradient. The kernel is linear in B and in C, so it is exact over any step: <g, K(B+d,
// C) - K(B, C)> = <dB, d>.
func TestShiftKernelGrad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		s := drawShift(t, rng)
		l := rapid.IntRange(0, 20).Draw(t, "l")
		g := normals(rng, l)
		dB, dC := s.KernelGrad(g)
		base := floats.Dot(g, s.Kernel(l))
		for i := range s.B {
			s.B[i]++
			alongB := floats.Dot(g, s.Kernel(l)) - base
			s.B[i]--
			s.C[i]++
			alongC := floats.Dot(g, s.Kernel(l)) - base
			s.C[i]--
			near(t, "dB, dC", []float64{dB[i], dC[i]}, []float64{alongB, alongC}, 1e-11)
		}
	})
}
