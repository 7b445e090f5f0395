package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Recurrence is a recurrent network. f is tanh for the first tanhs components and the identity for the others:
//
//	s' = f(u + R·s),   y = s'
//
// Backward runs through the positions from the last, with g the gradient of the state after a position:
//
//	g += dy,   g_i ← g_i·(1 - s'_i²) for i < tanhs,   du += g,   dR += g·sᵀ,   g ← Rᵀ·g
func (eng *Engine) Recurrence(u, rw *tensor.Tensor, tanhs int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	n := u.Dim(-1)
	y := eng.like(u)
	us, R, ys := eng.values(u), eng.values(rw), eng.values(y)
	before := make([][]float64, r.Total()) // the state before each position
	states := eng.carry(slots, r, n)
	for row := range r.Count() {
		s := states.after(row)
		for p := r.From(row); p < r.From(row)+r.Len(row); p++ {
			before[p] = slices.Clone(s)
			out := ys[p*n:][:n]
			for i := range n {
				out[i] = us[p*n+i]
				for j := range n {
					out[i] += R[i*n+j] * before[p][j]
				}
				if i < tanhs {
					out[i] = math.Tanh(out[i])
				}
			}
			copy(s, out)
		}
	}
	eng.recordRows("Recurrence", list{y}, list{u, rw}, states, func() {
		dy, du, dR := eng.gradOf(y), eng.gradOf(u), eng.gradOf(rw)
		for row := range r.Count() {
			ds, dnext := states.grads(row)
			g := slices.Clone(dnext)
			for p := r.From(row) + r.Len(row) - 1; p >= r.From(row); p-- {
				out := ys[p*n:][:n]
				through := make([]float64, n) // Rᵀ·g
				for i := range n {
					g[i] += dy[p*n+i]
					if i < tanhs {
						g[i] *= 1 - out[i]*out[i]
					}
					du[p*n+i] += g[i]
					for j := range n {
						dR[i*n+j] += g[i] * before[p][j]
						through[j] += R[i*n+j] * g[i]
					}
				}
				g = through
			}
			for i, v := range g {
				ds[i] += v
			}
		}
	})
	return y
}
