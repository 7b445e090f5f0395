package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// decays returns random numbers from 0 to 1.
func decays(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = rng.Float32()
	}
	return x
}

// TestDecayPart checks the decays against float64, for all widths around those of vectors. Logarithms that are 0, -∞
// and NaN must affect only their column.
func TestDecayPart(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(71, 71))
		inf := float32(math.Inf(-1))
		for n := 1; n < 70; n++ {
			for _, rows := range []int{1, 2, 5, DeltaPart} {
				gs := n + rng.IntN(3)
				g := make([]float32, rows*gs)
				for i := range g {
					g[i] = []float32{-rng.Float32(), -rng.Float32() / 1000, 0, -40 * rng.Float32()}[i%4]
				}
				if n > 1 {
					g[(rows-1)*gs+1] = inf
				}
				if n > 20 {
					g[20] = nan
				}
				out := [4]framed{}
				for i, size := range []int{rows * n, rows * n, rows * n, n} {
					out[i] = frame(make([]float32, size), 1+i)
				}
				DecayPart(out[0].x(), out[1].x(), out[2].x(), out[3].x(), g, gs, rows, n)
				var want [4][]float64
				for i := range want {
					want[i] = make([]float64, len(out[i].x()))
				}
				for i := range n {
					sum := 0.0
					for r := range rows {
						sum += float64(g[r*gs+i])
						want[0][r*n+i], want[1][r*n+i] = math.Exp(float64(g[r*gs+i])), math.Exp(sum)
					}
					want[3][i] = math.Exp(sum)
					sum = 0
					for r := rows - 1; r >= 0; r-- {
						want[2][r*n+i] = math.Exp(sum)
						sum += float64(g[r*gs+i])
					}
				}
				for i, name := range []string{"each", "since", "upTo", "total"} {
					for j, v := range want[i] {
						got := float64(out[i].x()[j])
						if v != v && got == got || v == v && !(math.Abs(got-v) <= 1e-5*v+1e-30) {
							t.Fatalf("%s of %d rows of %d: element %d is %v, want %v", name, rows, n, j, got, v)
						}
					}
					out[i].check(t, name)
				}
			}
		}
	})
}

// TestMatrixProducts checks that element-wise products equal those of single rows, and that nothing else is written.
func TestMatrixProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(72, 72))
	atLevels(t, func(t *testing.T) {
		for range 100 {
			rows, n := 1+rng.IntN(9), 1+rng.IntN(70)
			as, bs, ys := n+rng.IntN(5), (n+rng.IntN(5))*rng.IntN(2), n+rng.IntN(5)
			a, b, y := normals(rng, rows*as), normals(rng, n+(rows-1)*bs), normals(rng, rows*ys)
			want, wantSum := append([]float32(nil), y...), append([]float32(nil), y...)
			for r := range rows {
				MulInto(want[r*ys:][:n], a[r*as:][:n], b[r*bs:][:n])
				MulAdd(wantSum[r*ys:][:n], a[r*as:][:n], b[r*bs:][:n])
			}
			got, gotSum := append([]float32(nil), y...), append([]float32(nil), y...)
			MulMatrix(got, ys, a, as, b, bs, rows, n)
			MulAddMatrix(gotSum, ys, a, as, b, bs, rows, n)
			wantSame(t, "products", got, want)
			wantSame(t, "sums", gotSum, wantSum)
		}
	})
}

// TestAddRunning checks the sums against float64, in both directions.
func TestAddRunning(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 73))
	atLevels(t, func(t *testing.T) {
		for n := 1; n < 70; n++ {
			rows := 1 + rng.IntN(9)
			as, bs, ys := n+rng.IntN(5), n+rng.IntN(5), n+rng.IntN(5)
			a, b := normals(rng, rows*as), normals(rng, rows*bs)
			for _, up := range []bool{false, true} {
				y, acc := frame(normals(rng, rows*ys), 1), frame(normals(rng, n), 2)
				want, sums := wide(y.x()), wide(acc.x())
				for i := range rows {
					r := i
					if up {
						r = rows - 1 - i
					}
					for j := range n {
						sums[j] += float64(a[r*as+j]) * float64(b[r*bs+j])
						want[r*ys+j] += sums[j]
					}
				}
				if last := rows - 1; up {
					AddRunning(acc.x(), y.x(), last*ys, -ys, a, last*as, -as, b, last*bs, -bs, rows)
				} else {
					AddRunning(acc.x(), y.x(), 0, ys, a, 0, as, b, 0, bs, rows)
				}
				within(t, "sums", y.x(), want, 1e-6)
				within(t, "last", acc.x(), sums, 1e-6)
				y.check(t, "y")
				acc.check(t, "acc")
			}
		}
	})
}

// TestDecayedScores checks scores and their gradients against their formulas in float64, for all widths around those of
// vectors.
func TestDecayedScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(74, 74))
	atLevels(t, func(t *testing.T) {
		for n := 1; n < 70; n++ {
			for _, rows := range []int{1, 2, 7, DeltaPart} {
				name := fmt.Sprintf("%d rows of %d: ", rows, n)
				e, q, p, z := decays(rng, rows*n), normals(rng, rows*n), normals(rng, rows*n), normals(rng, rows*n)
				e[rng.IntN(len(e))] = 0
				ss := rows + rng.IntN(3)
				dsq, dsp := normals(rng, rows*ss), normals(rng, rows*ss)
				sq, sp := frame(normals(rng, rows*ss), 1), frame(normals(rng, rows*ss), 2)
				wantQ, wantP := wide(sq.x()), wide(sp.x())
				grads := [4]framed{}
				var want [4][]float64 // of q, p, z and e
				for i := range grads {
					grads[i] = frame(normals(rng, rows*n), i)
					want[i] = wide(grads[i].x())
				}
				for t := range rows {
					for s := range rows {
						wantQ[t*ss+s], wantP[t*ss+s] = 0, 0
					}
					for s := range t + 1 {
						dQ, dP := float64(dsq[t*ss+s]), float64(dsp[t*ss+s])
						for i := range n {
							decay := 1.0 // of the positions read before t decays
							for r := s + 1; r < t; r++ {
								decay *= float64(e[r*n+i])
							}
							Q, P, Z, all := float64(q[t*n+i]), float64(p[t*n+i]), float64(z[s*n+i]), decay
							if s < t {
								all *= float64(e[t*n+i])
								wantP[t*ss+s] += P * Z * decay
								want[1][t*n+i] += dP * Z * decay
								want[2][s*n+i] += dP * P * decay
							}
							wantQ[t*ss+s] += Q * Z * all
							want[0][t*n+i] += dQ * Z * all
							want[2][s*n+i] += dQ * Q * all
							for r := s + 1; r <= t; r++ {
								want[3][r*n+i] += dQ * Q * Z * all
								if r < t {
									want[3][r*n+i] += dP * P * Z * decay
								}
							}
						}
					}
				}
				w := make([]float32, n*DeltaPart)
				for s := range rows {
					for i := range n {
						w[i*DeltaPart+s] = z[s*n+i]
					}
				}
				DecayedScores(sq.x(), sp.x(), ss, w, e, q, p, rows, n)
				within(t, name+"q", sq.x(), wantQ, 1e-5)
				within(t, name+"p", sp.x(), wantP, 1e-5)
				sq.check(t, "q")
				sp.check(t, "p")
				work := make([]float32, DecayedWork)
				DecayedScoresGrad(grads[0].x(), grads[1].x(), grads[2].x(), grads[3].x(), dsq, dsp, ss, e, q, p, z,
					work, rows, n)
				for i, what := range []string{"q", "p", "z", "e"} {
					within(t, name+"gradient of "+what, grads[i].x(), want[i], 1e-5)
					grads[i].check(t, what)
				}
			}
		}
	})
}

// BenchmarkDecayedScores measures the scores of a part of 128 components, and their gradients.
func BenchmarkDecayedScores(b *testing.B) {
	const n = 128
	rng := rand.New(rand.NewPCG(76, 76))
	var x [6][]float32
	for i := range x {
		x[i] = normals(rng, DeltaPart*n)
	}
	e, z, w, work := decays(rng, DeltaPart*n), normals(rng, DeltaPart*n), make([]float32, DeltaPart*n),
		make([]float32, DecayedWork)
	sq, sp := normals(rng, DeltaPart*DeltaPart), normals(rng, DeltaPart*DeltaPart)
	perPair := func(b *testing.B) {
		pairs := DeltaPart * (DeltaPart + 1) / 2 * n
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pairs), "ns/pair")
	}
	b.Run("forward", func(b *testing.B) {
		for b.Loop() {
			copy(w, z)
			DecayedScores(sq, sp, DeltaPart, w, e, x[0], x[1], DeltaPart, n)
		}
		perPair(b)
	})
	b.Run("backward", func(b *testing.B) {
		for b.Loop() {
			DecayedScoresGrad(x[2], x[3], x[4], x[5], sq, sp, DeltaPart, e, x[0], x[1], z, work, DeltaPart, n)
		}
		perPair(b)
	})
}
