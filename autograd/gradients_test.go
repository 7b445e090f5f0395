package autograd_test

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestGradientsApart checks, on all engines, that a tensor that wants no gradient gets none and does not affect the
// others, and that the same holds for a result without a cotangent.
func TestGradientsApart(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			in := r.random(r.in, 4)
			out, _ := r.onReference(r.in, in, nil)
			dy := cotangents(out)
			// gradients returns the gradients from output k alone for the inputs that want selects, and nil for those
			// without.
			gradients := func(tape *autograd.Tape, x ts, k int, want func(i int) bool) (grad [][]float32) {
				for i, v := range x {
					v.SetNeedsGrad(want(i))
				}
				tape.Record(true)
				y := r.op(tape, x)[k]
				tape.Seed(y, tensor.FromSlice(dy[k], y.Shape()...))
				tape.BackwardSeeded()
				for _, v := range x {
					grad = append(grad, gradient(tape, v))
				}
				return grad
			}
			onReference := func(k int, want func(i int) bool) [][]float32 {
				_, tape := referenceTape()
				x := make(ts, len(in))
				for i, v := range in {
					x[i] = reference.Of(append([]float64(nil), v...), r.in[i]...)
				}
				return gradients(tape, x, k, want)
			}
			for k := range out {
				want := onReference(k, func(int) bool { return true })
				for i := range in {
					alone := func(j int) bool { return i == j }
					all := map[string][][]float32{"reference": onReference(k, alone)}
					for engine, b := range engines {
						all[engine] = gradients(autograd.NewTape(b), r.tensors(r.in, in), k, alone)
					}
					for engine, got := range all {
						what := fmt.Sprintf("%s: gradient from output %d to input %d alone", engine, k, i)
						near(t, what, orZeros(got[i], len(in[i])), wide(orZeros(want[i], len(in[i]))), 5*r.tolerance())
						for j := range in {
							if i != j && got[j] != nil {
								t.Errorf("%s: input %d has one too", what, j)
							}
						}
					}
				}
			}
		})
	}
}

// TestBackwardAdds checks, on all engines, that a second backward pass doubles the gradients of leaves.
func TestBackwardAdds(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			in := r.random(r.in, 2)
			for engine, tape := range tapes() {
				x := r.tensors(r.in, in)
				tape.Record(true)
				var once [][]float64
				for pass := range 2 {
					for i, y := range r.op(tape, x) {
						dy := make([]float32, y.Len())
						for j := range dy {
							dy[j] = float32(i + 1)
						}
						tape.Seed(y, tensor.FromSlice(dy, y.Shape()...))
					}
					tape.BackwardSeeded()
					tape.Reset()
					for i, v := range x {
						g := orZeros(gradient(tape, v), v.Len())
						if pass == 0 {
							once = append(once, wide(g))
							continue
						}
						for j := range once[i] {
							once[i][j] *= 2
						}
						near(t, fmt.Sprintf("%s: input %d", engine, i), g, once[i], 1e-5)
					}
				}
			}
		})
	}
}

func orZeros(x []float32, n int) []float32 {
	if x == nil {
		return make([]float32, n)
	}
	return x
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
