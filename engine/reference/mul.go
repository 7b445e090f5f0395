package reference

import "github.com/hippo-ssm/hippo/tensor"

// Mul returns the product element by element:
//
//	z = x·y
//	dx = y·dz,   dy = x·dz
func (eng *Engine) Mul(x, y *tensor.Tensor) *tensor.Tensor {
	z := eng.like(x)
	xs, ys, zs := eng.values(x), eng.values(y), eng.values(z)
	for i := range zs {
		zs[i] = xs[i] * ys[i]
	}
	eng.record("Mul", list{z}, list{x, y}, func() {
		dx, dy, dz := eng.gradOf(x), eng.gradOf(y), eng.gradOf(z)
		for i, v := range dz {
			dx[i] += ys[i] * v
			dy[i] += xs[i] * v
		}
	})
	return z
}
