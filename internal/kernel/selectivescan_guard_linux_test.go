package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestScanStaysInBounds checks that memory before and after the arrays of a scan is not even read.
func TestScanStaysInBounds(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(32, 32))
		for width := 1; width <= Lanes; width++ {
			for _, atEnd := range []bool{false, true} {
				var frees []func()
				k := newScanCase(rng, 2, width%5+1, width, width, width%5+1, func(x []float32) []float32 {
					y, free := guarded(t, x, atEnd)
					frees = append(frees, free)
					return y
				})
				k.run()
				ScanStep(k.u[:width], k.h, k.a, k.delta, k.dy, k.b[:k.n], k.c, k.d)
				SSDStep(k.u[:width], k.h, k.delta[:width], k.b[:k.n], k.c, 0.5)
				for _, free := range frees {
					free()
				}
			}
		}
	})
}
