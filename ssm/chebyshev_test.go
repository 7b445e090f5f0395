package ssm

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestChebyshevIsACosine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		theta := rapid.Float64Range(0, math.Pi).Draw(t, "theta")
		want := make([]float64, 12)
		for i := range want {
			want[i] = math.Cos(float64(i) * theta)
		}
		near(t, "T", ChebyshevT(len(want), math.Cos(theta)), want, 1e-12)
	})
}

// TestChebyshevIsOrthonormal checks that the basis is orthonormal under its weight. With x = (1 + cos θ)/2 the midpoint
// rule over θ is exact for these functions.
func TestChebyshevIsOrthonormal(t *testing.T) {
	const n, points = 8, 64
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range points {
				x := (1 + math.Cos(math.Pi*(float64(k)+0.5)/points)) / 2
				phi := Chebyshev(n, x)
				sum += phi[i] * phi[j] / points
			}
			want := 0.0
			if i == j {
				want = 1
			}
			near(t, "∫ phi_i phi_j w", []float64{sum}, []float64{want}, 1e-12)
		}
	}
}

// TestProjectChebyshev checks that the closed form of a held sample agrees with the integral over θ by the midpoint
// rule.
func TestProjectChebyshev(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := normals(drawRNG(t), rapid.IntRange(1, 6).Draw(t, "l"))
		const n, points = 5, 20000
		want := make([]float64, n)
		for k := range points {
			x := (1 + math.Cos(math.Pi*(float64(k)+0.5)/points)) / 2
			v := f[min(int(x*float64(len(f))), len(f)-1)]
			for i, phi := range Chebyshev(n, x) {
				want[i] += v * phi / points
			}
		}
		near(t, "c", ProjectChebyshev(n, f), want, 2e-3)
	})
}

// TestProjectionsOfAConstant checks that a constant has only the first coefficient, in any basis on [0, 1].
func TestProjectionsOfAConstant(t *testing.T) {
	f := []float64{2, 2, 2, 2, 2}
	want := []float64{2, 0, 0, 0}
	near(t, "Chebyshev", ProjectChebyshev(4, f), want, 1e-12)
	near(t, "Legendre", ProjectSamples(Legendre, 4, 1, f), want, 1e-12)
	near(t, "Fourier", ProjectSamples(Fourier, 4, 1, f), want, 1e-12)
}

// TestProjectSamples checks that samples of a staircase are projected as the staircase itself.
func TestProjectSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := normals(drawRNG(t), 8) // Project's 16 panels of 7 coefficients end where samples do
		stairs := func(x float64) float64 { return f[min(int(x*8), 7)] }
		near(t, "Legendre", ProjectSamples(Legendre, 7, 1, f), Project(Legendre, 7, 1, stairs), 1e-12)
	})
	square := ProjectSamples(Fourier, 8, 1, []float64{1, -1}) // 4/π (sin 2πx + sin 6πx / 3 + ...)
	first := 2 * math.Sqrt2 / math.Pi
	near(t, "square wave", square, []float64{0, 0, first, 0, 0, 0, first / 3, 0}, 1e-9)
}
