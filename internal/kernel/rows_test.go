package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRows checks the arithmetic on rows against its definition, at every level, with small integers, for which it is
// exact.
func TestRows(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(8, 1))
		for n := range 40 {
			if n == 39 {
				n = 1024 + 7 // more than one call
			}
			for _, width := range []int{1, 7, 15, Lanes} {
				var frames []framed
				rows := func(step int) Rows {
					x := make([]float32, max(0, n-1)*step+width)
					for i := range x {
						x[i] = float32(rng.IntN(17) - 8)
					}
					f := frame(x, rng.IntN(20))
					frames = append(frames, f)
					return Rows{f.x(), step}
				}
				steps := []int{0, Lanes, Lanes + rng.IntN(50)}
				z, x, y := rows(steps[1+rng.IntN(2)]), rows(steps[rng.IntN(3)]), rows(steps[rng.IntN(3)])
				before := slices.Clone(z.X)
				expect := func(what string, f func(old, x, y float32) float32) {
					t.Helper()
					for i, old := range before {
						if tt, v := i/z.Step, i%z.Step; v < width && tt < n {
							old = f(old, x.X[tt*x.Step+v], y.X[tt*y.Step+v])
						}
						if z.X[i] != old {
							t.Fatalf("%s, %d rows of %d: float %d is %v, want %v", what, n, width, i, z.X[i], old)
						}
					}
				}
				MulAddRows(z, z, x, y, n, width)
				expect("MulAddRows in place", func(old, x, y float32) float32 { return old + x*y })
				MulAddRows(z, x, x, y, n, width)
				expect("MulAddRows", func(_, x, y float32) float32 { return x + x*y })
				MulRows(z, x, y, n, width)
				expect("MulRows", func(_, x, y float32) float32 { return x * y })
				MulRows(z, x, Ones(), n, width)
				expect("a product with Ones", func(_, x, _ float32) float32 { return x })
				for _, f := range frames {
					f.check(t, "rows")
				}
			}
		}
	})
}

// TestGatherScatter checks, at every level, that Gather copies the channels and Scatter adds to each in turn.
func TestGatherScatter(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 1))
		for _, n := range []int{0, 1, 2, 3, 30, 1024 + 7} {
			for _, width := range []int{1, 5, 15, Lanes} {
				for _, step := range []int{1, 24} { // the rows of a matrix, and its columns
					cols := Columns{Step: step, At: make([]int, width)}
					for v := range cols.At {
						if cols.At[v] = rng.IntN(20); step == 1 {
							cols.At[v] *= n
						}
					}
					x := frame(normals(rng, 24*(n+1)), rng.IntN(20))
					tile := frame(normals(rng, n*Lanes), rng.IntN(20))
					cols.X = x.x()
					want := slices.Clone(tile.x())
					for i := range n {
						for v, at := range cols.At {
							want[i*Lanes+v] = cols.X[i*step+at]
						}
					}
					if Gather(Rows{tile.x(), Lanes}, cols, n); !slices.Equal(tile.x(), want) {
						t.Fatalf("Gather of %d rows of %d, step %d", n, width, step)
					}
					want = slices.Clone(cols.X)
					for i := range n {
						for v, at := range cols.At {
							want[i*step+at] += tile.x()[i*Lanes+v]
						}
					}
					if Scatter(cols, Rows{tile.x(), Lanes}, n); !slices.Equal(cols.X, want) {
						t.Fatalf("Scatter of %d rows of %d, step %d", n, width, step)
					}
					x.check(t, "Scatter")
					tile.check(t, "Gather")
				}
			}
		}
	})
}
