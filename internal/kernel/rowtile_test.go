package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// tileSizes visits numbers of rows around those of groups and steps, widths of heads, and numbers of vectors.
func tileSizes(rng *rand.Rand, visit func(n, k, m int, rows *RoundedRows, vectors, weights []float32)) {
	for _, k := range []int{1, 5, 16, 32, 40, 48, 64, 80, 96, 112, 128, 144, 576, 1100} {
		for _, n := range []int{1, 3, 4, 5, 15, 16, 17, 31, 48, 61, 63, 64} {
			m := 1 + rng.IntN(40)
			x, weights := normals(rng, (n+2)*k), make([]float32, m*n)
			for i := range weights {
				weights[i] = float32(math.Exp(4 * rng.NormFloat64()))
			}
			visit(n, k, m, roundedRows(Int8, n+2, k, x), normals(rng, m*k), weights)
		}
	}
}

// roundedVectors returns m vectors, rounded.
func roundedVectors(m, k int, x []float32) *RoundedVectors {
	var v RoundedVectors
	v.Reset(m, k)
	for i := range m {
		v.Set(i, x[i*k:][:k])
	}
	return &v
}

// TestRowTileIsExact checks, at every level, that products and sums have the bits of their definition, whichever
// vectors are computed together, and that nothing else is written.
func TestRowTileIsExact(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 1))
		var tile RowTile
		tileSizes(rng, func(n, k, m int, rows *RoundedRows, x, weights []float32) {
			name := fmt.Sprintf("%d rows of %d, %d vectors", n, k, m)
			q := roundedVectors(m, k, x)
			run := Run{rows, 1, n}
			tile.Keys(run, run, m)
			ld := n + rng.IntN(3)
			dots := frame(make([]float32, m*ld), 0)
			tile.Dots(q, 0, m, dots.x(), ld)
			dots.check(t, name)
			for i := range m {
				top := float64(largest(x[i*k:][:k]))
				for j := range n {
					sum, want := int32(0), 0.0
					for p := range k {
						key := rows.int8[(1+j)*k+p]
						sum += int32(key) * int32(q.q[i*roundUp(k, 16)+p])
						want += float64(x[i*k+p]) * float64(key)
					}
					got := dots.x()[i*ld+j]
					if got != float32(sum)*float32(q.factor[i]*rows.scale[1+j]) {
						t.Fatalf("%s: product %d, %d is %v, of integers it is %v", name, i, j, got, sum)
					}
					bound := top / 254 * 127 * float64(k) * float64(rows.scale[1+j]) * 1.0001
					if math.Abs(float64(got)-want*float64(rows.scale[1+j])) > bound {
						t.Fatalf("%s: product %d, %d is %v, want %v", name, i, j, got, want*float64(rows.scale[1+j]))
					}
				}
			}
			alone := make([]float32, n)
			for i := range m {
				tile.Dots(q, i, 1, alone, n)
				for j, v := range alone {
					if v != dots.x()[i*ld+j] {
						t.Fatalf("%s: product %d, %d is %v alone, %v beside others", name, i, j, v, dots.x()[i*ld+j])
					}
				}
			}
			tile.Values(run, run, m)
			ldy, add := k+rng.IntN(3), rng.IntN(2) == 1
			sums := frame(make([]float32, m*ldy), 0)
			for i := range sums.x() {
				sums.x()[i] = float32(i%7) - 3
			}
			if add { // to values in the order of Sums: reordering twice changes nothing
				tile.InOrder(m, sums.x(), ldy, slices.Repeat([]float32{1}, m))
			}
			tile.Sums(m, weights, n, sums.x(), ldy, add)
			tile.InOrder(m, sums.x(), ldy, slices.Repeat([]float32{1}, m))
			sums.check(t, name)
			for i := range m {
				w, top := make([]float32, n), float32(0)
				for r := range w {
					w[r] = weights[i*n+r] * rows.scale[1+r]
					top = max(top, w[r])
				}
				for j := range k {
					sum, want := int64(0), 0.0
					for r, v := range w {
						value := rows.int8[(1+r)*k+j]
						sum += int64(math.RoundToEven(float64(v*(topWeight/top)))) * int64(value)
						want += float64(v) * float64(value)
					}
					before := float32(0)
					if add {
						before = float32((i*ldy+j)%7) - 3
					}
					got := sums.x()[i*ldy+j]
					if got != float32(float32(sum)*(top/topWeight))+before {
						t.Fatalf("%s: sum %d, %d is %v, of integers it is %v", name, i, j, got, sum)
					}
					if math.Abs(float64(got-before)-want) > float64(top)*float64(n)*127/32766*1.01+1e-5 {
						t.Fatalf("%s: sum %d, %d is %v, want %v", name, i, j, got-before, want)
					}
				}
				for j := k; j < ldy; j++ {
					if at := i*ldy + j; sums.x()[at] != float32(at%7)-3 {
						t.Fatalf("%s: wrote after the columns of sum %d", name, i)
					}
				}
			}
		})
	})
}

// TestRowTileSpecials checks that zeros give zeros, and that a NaN or an infinity affects only the results it is a part
// of.
func TestRowTileSpecials(t *testing.T) {
	const n, k, m, row, vector = 20, 32, 3, 7, 1
	ones := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = 1
		}
		return x
	}
	atLevels(t, func(t *testing.T) {
		for _, special := range []float32{nan, inf, -inf, 0, 1e-44} {
			bad := special != 0 && special != 1e-44
			x, q, p := ones(n*k), ones(m*k), ones(m*n)
			clear(x[row*k:][:k])
			clear(q[vector*k:][:k])
			clear(p[vector*n:][:n])
			x[row*k+3], q[vector*k+5], p[vector*n+2] = special, special, max(special, -special)
			var tile RowTile
			run := Run{roundedRows(Int8, n, k, x), 0, n}
			tile.Keys(run, run, m)
			dots, sums := make([]float32, m*n), make([]float32, m*k)
			tile.Dots(roundedVectors(m, k, q), 0, m, dots, n)
			for i, v := range dots {
				in := i%n == row || i/n == vector
				if bad && in != isNaN(v) || !bad && (v == 0) != in {
					t.Errorf("%v: product %d is %v", special, i, v)
				}
			}
			x[row*k+3] = 0
			run.R = roundedRows(Int8, n, k, x)
			tile.Values(run, run, m)
			tile.Sums(m, p, n, sums, k, false)
			tile.InOrder(m, sums, k, slices.Repeat([]float32{1}, m))
			for i, v := range sums {
				if in := i/k == vector; bad && in != isNaN(v) || !bad && (v == 0) != in {
					t.Errorf("%v: sum %d is %v", special, i, v)
				}
			}
		}
	})
}
