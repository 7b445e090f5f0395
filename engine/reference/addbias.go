package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// AddBias adds a bias to each of d channels, then applies a function, for every row r:
//
//	y[r, c] = a(x[r, c] + bias[c])
//	dx[r, c] = a'(x[r, c] + bias[c])·dy[r, c],   dbias[c] = Σ_r dx[r, c]
func (eng *Engine) AddBias(x, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	d := bias.Len()
	y := eng.like(x)
	xs, bs, ys := eng.values(x), eng.values(bias), eng.values(y)
	for i, v := range xs {
		ys[i] = activate(a, v+bs[i%d])
	}
	eng.record("AddBias", list{y}, list{x, bias}, func() {
		dx, db, dy := eng.gradOf(x), eng.gradOf(bias), eng.gradOf(y)
		for i, v := range xs {
			g := slope(a, v+bs[i%d]) * dy[i]
			dx[i] += g
			db[i%d] += g
		}
	})
	return y
}
