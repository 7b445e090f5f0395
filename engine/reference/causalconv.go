package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// CausalConv filters every channel by k taps of its own, w[k-1] that of the newest input. With x[-1], x[-2], … the rows
// of the state from the last one back, or zeros:
//
//	z[t, c] = bias[c] + Σ_{i<k} w[c, k-1-i]·x[t-i, c],   y = a(z),   next[j] = x[l-(k-1)+j] for j < k-1
//
// Backward, for every t and i < k:
//
//	dz = a'(z)·dy,   dx[t-i, c] += w[c, k-1-i]·dz[t, c],   dw[c, k-1-i] += x[t-i, c]·dz[t, c],   dbias[c] += dz[t, c]
//	dx[l-(k-1)+j] += dnext[j]
func (eng *Engine) oldCausalConv(x, w, bias, state *tensor.Tensor, a engine.Activation) (y, next *tensor.Tensor) {
	batch, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	k := w.Len() / d
	past := k - 1
	y = eng.like(x)
	xs, ws, ys := eng.values(x), eng.values(w), eng.values(y)
	bs, zs := eng.start(bias, d), make([]float64, len(xs))
	all := make([]float64, batch*(past+l)*d) // the state, then x, of each sequence
	place := func(b, t, c int) int { return (b*(past+l)+past+t)*d + c }
	before := eng.start(state, batch*past*d)
	after := make([]float64, batch*past*d)
	for b := range batch {
		copy(all[place(b, -past, 0):], before[b*past*d:][:past*d])
		copy(all[place(b, 0, 0):], xs[b*l*d:][:l*d])
		copy(after[b*past*d:][:past*d], all[place(b, l-past, 0):])
		for t := range l {
			for c := range d {
				z := bs[c]
				for i := range k {
					z += ws[c*k+k-1-i] * all[place(b, t-i, c)]
				}
				zs[(b*l+t)*d+c] = z
				ys[(b*l+t)*d+c] = activate(a, z)
			}
		}
	}
	next = eng.next(state, after)
	eng.record("CausalConv", list{y, next}, list{x, w, bias, state}, func() {
		dx, dw, db, ds := eng.gradOf(x), eng.gradOf(w), eng.grad(bias, d), eng.grad(state, batch*past*d)
		dy, dnext := eng.gradOf(y), eng.grad(next, batch*past*d)
		dall := make([]float64, len(all))
		for b := range batch {
			for t := range l {
				for c := range d {
					dz := slope(a, zs[(b*l+t)*d+c]) * dy[(b*l+t)*d+c]
					db[c] += dz
					for i := range k {
						dall[place(b, t-i, c)] += ws[c*k+k-1-i] * dz
						dw[c*k+k-1-i] += all[place(b, t-i, c)] * dz
					}
				}
			}
			for j := range past * d {
				dall[place(b, l-past, 0)+j] += dnext[b*past*d+j]
			}
			for j := range past * d {
				ds[b*past*d+j] += dall[place(b, -past, 0)+j]
			}
			for j := range l * d {
				dx[b*l*d+j] += dall[place(b, 0, 0)+j]
			}
		}
	})
	return y, next
}
