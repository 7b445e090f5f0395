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

// TestUpdates checks that AdamW and the norm of gradients are those of the processor, at sizes near the size of a
// piece.
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
