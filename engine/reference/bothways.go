package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// BothWays convolves every channel of every row, of l positions, with a kernel k that looks back and a kernel a that
// looks ahead. A skip D of nil is 0:
//
//	y[t, c] = Σ_{j≤t} k[j, c]·u[t-j, c] + Σ_{j<l-1-t} a[j, c]·u[t+1+j, c] + D[c]·u[t, c]
//
// Backward, for every t and j:
//
//	dk[j, c] += u[t-j, c]·dy[t, c],   du[t-j, c] += k[j, c]·dy[t, c]
//	dD[c] += u[t, c]·dy[t, c],   du[t, c] += D[c]·dy[t, c]
//	da[j, c] += u[t+1+j, c]·dy[t, c],   du[t+1+j, c] += a[j, c]·dy[t, c]
func (eng *Engine) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	d := u.Dim(1)
	y := eng.like(u)
	us, back, front, D, ys := eng.values(u), eng.values(k), eng.values(ahead), eng.start(skip, d), eng.values(y)
	each := func(visit func(l, t, c, at int)) {
		for row := range r.Count() {
			for t := range r.Len(row) {
				for c := range d {
					visit(r.Len(row), t, c, (r.From(row)+t)*d+c)
				}
			}
		}
	}
	each(func(l, t, c, at int) {
		ys[at] = D[c] * us[at]
		for j := range min(t+1, k.Dim(0)) {
			ys[at] += back[j*d+c] * us[at-j*d]
		}
		for j := range min(l-1-t, ahead.Dim(0)) {
			ys[at] += front[j*d+c] * us[at+(1+j)*d]
		}
	})
	eng.record("BothWays", list{y}, list{u, k, ahead, skip}, func() {
		du, dback, dfront, dD, dy := eng.gradOf(u), eng.gradOf(k), eng.gradOf(ahead), eng.grad(skip, d), eng.gradOf(y)
		each(func(l, t, c, at int) {
			dD[c] += us[at] * dy[at]
			du[at] += D[c] * dy[at]
			for j := range min(t+1, k.Dim(0)) {
				dback[j*d+c] += us[at-j*d] * dy[at]
				du[at-j*d] += back[j*d+c] * dy[at]
			}
			for j := range min(l-1-t, ahead.Dim(0)) {
				dfront[j*d+c] += us[at+(1+j)*d] * dy[at]
				du[at+(1+j)*d] += front[j*d+c] * dy[at]
			}
		})
	})
	return y
}
