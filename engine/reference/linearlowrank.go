package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// LinearLowRank is Linear with a change of rank q (arXiv:2106.09685), for every row r of x and x':
//
//	u[r, l] = Σ_j x'[r, j]·Down[l, j],   z[r, i] = Σ_j x[r, j]·W[i, j] + bias[i] + s·Σ_l u[r, l]·Up[i, l],   y = a(z)
//	dz = a'(z)·dy,   du[r, l] = s·Σ_i dz[r, i]·Up[i, l],   dx'[r, j] = Σ_l du[r, l]·Down[l, j]
//	dDown[l, j] = Σ_r du[r, l]·x'[r, j],   dUp[i, l] = s·Σ_r dz[r, i]·u[r, l];   dx, dW and dbias as in Linear
func (eng *Engine) LinearLowRank(x, w, bias *tensor.Tensor, c engine.LowRank, a engine.Activation) *tensor.Tensor {
	n, k, q, rows := w.Dim(0), w.Dim(1), c.Down.Dim(0), x.Rows()
	y := eng.withLast(x, n)
	xs, ws, ys, bs := eng.values(x), eng.values(w), eng.values(y), eng.start(bias, n)
	low, down, up := eng.values(c.X), eng.values(c.Down), eng.values(c.Up)
	zs, us := make([]float64, rows*n), make([]float64, rows*q)
	for r := range rows {
		for l := range q {
			us[r*q+l] = dot(low[r*k:][:k], down[l*k:][:k])
		}
		for i := range n {
			z := bs[i] + dot(xs[r*k:][:k], ws[i*k:][:k]) + c.Scale*dot(us[r*q:][:q], up[i*q:][:q])
			zs[r*n+i] = z
			ys[r*n+i] = activate(a, z)
		}
	}
	inputs := list{x, w, bias, c.X, c.Down, c.Up}
	eng.record("LinearLowRank", list{y}, inputs, func() {
		dx, dw, db, dy := eng.gradOf(x), eng.gradOf(w), eng.grad(bias, n), eng.gradOf(y)
		dlow, ddown, dup := eng.gradOf(c.X), eng.gradOf(c.Down), eng.gradOf(c.Up)
		for r := range rows {
			du := make([]float64, q)
			for i := range n {
				dz := slope(a, zs[r*n+i]) * dy[r*n+i]
				db[i] += dz
				for j := range k {
					dx[r*k+j] += dz * ws[i*k+j]
					dw[i*k+j] += dz * xs[r*k+j]
				}
				for l := range q {
					du[l] += c.Scale * dz * up[i*q+l]
					dup[i*q+l] += c.Scale * dz * us[r*q+l]
				}
			}
			for l := range q {
				for j := range k {
					dlow[r*k+j] += du[l] * down[l*k+j]
					ddown[l*k+j] += du[l] * low[r*k+j]
				}
			}
		}
	})
	return y
}
