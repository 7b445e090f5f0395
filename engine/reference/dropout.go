package reference

import (
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Dropout (arXiv:1207.0580) keeps an element with probability 1-p. Which ones is a function of the seed and the place:
//
//	y[i] = m[i]·x[i],   m[i] = 1/(1-p) where Keep(seed, i, p), else 0
//	dx[i] = m[i]·dy[i]
func (eng *Engine) oldDropout(x *tensor.Tensor, p float64, seed uint64) *tensor.Tensor {
	mask := func(i int) float64 {
		if counter.Keep(seed, i, counter.KeepThreshold(p)) {
			return 1 / (1 - p)
		}
		return 0
	}
	y := eng.like(x)
	ys := eng.values(y)
	for i, v := range eng.values(x) {
		ys[i] = mask(i) * v
	}
	eng.record("Dropout", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for i, v := range dy {
			dx[i] += mask(i) * v
		}
	})
	return y
}
