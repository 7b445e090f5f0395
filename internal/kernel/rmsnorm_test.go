package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRMSNorm checks the norm and its gradients against float64, with one row of weights and with alternating rows.
func TestRMSNorm(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(41, 41))
		const rows, d = 4, 50
		for _, turns := range []int{1, 2} {
			x, w, dy := normals(rng, rows*d), normals(rng, turns*d), normals(rng, rows*d)
			y, rstd, work := make([]float32, rows*d), make([]float32, rows), make([]float32, d)
			RMSNorm(y, rstd, x, w, d, normEps)
			dx, dw := normals(rng, rows*d), normals(rng, turns*d)
			// the gradients are added to the previous values
			wantX, wantW, wantY := wide(dx), wide(dw), make([]float64, rows*d)
			RMSNormGrad(dx, dy, x, w, rstd, work, d)
			RMSNormParamGrad(dw, dy, x, rstd, work, d)
			for r := range rows {
				var sq, gx float64
				for i := range d {
					sq += float64(x[r*d+i]) * float64(x[r*d+i]) / d
				}
				s := 1 / math.Sqrt(sq+normEps)
				weight := func(i int) *float64 { return &wantW[r%turns*d+i] }
				for i := range d {
					hat, g := float64(x[r*d+i])*s, float64(dy[r*d+i])
					wantY[r*d+i] = hat * float64(w[r%turns*d+i])
					*weight(i) += g * hat
					gx += g * float64(w[r%turns*d+i]) * hat / d
				}
				for i := range d {
					wantX[r*d+i] += s * (float64(dy[r*d+i])*float64(w[r%turns*d+i]) - float64(x[r*d+i])*s*gx)
				}
			}
			within(t, "y", y, wantY, 1e-6)
			within(t, "dx", dx, wantX, 1e-6)
			within(t, "dw", dw, wantW, 1e-6)
		}
	})
}
