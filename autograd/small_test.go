package autograd_test

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
)

// onSmall runs the row on the smallest engine, where every operation is composed.
func (r *row) onSmall(shapes [][]int, in [][]float64, dy [][]float32) (out, grad [][]float32) {
	t := autograd.NewTapeOn(smallengine.NewHeap[float32]().Open)
	t.Record(true)
	x := r.tensors(shapes, in)
	y := r.op(t, x)
	for i, o := range y {
		out = append(out, numbers(o))
		t.Seed(o, dy[i])
	}
	t.BackwardSeeded()
	return out, gradients(t, x)
}

func TestSmallTMP(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			defer func() {
				if x := recover(); x != nil {
					t.Error("panic:", x)
				}
			}()
			in := r.random(r.in, 1)
			want, wantGrad := r.onReference(r.in, in, cotangents)
			out, grad := r.onSmall(r.in, in, cotangents(want))
			for i := range want {
				near(t, fmt.Sprintf("output %d", i), out[i], want[i], r.tolerance())
			}
			for i := range in {
				near(t, fmt.Sprintf("gradient of input %d", i), grad[i], wantGrad[i], 5*r.tolerance())
			}
		})
	}
}
