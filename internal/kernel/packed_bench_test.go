package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkPacked measures products of packed weights: one row of x with weights from memory, and several rows. It
// reports billions of weights, or of products and sums, per second, for the fastest repetition.
func BenchmarkPacked(b *testing.B) {
	const n, k = 3072, 768
	rng := rand.New(rand.NewPCG(1, 1))
	w := make([]float32, n*k)
	for i := range w {
		w[i] = float32(0.02 * rng.NormFloat64())
	}
	for _, p := range precisions {
		for _, m := range []int{1, 2, 4, 8, 16, 32, 512} {
			b.Run(fmt.Sprintf("%s/%d", p, m), func(b *testing.B) {
				ms := make([]Matrix, 1)
				if m <= 16 {
					ms = make([]Matrix, 20) // more than fits in the caches
				}
				for i := range ms {
					ms[i] = InMemory(w, n, k)
				}
				ws := Pack(p, ms...)
				x, y := make([]float32, m*k), make([]float32, m*n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				best := time.Duration(math.MaxInt64)
				b.ResetTimer()
				for i := range b.N {
					start := time.Now()
					ws[i%len(ws)].Mul(m, x, k, y, n, nil)
					best = min(best, time.Since(start))
				}
				b.ReportMetric(n*k/best.Seconds()/1e9, "Gweights/s")
				b.ReportMetric(2*float64(m)*n*k/best.Seconds()/1e9, "Gop/s")
			})
		}
	}
}
