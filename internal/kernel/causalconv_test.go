package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCausalConv checks the filter, its transpose and the gradient of its taps against float64, and that the bits do
// not depend on how the rows are split.
func TestCausalConv(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(51, 51))
		for _, k := range []struct{ d, m, l int }{{1, 1, 1}, {5, 4, 3}, {33, 4, 140}, {16, 10, 50}} {
			x, taps, bias, dy := normals(rng, k.l*k.d), normals(rng, k.m*k.d), normals(rng, k.d), normals(rng, k.l*k.d)
			y, parts, dx := make([]float32, k.l*k.d), make([]float32, k.l*k.d), normals(rng, k.l*k.d)
			dtaps := normals(rng, k.m*k.d)
			wantTaps := wide(dtaps)
			wantY, wantX := make([]float64, k.l*k.d), wide(dx)
			for p := range k.l {
				for c := range k.d {
					at := p*k.d + c
					wantY[at] = float64(bias[c])
					for i := range min(k.m, p+1) {
						wantY[at] += float64(taps[i*k.d+c]) * float64(x[at-i*k.d])
						wantTaps[i*k.d+c] += float64(dy[at]) * float64(x[at-i*k.d])
						wantX[at-i*k.d] += float64(taps[i*k.d+c]) * float64(dy[at])
					}
				}
			}
			CausalConv(y, Rows{x, k.d}, taps, bias, k.d, k.m, 0, k.l)
			CausalConvGrad(Rows{dx, k.d}, dy, taps, k.d, k.m, k.l, 0, k.l)
			within(t, "y", y, wantY, 2e-6)
			CausalConvTapsGrad(dtaps, dy, Rows{x, k.d}, k.d, k.m, 0, k.l/2)
			CausalConvTapsGrad(dtaps, dy, Rows{x, k.d}, k.d, k.m, k.l/2, k.l)
			within(t, "dx", dx, wantX, 2e-6)
			within(t, "dtaps", dtaps, wantTaps, 1e-5)
			CausalConv(parts, Rows{x, k.d}, taps, bias, k.d, k.m, 0, k.l/3)
			CausalConv(parts, Rows{x, k.d}, taps, bias, k.d, k.m, k.l/3, k.l)
			if !slices.Equal(parts, y) {
				t.Errorf("%v: parts differ from the whole", k)
			}
		}
	})
}
