package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// GatedLongConv is the causal convolution of every channel of every row with its own kernel, between two gates (Hyena,
// arXiv:2302.10866, §3.2). A gate of nil is 1 everywhere, a skip D of nil is 0. With u = k⊙v and the taps K:
//
//	z[t, c] = Σ_{j≤t} K[j, c]·u[t-j, c] + D[c]·u[t, c],   y = q⊙z
//
// Backward, for every t and j ≤ t:
//
//	dq = z⊙dy,   dz = q⊙dy
//	dK[j, c] += u[t-j, c]·dz[t, c],   du[t-j, c] += K[j, c]·dz[t, c]
//	dD[c] += u[t, c]·dz[t, c],   du[t, c] += D[c]·dz[t, c]
//	dk = v⊙du,   dv = k⊙du
func (eng *Engine) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	d := g.V.Dim(-1)
	y := eng.like(g.V)
	qs, ks, vs := eng.ones(g.Q, g.V.Len()), eng.ones(g.K, g.V.Len()), eng.values(g.V)
	taps, D, ys := eng.values(k), eng.start(skip, d), eng.values(y)
	us, zs := make([]float64, len(vs)), make([]float64, len(vs))
	for i := range us {
		us[i] = ks[i] * vs[i]
	}
	each := func(visit func(tap, at, from int)) { // indices in K, of position t, and of t-j
		for row := range r.Count() {
			for t := range r.Len(row) {
				for j := range min(t+1, k.Dim(0)) {
					for c := range d {
						at := (r.From(row)+t)*d + c
						visit(j*d+c, at, at-j*d)
					}
				}
			}
		}
	}
	each(func(tap, at, from int) { zs[at] += taps[tap] * us[from] })
	for i := range ys {
		zs[i] += D[i%d] * us[i]
		ys[i] = qs[i] * zs[i]
	}
	eng.record("GatedLongConv", list{y}, list{g.Q, g.K, g.V, k, skip}, func() {
		dq, dk, dv := eng.grad(g.Q, len(vs)), eng.grad(g.K, len(vs)), eng.gradOf(g.V)
		dtaps, dD, dy := eng.gradOf(k), eng.grad(skip, d), eng.gradOf(y)
		dz, du := make([]float64, len(vs)), make([]float64, len(vs))
		for i, v := range dy {
			dq[i] += zs[i] * v
			dz[i] = qs[i] * v
			dD[i%d] += us[i] * dz[i]
			du[i] = D[i%d] * dz[i]
		}
		each(func(tap, at, from int) {
			dtaps[tap] += us[from] * dz[at]
			du[from] += taps[tap] * dz[at]
		})
		for i, v := range du {
			dk[i] += vs[i] * v
			dv[i] += ks[i] * v
		}
	})
	return y
}

// ones returns the elements of x, or n ones if x is nil.
func (eng *Engine) ones(x *tensor.Tensor, n int) []float64 {
	if x != nil {
		return eng.values(x)
	}
	ones := make([]float64, n)
	for i := range ones {
		ones[i] = 1
	}
	return ones
}
