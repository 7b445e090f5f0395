package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SelectiveScan is Mamba's selective state-space model (arXiv:2312.00752, algorithm 2), for each channel with n states
// and the B and C of its group:
//
//	h' = exp(Δ·A)·h + Δ·u·B,   y = Σ_n C·h' + D·u
//
// Backward runs through the positions from the last, with g the gradient of the state after a position:
//
//	g += dy·C,   dC += dy·h',   dB += g·Δ·u,   dA += g·Δ·exp(Δ·A)·h
//	du += Σ_n g·Δ·B + D·dy,   dΔ += Σ_n g·(A·exp(Δ·A)·h + u·B),   dD += u·dy,   g ← g·exp(Δ·A)
func (eng *Engine) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d, n := u.Dim(-1), a.Dim(-1)
	y := eng.like(u)
	us, Δ, ys := eng.values(u), eng.values(delta), eng.values(y)
	A, BC, D := eng.values(a), eng.values(bc), eng.values(dw)
	before := make([][]float64, r.Total()) // the states of all channels before each position, for backward
	after := make([][]float64, r.Total())
	// places returns the indices of position p of channel c in u, of its B and of its C.
	places := func(p, c int) (at, atB, atC int) {
		group := c / (d / groups)
		return p*d + c, (p*2*groups + group) * n, (p*2*groups + groups + group) * n
	}
	states := eng.carry(slots, r, d*n)
	for row := range r.Count() {
		h := states.after(row)
		for p := r.From(row); p < r.From(row)+r.Len(row); p++ {
			before[p] = slices.Clone(h)
			for c := range d {
				at, atB, atC := places(p, c)
				ys[at] = D[c] * us[at]
				for k := range n {
					h[c*n+k] = math.Exp(Δ[at]*A[c*n+k])*h[c*n+k] + Δ[at]*us[at]*BC[atB+k]
					ys[at] += BC[atC+k] * h[c*n+k]
				}
			}
			after[p] = slices.Clone(h)
		}
	}
	eng.recordRows("SelectiveScan", list{y}, list{u, delta, a, bc, dw}, states, func() {
		dy, du, dΔ := eng.gradOf(y), eng.gradOf(u), eng.gradOf(delta)
		dA, dBC, dD := eng.gradOf(a), eng.gradOf(bc), eng.gradOf(dw)
		for row := range r.Count() {
			ds, dnext := states.grads(row)
			g := slices.Clone(dnext)
			for p := r.From(row) + r.Len(row) - 1; p >= r.From(row); p-- {
				for c := range d {
					at, atB, atC := places(p, c)
					dD[c] += us[at] * dy[at]
					du[at] += D[c] * dy[at]
					for k := range n {
						i, e := c*n+k, math.Exp(Δ[at]*A[c*n+k])
						g[i] += dy[at] * BC[atC+k]
						dBC[atC+k] += dy[at] * after[p][i]
						dBC[atB+k] += g[i] * Δ[at] * us[at]
						dA[i] += g[i] * Δ[at] * e * before[p][i]
						du[at] += g[i] * Δ[at] * BC[atB+k]
						dΔ[at] += g[i] * (A[i]*e*before[p][i] + us[at]*BC[atB+k])
						g[i] *= e
					}
				}
			}
			for i, v := range g {
				ds[i] += v
			}
		}
	})
	return y
}
