package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// attendSizes visits numbers of rows around groups and blocks, and widths of heads, with contiguous and separate rows.
func attendSizes(rng *rand.Rand, visit func(n, k, ldw int, w, x []float32)) {
	for _, k := range []int{1, 8, 15, 16, 17, 32, 48, 64, 80, 96, 112, 128, 144} {
		for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 383, 384, 385, 386, 800} {
			ldw := k + rng.IntN(3)
			w, x := make([]float32, (n-1)*ldw+k), make([]float32, max(n, k))
			for _, s := range [][]float32{w, x} {
				for i := range s {
					s[i] = float32(rng.NormFloat64())
				}
			}
			visit(n, k, ldw, w, x)
		}
	}
}

// TestRowDots checks dot products against the definition. The bound is that of a sum of k rounded terms.
func TestRowDots(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		attendSizes(rand.New(rand.NewPCG(1, 1)), func(n, k, ldw int, w, x []float32) {
			y := make([]float32, n+1)
			y[n] = 77
			RowDots(n, k, w, ldw, x, y)
			for i, got := range y[:n] {
				want, size := 0.0, 0.0
				for p, v := range w[i*ldw:][:k] {
					want += float64(v) * float64(x[p])
					size += math.Abs(float64(v) * float64(x[p]))
				}
				if math.Abs(float64(got)-want) > size*float64(k)*0x1p-24 {
					t.Fatalf("%d rows of %d, %d apart: y[%d] = %v, want %v", n, k, ldw, i, got, want)
				}
			}
			if y[n] != 77 {
				t.Fatalf("%d rows of %d: wrote after them", n, k)
			}
		})
	})
}

// TestRowDotsOfManyCalls checks that rows that take several assembly calls are all computed alike, whatever is left for
// the last call.
func TestRowDotsOfManyCalls(t *testing.T) {
	const k = 128
	rng := rand.New(rand.NewPCG(2, 2))
	x, row := make([]float32, k), make([]float32, 4*k)
	for i := range row {
		x[i%k], row[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
	}
	atLevels(t, func(t *testing.T) {
		for n := 2048 - 1; n < 2*2048+9; n += 1 + n/9 {
			w, y, want := make([]float32, n*k), make([]float32, n), make([]float32, 4)
			for i := range n {
				copy(w[i*k:], row[i%4*k:][:k])
			}
			RowDots(4, k, row, k, x, want)
			RowDots(n, k, w, k, x, y)
			for i, got := range y {
				if got != want[i%4] {
					t.Fatalf("%d rows: y[%d] = %v, want %v", n, i, got, want[i%4])
				}
			}
		}
	})
}

// TestRowSumsIsGemm checks that the weighted sum of rows has the bits of a matrix product.
func TestRowSumsIsGemm(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		attendSizes(rand.New(rand.NewPCG(3, 3)), func(n, k, ldw int, w, x []float32) {
			y, want := make([]float32, k+1), make([]float32, k+1)
			y[k], want[k] = 77, 77
			for _, add := range []bool{false, true} {
				RowSums(n, k, w, ldw, x, y, add)
				Gemm(Product{Op: NN, M: 1, N: k, K: n, A: x, LDA: n, B: w, LDB: ldw, C: want, LDC: k, Add: add})
				if !slices.Equal(y, want) {
					t.Fatalf("%d rows of %d, %d apart, added %v: got %v, want %v", n, k, ldw, add, y, want)
				}
			}
		})
	})
}

// TestAttendPassesOnSpecials checks that a NaN or an infinity in a key affects only its score, and in a value only its
// column.
func TestAttendPassesOnSpecials(t *testing.T) {
	const n, k, row, col = 9, 64, 6, 21
	x := make([]float32, k)
	for i := range x {
		x[i] = 1
	}
	atLevels(t, func(t *testing.T) {
		for _, special := range []float32{nan, inf, -inf} {
			w, dots, sums := make([]float32, n*k), make([]float32, n), make([]float32, k)
			w[row*k+col] = special
			RowDots(n, k, w, k, x, dots)
			RowSums(n, k, w, k, x, sums, false)
			for i, v := range dots {
				if want := i == row; want != (v != 0) {
					t.Errorf("%v: score %d is %v", special, i, v)
				}
			}
			for i, v := range sums {
				if want := i == col; want != (v != 0) {
					t.Errorf("%v: sum %d is %v", special, i, v)
				}
			}
		}
	})
}
