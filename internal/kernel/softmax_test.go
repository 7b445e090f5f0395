package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func logSumExp64(x []float32) float64 {
	hi, sum := float64(slices.Max(x)), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - hi)
	}
	return hi + math.Log(sum)
}

func TestLogSumExp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{1, 2, 7, 1000} {
		for _, c := range []struct{ spread, offset float32 }{{1, 0}, {30, 0}, {1, 1e4}, {1, -1e4}, {1e4, 0}} {
			x := normals(rng, n)
			for i := range x {
				x[i] = x[i]*c.spread + c.offset
			}
			got, want := float64(LogSumExp(x)), logSumExp64(x)
			if e := math.Abs(got - want); !(e <= 3e-7*max(1, math.Abs(want))) {
				t.Errorf("n = %d, spread %g, offset %g: got %v, want %v", n, c.spread, c.offset, got, want)
			}
		}
	}
	if got := LogSumExp([]float32{0, nan, 1}); !isNaN(got) {
		t.Errorf("of a NaN: %v", got)
	}
}

func TestCrossEntropyGrad(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const n, target, scale = 300, 17, 0.25
	x := normals(rng, n)
	lse, want := logSumExp64(x), make([]float64, n)
	for i, v := range x {
		want[i] = scale * math.Exp(float64(v)-lse)
	}
	want[target] -= scale
	CrossEntropyGrad(x, LogSumExp(x), target, scale)
	within(t, "gradient", x, want, 1e-6)
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	if math.Abs(sum) > 1e-6 {
		t.Errorf("it sums to %g, want 0", sum)
	}
}

// TestLargestIsTheLargest checks Largest for rows of any length, with infinities, and that it reports NaN.
func TestLargestIsTheLargest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	atLevels(t, func(t *testing.T) {
		for n := range 70 {
			x, want := make([]float32, n), -inf
			for i := range x {
				x[i] = float32(rng.NormFloat64())
				if rng.IntN(40) == 0 {
					x[i] = []float32{inf, -inf}[rng.IntN(2)]
				}
				want = max(want, x[i])
			}
			if got, bad := Largest(x); got != want || bad {
				t.Fatalf("%v: Largest(%v) = %v, %v, want %v", cpu, x, got, bad, want)
			}
			for i, v := range x {
				x[i] = nan
				if _, bad := Largest(x); !bad {
					t.Fatalf("%v: found no NaN at %d of %d", cpu, i, n)
				}
				x[i] = v
			}
		}
	})
}
