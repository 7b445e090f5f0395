package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/internal/counter"
)

// everyFloat calls f with numbers of every sign, exponent and size, including denormals: about half a million of the
// finite float32 with |x| ≤ limit, or about forty thousand with -short, evenly spread over their bit patterns.
func everyFloat(limit float32, f func(x float32)) {
	step := uint32(4001)
	if testing.Short() {
		step = 50021
	}
	for bits := uint32(0); bits <= math.Float32bits(limit); bits += step {
		f(math.Float32frombits(bits))
		f(-math.Float32frombits(bits))
	}
}

var (
	inf      = float32(math.Inf(1))
	nan      = float32(math.NaN())
	isNaN    = func(x float32) bool { return x != x }
	denormal = math.Float32frombits(1)
)

// worstError is the largest error of a function seen so far.
type worstError struct {
	x    float32
	size float64
}

func (w *worstError) see(x float32, err float64) {
	if err > w.size || math.IsNaN(err) {
		w.x, w.size = x, err
	}
}

func (w *worstError) check(t *testing.T, what string, limit float64) {
	t.Helper()
	if !(w.size <= limit) {
		t.Errorf("%s: error %.3g at %v, want at most %.3g", what, w.size, w.x, limit)
	}
}

func TestExp(t *testing.T) {
	const smallestNormal = 0x1p-126
	var relative, absolute worstError
	everyFloat(math.MaxFloat32, func(x float32) {
		got, want := float64(Exp(x)), math.Exp(float64(x))
		switch {
		case want > math.MaxFloat32:
			if !math.IsInf(got, 1) {
				t.Fatalf("Exp(%v) = %v, want +Inf", x, got)
			}
		case want >= smallestNormal:
			relative.see(x, math.Abs(got-want)/want)
		default:
			absolute.see(x, math.Abs(got-want))
		}
	})
	relative.check(t, "Exp, relative", 2e-7)
	absolute.check(t, "Exp, where the result is denormal", 2*float64(denormal))
	for x, want := range map[float32]float32{0: 1, -inf: 0, inf: inf, denormal: 1, 88.73: inf, -104: 0} {
		if got := Exp(x); got != want {
			t.Errorf("Exp(%v) = %v, want %v", x, got, want)
		}
	}
	if got := Exp(nan); !isNaN(got) {
		t.Errorf("Exp(NaN) = %v", got)
	}
}

func TestSigmoid(t *testing.T) {
	var sigmoid, tail worstError
	everyFloat(math.MaxFloat32, func(x float32) {
		v := float64(x)
		want := 1 / (1 + math.Exp(-v))
		sigmoid.see(x, math.Abs(float64(Sigmoid(x))-want))
		if v > -87 {
			tail.see(x, math.Abs(float64(Sigmoid(x))-want)/want)
		}
	})
	sigmoid.check(t, "Sigmoid", 2e-7)
	tail.check(t, "Sigmoid, relative", 5e-7)
	for x, want := range map[float32]float32{inf: 1, -inf: 0, 0: 0.5} {
		if got := Sigmoid(x); got != want {
			t.Errorf("Sigmoid(%v) = %v, want %v", x, got, want)
		}
	}
	if !isNaN(Sigmoid(nan)) {
		t.Error("a NaN is lost")
	}
}

// TestGelu checks both GELUs and their derivatives against float64. Errors are relative to max(1, |x|), since the value
// is about x on one side and x times something tiny on the other.
func TestGelu(t *testing.T) {
	tanhArg := func(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }
	for _, c := range []struct {
		name string
		f    func(float32) float32
		want func(x float64) float64
	}{
		{"Gelu", Gelu, func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(tanhArg(x))) }},
		{"GeluGrad", GeluGrad, func(x float64) float64 {
			th := math.Tanh(tanhArg(x))
			return 0.5*(1+th) + 0.5*x*(1-th*th)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		}},
		{"GeluErf", GeluErf, func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }},
		{"GeluErfGrad", GeluErfGrad, func(x float64) float64 {
			return 0.5*(1+math.Erf(x/math.Sqrt2)) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		}},
	} {
		var w worstError
		// beyond the square root of the largest float32, x² of the derivative overflows
		everyFloat(1e18, func(x float32) {
			w.see(x, math.Abs(float64(c.f(x))-c.want(float64(x)))/max(1, math.Abs(float64(x))))
		})
		w.check(t, c.name, 5e-7)
		if got := c.f(nan); !isNaN(got) {
			t.Errorf("%s(NaN) = %v", c.name, got)
		}
	}
	if Gelu(inf) != inf || GeluErf(inf) != inf {
		t.Error("the GELU of +Inf is not +Inf")
	}
}

func TestAllFinite(t *testing.T) {
	x := []float32{0, math.MaxFloat32, -math.MaxFloat32, denormal, 1}
	if !AllFinite(x) || !AllFinite(nil) {
		t.Error("finite numbers are taken for others")
	}
	for i := range x {
		for _, bad := range []float32{inf, -inf, nan} {
			old := x[i]
			x[i] = bad
			if AllFinite(x) {
				t.Errorf("%v at %d is overlooked", bad, i)
			}
			x[i] = old
		}
	}
}

// TestKeep checks that dropout has the requested rate, and that neither neighbors nor consecutive seeds are correlated.
func TestKeep(t *testing.T) {
	const n = 200_000
	for _, p := range []float64{0, 0.1, 0.5, 0.9} {
		threshold := counter.KeepThreshold(p)
		var kept, next, seed int
		for i := range n {
			k := counter.Keep(42, i, threshold)
			if !k {
				continue
			}
			kept++
			if counter.Keep(42, i+1, threshold) {
				next++
			}
			if counter.Keep(43, i, threshold) {
				seed++
			}
		}
		keep := 1 - p
		near := func(what string, got int, want float64) {
			if dev := math.Sqrt(n * want * (1 - want)); math.Abs(float64(got)-n*want) > 4*dev {
				t.Errorf("p = %g, %s: %d of %d, want %.0f ± %.0f", p, what, got, n, n*want, 4*dev)
			}
		}
		near("kept", kept, keep)
		near("kept with its neighbor", next, keep*keep)
		near("kept by two seeds", seed, keep*keep)
	}
}

func TestAddScaleMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 3, 17} {
		x, y := normals(rng, n+1), normals(rng, n)
		sum, product, scaled := append([]float32(nil), y...), append([]float32(nil), y...), append([]float32(nil), y...)
		Add(sum, x) // x may be longer
		Mul(product, x)
		Scale(scaled, -3)
		for i := range y {
			if sum[i] != y[i]+x[i] || product[i] != y[i]*x[i] || scaled[i] != y[i]*-3 {
				t.Errorf("n = %d, element %d: %v, %v, %v", n, i, sum[i], product[i], scaled[i])
			}
		}
	}
}
