package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// CausalConv filters every channel with k taps of its own; w[k-1] is the tap of the newest input. With x[-1], x[-2], …
// the rows of the state from the last one backwards, or zeros:
//
//	z[t, c] = bias[c] + Σ_{i<k} w[c, k-1-i]·x[t-i, c],   y = a(z),   next[j] = x[l-(k-1)+j] for j < k-1
//
// Backward, for every t and i < k:
//
//	dz = a'(z)·dy,   dx[t-i, c] += w[c, k-1-i]·dz[t, c],   dw[c, k-1-i] += x[t-i, c]·dz[t, c],   dbias[c] += dz[t, c]
//	dx[l-(k-1)+j] += dnext[j]
func (eng *Engine) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := x.Dim(-1)
	k := w.Len() / d
	past := k - 1
	y := eng.like(x)
	xs, ws, ys, bs, zs := eng.values(x), eng.values(w), eng.values(y), eng.start(bias, d), make([]float64, x.Len())
	all := make([][]float64, r.Count()) // the state before each row, then x
	place := func(t, c int) int { return (past+t)*d + c }
	states := eng.carry(slots, r, past*d)
	for row := range r.Count() {
		from, l, after := r.From(row)*d, r.Len(row), states.after(row)
		all[row] = append(append(all[row], after...), xs[from:][:l*d]...)
		copy(after, all[row][place(l-past, 0):])
		for t := range l {
			for c := range d {
				z := bs[c]
				for i := range k {
					z += ws[c*k+k-1-i] * all[row][place(t-i, c)]
				}
				zs[from+t*d+c] = z
				ys[from+t*d+c] = activate(a, z)
			}
		}
	}
	eng.recordRows("CausalConv", list{y}, list{x, w, bias}, states, func() {
		dx, dw, db, dy := eng.gradOf(x), eng.gradOf(w), eng.grad(bias, d), eng.gradOf(y)
		for row := range r.Count() {
			from, l := r.From(row)*d, r.Len(row)
			ds, dnext := states.grads(row)
			dall := make([]float64, len(all[row]))
			for t := range l {
				for c := range d {
					dz := slope(a, zs[from+t*d+c]) * dy[from+t*d+c]
					db[c] += dz
					for i := range k {
						dall[place(t-i, c)] += ws[c*k+k-1-i] * dz
						dw[c*k+k-1-i] += all[row][place(t-i, c)] * dz
					}
				}
			}
			for j := range past * d {
				dall[place(l-past, 0)+j] += dnext[j]
			}
			for j := range past * d {
				ds[j] += dall[j]
			}
			for j := range l * d {
				dx[from+j] += dall[place(0, 0)+j]
			}
		}
	})
	return y
}
