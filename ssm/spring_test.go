package ssm

import (
	"math"
	"math/cmplx"
	"testing"

	"pgregory.net/rapid"
)

func drawSpring(t *rapid.T) Spring {
	return Spring{
		Mass: rapid.Float64Range(0.5, 2).Draw(t, "mass"), Friction: rapid.Float64Range(0, 5).Draw(t, "friction"),
		Stiffness: rapid.Float64Range(0.5, 4).Draw(t, "stiffness"),
	}
}

// TestSpringFreeMotion checks that without a push the spring follows the closed form, whether it oscillates or creeps:
// zero-order hold is exact.
func TestSpringFreeMotion(t *testing.T) {
	follows := func(t rapid.TB, s Spring, x0 []float64, dt float64) {
		d, err := s.System().Discretize(dt, ZOH)
		check(t, err)
		x := []float64{x0[0], x0[1]}
		for k := range 20 {
			d.Step(x, 0)
			near(t, "state", x, s.Free(x0, float64(k+1)*dt), 1e-11)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		follows(t, drawSpring(t), normals(drawRNG(t), 2), rapid.Float64Range(0.01, 0.5).Draw(t, "dt"))
	})
	follows(t, Spring{Mass: 1, Friction: 2, Stiffness: 1}, []float64{1, 0.5}, 0.1) // on the border, ω = 0
}

// TestSpringFriction checks that the energy is constant without friction and falls at every step with friction.
func TestSpringFriction(t *testing.T) {
	energy := func(s Spring, x []float64) float64 { return s.Stiffness*x[0]*x[0]/2 + s.Mass*x[1]*x[1]/2 }
	for _, friction := range []float64{0, 0.2, 2, 20} {
		s := Spring{Mass: 1.5, Friction: friction, Stiffness: 3}
		x0 := []float64{1, -0.5}
		before, start := energy(s, x0), energy(s, x0)
		for k := 1; k <= 100; k++ {
			now := energy(s, s.Free(x0, 0.1*float64(k)))
			if friction == 0 && math.Abs(now-start) > 1e-12 || friction > 0 && !(now < before) {
				t.Fatalf("friction %v: energy %v after step %d, %v before, %v at the start",
					friction, now, k, before, start)
			}
			before = now
		}
	}
}

// TestSpringImpulse checks that the impulse response is the free motion from an initial speed of 1/m, which an impulse
// of 1 causes, and that the discrete kernels are its samples.
func TestSpringImpulse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpring(t)
		at := rapid.Float64Range(0, 5).Draw(t, "t")
		near(t, "h", []float64{s.System().ImpulseResponse(at)}, s.Free([]float64{0, 1 / s.Mass}, at)[:1], 1e-11)
	})
	s := Spring{Mass: 1, Friction: 0.2, Stiffness: 40}
	const dt = 1e-3
	d, err := s.System().Discretize(dt, Bilinear)
	check(t, err)
	for k, v := range d.Kernel(500) {
		if want := s.System().ImpulseResponse((float64(k) + 0.5) * dt); math.Abs(v/dt-want) > 1e-5 {
			t.Fatalf("K[%d]/dt = %v, want %v", k, v/dt, want)
		}
	}
}

// TestSpringResonance checks that the spring has the largest amplitude if it is pushed at its own frequency, and that
// this amplitude equals its response.
func TestSpringResonance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpring(t)
		omega := rapid.Float64Range(0, 10).Draw(t, "ω")
		want := s.Response(omega)
		got := s.System().FrequencyResponse(omega)
		if cmplx.Abs(got-want) > 1e-12*cmplx.Abs(want)+1e-14 {
			t.Fatalf("C(iω-A)⁻¹B = %v, want %v", got, want)
		}
		if peak := cmplx.Abs(s.Response(s.Resonance())); cmplx.Abs(want) > peak*(1+1e-12) {
			t.Fatalf("|H(%v)| = %v, but %v at the resonance %v", omega, cmplx.Abs(want), peak, s.Resonance())
		}
	})
	s := Spring{Mass: 1, Friction: 0.2, Stiffness: 40}
	if got := settled(t, s, s.Resonance(), 0.01); math.Abs(got/cmplx.Abs(s.Response(s.Resonance()))-1) > 0.01 {
		t.Errorf("pushed at its resonance it swings by %v, want %v", got, cmplx.Abs(s.Response(s.Resonance())))
	}
	if creeping := (Spring{Mass: 1, Friction: 5, Stiffness: 1}); creeping.Resonance() != 0 {
		t.Errorf("resonance %v of a spring with much friction, want 0", creeping.Resonance())
	}
}

// settled returns the amplitude of s after the transient, pushed by a cos ωt that is sampled and held every dt.
func settled(t testing.TB, s Spring, omega, dt float64) float64 {
	t.Helper()
	d, err := s.System().Discretize(dt, ZOH)
	check(t, err)
	forget := int(20 * 2 * s.Mass / s.Friction / dt) // exp(-20) of the initial state is left
	u := make([]float64, forget+int(20*math.Pi/omega/dt)+20)
	for k := range u {
		u[k] = math.Cos(omega * float64(k) * dt)
	}
	var widest float64
	for _, y := range d.Scan(nil, u)[forget:] {
		widest = max(widest, math.Abs(y))
	}
	return widest
}

// TestSpringAliasing checks that a frequency above half the sampling rate looks like another one if it is sampled every
// dt. Between half the rate and the rate it is mirrored; above the rate it starts again from 0. Both excite the spring
// at its resonance, although a push that fast would hardly move it.
func TestSpringAliasing(t *testing.T) {
	s := Spring{Mass: 1, Friction: 0.2, Stiffness: 40}
	const dt = 0.05
	const rate = 1 / dt
	resonance := s.Resonance() / (2 * math.Pi)
	slow := settled(t, s, 2*math.Pi*resonance, dt)
	for name, c := range map[string]struct{ freq, alias float64 }{
		"below half the rate":             {resonance, resonance},
		"between half the rate and it":    {rate - resonance, -resonance},
		"above the rate":                  {rate + resonance, resonance},
		"far above":                       {3*rate - resonance, -resonance},
		"at the rate it looks like rest":  {rate, 0},
		"half the rate, the highest seen": {rate / 2 * 0.999, rate / 2 * 0.999},
	} {
		if got := Alias(c.freq, dt); math.Abs(got-c.alias) > 1e-12*rate {
			t.Errorf("%s: frequency %v looks like %v, want %v", name, c.freq, got, c.alias)
		}
		for k := range 100 {
			at := 2 * math.Pi * float64(k) * dt
			sin, cos := math.Sincos(at * c.freq)
			aliasSin, aliasCos := math.Sincos(at * c.alias)
			if math.Abs(sin-aliasSin) > 1e-10 || math.Abs(cos-aliasCos) > 1e-10 {
				t.Fatalf("%s: sample %d is %v, %v of the alias", name, k, sin, aliasSin)
			}
		}
		if math.Abs(math.Abs(c.alias)-resonance) < 1e-9 {
			fast := settled(t, s, 2*math.Pi*c.freq, dt)
			if math.Abs(fast/slow-1) > 0.03 { // the largest sample may be at another part of the same oscillation
				t.Errorf("%s: swings by %v, by %v at the resonance", name, fast, slow)
			}
			if c.freq > rate/2 && fast < 50*cmplx.Abs(s.Response(2*math.Pi*c.freq)) {
				t.Errorf("%s: a continuous push would have done as much", name)
			}
		}
	}
}

// TestFrequencyResponse checks that the response of the sampled system repeats with the sampling rate and tends to the
// continuous one below it.
func TestFrequencyResponse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sys := drawContinuous(t, drawRNG(t))
		theta := rapid.Float64Range(-3, 3).Draw(t, "θ")
		d, err := sys.Discretize(0.3, drawMethod(t))
		check(t, err)
		got, continuous := d.FrequencyResponse(theta), sys.FrequencyResponse(theta)
		sys.D, d.D = sys.D+1, d.D+1
		near(t, "skip", ReIm([]complex128{d.FrequencyResponse(theta)}), ReIm([]complex128{got + 1}), 1e-12)
		near(t, "continuous skip", ReIm([]complex128{sys.FrequencyResponse(theta)}),
			ReIm([]complex128{continuous + 1}), 1e-12)
		d.D--
		near(t, "θ + 2π", ReIm([]complex128{d.FrequencyResponse(theta + 2*math.Pi)}), ReIm([]complex128{got}), 1e-10)
	})
	s := Spring{Mass: 1, Friction: 2, Stiffness: 40}
	const dt = 1e-3
	for _, m := range []Method{Bilinear, ZOH, Euler, BackwardEuler} {
		d, err := s.System().Discretize(dt, m)
		check(t, err)
		var sum complex128 // by the definition, over a kernel that has decayed
		for l, v := range d.Kernel(20_000) {
			sum += complex(v, 0) * cmplx.Exp(complex(0, -float64(l)*0.005))
		}
		got := d.FrequencyResponse(0.005)
		if cmplx.Abs(got-sum) > 1e-7*cmplx.Abs(sum) {
			t.Errorf("%v: H = %v, by the kernel %v", m, got, sum)
		}
		if want := s.Response(5); cmplx.Abs(got-want) > 2e-2*cmplx.Abs(want) { // the Euler rules err by ω²dt/2|H|
			t.Errorf("%v: H = %v, continuous %v", m, got, want)
		}
	}
}
