package ssm

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// bases holds the bases, each with the end of its integrals for 16 functions: Laguerre's decay past 4·16 as exp(-x/2).
var bases = map[string]struct {
	phi Basis
	end float64
}{
	"Legendre": {Legendre, 1}, "Fourier": {Fourier, 1}, "Laguerre": {Laguerre, 160},
}

// TestBasesAreOrthonormal checks that the Gram matrix ∫ phi_i phi_j is I: every function projects only onto itself.
func TestBasesAreOrthonormal(t *testing.T) {
	const n = 16
	for name, b := range bases {
		for i := range n {
			row := Project(b.phi, n, b.end, func(x float64) float64 { return b.phi(i+1, x)[i] })
			near(t, name, row, Delta(i, n), 1e-12)
		}
	}
	// By hand: √5 P_2(2x-1) = √5 (6x² - 6x + 1), exp(-x/2) L_2 = exp(-x/2) (1 - 2x + x²/2), L_n'(0) = -n.
	near(t, "P_2", Legendre(3, 0.3)[2:], []float64{math.Sqrt(5) * (6*0.09 - 1.8 + 1)}, 1e-15)
	near(t, "L_2", Laguerre(3, 0.7)[2:], []float64{math.Exp(-0.35) * (1 - 1.4 + 0.245)}, 1e-15)
	for i, v := range Laguerre(8, 1e-7) {
		if slope := (v*math.Exp(0.5e-7) - 1) / 1e-7; math.Abs(slope+float64(i)) > 1e-5 {
			t.Errorf("L_%d'(0) = %v, want %d", i, slope, -i)
		}
	}
}

// squareError returns ∫ (f - Σ c_i phi_i)² over [0, 1].
func squareError(phi Basis, c []float64, f func(float64) float64) (sum float64) {
	eachGaussPoint(0, 1, 64, func(x, weight float64) {
		d := f(x) - floats.Dot(c, phi(len(c), x))
		sum += weight * d * d
	})
	return sum
}

// TestProjectionIsOptimal checks that any other coefficients have a larger error, by exactly their squared distance.
func TestProjectionIsOptimal(t *testing.T) {
	f := func(x float64) float64 { return math.Exp(x) * math.Sin(5*x) }
	rapid.Check(t, func(t *rapid.T) {
		phi := Basis(rapid.SampledFrom([]func(int, float64) []float64{Legendre, Fourier}).Draw(t, "basis"))
		n := rapid.IntRange(1, 8).Draw(t, "n")
		c := Project(phi, n, 1, f)
		best := squareError(phi, c, f)
		move := normals(drawRNG(t), n)
		floats.Scale(0.1, move)
		floats.Add(c, move)
		near(t, "error", []float64{squareError(phi, c, f)}, []float64{best + floats.Dot(move, move)}, 1e-12)
	})
}

// TestProjectionErrorFalls checks that the error falls with n. For a smooth function it falls exponentially with
// Legendre polynomials. With a Fourier series it falls exponentially only if the function is periodic, and otherwise as
// 1/√n, since the periodic function jumps.
func TestProjectionErrorFalls(t *testing.T) {
	ramp := func(x float64) float64 { return math.Exp(x) }
	periodic := func(x float64) float64 { return math.Exp(math.Sin(2 * math.Pi * x)) }
	rms := func(phi Basis, n int, f func(float64) float64) float64 {
		return math.Sqrt(squareError(phi, Project(phi, n, 1, f), f))
	}
	for name, c := range map[string]struct {
		phi  Basis
		f    func(float64) float64
		n    int
		most float64
	}{
		"Legendre of exp":             {Legendre, ramp, 10, 1e-10},
		"Fourier of exp(sin 2πx)":     {Fourier, periodic, 25, 1e-10},
		"Legendre of exp(sin 2πx)":    {Legendre, periodic, 25, 1e-4},
		"Fourier of exp, it jumps":    {Fourier, ramp, 161, 0.05},
		"Legendre of a step function": {Legendre, func(x float64) float64 { return math.Round(x) }, 64, 0.08},
	} {
		before := math.Inf(1)
		for n := 1; n <= c.n; n = max(n+2, n*5/4) {
			now := rms(c.phi, n, c.f)
			if now > before*(1+1e-9)+1e-14 {
				t.Errorf("%s: error %v with %d functions, %v with fewer", name, now, n, before)
			}
			before = now
		}
		if before > c.most {
			t.Errorf("%s: error %v with %d functions, want less than %v", name, before, c.n, c.most)
		}
	}
	if slow := rms(Fourier, 161, ramp); slow < 1e-3 {
		t.Errorf("the Fourier series of a function that jumps has error %v with 161 terms, want about 1/√n of the jump",
			slow)
	}
}

// TestExtrapolation checks that outside its interval a Fourier series repeats, while Legendre polynomials continue a
// polynomial exactly and diverge from anything else.
func TestExtrapolation(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	c := normals(rng, 9)
	inside, later, earlier := []float64{0.1, 0.35, 0.8}, []float64{1.1, 1.35, 1.8}, []float64{-1.9, -1.65, -1.2}
	want := Reconstruct(Fourier, c, inside)
	near(t, "Fourier later", Reconstruct(Fourier, c, later), want, 1e-12)
	near(t, "Fourier earlier", Reconstruct(Fourier, c, earlier), want, 1e-12)

	cubic := func(x float64) float64 { return 1 - 2*x + 3*x*x*x }
	near(t, "cubic", Reconstruct(Legendre, Project(Legendre, 6, 1, cubic), []float64{2, -1}),
		[]float64{cubic(2), cubic(-1)}, 1e-10)
	wave := func(x float64) float64 { return math.Sin(2 * math.Pi * x) }
	if far := Reconstruct(Legendre, Project(Legendre, 8, 1, wave), []float64{2})[0]; math.Abs(far) < 10 {
		t.Errorf("a sine continued by polynomials is %v at 2, want it far away", far)
	}
	if far := Reconstruct(Laguerre, c, []float64{500})[0]; math.Abs(far) > 1e-80 {
		t.Errorf("a sum of Laguerre functions is %v far out, want it to vanish", far)
	}
}
