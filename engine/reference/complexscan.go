package reference

import (
	"math/cmplx"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SelectiveScanComplex is SelectiveScan with complex states, each of which also stands for its conjugate:
//
//	h' = exp(Δ·A)·h + Δ·u·B,   y = 2 Re Σ_n C·h' + D·u
//
// Backward runs through the positions from the last, with g the gradient of the state after a position:
//
//	g += 2 dy·conj(C),   dC += 2 dy·conj(h'),   dB += g·Δ·u,   dA += g·conj(Δ·exp(Δ·A)·h)
//	du += Re Σ_n g·conj(Δ·B) + D·dy,   dΔ += Re Σ_n g·conj(A·exp(Δ·A)·h + u·B),   dD += u·dy,   g ← g·conj(exp(Δ·A))
func (eng *Engine) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := u.Dim(-1)
	n := a.Len() / (2 * d)
	y := eng.like(u)
	us, Δ, D, ys := eng.values(u), eng.values(delta), eng.values(dw), eng.values(y)
	A, BC := pairs(eng.values(a)), pairs(eng.values(bc))
	before := make([][]complex128, r.Total()) // the states of all channels before each position, for backward
	after := make([][]complex128, r.Total())
	// places returns the indices of position p of channel c in u, of its B and of its C.
	places := func(p, c int) (at, atB, atC int) {
		group := c / (d / groups)
		return p*d + c, (p*2*groups + group) * n, (p*2*groups + groups + group) * n
	}
	states := eng.carry(slots, r, 2*d*n)
	for row := range r.Count() {
		h := pairs(states.after(row))
		for p := r.From(row); p < r.From(row)+r.Len(row); p++ {
			before[p] = slices.Clone(h)
			for c := range d {
				at, atB, atC := places(p, c)
				step := complex(Δ[at], 0)
				ys[at] = D[c] * us[at]
				for k := range n {
					h[c*n+k] = cmplx.Exp(step*A[c*n+k])*h[c*n+k] + step*complex(us[at], 0)*BC[atB+k]
					ys[at] += 2 * real(BC[atC+k]*h[c*n+k])
				}
			}
			after[p] = slices.Clone(h)
		}
		copy(states.after(row), unpaired(h))
	}
	eng.recordRows("SelectiveScanComplex", list{y}, list{u, delta, a, bc, dw}, states, func() {
		dy, du, dΔ := eng.gradOf(y), eng.gradOf(u), eng.gradOf(delta)
		dA, dBC, dD := eng.gradOf(a), eng.gradOf(bc), eng.gradOf(dw)
		for row := range r.Count() {
			ds, dnext := states.grads(row)
			g := pairs(dnext)
			for p := r.From(row) + r.Len(row) - 1; p >= r.From(row); p-- {
				for c := range d {
					at, atB, atC := places(p, c)
					step, in, out := complex(Δ[at], 0), complex(us[at], 0), complex(2*dy[at], 0)
					dD[c] += us[at] * dy[at]
					du[at] += D[c] * dy[at]
					for k := range n {
						i, e := c*n+k, cmplx.Exp(step*A[c*n+k])
						g[i] += out * cmplx.Conj(BC[atC+k])
						addPair(dBC, atC+k, out*cmplx.Conj(after[p][i]))
						addPair(dBC, atB+k, g[i]*step*in)
						addPair(dA, i, g[i]*cmplx.Conj(step*e*before[p][i]))
						du[at] += real(g[i] * cmplx.Conj(step*BC[atB+k]))
						dΔ[at] += real(g[i] * cmplx.Conj(A[i]*e*before[p][i]+in*BC[atB+k]))
						g[i] *= cmplx.Conj(e)
					}
				}
			}
			for i, v := range g {
				addPair(ds, i, v)
			}
		}
	})
	return y
}
