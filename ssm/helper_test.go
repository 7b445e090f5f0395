package ssm

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// near fails unless got and want differ by at most tol times the largest |want|, or tol if that is less than 1.
func near(t rapid.TB, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	scale := 1.0
	for _, w := range want {
		scale = max(scale, math.Abs(w))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol*scale) {
			t.Fatalf("%s[%d] = %v, want %v (off by %g, scale %g)", what, i, got[i], want[i], got[i]-want[i], scale)
		}
	}
}

// drawRNG lets rapid choose a seed. The numbers themselves need no shrinking.
func drawRNG(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
}

func normals(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

func complexNormals(rng *rand.Rand, n int) []complex128 {
	z := make([]complex128, n)
	for i := range z {
		z[i] = ComplexNormal(rng)
	}
	return z
}

// drawContinuous returns a stable system: A is a random skew-symmetric matrix minus the identity.
func drawContinuous(t *rapid.T, rng *rand.Rand) *Continuous {
	n := rapid.IntRange(1, 6).Draw(t, "n")
	a := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range i {
			v := rng.NormFloat64()
			a.Set(i, j, v)
			a.Set(j, i, -v)
		}
		a.Set(i, i, -1)
	}
	return &Continuous{A: a, B: normals(rng, n), C: normals(rng, n), D: rng.NormFloat64()}
}

func drawMethod(t *rapid.T) Method {
	return rapid.SampledFrom([]Method{Bilinear, ZOH, Euler, BackwardEuler}).Draw(t, "method")
}

func check(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
