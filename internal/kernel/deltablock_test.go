package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSolveLower checks the solution against float64, forward and back, for all widths around those of panels and
// vectors. Nothing around may change, and the elements on and above the diagonal must not be read.
func TestSolveLower(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(64, 64))
		for n := 1; n < 200; n += 1 + n/20 {
			for _, rows := range []int{1, 2, 7, 32} {
				xs, ms := n+rng.IntN(3), rows+rng.IntN(3)
				m := normals(rng, rows*ms)
				for i := range rows {
					for j := range rows {
						if m[i*ms+j] /= float32(rows); j >= i {
							m[i*ms+j] = nan
						}
					}
				}
				for _, back := range []bool{false, true} {
					x := frame(normals(rng, rows*xs), 1)
					want := wide(x.x())
					for i := 1; i < rows; i++ {
						for j := range i {
							to, from, f := i, j, m[i*ms+j]
							if back {
								to, from = rows-1-i, rows-1-j
								f = m[from*ms+to]
							}
							for c := range n {
								want[to*xs+c] += float64(f) * want[from*xs+c]
							}
						}
					}
					if back {
						SolveUpper(x.x(), xs, m, ms, rows, n)
					} else {
						SolveLower(x.x(), xs, m, ms, rows, n)
					}
					within(t, fmt.Sprintf("%d by %d, back %v", rows, n, back), x.x(), want, 1e-5)
					x.check(t, "x")
				}
			}
		}
	})
}

// TestAxpyDots checks rows and sums against float64, and that nothing around changes.
func TestAxpyDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(65, 65))
	atLevels(t, func(t *testing.T) {
		for n := 1; n < 70; n++ {
			rows := 1 + rng.IntN(9)
			xs, ws, ys := n+rng.IntN(5), n+rng.IntN(5), n+rng.IntN(5)
			x, w, f := normals(rng, rows*xs), normals(rng, rows*ws), normals(rng, rows)
			y, dots := frame(normals(rng, rows*ys), 1), frame(normals(rng, rows), 2)
			want, sums := wide(y.x()), make([]float64, rows)
			for r := range rows {
				for i := range n {
					want[r*ys+i] += float64(f[r]) * float64(x[r*xs+i])
					sums[r] += float64(x[r*xs+i]) * float64(w[r*ws+i])
				}
			}
			AxpyDots(dots.x(), y.x(), ys, f, x, xs, w, ws, rows, n)
			within(t, "y", y.x(), want, 1e-6)
			within(t, "dots", dots.x(), sums, 1e-6)
			y.check(t, "y")
			dots.check(t, "dots")
		}
	})
}

// BenchmarkSolveLower measures SolveLower for a block of 32 rows of 128.
func BenchmarkSolveLower(b *testing.B) {
	const rows, n = 32, 128
	rng := rand.New(rand.NewPCG(66, 66))
	x, m := normals(rng, rows*n), make([]float32, rows*rows)
	for b.Loop() {
		SolveLower(x, n, m, rows, rows, n)
	}
	b.ReportMetric(float64(b.N*rows*(rows-1)*n)/float64(b.Elapsed().Nanoseconds()), "GF/s")
}
