package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SpatialMix is the causal projection along the sequence of gMLP's gate (arXiv:2105.08050), channel by channel.
// Positions i and j are counted from the sequence's first, of which x holds those from x.Start on; i is one of the last
// l:
//
//	y_i = Σ_{j≤i} W[i, j]·x_j + bias[i]
//	dx_j = Σ_i W[i, j]·dy_i,   dW[i, j] = x_j·dy_i,   dbias[i] = Σ dy_i
func (eng *Engine) oldSpatialMix(x engine.RowCache, w, bias *tensor.Tensor, l int) *tensor.Tensor {
	batch, room, d, n := x.X.Dim(0), x.X.Dim(1), x.X.Dim(2), bias.Len()
	y := eng.New(batch, l, d)
	xs, W, B, ys := eng.values(x.X), eng.values(w), eng.values(bias), eng.values(y)
	// each calls f for every output: the seen inputs of its channel are every d-th from from on, their weights from row
	// on.
	each := func(f func(out, from, row, seen, i int)) {
		for b := range batch {
			for t := range l {
				seen := x.Len - l + t + 1
				i := x.Start + seen - 1
				for c := range d {
					f((b*l+t)*d+c, b*room*d+c, i*n+x.Start, seen, i)
				}
			}
		}
	}
	each(func(out, from, row, seen, i int) {
		ys[out] = B[i]
		for j := range seen {
			ys[out] += W[row+j] * xs[from+j*d]
		}
	})
	eng.record("SpatialMix", list{y}, list{x.X, w, bias}, func() {
		dy, dx, dW, dB := eng.gradOf(y), eng.gradOf(x.X), eng.gradOf(w), eng.gradOf(bias)
		each(func(out, from, row, seen, i int) {
			dB[i] += dy[out]
			for j := range seen {
				dx[from+j*d] += W[row+j] * dy[out]
				dW[row+j] += xs[from+j*d] * dy[out]
			}
		})
	})
	return y
}
