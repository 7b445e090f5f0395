package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Gate multiplies x by a function of z:
//
//	y = x·a(z)
//	dx = a(z)·dy,   dz = x·a'(z)·dy
func (eng *Engine) Gate(x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	y := eng.like(x)
	xs, zs, ys := eng.values(x), eng.values(z), eng.values(y)
	for i := range ys {
		ys[i] = xs[i] * activate(a, zs[i])
	}
	eng.record("Gate", list{y}, list{x, z}, func() {
		dx, dz, dy := eng.gradOf(x), eng.gradOf(z), eng.gradOf(y)
		for i, v := range dy {
			dx[i] += activate(a, zs[i]) * v
			dz[i] += xs[i] * slope(a, zs[i]) * v
		}
	})
	return y
}
