package reference

import "github.com/hippo-ssm/hippo/tensor"

// RealPairs turns real numbers into complex ones:
//
//	y[i] = (x[i], 0)
//	dx[i] = Re dy[i]
func (eng *Engine) RealPairs(x *tensor.Tensor) *tensor.Tensor {
	y := eng.New(append(x.Shape(), 2)...)
	ys := eng.values(y)
	for i, v := range eng.values(x) {
		ys[2*i] = v
	}
	eng.record("RealPairs", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for i := range dx {
			dx[i] += dy[2*i]
		}
	})
	return y
}
