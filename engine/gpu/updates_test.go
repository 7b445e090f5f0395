//go:build gpu

package gpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestUpdates: AdamW and the norm of gradients are those of the processor, at sizes about those of pieces.
func TestUpdates(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	step := engine.AdamWStep{Factor: 0.5, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Correct1: 0.1, Correct2: 0.01,
		GradScale: 0.3}
	of := func(x [4][]float32, b engine.Backend) (norm float64, out [4][]float32) {
		var all [4]*tensor.Tensor
		for i, v := range x {
			all[i] = tensor.FromSlice(slices.Clone(v), len(v))
			b.Place(all[i])
		}
		norm = b.Norm([]*tensor.Tensor{all[3], all[0]})
		b.AdamW(all[:1], []engine.Moments{{M: all[1], V: all[2], LR: 0.01, Decay: 0.1}}, all[3:], step)
		for i, v := range all {
			out[i] = v.Floats()
		}
		return norm, out
	}
	for _, n := range []int{1, many - 1, many, 2*many + 7, 300 * many} {
		var x [4][]float32
		for i := range x {
			x[i] = make([]float32, n)
			for j := range x[i] {
				if x[i][j] = float32(rng.NormFloat64()); i == 2 {
					x[i][j] *= x[i][j]
				}
			}
		}
		norm, want := of(x, native.Backend)
		there, got := of(x, device)
		if math.Abs(norm-there) > 1e-6*norm {
			t.Errorf("%d numbers: the norm is %g, want %g", n, there, norm)
		}
		for i := range want {
			near(t, []string{"a parameter", "the first moment", "the second", "a gradient"}[i], got[i], want[i], 1e-6)
		}
	}
}

// TestProducts: matrix products of views with any strides have the bits of sums one by one, and add to what is there.
func TestProducts(t *testing.T) {
	const batches, rows, n, k = 3, 37, 50, 71
	rng := rand.New(rand.NewPCG(4, 5))
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	x, w, start := put(numbers(batches*rows*k)), put(numbers(batches*n*k)), numbers(batches*rows*n)
	for name, s := range map[string]struct{ x, w, y [4]int }{ // strides along batch, row, column, term
		"rows":    {[4]int{rows * k, k, 0, 1}, [4]int{n * k, 0, k, 1}, [4]int{rows * n, n, 1, 0}},
		"columns": {[4]int{rows * k, 1, 0, rows}, [4]int{n * k, 0, 1, n}, [4]int{rows * n, 1, rows, 0}},
		"interwoven": {[4]int{k, batches * k, 0, 1}, [4]int{1, 0, batches * k, batches},
			[4]int{1, batches * n, batches, 0}},
	} {
		of := func(batches, rows int, at func(s [4]int) int, to engine.Buffer) {
			view := func(b engine.Buffer, s [4]int) engine.View {
				return engine.View{Of: b, At: at(s), Shape: []int{batches, rows, n, k}, Stride: s[:]}
			}
			device.core.Dot(view(to, s.y), view(x, s.x), view(w, s.w))
		}
		together, alone := put(start), put(start)
		of(batches, rows, func([4]int) int { return 0 }, together)
		for i := range batches * rows { // a row alone is no matrix product
			of(1, 1, func(s [4]int) int { return i/rows*s[0] + i%rows*s[1] }, alone)
		}
		if got, want := get(together), get(alone); !slices.Equal(got, want) || slices.Equal(got, start) {
			t.Errorf("%s: products together have other bits than one by one", name)
		}
	}
}
