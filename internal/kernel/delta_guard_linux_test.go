package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestDeltaStaysInBounds checks that memory before and after the operands of the delta rule's kernels is neither read
// nor written.
func TestDeltaStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(75, 75))
		for n := 1; n < 140; n += 1 + n/16 {
			for _, rows := range []int{1, 3, DeltaPart} {
				atEnd := rng.IntN(2) == 0
				var frees []func()
				of := func(size int) []float32 {
					x, free := guarded(t, normals(rng, size), atEnd)
					frees = append(frees, free)
					return x
				}
				matrix := func() []float32 { return of(rows * n) }
				scores := func() []float32 { return of(rows * rows) }
				DeltaStep(of(n), matrix(), of(rows), of(rows), of(rows), of(n), of(rows), of(n))
				DeltaStep(of(n), matrix(), of(rows), of(rows), of(rows), of(n), nil, nil)
				SolveLower(matrix(), n, scores(), rows, rows, n)
				SolveUpper(matrix(), n, scores(), rows, rows, n)
				AxpyDots(of(rows), matrix(), n, of(rows), matrix(), n, matrix(), n, rows, n)
				DecayPart(matrix(), matrix(), matrix(), of(n), matrix(), n, rows, n)
				MulMatrix(matrix(), n, matrix(), n, of(n), 0, rows, n)
				MulAddMatrix(matrix(), n, matrix(), n, of(n), 0, rows, n)
				last := (rows - 1) * n
				AddRunning(of(n), matrix(), 0, n, matrix(), 0, n, matrix(), 0, n, rows)
				AddRunning(of(n), matrix(), last, -n, matrix(), last, -n, matrix(), last, -n, rows)
				DecayedScores(scores(), scores(), rows, of(n*DeltaPart), matrix(), matrix(), matrix(), rows, n)
				DecayedScoresGrad(matrix(), matrix(), matrix(), matrix(), scores(), scores(), rows, matrix(), matrix(),
					matrix(), matrix(), of(DecayedWork), rows, n)
				for _, free := range frees {
					free()
				}
			}
		}
	})
}
