package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// RGLRU is the real-gated linear recurrent unit (Griffin, arXiv:2402.19427, §2.4), each channel by itself:
//
//	L = -8·r·softplus(Λ),   a = e^L,   q = √(1 - a²),   h' = a·h + q·i·u,   y = h'
//	h' = i·u at position 0
//
// Backward runs through the positions from the last, with g the gradient of the state after a position:
//
//	g += dy,   du += g·q·i,   di += g·q·u,   dL = g·a·h - g·i·u·a²/√max(1 - a², 1e-6/4)
//	dr -= 8·softplus(Λ)·dL,   dΛ -= 8·r·σ(Λ)·dL,   g ← g·a
func (eng *Engine) RGLRU(u, r, i, lambda *tensor.Tensor, rows *engine.Rows, slots engine.Slots) *tensor.Tensor {
	d := u.Dim(-1)
	y := eng.like(u)
	us, rs, is, Λ, ys := eng.values(u), eng.values(r), eng.values(i), eng.values(lambda), eng.values(y)
	before := make([]float64, len(us))
	a, q := make([]float64, len(us)), make([]float64, len(us))
	states := eng.carry(slots, rows, d)
	for row := range rows.Count() {
		h := states.after(row)
		for t := range rows.Len(row) {
			for c := range d {
				at := (rows.From(row)+t)*d + c
				if rows.Start(row)+t > 0 {
					a[at] = math.Exp(-engine.RGLRUPower * rs[at] * activate(engine.Softplus, Λ[c]))
					q[at] = math.Sqrt(1 - a[at]*a[at])
				} else {
					a[at], q[at] = 0, 1
				}
				before[at] = h[c]
				h[c] = a[at]*h[c] + q[at]*is[at]*us[at]
				ys[at] = h[c]
			}
		}
	}
	eng.recordRows("RGLRU", list{y}, list{u, r, i, lambda}, states, func() {
		dy, du, dr, di, dΛ := eng.gradOf(y), eng.gradOf(u), eng.gradOf(r), eng.gradOf(i), eng.gradOf(lambda)
		for row := range rows.Count() {
			ds, dnext := states.grads(row)
			g := slices.Clone(dnext)
			for t := rows.Len(row) - 1; t >= 0; t-- {
				for c := range d {
					at := (rows.From(row)+t)*d + c
					g[c] += dy[at]
					du[at] += g[c] * q[at] * is[at]
					di[at] += g[c] * q[at] * us[at]
					if rows.Start(row)+t > 0 {
						root := math.Sqrt(math.Max(1-a[at]*a[at], engine.RGLRUFloor/4))
						dL := g[c]*a[at]*before[at] - g[c]*is[at]*us[at]*a[at]*a[at]/root
						dr[at] -= engine.RGLRUPower * activate(engine.Softplus, Λ[c]) * dL
						dΛ[c] -= engine.RGLRUPower * rs[at] * slope(engine.Softplus, Λ[c]) * dL
					}
					g[c] *= a[at]
				}
			}
			for c, v := range g {
				ds[c] += v
			}
		}
	})
	return y
}
