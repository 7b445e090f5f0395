package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// SelectiveScan is Mamba's selective state-space model (arXiv:2312.00752, algorithm 2), for each channel with n states
// and the B and C of its group:
//
//	h' = exp(Δ·A)·h + Δ·u·B,   y = Σ_n C·h' + D·u
//
// Backward goes through the positions from the last, with g the gradient of the state after a position:
//
//	g += dy·C,   dC += dy·h',   dB += g·Δ·u,   dA += g·Δ·exp(Δ·A)·h
//	du += Σ_n g·Δ·B + D·dy,   dΔ += Σ_n g·(A·exp(Δ·A)·h + u·B),   dD += u·dy,   g ← g·exp(Δ·A)
func (eng *Engine) oldSelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int,
	state *tensor.Tensor) (y, next *tensor.Tensor) {
	batch, l, d, n := u.Dim(0), u.Dim(1), u.Dim(2), a.Dim(-1)
	y = eng.like(u)
	us, Δ, ys := eng.values(u), eng.values(delta), eng.values(y)
	A, BC, D := eng.values(a), eng.values(bc), eng.values(dw)
	h := eng.start(state, batch*d*n)
	states := make([][]float64, batch*(l+1)) // of all channels before each position and after the last, for backward
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
				ys[at] = D[c] * us[at]
				for k := range n {
					hs[c*n+k] = math.Exp(Δ[at]*A[c*n+k])*hs[c*n+k] + Δ[at]*us[at]*BC[atB+k]
					ys[at] += BC[atC+k] * hs[c*n+k]
				}
			}
		}
		states[b*(l+1)+l] = slices.Clone(hs)
	}
	next = eng.next(state, h)
	eng.record("SelectiveScan", list{y, next}, list{u, delta, a, bc, dw, state}, func() {
		dy, du, dΔ := eng.gradOf(y), eng.gradOf(u), eng.gradOf(delta)
		dA, dBC, dD := eng.gradOf(a), eng.gradOf(bc), eng.gradOf(dw)
		dstate := eng.grad(state, batch*d*n)
		gs := slices.Clone(eng.grad(next, batch*d*n))
		for b := range batch {
			for t := l - 1; t >= 0; t-- {
				before, after, g := states[b*(l+1)+t], states[b*(l+1)+t+1], gs[b*d*n:][:d*n]
				for c := range d {
					at, atB, atC := places(b, t, c)
					dD[c] += us[at] * dy[at]
					du[at] += D[c] * dy[at]
					for k := range n {
						i, e := c*n+k, math.Exp(Δ[at]*A[c*n+k])
						g[i] += dy[at] * BC[atC+k]
						dBC[atC+k] += dy[at] * after[i]
						dBC[atB+k] += g[i] * Δ[at] * us[at]
						dA[i] += g[i] * Δ[at] * e * before[i]
						du[at] += g[i] * Δ[at] * BC[atB+k]
						dΔ[at] += g[i] * (A[i]*e*before[i] + us[at]*BC[atB+k])
						g[i] *= e
					}
				}
			}
		}
		for i, v := range gs {
			dstate[i] += v
		}
	})
	return y, next
}
