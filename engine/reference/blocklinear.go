package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// BlockLinear maps part e of k inputs to part e of n outputs, for every row r of x and every block e:
//
//	z[r, e, i] = Σ_j x[r, e, j]·W[e, j, i] + bias[e, i],   y = a(z)
//	dz = a'(z)·dy,   dx[r, e, j] = Σ_i dz[r, e, i]·W[e, j, i]
//	dW[e, j, i] = Σ_r dz[r, e, i]·x[r, e, j],   dbias = Σ_r dz
func (eng *Engine) BlockLinear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	blocks, k, n, rows := w.Dim(0), w.Dim(1), w.Dim(2), x.Rows()
	y := eng.withLast(x, blocks*n)
	xs, ws, bs, ys := eng.values(x), eng.values(w), eng.values(bias), eng.values(y)
	zs := make([]float64, len(ys))
	// each calls f with the indices of every product.
	each := func(f func(z, x, w int)) {
		for r := range rows {
			for e := range blocks {
				for i := range n {
					for j := range k {
						f((r*blocks+e)*n+i, (r*blocks+e)*k+j, (e*k+j)*n+i)
					}
				}
			}
		}
	}
	for i := range zs {
		zs[i] = bs[i%len(bs)]
	}
	each(func(z, x, w int) { zs[z] += xs[x] * ws[w] })
	for i, z := range zs {
		ys[i] = activate(a, z)
	}
	eng.record("BlockLinear", list{y}, list{x, w, bias}, func() {
		dx, dw, db, dy := eng.gradOf(x), eng.gradOf(w), eng.gradOf(bias), eng.gradOf(y)
		dz := make([]float64, len(zs))
		for i, z := range zs {
			dz[i] = slope(a, z) * dy[i]
			db[i%len(db)] += dz[i]
		}
		each(func(z, x, w int) {
			dx[x] += dz[z] * ws[w]
			dw[w] += dz[z] * xs[x]
		})
	})
	return y
}
