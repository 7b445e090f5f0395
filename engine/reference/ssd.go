package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SSD is Mamba-2's selective state-space model (arXiv:2405.21060, §3). A head has one A, and channels with n states
// each. A group of heads has one B and one C:
//
//	h' = exp(dt·A)·h + dt·x·Bᵀ,   y = h'·C + D·x
//
// Backward runs through the positions from the last, with g the gradient of the state after a position, for each state
// of each channel:
//
//	g += dy·C,   dC += dy·h',   dB += g·dt·x,   dA += g·dt·exp(dt·A)·h
//	dx += Σ_k g·dt·B + D·dy,   ddt += Σ_k g·(A·exp(dt·A)·h + x·B),   dD += x·dy,   g ← g·exp(dt·A)
func (eng *Engine) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	width, heads := xbc.Dim(-1), a.Len()
	d := heads * headDim
	n := (width - d) / (2 * groups)
	y := eng.withLast(xbc, d)
	X, step, A, D, ys := eng.values(xbc), eng.values(dt), eng.values(a), eng.values(dw), eng.values(y)
	before := make([][]float64, r.Total()) // the states of all channels before each position, for backward
	after := make([][]float64, r.Total())
	// places returns the indices of a channel at position p in xbc, of its B and C there, and of the head's dt.
	places := func(p, c int) (head, at, atB, atC, atDt int) {
		head = c / headDim
		group := head / (heads / groups)
		return head, p*width + c, p*width + d + group*n, p*width + d + (groups+group)*n, p*heads + head
	}
	states := eng.carry(slots, r, d*n)
	for row := range r.Count() {
		h := states.after(row)
		for p := r.From(row); p < r.From(row)+r.Len(row); p++ {
			before[p] = slices.Clone(h)
			for c := range d {
				head, at, atB, atC, atDt := places(p, c)
				ys[p*d+c] = D[head] * X[at]
				for k := range n {
					h[c*n+k] = math.Exp(step[atDt]*A[head])*h[c*n+k] + step[atDt]*X[at]*X[atB+k]
					ys[p*d+c] += X[atC+k] * h[c*n+k]
				}
			}
			after[p] = slices.Clone(h)
		}
	}
	eng.recordRows("SSD", list{y}, list{xbc, dt, a, dw}, states, func() {
		dys, dX, ddt, dA, dD := eng.gradOf(y), eng.gradOf(xbc), eng.gradOf(dt), eng.gradOf(a), eng.gradOf(dw)
		for row := range r.Count() {
			ds, dnext := states.grads(row)
			g := slices.Clone(dnext)
			for p := r.From(row) + r.Len(row) - 1; p >= r.From(row); p-- {
				for c := range d {
					head, at, atB, atC, atDt := places(p, c)
					dy, e := dys[p*d+c], math.Exp(step[atDt]*A[head])
					dD[head] += X[at] * dy
					dX[at] += D[head] * dy
					for k := range n {
						i := c*n + k
						g[i] += dy * X[atC+k]
						dX[atC+k] += dy * after[p][i]
						dX[atB+k] += g[i] * step[atDt] * X[at]
						dX[at] += g[i] * step[atDt] * X[atB+k]
						dA[head] += g[i] * step[atDt] * e * before[p][i]
						ddt[atDt] += g[i] * (A[head]*e*before[p][i] + X[at]*X[atB+k])
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
