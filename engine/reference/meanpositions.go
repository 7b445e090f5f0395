package reference

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// MeanPositions is the mean of the first n = lengths[b] positions of sequence b, of all l for lengths of nil. What
// follows them is not read:
//
//	y[b, 0, c] = Σ_{t<n} x[b, t, c]/n
//	dx[b, t, c] = dy[b, 0, c]/n,   t < n
func (eng *Engine) oldMeanPositions(x *tensor.Tensor, lengths []int) *tensor.Tensor {
	batch, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	lengths = slices.Clone(lengths) // backward reads them later
	y := eng.New(batch, 1, d)
	xs, ys := eng.values(x), eng.values(y)
	each := func(visit func(from, to, n int)) { // for every element that counts: its place in x and y, and n
		for b := range batch {
			n := l
			if lengths != nil {
				n = lengths[b]
			}
			for i := range n * d {
				visit(b*l*d+i, b*d+i%d, n)
			}
		}
	}
	each(func(from, to, n int) { ys[to] += xs[from] / float64(n) })
	eng.record("MeanPositions", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		each(func(from, to, n int) { dx[from] += dy[to] / float64(n) })
	})
	return y
}
