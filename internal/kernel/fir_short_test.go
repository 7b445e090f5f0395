package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestShortSequences checks that a short sequence, which is filtered in a copy with zeros around it, gives the same as
// its rows and taps one by one.
func TestShortSequences(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, s := range []struct{ d, l, m int }{{16, 2, 1}, {32, 31, 31}, {48, 96, 64}, {80, 33, 7},
			{64, 16, 16}, {144, 50, 50}} {
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				x, dy, taps, skip := normals(rng, s.l*s.d), normals(rng, s.l*s.d),
					normals(rng, s.m*s.d), normals(rng, s.d)
				check := func(what string, start []float32, whole, one func(out []float32)) {
					got, want := slices.Clone(start), slices.Clone(start)
					whole(got)
					one(want)
					if !slices.Equal(got, want) {
						t.Errorf("%s: %v, want %v", what, got, want)
					}
				}
				check("FIR", make([]float32, len(x)), func(out []float32) { FIR(out, x, taps, skip, s.d, s.m, 0, s.l) },
					func(out []float32) {
						for r := range s.l {
							FIR(out, x, taps, skip, s.d, s.m, r, r+1)
						}
					})
				check("FIRGrad", x, func(out []float32) { FIRGrad(out, dy, taps, skip, s.d, s.m, s.l, 0, s.l) },
					func(out []float32) {
						for r := range s.l {
							FIRGrad(out, dy, taps, skip, s.d, s.m, s.l, r, r+1)
						}
					})
				check("FIRTapsGrad", taps, func(out []float32) { FIRTapsGrad(out, dy, x, s.d, s.l, 0, s.m) },
					func(out []float32) {
						for i := range s.m {
							tapGrad(out, dy, Rows{x, s.d}, s.d, i, i, s.l)
						}
					})
			})
		}
	})
}

func TestSumRows(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, rows := range []int{0, 1, 512, 1300} {
			y, x := []float32{1, 2, 3}, make([]float32, 3*rows)
			for i := range x {
				x[i] = float32(i%3 + 1)
			}
			SumRows(y, x)
			for c, got := range y {
				if want := float32((c + 1) * (rows + 1)); got != want {
					t.Errorf("%d rows: column %d is %v, want %v", rows, c, got, want)
				}
			}
		}
	})
}
