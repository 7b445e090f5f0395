package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// shiftSteps visits numbers of channels and lengths of states.
func shiftSteps(rng *rand.Rand, visit func(channels, n int, s, b, c, x, d []float32)) {
	for _, n := range []int{1, 2, 7, 8, 15, 16, 17, 32, 48, 64, 80} {
		for _, channels := range []int{1, 2, 3, 17} {
			random := func(n int) []float32 {
				v := make([]float32, n)
				for i := range v {
					v[i] = float32(rng.NormFloat64())
				}
				return v
			}
			visit(channels, n, random(channels*n), random(channels*n), random(channels*n),
				random(channels), random(channels))
		}
	}
	visit(5000, 64, make([]float32, 320000), make([]float32, 320000), make([]float32, 320000),
		make([]float32, 5000), make([]float32, 5000))
}

// TestShiftStep checks a step against the definition in float64. Each element of a state is rounded at most twice, and
// each output is a sum of n+1 terms.
func TestShiftStep(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		shiftSteps(rand.New(rand.NewPCG(1, 1)), func(channels, n int, s, b, c, x, d []float32) {
			got, y := slices.Clone(s), make([]float32, channels)
			ShiftStep(got, b, c, x, d, y, n)
			for i, u := range x {
				sum, size := float64(d[i])*float64(u), math.Abs(float64(d[i])*float64(u))
				for j := range n {
					want, at := float64(b[i*n+j])*float64(u), i*n+j
					if j > 0 {
						want += float64(s[at-1])
					}
					if math.Abs(float64(got[at])-want) > 0x1p-23*(math.Abs(want)+math.Abs(float64(b[at]*u))) {
						t.Fatalf("%d states of %d: state[%d,%d] = %v, want %v", channels, n, i, j, got[at], want)
					}
					sum += float64(c[at]) * float64(got[at])
					size += math.Abs(float64(c[at]) * float64(got[at]))
				}
				if math.Abs(float64(y[i])-sum) > size*float64(n+1)*0x1p-24 {
					t.Fatalf("%d states of %d: y[%d] = %v, want %v", channels, n, i, y[i], sum)
				}
			}
		})
	})
}

// TestShiftStepSpecials checks that a NaN or an infinity at the end of a state leaves it and does not enter the next
// one.
func TestShiftStepSpecials(t *testing.T) {
	const channels, n = 3, 32
	atLevels(t, func(t *testing.T) {
		for _, special := range []float32{nan, inf, -inf} {
			s, zero, y := make([]float32, channels*n), make([]float32, channels*n), make([]float32, channels)
			s[2*n-1] = special
			x := []float32{1, 1, 1}
			ShiftStep(s, zero, zero, x, x, y, n)
			if !slices.Equal(s, zero) || !slices.Equal(y, x) {
				t.Errorf("%v at the end of state 1: states %v, y %v", special, s, y)
			}
			s[n] = special
			ShiftStep(s, zero, zero, x, x, y, n)
			if y[0] != 1 || !isNaN(y[1]) || y[2] != 1 {
				t.Errorf("%v in state 1: y %v", special, y)
			}
		}
	})
}
