package checkpoint

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestReordered checks that reordered rows of every type have the elements of the plain rows in the new order: whole,
// in parts that begin and end anywhere, and as groups of integers.
func TestReordered(t *testing.T) {
	const n, k = 5, 1536
	rng := rand.New(rand.NewPCG(5, 6))
	values := make([]float32, n*k)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	for _, kind := range []DType{F32, F16, BF16, Q4_0, Q8_0, Q5_0, Q4_K, Q5_K, Q6_K} {
		x, err := ConvertTensor("x", kind, []int{n, k}, values)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		for _, pieces := range []int{1, 6, 12, 48, 96, 1536} {
			from := rng.Perm(pieces)
			y, err := x.Reordered(from)
			if err != nil {
				t.Fatal(err)
			}
			want, width := make([]float32, 0, n*k), k/pieces
			for row := range slices.Chunk(plain, k) {
				for _, at := range from {
					want = append(want, row[at*width:][:width]...)
				}
			}
			if got, err := y.Float32(); err != nil || !slices.Equal(got, want) || y.InOrder() {
				t.Fatalf("%s in %d pieces: other values, %v", kind, pieces, err)
			}
			for range 10 {
				at := rng.IntN(n * k)
				part := y.Part(at, 1+rng.IntN(n*k-at))
				m := part.Elements() / 2
				both := slices.Concat(must(t, part.Part(0, m)), must(t, part.Part(m, part.Elements()-m)))
				if !slices.Equal(both, want[at:][:part.Elements()]) {
					t.Fatalf("%s in %d pieces: a part from %d on has other values", kind, pieces, at)
				}
			}
			if len(y.GroupTypes()) == 0 {
				continue
			}
			if width%groupLen != 0 {
				t.Errorf("%s: groups of pieces of %d", kind, width)
			}
			row, same := newGroupRow(k), newGroupRow(k)
			for j := range n {
				if err := row.read(&y, j); err != nil {
					t.Fatal(err)
				}
				if err := same.read(&x, j); err != nil {
					t.Fatal(err)
				}
				for i := range k {
					if got, want := row.value(i), same.value(from[i/width]*width+i%width); got != want {
						t.Fatalf("%s in %d pieces: element %d of row %d is %g, want %g", kind, pieces, i, j, got, want)
					}
				}
			}
		}
	}
	x := NewTensor("x", []int{2, 6}, make([]float32, 12))
	if _, err := x.Reordered([]int{1, 0, 2, 3}); err == nil {
		t.Error("rows of 6 in 4 pieces: no error")
	}
	short := Tensor{Name: "x", DType: Q8_0, Shape: []int{4, 16}, Data: make([]byte, 2*34)}
	if _, err := short.Reordered([]int{1, 0}); err == nil {
		t.Error("rows that are half a block: no error")
	}
}

func must(t *testing.T, x Tensor) []float32 {
	t.Helper()
	values, err := x.Float32()
	if err != nil {
		t.Fatal(err)
	}
	return values
}
