package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestPrecisionOfAttention checks that attention at BF16, gradients included, differs from attention at float32, but
// only by the rounding of its operands, 2^-9 each.
func TestPrecisionOfAttention(t *testing.T) {
	run := func(p engine.Precision) [2][]float32 {
		rng := rand.New(rand.NewPCG(3, 4))
		normal := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		}
		var ops []engine.Op
		eng := New(&engine.Step{Recording: true, Precision: p, Push: func(op engine.Op) { ops = append(ops, op) }})
		x := tensor.FromSlice(normal(300*3*64), 300, 3*64)
		x.SetNeedsGrad(true)
		y := eng.Attention(x, engine.NewRows(150, 150), nil, engine.AttentionOptions{Heads: 4}, 0)
		out, dx := slices.Clone(y.Data()), make([]float32, x.Len())
		eng.AddGrad(y, tensor.FromSlice(normal(y.Len()), y.Shape()...))
		eng.Backward(ops[0])
		eng.Grad(x).CopyTo(dx)
		return [2][]float32{out, dx}
	}
	got, want := run(engine.BF16), run(engine.Float32)
	for i, what := range []string{"y", "dx"} {
		if e := relative(got[i], want[i]); !(e > 1e-6 && e < 2e-2) {
			t.Errorf("%s: relative error %g, want that of bfloat16, 1e-6 to 2e-2", what, e)
		}
	}
}
