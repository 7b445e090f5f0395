package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestLanes checks, at every level, that channels are unchanged after a round trip to lanes, whether past the caches or
// not. The lanes after the last channel must be zero, and nothing else may be written.
func TestLanes(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 7))
		for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 31, 32, 47, 100, 160, 9000} {
			for _, width := range []int{1, 5, 15, 16} {
				ld := n + rng.IntN(20)
				x := normals(rng, (width-1)*ld+n)
				for offset := range 2 {
					y := frame(make([]float32, n*Lanes), 16*offset)
					ToLanes(y.x(), x, ld, n, width, offset == 0)
					y.check(t, "ToLanes")
					for at, v := range y.x() {
						i, j, want := at%Lanes, at/Lanes, float32(0)
						if i < width {
							want = x[i*ld+j]
						}
						if v != want {
							t.Fatalf("%d of %d: y[%d] = %v, want %v", width, n, at, v, want)
						}
					}
					back := frame(make([]float32, len(x)), 3*offset)
					FromLanes(back.x(), y.x(), ld, n, width)
					back.check(t, "FromLanes")
					for at, v := range back.x() {
						want := x[at]
						if at%max(ld, 1) >= n {
							want = 0 // between rows
						}
						if v != want {
							t.Fatalf("%d of %d: back[%d] = %v, want %v", width, n, at, v, want)
						}
					}
				}
			}
		}
	})
}
