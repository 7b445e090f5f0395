//go:build todo

package cpu

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/tensor"
)

// TestPaddingHasNoPart puts NaN where sequences have ended: neither results nor gradients may see it.
func TestPaddingHasNoPart(t *testing.T) {
	const b, l, d = 2, 4, 3
	lengths := []int{1, 4}
	fill := func(pad float32) *tensor.Tensor {
		x := make([]float32, b*l*d)
		for i := range x {
			if x[i] = float32(i); i/d%l >= lengths[i/d/l] {
				x[i] = pad
			}
		}
		return tensor.FromSlice(x, b, l, d)
	}
	run := func(pad float32) (y, dx []float32) {
		tape, x := NewTape(), fill(pad)
		tape.Record(true)
		x.SetNeedsGrad(true)
		out := tape.MeanPositions(tape.FirstPositions(x, lengths), lengths)
		dy := make([]float32, out.Len())
		for i := range dy {
			dy[i] = 1
		}
		tape.BackwardFrom(out, dy)
		y = make([]float32, out.Len())
		out.CopyTo(y)
		return y, tape.gradient(x)
	}
	y, dx := run(0)
	yNaN, dxNaN := run(float32(math.NaN()))
	for i := range y {
		if y[i] != yNaN[i] {
			t.Errorf("mean %d: %v with zeros after the end, %v with NaN", i, y[i], yNaN[i])
		}
	}
	for i := range dx {
		if dx[i] != dxNaN[i] {
			t.Errorf("gradient %d: %v with zeros after the end, %v with NaN", i, dx[i], dxNaN[i])
		}
		if padded := i/d%l >= lengths[i/d/l]; padded && dx[i] != 0 {
			t.Errorf("gradient %d of padding: %v, want 0", i, dx[i])
		}
	}
}
