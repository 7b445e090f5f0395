package reference

import "github.com/hippo-ssm/hippo/tensor"

// Add returns the sum of two tensors:
//
//	y = a + b
//	da = dy,   db = dy
func (eng *Engine) Add(a, b *tensor.Tensor) *tensor.Tensor {
	y := eng.like(a)
	as, bs, ys := eng.values(a), eng.values(b), eng.values(y)
	for i := range ys {
		ys[i] = as[i] + bs[i]
	}
	eng.record("Add", list{y}, list{a, b}, func() {
		da, db, dy := eng.gradOf(a), eng.gradOf(b), eng.gradOf(y)
		for i, v := range dy {
			da[i] += v
			db[i] += v
		}
	})
	return y
}
