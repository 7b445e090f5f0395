package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStepsOfChannels checks that each channel has the same bits alone and when several are computed together.
func TestStepsOfChannels(t *testing.T) {
	const d = 4*2 + 3
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(16, 16))
		for n := 1; n <= 2*Lanes+1; n++ {
			b, c := normals(rng, n), normals(rng, n)
			a, u, delta, skip := normals(rng, d*n), normals(rng, d), normals(rng, d), normals(rng, d)
			for i, x := range a {
				a[i] = -x * x
			}
			for i, x := range delta {
				delta[i] = x * x
			}
			for name, step := range map[string]func(y, h []float32, lo, hi int){
				"ScanStep": func(y, h []float32, lo, hi int) {
					ScanStep(y[lo:hi], h[lo*n:hi*n], a[lo*n:hi*n], u[lo:hi], delta[lo:hi], b, c, skip[lo:hi])
				},
				"SSDStep": func(y, h []float32, lo, hi int) { SSDStep(y[lo:hi], h[lo*n:hi*n], u[lo:hi], b, c, 0.9) },
				"SSDStepHalves": func(y, h []float32, lo, hi int) {
					half := make([]uint16, (hi-lo)*n)
					Narrow(half, h[lo*n:hi*n])
					SSDStepHalves(y[lo:hi], half, u[lo:hi], b, c, 0.9)
					Widen(h[lo*n:hi*n], half)
				},
			} {
				before := normals(rng, d*n)
				y, alone := make([]float32, d), make([]float32, d)
				h, hAlone := slices.Clone(before), slices.Clone(before)
				step(y, h, 0, d)
				for v := range d {
					step(alone, hAlone, v, v+1)
				}
				if !slices.Equal(y, alone) || !slices.Equal(h, hAlone) {
					t.Errorf("%s, %d states: channels have other bits than alone", name, n)
				}
			}
		}
	})
}
