package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// MeanPositions returns the mean of the l positions of every row i:
//
//	y[i, c] = Σ_t x[t, c]/l
//	dx[t, c] = dy[i, c]/l
func (eng *Engine) MeanPositions(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	d := x.Dim(-1)
	y := eng.New(r.Count(), d)
	xs, ys := eng.values(x), eng.values(y)
	each := func(visit func(from, to, l int)) { // for every element: its indices in x and y, and l
		for row := range r.Count() {
			for j := range r.Len(row) * d {
				visit(r.From(row)*d+j, row*d+j%d, r.Len(row))
			}
		}
	}
	each(func(from, to, l int) { ys[to] += xs[from] / float64(l) })
	eng.record("MeanPositions", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		each(func(from, to, l int) { dx[from] += dy[to] / float64(l) })
	})
	return y
}
