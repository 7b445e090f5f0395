package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestShiftStepStaysInBounds checks that memory before and after the operands is neither read nor written.
func TestShiftStepStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 2))
		shiftSteps(rng, func(channels, n int, s, b, c, x, d []float32) {
			atEnd := rng.IntN(2) == 0
			var frees []func()
			guard := func(v []float32) []float32 {
				w, free := guarded(t, v, atEnd)
				frees = append(frees, free)
				return w
			}
			ShiftStep(guard(s), guard(b), guard(c), guard(x), guard(d), guard(make([]float32, channels)), n)
			for _, free := range frees {
				free()
			}
		})
	})
}
