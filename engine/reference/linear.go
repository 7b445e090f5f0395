package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Linear maps k inputs to n outputs, for every row r of x:
//
//	z[r, i] = Σ_j x[r, j]·W[i, j] + bias[i],   y = a(z)
//	dz = a'(z)·dy,   dx[r, j] = Σ_i dz[r, i]·W[i, j],   dW[i, j] = Σ_r dz[r, i]·x[r, j],   dbias[i] = Σ_r dz[r, i]
func (eng *Engine) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	n, k, rows := w.Dim(0), w.Dim(1), x.Rows()
	y := eng.withLast(x, n)
	xs, ws, ys := eng.values(x), eng.values(w), eng.values(y)
	zs, bs := make([]float64, rows*n), eng.start(bias, n)
	for r := range rows {
		for i := range n {
			sum, row := bs[i], ws[i*k:][:k]
			for j, v := range xs[r*k:][:k] {
				sum += v * row[j]
			}
			zs[r*n+i] = sum
			ys[r*n+i] = activate(a, sum)
		}
	}
	eng.record("Linear", list{y}, list{x, w, bias}, func() {
		dx, dw, db, dy := eng.gradOf(x), eng.gradOf(w), eng.grad(bias, n), eng.gradOf(y)
		for r := range rows {
			for i := range n {
				dz := slope(a, zs[r*n+i]) * dy[r*n+i]
				db[i] += dz
				axpy(dx[r*k:][:k], dz, ws[i*k:])
				axpy(dw[i*k:][:k], dz, xs[r*k:])
			}
		}
	})
	return y
}

// axpy adds a·x to y.
func axpy(y []float64, a float64, x []float64) {
	x = x[:len(y)]
	for i, v := range x {
		y[i] += a * v
	}
}
