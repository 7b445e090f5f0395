package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFIRAfter checks that rows that continue a sequence equal those of the whole sequence, to the last bit, and that
// nothing else is written.
func TestFIRAfter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	atLevels(t, func(t *testing.T) {
		for _, d := range []int{1, 7, 16, 37} {
			for _, m := range []int{1, 5, 40} {
				for _, past := range []int{0, 1, 9, 33} {
					for _, n := range []int{1, 8, 16, 35} {
						x, taps, skip := normals(rng, (past+n)*d), normals(rng, m*d), normals(rng, d)
						whole, y := make([]float32, len(x)), make([]float32, n*d+1)
						FIR(whole, x, taps, skip, d, m, past, past+n)
						y[n*d] = 7
						FIRAfter(y, x, taps, skip, d, m, past, n)
						if !slices.Equal(y[:n*d], whole[past*d:]) || y[n*d] != 7 {
							t.Fatalf("d %d, %d taps, %d rows after %d: other rows than those of the whole",
								d, m, n, past)
						}
					}
				}
			}
		}
	})
	if FIRRows() < 2 {
		t.Error("rows are taken one by one")
	}
}
