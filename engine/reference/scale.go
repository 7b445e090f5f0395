package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// Scale multiplies by a number:
//
//	y = c·x
//	dx = c·dy
func (eng *Engine) Scale(x *tensor.Tensor, c float64) *tensor.Tensor {
	y := eng.like(x)
	ys := eng.values(y)
	for i, v := range eng.values(x) {
		ys[i] = c * v
	}
	eng.record("Scale", list{y}, list{x}, func() {
		dx := eng.gradOf(x)
		for i, g := range eng.gradOf(y) {
			dx[i] += c * g
		}
	})
	return y
}

// Clamp keeps elements in a range:
//
//	y = min(max(x, lo), hi)
//	dx = dy where lo ≤ x ≤ hi, else 0
func (eng *Engine) Clamp(x *tensor.Tensor, lo, hi float64) *tensor.Tensor {
	y := eng.like(x)
	xs, ys := eng.values(x), eng.values(y)
	for i, v := range xs {
		ys[i] = math.Min(math.Max(v, lo), hi)
	}
	eng.record("Clamp", list{y}, list{x}, func() {
		dx := eng.gradOf(x)
		for i, g := range eng.gradOf(y) {
			if xs[i] >= lo && xs[i] <= hi {
				dx[i] += g
			}
		}
	})
	return y
}
