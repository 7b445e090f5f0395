package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SpatialMix is the causal projection along the sequence in gMLP's gate (arXiv:2105.08050), channel by channel. i and j
// are positions of a sequence; j starts at the first position in its cache:
//
//	y_i = Σ_{j≤i} W[i, j]·x_j + bias[i]
//	dx_j = Σ_i W[i, j]·dy_i,   dW[i, j] = x_j·dy_i,   dbias[i] = Σ dy_i
func (eng *Engine) SpatialMix(x, w, bias *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor {
	d, n := x.Dim(-1), bias.Len()
	y := eng.like(x)
	xs := eng.see(x, r, caches)
	W, B, ys := eng.values(w), eng.values(bias), eng.values(y)
	// each calls f for every output of a row, with its index, its position i, its channel, and the first position that
	// the row sees.
	each := func(f func(row, out, i, c, first int)) {
		for row := range r.Count() {
			past := xs[row].Dim(0) - r.Len(row)
			for t := range r.Len(row) {
				for c := range d {
					f(row, (r.From(row)+t)*d+c, r.Start(row)+t, c, r.Start(row)-past)
				}
			}
		}
	}
	each(func(row, out, i, c, first int) {
		ys[out] = B[i]
		for j := first; j <= i; j++ {
			ys[out] += W[i*n+j] * eng.values(xs[row])[(j-first)*d+c]
		}
	})
	eng.record("SpatialMix", list{y}, append(list{w, bias}, xs...), func() {
		dy, dW, dB := eng.gradOf(y), eng.gradOf(w), eng.gradOf(bias)
		each(func(row, out, i, c, first int) {
			X, dx := eng.values(xs[row]), eng.gradOf(xs[row])
			dB[i] += dy[out]
			for j := first; j <= i; j++ {
				dx[(j-first)*d+c] += W[i*n+j] * dy[out]
				dW[i*n+j] += X[(j-first)*d+c] * dy[out]
			}
		})
	})
	return y
}
