package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestVectorsStayInBounds checks that memory before and after a slice is not even read.
func TestVectorsStayInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(17, 17))
		// run calls f with arrays of n floats that end, or begin, next to inaccessible memory.
		run := func(f func(a [][]float32), atEnd bool, n ...int) {
			a, frees := make([][]float32, len(n)), make([]func(), len(n))
			for i := range a {
				a[i], frees[i] = guarded(t, normals(rng, n[i]), atEnd)
			}
			f(a)
			for _, free := range frees {
				free()
			}
		}
		for n := 1; n < 68; n++ {
			atEnd := n%4 > 0
			for _, k := range pointwise {
				sizes := make([]int, k.arrays)
				for i := range sizes {
					sizes[i] = n
				}
				run(k.run, atEnd, sizes...)
			}
			run(func(a [][]float32) {
				Dot(a[0], a[1])
				SumSquares(a[0])
				AllFinite(a[0])
				LogSumExp(a[0])
				Softmax(a[0], 1)
				DropAdd(a[0], a[1], 1, 2, 3, 4)
				Drop(a[0], 1, 2, 3, 4)
			}, atEnd, n, n)
			run(func(a [][]float32) {
				r := DiagRecurrence{Systems: 2, Per: 3, N: n, A: a[4], B: a[5], C: a[6], Skip: a[2]}
				r.Step(a[0], a[1], a[3])
			}, atEnd, 6, 6, 2, 12*n, 4*n, 4*n, 4*n)
			rows := 1 + rng.IntN(3)
			run(func(a [][]float32) {
				LayerNorm(a[0], a[1], a[2], a[3], a[4], a[5], n, normEps)
				LayerNormGrad(a[0], a[6], a[3], a[4], a[1], a[2], n)
				LayerNormParamGrad(a[4], a[5], a[6], a[3], a[1], a[2], n)
			}, atEnd, rows*n, rows, rows, rows*n, n, n, rows*n)
			l := 1 + rng.IntN(60)
			m := 1 + rng.IntN(l)
			run(func(a [][]float32) {
				FIR(a[0], a[1], a[2], a[3], n, m, 0, l)
				FIRGrad(a[0], a[1], a[2], a[3], n, m, l, 0, l)
				FIRTapsGrad(a[2], a[0], a[1], n, l, 0, m)
			}, atEnd, l*n, l*n, m*n, n)
		}
	})
}
