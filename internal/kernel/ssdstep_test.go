package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSSDStep checks a step against float64, for all tails, and that nothing around changes.
func TestSSDStep(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(61, 61))
		for n := 1; n < 40; n++ {
			const d, decay = 6, float32(0.75)
			h, y := frame(normals(rng, d*n), 1), frame(normals(rng, d), 3)
			x, b, c := normals(rng, d), normals(rng, n), normals(rng, n)
			wantH, wantY := wide(h.x()), make([]float64, d)
			for v := range d {
				for i := range n {
					s := &wantH[v*n+i]
					*s = float64(decay)**s + float64(x[v])*float64(b[i])
					wantY[v] += float64(c[i]) * *s
				}
			}
			SSDStep(y.x(), h.x(), x, b, c, decay)
			within(t, fmt.Sprintf("n %d: h", n), h.x(), wantH, 1e-6)
			within(t, fmt.Sprintf("n %d: y", n), y.x(), wantY, 1e-6)
			h.check(t, "h")
			y.check(t, "y")
		}
	})
}
