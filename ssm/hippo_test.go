package ssm

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// wave is a smooth signal that is not periodic on the last unit of time.
func wave(t float64) float64 { return math.Sin(7*t+0.3) + 0.5*math.Cos(11*t) - t }

// kernelAt returns exp(sA) B, the state s after an impulse.
func kernelAt(a *mat.Dense, b []float64, s float64) []float64 {
	var e mat.Dense
	e.Scale(s, a)
	e.Exp(&e)
	return mulVec(&e, b)
}

// TestKernelsAreBases checks the states after an impulse. The state of LagT s after an impulse is the Laguerre
// functions at s. The state of LegS without its 1/t is the Legendre polynomials at exp(-s) times exp(-s): time is
// warped so that the far past becomes ever coarser. Both are exact for any n.
func TestKernelsAreBases(t *testing.T) {
	for _, n := range []int{1, 4, 12} {
		lagA, lagB := LagT(n, 1)
		legA, legB := LegS(n)
		for s := 0.0; s < 4; s += 0.37 {
			near(t, "LagT", kernelAt(lagA, lagB, s), Laguerre(n, s), 1e-12)
			warped := Legendre(n, math.Exp(-s))
			floats.Scale(math.Exp(-s), warped)
			near(t, "LegS", kernelAt(legA, legB, s), warped, 1e-11)
		}
	}
	// TiltedLagT equals LagT at one value of its parameter.
	a, b := LagT(6, 1)
	tilted, tiltedB := TiltedLagT(6, 1e-9)
	floats.Scale(1e9, tiltedB)
	near(t, "tlagt A", tilted.RawMatrix().Data, a.RawMatrix().Data, 1e-8)
	near(t, "tlagt B", tiltedB, b, 1e-12)
}

// TestGeneralizedLaguerre checks that in GeneralizedLagT the state after an impulse is the generalized Laguerre
// functions, normalized in their measure.
func TestGeneralizedLaguerre(t *testing.T) {
	const n, beta = 7, 0.2
	for _, alpha := range []float64{-0.5, 0, 0.3} {
		a, b := GeneralizedLagT(n, alpha, beta)
		scale := math.Pow(beta, (1-alpha)/2) / math.Sqrt(math.Gamma(1-alpha))
		for s := 0.0; s < 4; s += 0.37 {
			want := make([]float64, n)
			before, now := 0.0, math.Exp(-(1+beta)*s/2)
			for i := range want {
				k := float64(i)
				want[i] = scale * now / math.Sqrt(math.Gamma(k+alpha+1)/math.Gamma(k+1))
				before, now = now, ((2*k+1+alpha-s)*now-(k+alpha)*before)/(k+1)
			}
			near(t, "kernel", kernelAt(a, b, s), want, 1e-12)
		}
	}
}

// TestReconstructionImproves checks that the state of HiPPO is the projection of the past, and that the past can be
// reconstructed from it, better with more coefficients. For a window of 1 the signal has length 3, so that its
// beginning has to be forgotten.
func TestReconstructionImproves(t *testing.T) {
	const l, dt = 3000, 1e-3
	f := make([]float64, l)
	for k := range f {
		f[k] = wave((float64(k) + 0.5) * dt) // the value held over the step: that at its middle
	}
	window := make([]float64, 0, 100)
	for v := 0.05; v < 0.96; v += 0.01 { // a little off the ends, where a Fourier series jumps
		window = append(window, v)
	}
	last := func(build func(int) (*mat.Dense, []float64), n int) []float64 {
		a, b := build(n)
		c, err := Memorize(a, b, f, dt, ZOH)
		check(t, err)
		return c[l-1]
	}
	rms := func(got []float64, want func(v float64) float64) (sum float64) {
		for k, v := range window {
			sum += math.Pow(got[k]-want(v), 2) / float64(len(window))
		}
		return math.Sqrt(sum)
	}
	for name, c := range map[string]struct {
		recall func(n int) []float64 // the values at window
		truth  func(v float64) float64
		most   float64 // largest error with 32 coefficients
	}{
		"LegT": {
			func(n int) []float64 { return Reconstruct(Legendre, last(LegT, n), window) },
			func(v float64) float64 { return wave(l*dt - 1 + v) }, 1e-4,
		},
		"FouT": {
			func(n int) []float64 { return Reconstruct(FourierHiPPO, last(FouT, n), window) },
			func(v float64) float64 { return wave(l*dt - v) }, 0.03,
		},
		"LagT": { // weighs the whole past, with a weight that decays slowly
			func(n int) []float64 {
				return Reconstruct(Laguerre, last(func(n int) (*mat.Dense, []float64) { return LagT(n, 1) }, n), window)
			},
			func(v float64) float64 { return wave(l*dt - v) }, 0.3,
		},
		"LegS": {
			func(n int) []float64 {
				c, err := MemorizeLegS(n, f, Bilinear)
				check(t, err)
				return Reconstruct(Legendre, c[l-1], window)
			},
			func(v float64) float64 { return wave(l * dt * v) }, 0.005,
		},
	} {
		few, some, many := rms(c.recall(4), c.truth), rms(c.recall(12), c.truth), rms(c.recall(32), c.truth)
		if !(many < some && some < few && many < c.most) {
			t.Errorf("%s: error %.3g with 4 coefficients, %.3g with 12, %.3g with 32; want falling below %v",
				name, few, some, many, c.most)
		}
	}
}

// TestLegSIsProjection checks that LegS is exact with zero-order hold: its coefficients are the projection of the
// signal so far, held over each step and with a first step of 0, stretched to [0, 1].
func TestLegSIsProjection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		n, l := rapid.IntRange(1, 10).Draw(t, "n"), rapid.IntRange(1, 30).Draw(t, "l")
		f := normals(rng, l)
		c, err := MemorizeLegS(n, f, ZOH)
		check(t, err)
		want := make([]float64, n)
		for k, v := range f {
			eachGaussPoint(float64(k+1)/float64(l+1), float64(k+2)/float64(l+1), 1, func(x, weight float64) {
				floats.AddScaled(want, weight*v, Legendre(n, x))
			})
		}
		near(t, "coefficients", c[l-1], want, 1e-10)
	})
}

// TestLegSIsEquivariant checks that stretching time, including the first step of 0, does not change LegS's
// coefficients: there is no step size to choose.
func TestLegSIsEquivariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		n, r := rapid.IntRange(1, 10).Draw(t, "n"), rapid.IntRange(2, 6).Draw(t, "r")
		f := normals(rng, rapid.IntRange(1, 15).Draw(t, "l"))
		slow := make([]float64, r-1)
		for _, v := range f {
			for range r {
				slow = append(slow, v)
			}
		}
		short, err := MemorizeLegS(n, f, ZOH)
		check(t, err)
		long, err := MemorizeLegS(n, slow, ZOH)
		check(t, err)
		for k, c := range short {
			near(t, "coefficients", long[r-1+(k+1)*r-1], c, 1e-10)
		}
	})
}

// TestLMUIsLegT checks that the Legendre Memory Unit is LegT in another basis: T A T⁻¹ with T_ii = (-1)^i √(2i+1), for
// matrices and memories.
func TestLMUIsLegT(t *testing.T) {
	for _, n := range []int{1, 2, 5, 16} {
		a, b := LegT(n)
		lmuA, lmuB := LMU(n)
		for i := range n {
			ti := alternate(i) * math.Sqrt(float64(2*i+1))
			b[i] *= ti
			for j := range n {
				a.Set(i, j, ti*a.At(i, j)/(alternate(j)*math.Sqrt(float64(2*j+1))))
			}
		}
		near(t, "A", a.RawMatrix().Data, lmuA.RawMatrix().Data, 1e-14)
		near(t, "B", b, lmuB, 1e-14)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		f := normals(drawRNG(t), 20)
		m := drawMethod(t)
		a, b := LegT(n)
		want, err := Memorize(a, b, f, 1e-2, m)
		check(t, err)
		a, b = LMU(n)
		got, err := Memorize(a, b, f, 1e-2, m)
		check(t, err)
		for k := range f {
			near(t, "state", FromLMU(got[k]), want[k], 1e-11)
		}
	})
}

// TestDiagonalTendsToHiPPO checks that the diagonal model LegSD tends to LegS as n grows. It compares the step
// responses after a time t, the integrals of the kernels up to t, in the first rows of the state. (The kernel itself
// keeps oscillating around its limit, ever faster.) S4D, arXiv:2206.11893, theorem 3.
func TestDiagonalTendsToHiPPO(t *testing.T) {
	const rows = 4
	var held [][]float64 // ∫ from exp(-t) to 1 of the Legendre polynomials
	times := []float64{0.1, 0.3, 0.7, 1, 1.5, 2, 3}
	for _, at := range times {
		x := make([]float64, rows)
		eachGaussPoint(math.Exp(-at), 1, 1, func(v, weight float64) { floats.AddScaled(x, weight, Legendre(rows, v)) })
		held = append(held, x)
	}
	worst := func(n int) (worst float64) {
		s, v, err := NPLR("legsd", n)
		check(t, err)
		for j, at := range times {
			for i := range rows {
				d := &Diagonal{A: s.Lambda, B: s.B, C: make([]complex128, n/2), Dt: at, Pairs: true}
				for k := range d.C {
					d.C[k] = v[k][i]
				}
				worst = max(worst, math.Abs(d.Kernel(ZOH, 1)[0]-held[j][i]))
			}
		}
		return worst
	}
	before := worst(8)
	for n := 16; n <= 256; n *= 2 {
		now := worst(n)
		if now > 0.75*before {
			t.Errorf("n = %d: off by %.3g, %.3g with half of it; want falling", n, now, before)
		}
		before = now
	}
}

func TestHiPPOErrors(t *testing.T) {
	for _, c := range []struct {
		measure string
		n       int
		want    string
	}{
		{"legs", 0, "legs: d_state is 0, want a positive number"},
		{"legt", -3, "legt: d_state is -3"},
		{"fourier2", 7, "fourier2: d_state is 7, want an even number"},
		{"LegS", 8, `"LegS": want one of foud, `},
	} {
		if _, _, err := HiPPO(c.measure, c.n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("HiPPO(%q, %d): %v, want an error with %q", c.measure, c.n, err, c.want)
		}
	}
	if _, err := MemorizeLegS(0, []float64{1}, ZOH); err == nil || !strings.Contains(err.Error(), "d_state is 0") {
		t.Errorf("LegS of size 0: %v", err)
	}
	if _, err := MemorizeLegS(2, []float64{1}, Method(9)); err == nil ||
		!strings.Contains(err.Error(), "unknown method") {
		t.Errorf("LegS by an unknown method: %v", err)
	}
	a, b := LegT(2)
	if _, err := Memorize(a, b, nil, 0, ZOH); err == nil || !strings.Contains(err.Error(), "dt is 0") {
		t.Errorf("a step of 0: %v", err)
	}
}
