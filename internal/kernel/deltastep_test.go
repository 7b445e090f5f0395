package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestDeltaStep checks a step against float64, for all widths around those of panels and vectors, and that nothing
// around changes.
func TestDeltaStep(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(62, 62))
		for dv := 1; dv < 150; dv++ {
			for _, dk := range []int{1, 5} {
				k := newDeltaCase(rng, dk, dv)
				for _, twice := range []bool{false, true} {
					s, y := frame(k.s, 1), frame(k.y, 3)
					wantS, wantY := wide(k.s), make([]float64, dv)
					for i := range dk {
						for j := range dv {
							v := &wantS[i*dv+j]
							*v = float64(k.decay[i])**v + float64(k.a[i])*float64(k.x[j])
							if twice {
								*v += float64(k.k[i]) * float64(k.v[j])
							}
							wantY[j] += float64(k.q[i]) * *v
						}
					}
					if twice {
						DeltaStep(y.x(), s.x(), k.decay, k.q, k.a, k.x, k.k, k.v)
					} else {
						DeltaStep(y.x(), s.x(), k.decay, k.q, k.a, k.x, nil, nil)
					}
					name := fmt.Sprintf("%d by %d, twice %v: ", dk, dv, twice)
					within(t, name+"s", s.x(), wantS, 1e-6)
					within(t, name+"y", y.x(), wantY, 1e-6)
					s.check(t, "s")
					y.check(t, "y")
				}
			}
		}
	})
}

type deltaCase struct{ s, y, decay, q, a, x, k, v []float32 }

func newDeltaCase(rng *rand.Rand, dk, dv int) deltaCase {
	return deltaCase{s: normals(rng, dk*dv), y: normals(rng, dv), decay: normals(rng, dk), q: normals(rng, dk),
		a: normals(rng, dk), x: normals(rng, dv), k: normals(rng, dk), v: normals(rng, dv)}
}

// BenchmarkDeltaStep measures steps of states of 128 rows and columns, as many as fit into the second-level cache and
// many more.
func BenchmarkDeltaStep(b *testing.B) {
	const d = 128
	k := newDeltaCase(rand.New(rand.NewPCG(63, 63)), d, d)
	for i := range k.decay {
		k.decay[i], k.a[i] = 0.9, k.a[i]/d
	}
	for _, heads := range []int{1, 16, 1024} {
		states := make([]float32, heads*d*d)
		for _, twice := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/twice=%v", heads, twice), func(b *testing.B) {
				for b.Loop() {
					for h := range heads {
						s := states[h*d*d:][:d*d]
						RowSums(d, d, s, d, k.q, k.y, false)
						if twice {
							DeltaStep(k.y, s, k.decay, k.q, k.a, k.x, k.k, k.v)
						} else {
							DeltaStep(k.y, s, k.decay, k.q, k.a, k.x, nil, nil)
						}
					}
				}
				b.ReportMetric(float64(8*b.N*heads*d*d)/float64(b.Elapsed().Nanoseconds()), "GB/s")
			})
		}
	}
}
