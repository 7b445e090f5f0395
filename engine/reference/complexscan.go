package reference

import (
	"math/cmplx"
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// SelectiveScanComplex is SelectiveScan with complex states, each of which stands for its conjugate too:
//
//	h' = exp(Δ·A)·h + Δ·u·B,   y = 2 Re Σ_n C·h' + D·u
//
// Backward goes through the positions from the last, with g the gradient of the state after a position:
//
//	g += 2 dy·conj(C),   dC += 2 dy·conj(h'),   dB += g·Δ·u,   dA += g·conj(Δ·exp(Δ·A)·h)
//	du += Re Σ_n g·conj(Δ·B) + D·dy,   dΔ += Re Σ_n g·conj(A·exp(Δ·A)·h + u·B),   dD += u·dy,   g ← g·conj(exp(Δ·A))
func (eng *Engine) oldSelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int,
	state *tensor.Tensor) (y, next *tensor.Tensor) {
	batch, l, d := u.Dim(0), u.Dim(1), u.Dim(2)
	n := a.Len() / (2 * d)
	y = eng.like(u)
	us, Δ, D, ys := eng.values(u), eng.values(delta), eng.values(dw), eng.values(y)
	A, BC := pairs(eng.values(a)), pairs(eng.values(bc))
	h := pairs(eng.start(state, 2*batch*d*n))
	states := make([][]complex128, batch*(l+1)) // of all channels before each position and after the last, for backward
	// places are those of position t of channel c in u, of its B and of its C.
	places := func(b, t, c int) (at, atB, atC int) {
		row, group := b*l+t, c/(d/groups)
		return row*d + c, (row*2*groups + group) * n, (row*2*groups + groups + group) * n
	}
	for b := range batch {
		hs := h[b*d*n:][:d*n]
		for t := range l {
			states[b*(l+1)+t] = slices.Clone(hs)
			for c := range d {
				at, atB, atC := places(b, t, c)
				step := complex(Δ[at], 0)
				ys[at] = D[c] * us[at]
				for k := range n {
					hs[c*n+k] = cmplx.Exp(step*A[c*n+k])*hs[c*n+k] + step*complex(us[at], 0)*BC[atB+k]
					ys[at] += 2 * real(BC[atC+k]*hs[c*n+k])
				}
			}
		}
		states[b*(l+1)+l] = slices.Clone(hs)
	}
	next = eng.next(state, unpaired(h))
	eng.record("SelectiveScanComplex", list{y, next}, list{u, delta, a, bc, dw, state}, func() {
		dy, du, dΔ := eng.gradOf(y), eng.gradOf(u), eng.gradOf(delta)
		dA, dBC, dD := eng.gradOf(a), eng.gradOf(bc), eng.gradOf(dw)
		dstate := eng.grad(state, 2*batch*d*n)
		gs := pairs(eng.grad(next, 2*batch*d*n))
		for b := range batch {
			for t := l - 1; t >= 0; t-- {
				before, after, g := states[b*(l+1)+t], states[b*(l+1)+t+1], gs[b*d*n:][:d*n]
				for c := range d {
					at, atB, atC := places(b, t, c)
					step, in, out := complex(Δ[at], 0), complex(us[at], 0), complex(2*dy[at], 0)
					dD[c] += us[at] * dy[at]
					du[at] += D[c] * dy[at]
					for k := range n {
						i, e := c*n+k, cmplx.Exp(step*A[c*n+k])
						g[i] += out * cmplx.Conj(BC[atC+k])
						addPair(dBC, atC+k, out*cmplx.Conj(after[i]))
						addPair(dBC, atB+k, g[i]*step*in)
						addPair(dA, i, g[i]*cmplx.Conj(step*e*before[i]))
						du[at] += real(g[i] * cmplx.Conj(step*BC[atB+k]))
						dΔ[at] += real(g[i] * cmplx.Conj(A[i]*e*before[i]+in*BC[atB+k]))
						g[i] *= cmplx.Conj(e)
					}
				}
			}
		}
		for i, v := range gs {
			addPair(dstate, i, v)
		}
	})
	return y, next
}
