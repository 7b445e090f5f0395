package ssm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

// TestRecurrenceIsConvolution checks that y_i = C Aⁱ⁺¹ x0 + (k*u)_i + D u_i, for any initial state, any method and any
// way to divide the signal in two.
func TestRecurrenceIsConvolution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		sys := drawContinuous(t, rng)
		s, err := sys.Discretize(rapid.Float64Range(0.01, 0.5).Draw(t, "dt"), drawMethod(t))
		check(t, err)
		u := normals(rng, rapid.IntRange(0, 40).Draw(t, "l"))
		cut := rapid.IntRange(0, len(u)).Draw(t, "cut")
		x0 := normals(rng, len(sys.B))

		want := s.Convolve(x0, u)
		x := slices.Clone(x0)
		first := s.Scan(x, u[:cut])
		near(t, "y", append(first, s.Scan(x, u[cut:])...), want, 1e-11)
		near(t, "y from zero", s.Scan(nil, u), s.Convolve(nil, u), 1e-11)

		// The state after the first part must be the one that the rest of the signal needs.
		near(t, "echo", s.ZeroInput(x, 5), s.Convolve(x0, append(u, make([]float64, 5)...))[len(u):], 1e-11)
	})
}

// TestConvolutionIsCausal checks that changing the input at time k does not change a bit of the outputs before k.
func TestConvolutionIsCausal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		u := normals(rng, rapid.IntRange(1, 30).Draw(t, "l"))
		kernel := normals(rng, rapid.IntRange(0, 40).Draw(t, "kernel"))
		k := rapid.IntRange(0, len(u)-1).Draw(t, "k")
		before := Convolve(kernel, u)
		u[k]++
		after := Convolve(kernel, u)
		for i := range k {
			if before[i] != after[i] {
				t.Fatalf("y[%d] changed from %v to %v with u[%d]", i, before[i], after[i], k)
			}
		}
	})
}

// TestRescaledStepIsSameKernel checks that another dt samples the same continuous kernel at another rate. With
// zero-order hold a step of r·dt is r steps of dt with the input held, so its kernel is the kernel of dt summed in
// groups of r.
func TestRescaledStepIsSameKernel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sys := drawContinuous(t, drawRNG(t))
		dt := rapid.Float64Range(0.01, 0.3).Draw(t, "dt")
		r := rapid.IntRange(1, 8).Draw(t, "r")
		fine, err := sys.Discretize(dt, ZOH)
		check(t, err)
		coarse, err := sys.Discretize(float64(r)*dt, ZOH)
		check(t, err)
		const l = 12
		k := fine.Kernel(r * l)
		want := make([]float64, l)
		for i, v := range k {
			want[i/r] += v
		}
		near(t, "kernel", coarse.Kernel(l), want, 1e-11)
	})
}

// TestKernelTendsToImpulseResponse checks that every method's kernel, divided by dt, is the impulse response at the
// middle of the step up to O(dt²). The Euler rules have an error of O(dt).
func TestKernelTendsToImpulseResponse(t *testing.T) {
	a, b := LegS(4)
	sys := &Continuous{A: a, B: b, C: []float64{1, -1, 0.5, 2}}
	worst := func(dt float64, m Method) float64 {
		s, err := sys.Discretize(dt, m)
		check(t, err)
		var worst float64
		for j, v := range s.Kernel(int(math.Round(1 / dt))) {
			worst = max(worst, math.Abs(v/dt-sys.ImpulseResponse((float64(j)+0.5)*dt)))
		}
		return worst
	}
	for method, order := range map[Method]float64{Bilinear: 2, ZOH: 2, Euler: 1, BackwardEuler: 1} {
		coarse, fine := worst(1.0/256, method), worst(1.0/512, method)
		if got := math.Log2(coarse / fine); math.Abs(got-order) > 0.1 || fine > 0.2 {
			t.Errorf("%v: error %g at dt = 1/512, order %.2f, want order %v", method, fine, got, order)
		}
	}
}

// TestVariableSteps checks that steps of different lengths reach the same state as short equal steps if the input is
// held in the same way.
func TestVariableSteps(t *testing.T) {
	a, b := LegS(5)
	sys := &Continuous{A: a, B: b, C: b}
	const dt = 1.0 / 64
	fine, err := sys.Discretize(dt, ZOH)
	check(t, err)
	x, z := make([]float64, 5), make([]float64, 5)
	for k, ticks := range []int{1, 5, 2, 16, 3} {
		u := math.Cos(float64(k))
		long, err := sys.Discretize(float64(ticks)*dt, ZOH)
		check(t, err)
		long.Step(x, u)
		for range ticks {
			fine.Step(z, u)
		}
	}
	near(t, "x", x, z, 1e-13)
}

// TestStepsCostTheSame checks that a step costs the same time and memory after a million steps as after a thousand.
func TestStepsCostTheSame(t *testing.T) {
	s := &Diagonal{A: []complex128{-0.1 + 2i, -0.3 + 5i}, B: []complex128{1, 1},
		C: []complex128{1, 1i}, Dt: 0.01, Pairs: true}
	shift := &Shift{B: []float64{1, 0, 0, 0}, C: []float64{1, 2, 3, 4}}
	u := normals(rand.New(rand.NewPCG(1, 12)), 1000)
	x, z := make([]complex128, 2), make([]float64, 4)
	thousand := func() {
		s.Scan(ZOH, x, u)
		shift.Scan(z, u)
	}
	early := testing.AllocsPerRun(10, thousand)
	var first, last = time.Hour, time.Hour
	for range 20 {
		first = min(first, timeOf(thousand))
	}
	for range 950 {
		thousand()
	}
	for range 50 { // up to the millionth step; a busy machine can only make a time too long
		last = min(last, timeOf(thousand))
	}
	if late := testing.AllocsPerRun(10, thousand); late != early {
		t.Errorf("1000 steps allocate %v times at the start and %v times after a million", early, late)
	}
	if last > 3*first {
		t.Errorf("1000 steps take %v at the start and %v after a million", first, last)
	}
}
