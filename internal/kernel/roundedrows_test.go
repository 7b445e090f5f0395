package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var roundedPrecisions = []Precision{BF16, Int8}

// roundedRows returns rows of k numbers in two pieces of memory, the second of which holds x.
func roundedRows(p Precision, n, k int, x []float32) *RoundedRows {
	r := &MakeRoundedRows(p, 2, n, k)[1]
	for i := range n {
		r.Set(i, x[i*k:])
	}
	return r
}

// TestRoundedRowsRound checks that numbers are rounded to the nearest of the precision, are recovered unchanged, and
// are rounded to themselves.
func TestRoundedRowsRound(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		attendSizes(rand.New(rand.NewPCG(1, 2)), func(n, k, _ int, w, _ []float32) {
			w = w[:n*k]
			for i := range w {
				w[i] *= float32(math.Exp2(float64(i/k%250) - 130)) // rows of all sizes
			}
			for _, p := range roundedPrecisions {
				r := roundedRows(p, n, k, w)
				got := make([]float32, n*k)
				r.Get(got, 0, n)
				for i, v := range w {
					bound := math.Abs(float64(v))/256 + 0x1p-133
					if p == Int8 {
						bound = float64(largest(w[i/k*k:][:k]))*(0.5/127)*(1+0x1p-15) + 0x1p-121
					}
					if math.Abs(float64(got[i]-v)) > bound {
						t.Fatalf("%v: element %d of %dx%d, %v, came back as %v, more than %v away",
							p, i, n, k, v, got[i], bound)
					}
				}
				again, part := make([]float32, n*k), make([]float32, n*k)
				roundedRows(p, n, k, got).Get(again, 0, n)
				copied := &MakeRoundedRows(p, 1, n+2, k)[0]
				copied.CopyFrom(2, r, 0, n)
				copied.CopyFrom(0, copied, 2, n)
				copied.Get(part[k*(n/2):], n/2, n-n/2)
				if !slices.Equal(again, got) || !slices.Equal(part[k*(n/2):], got[k*(n/2):]) {
					t.Fatalf("%v: %dx%d: rounded again, or copied, numbers are others", p, n, k)
				}
			}
		})
	})
}

// TestRoundedRowsAttend checks that dot products and sums of rows in bfloat16 have the bits of those of the same
// numbers in float32.
func TestRoundedRowsAttend(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		attendSizes(rng, func(n, k, _ int, w, x []float32) {
			r := roundedRows(BF16, n, k, w)
			numbers := make([]float32, n*k)
			r.Get(numbers, 0, n)
			first := rng.IntN(n)
			m := n - first
			want, got := make([]float32, n), make([]float32, m+1)
			RowDots(m, k, numbers[first*k:], k, x, want)
			got[m] = 77
			r.Dots(first, m, x, got)
			if !slices.Equal(got[:m], want[:m]) || got[m] != 77 {
				t.Fatalf("products of rows %d to %d of %d numbers: got %v, want %v", first, n, k, got, want[:m])
			}
			sums, wantSums := slices.Repeat([]float32{3}, k), slices.Repeat([]float32{3}, k)
			Gemm(Product{
				Op: NN, M: 1, N: k, K: m, A: x, LDA: m, B: numbers[first*k:], LDB: k, C: wantSums, LDC: k,
				Add: n%2 == 0,
			})
			r.Sums(first, m, x[:m], sums, n%2 == 0)
			if !slices.Equal(sums, wantSums) {
				t.Fatalf("sums of rows %d to %d of %d numbers: got %v, want %v", first, n, k, sums, wantSums)
			}
		})
	})
}

// TestRoundedRowsSpecials checks that zeros stay zero, and that a NaN or an infinity affects only its row.
func TestRoundedRowsSpecials(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, p := range roundedPrecisions {
			for _, special := range []float32{nan, inf, -inf} {
				const n, k = 6, 32
				x := make([]float32, n*k)
				x[3*k+5], x[4*k] = special, 1e-44
				got := make([]float32, n*k)
				roundedRows(p, n, k, x).Get(got, 0, n)
				for i, v := range got {
					if bad := isNaN(v) || math.IsInf(float64(v), 0); bad && i/k != 3 ||
						!bad && v != 0 || i == 3*k+5 && !bad {
						t.Fatalf("%v: %v: element %d is %v", p, special, i, v)
					}
				}
			}
		}
	})
}
