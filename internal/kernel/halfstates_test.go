package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSSDStepHalves checks that the state is that of SSDStep, rounded to bfloat16, and that outputs use the state
// before rounding. Nothing around may change.
func TestSSDStepHalves(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(27, 1))
		for n := 1; n < 80; n++ {
			const d, decay = 6, float32(0.75)
			x, b, c := normals(rng, d), normals(rng, n), normals(rng, n)
			around := make([]uint16, d*n+2)
			Narrow(around, normals(rng, len(around)))
			before, h := slices.Clone(around), around[1:1+d*n]
			want := make([]float32, d*n)
			Widen(want, h)
			wantY := make([]float64, d)
			for v := range d {
				for i := range n {
					wantY[v] += float64(c[i]) * (float64(decay)*float64(want[v*n+i]) + float64(x[v])*float64(b[i]))
				}
			}
			SSDStep(make([]float32, d), want, x, b, c, decay)
			wantH := make([]uint16, d*n)
			Narrow(wantH, want)

			y, apartB, apartC := frame(make([]float32, d), 3), make([]float32, n), make([]float32, n)
			Apart(apartB, b)
			Apart(apartC, c)
			SSDStepHalves(y.x(), h, x, apartB, apartC, decay)
			if !slices.Equal(h, wantH) {
				t.Errorf("n %d: found other states than those of SSDStep, rounded", n)
			}
			within(t, fmt.Sprintf("n %d: y", n), y.x(), wantY, 1e-6)
			y.check(t, "y")
			if around[0] != before[0] || around[d*n+1] != before[d*n+1] {
				t.Errorf("n %d: wrote beside the state", n)
			}
		}
	})
}

// TestNarrow checks that rounding is that of RoundBF16 at any length, including ties, NaN and infinities, and that
// Widen inverts it.
func TestNarrow(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(27, 2))
		for n := range 70 {
			x := normals(rng, n)
			copy(x, []float32{1 + 1./256, 1 + 3./256, -1 - 1./256, 1e-40, 3e38})
			got, back, want := make([]uint16, n), make([]float32, n), make([]float32, n)
			Narrow(got, x)
			Widen(back, got)
			RoundBF16(want, x)
			if !slices.Equal(back, want) {
				t.Fatalf("%d numbers: found %v, want %v", n, back, want)
			}
		}
	})
}

func BenchmarkSSDStep(b *testing.B) {
	// The states of Mamba-2 with 130M parameters: 24 heads of 64 channels, for more sequences than fit in any cache.
	const heads, d, n, sequences = 24, 64, 128, 32 * 24
	rng := rand.New(rand.NewPCG(27, 3))
	x, bs, cs, y := normals(rng, d), normals(rng, n), normals(rng, n), make([]float32, d)
	b.Run("float32", func(b *testing.B) {
		h := make([]float32, sequences*heads*d*n)
		b.SetBytes(int64(4 * len(h)))
		for b.Loop() {
			for i := range sequences * heads {
				SSDStep(y, h[i*d*n:][:d*n], x, bs, cs, 0.9)
			}
		}
	})
	b.Run("bf16", func(b *testing.B) {
		h := make([]uint16, sequences*heads*d*n)
		b.SetBytes(int64(2 * len(h)))
		for b.Loop() {
			for i := range sequences * heads {
				SSDStepHalves(y, h[i*d*n:][:d*n], x, bs, cs, 0.9)
			}
		}
	})
}
