package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// Recurrence is a recurrent network, with f the tanh of the first tanhs components and nothing for the others:
//
//	s' = f(u + R·s),   y = s'
//
// Backward goes through the positions from the last, with g the gradient of the state after a position:
//
//	g += dy,   g_i ← g_i·(1 - s'_i²) for i < tanhs,   du += g,   dR += g·sᵀ,   g ← Rᵀ·g
func (eng *Engine) oldRecurrence(u, r, s0 *tensor.Tensor, tanhs int) (y, next *tensor.Tensor) {
	batch, l, n := u.Dim(0), u.Dim(1), u.Dim(2)
	y = eng.like(u)
	us, R, ys := eng.values(u), eng.values(r), eng.values(y)
	start := eng.start(s0, batch*n)
	after := make([]float64, batch*n)
	// before is the state before position t.
	before := func(b, t int) []float64 {
		if t == 0 {
			return start[b*n:][:n]
		}
		return ys[(b*l+t-1)*n:][:n]
	}
	for b := range batch {
		for t := range l {
			s, out := before(b, t), ys[(b*l+t)*n:][:n]
			for i := range n {
				out[i] = us[(b*l+t)*n+i]
				for j := range n {
					out[i] += R[i*n+j] * s[j]
				}
				if i < tanhs {
					out[i] = math.Tanh(out[i])
				}
			}
		}
		copy(after[b*n:][:n], before(b, l))
	}
	next = eng.next(s0, after)
	eng.record("Recurrence", list{y, next}, list{u, r, s0}, func() {
		dy, du, dR := eng.gradOf(y), eng.gradOf(u), eng.gradOf(r)
		ds0, dnext := eng.grad(s0, batch*n), eng.grad(next, batch*n)
		for b := range batch {
			g := slices.Clone(dnext[b*n:][:n])
			for t := l - 1; t >= 0; t-- {
				s, out := before(b, t), ys[(b*l+t)*n:][:n]
				through := make([]float64, n) // Rᵀ·g
				for i := range n {
					g[i] += dy[(b*l+t)*n+i]
					if i < tanhs {
						g[i] *= 1 - out[i]*out[i]
					}
					du[(b*l+t)*n+i] += g[i]
					for j := range n {
						dR[i*n+j] += g[i] * s[j]
						through[j] += R[i*n+j] * g[i]
					}
				}
				g = through
			}
			for i, v := range g {
				ds0[b*n+i] += v
			}
		}
	})
	return y, next
}
