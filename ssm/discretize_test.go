package ssm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// spring returns a unit mass on a unit spring pushed by u. y is its position.
func spring() *Continuous {
	return &Continuous{A: mat.NewDense(2, 2, []float64{0, 1, -1, 0}), B: []float64{0, 1}, C: []float64{1, 0}}
}

// springAfter returns the solution of the spring for a constant push: it oscillates about position u.
func springAfter(x []float64, u, t float64) []float64 {
	sin, cos := math.Sincos(t)
	return []float64{u + (x[0]-u)*cos + x[1]*sin, -(x[0]-u)*sin + x[1]*cos}
}

// TestDiscretizationErrorOrders checks that the error at a fixed time falls as dtᵖ, where p is 1 for both Euler rules
// and 2 for the bilinear one.
func TestDiscretizationErrorOrders(t *testing.T) {
	want := map[Method]float64{Euler: 1, BackwardEuler: 1, Bilinear: 2}
	for method, order := range want {
		t.Run(method.String(), func(t *testing.T) {
			errorWith := func(steps int) float64 {
				s, err := spring().Discretize(2/float64(steps), method)
				check(t, err)
				x := []float64{0.3, -0.7}
				exact := springAfter(x, 0.5, 2)
				for range steps {
					s.Step(x, 0.5)
				}
				return math.Hypot(x[0]-exact[0], x[1]-exact[1])
			}
			got := math.Log2(errorWith(1000) / errorWith(2000))
			if math.Abs(got-order) > 0.02 { // the next term of the error is O(dt) of the first
				t.Errorf("halving dt divides the error by 2^%.3f, want 2^%v", got, order)
			}
		})
	}
}

// TestZOHIsExactForHeldInput checks that zero-order hold is exact, except for rounding errors, at any step for an input
// held over each step.
func TestZOHIsExactForHeldInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		dt := rapid.Float64Range(1e-3, 5).Draw(t, "dt")
		s, err := spring().Discretize(dt, ZOH)
		check(t, err)
		x := normals(rng, 2)
		exact := slices.Clone(x)
		for _, u := range normals(rng, 20) {
			s.Step(x, u)
			exact = springAfter(exact, u, dt)
		}
		near(t, "x", x, exact, 1e-12)
	})
}

// TestZOHComposes checks that two steps of zero-order hold with the same input equal one of twice the length, also if A
// has no inverse.
func TestZOHComposes(t *testing.T) {
	sys := &Continuous{A: mat.NewDense(2, 2, []float64{0, 1, 0, 0}), B: []float64{0, 1}, C: []float64{1, 0}}
	once, err := sys.Discretize(0.5, ZOH)
	check(t, err)
	near(t, "Abar", once.Abar.RawMatrix().Data, []float64{1, 0.5, 0, 1}, 1e-15)
	near(t, "Bbar", once.Bbar, []float64{0.125, 0.5}, 1e-15)
	twice, err := sys.Discretize(1, ZOH)
	check(t, err)
	x, z := []float64{3, -2}, []float64{3, -2}
	once.Step(x, 0.7)
	once.Step(x, 0.7)
	twice.Step(z, 0.7)
	near(t, "x", x, z, 1e-14)
}

// TestStability checks that the bilinear rule maps the left half plane into the unit disk for any step, and that
// forward Euler does not.
func TestStability(t *testing.T) {
	stiff := &Diagonal{A: []complex128{-50}, B: []complex128{1}, C: []complex128{1}, Dt: 1}
	for method, stable := range map[Method]bool{Bilinear: true, BackwardEuler: true, ZOH: true, Euler: false} {
		Abar, _ := stiff.Discretize(method)
		if got := math.Abs(real(Abar[0])) < 1; got != stable {
			t.Errorf("%v: |Abar| = %v, want stable = %v", method, Abar[0], stable)
		}
	}
}

func TestDiscretizeErrors(t *testing.T) {
	one := mat.NewDense(1, 1, []float64{1})
	cases := []struct {
		name   string
		a      *mat.Dense
		b      []float64
		dt     float64
		method Method
		want   string
	}{
		{"not square", mat.NewDense(1, 2, nil), []float64{1}, 1, Bilinear, "A is (1, 2)"},
		{"empty", &mat.Dense{}, nil, 1, Bilinear, "A is (0, 0)"},
		{"B", one, []float64{1, 2}, 1, ZOH, "B has 2 entries, want 1"},
		{"dt zero", one, []float64{1}, 0, Euler, "dt is 0"},
		{"dt negative", one, []float64{1}, -1, ZOH, "dt is -1"},
		{"dt NaN", one, []float64{1}, math.NaN(), ZOH, "dt is NaN"},
		{"dt infinite", one, []float64{1}, math.Inf(1), ZOH, "dt is +Inf"},
		{"A infinite", mat.NewDense(1, 1, []float64{math.Inf(1)}), []float64{1}, 1, ZOH, "dt A has norm +Inf"},
		{"A NaN", mat.NewDense(1, 1, []float64{math.NaN()}), []float64{1}, 1, Bilinear, "dt A has norm NaN"},
		{"B NaN", one, []float64{math.NaN()}, 1, ZOH, "dt B[0] is NaN"},
		{"pole", one, []float64{1}, 2, Bilinear, "cannot be inverted"},
		{"overflow", one, []float64{1}, 1e4, ZOH, "overflow at dt = 10000"},
		{"method", one, []float64{1}, 1, Method(9), "unknown method Method(9)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Discretize(c.a, c.b, c.dt, c.method)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, _, err := GeneralizedBilinear(one, []float64{1}, 0.1, 1.5); err == nil ||
		!strings.Contains(err.Error(), "alpha is 1.5") {
		t.Errorf("alpha 1.5: %v", err)
	}
	short := &Continuous{A: one, B: []float64{1}, C: nil}
	if _, err := short.Discretize(0.1, ZOH); err == nil || !strings.Contains(err.Error(), "C has 0 entries, want 1") {
		t.Errorf("short C: %v", err)
	}
}

func TestParseMethod(t *testing.T) {
	for m := range Method(len(methodNames)) {
		got, err := ParseMethod(m.String())
		if err != nil || got != m {
			t.Errorf("ParseMethod(%q) = %v, %v", m, got, err)
		}
	}
	if _, err := ParseMethod("tustin"); err == nil ||
		!strings.Contains(err.Error(), `"tustin": want one of bilinear, zoh`) {
		t.Errorf("unknown method: %v", err)
	}
}
