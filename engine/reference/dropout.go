package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Dropout (arXiv:1207.0580) keeps an element with probability 1-p. Which elements of row i it keeps is a function of
// the row's seed, of the number of this dropout, op, and of the index j in the row:
//
//	y[j] = m[j]·x[j],   m[j] = 1/(1-p) where Keep(Seed(i, op), j, p), else 0
//	dx[j] = m[j]·dy[j]
func (eng *Engine) Dropout(x *tensor.Tensor, p float64, r *engine.Rows, op uint64) *tensor.Tensor {
	d := x.Dim(-1)
	y := eng.like(x)
	xs, ys := eng.values(x), eng.values(y)
	mask := make([]float64, len(xs))
	for row := range r.Count() {
		for j := range r.Len(row) * d {
			at := r.From(row)*d + j
			if counter.Keep(r.Seed(row, op), j, counter.KeepThreshold(p)) {
				mask[at] = 1 / (1 - p)
			}
			ys[at] = mask[at] * xs[at]
		}
	}
	eng.record("Dropout", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for i, v := range dy {
			dx[i] += mask[i] * v
		}
	})
	return y
}
