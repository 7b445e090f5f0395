package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// SSD is Mamba-2's selective state-space model (arXiv:2405.21060, §3). A head has one A and channels with n states
// each, a group of heads has one B and one C:
//
//	h' = exp(dt·A)·h + dt·x·Bᵀ,   y = h'·C + D·x
//
// Backward goes through the positions from the last, with g the gradient of the state after a position, for each state
// of each channel:
//
//	g += dy·C,   dC += dy·h',   dB += g·dt·x,   dA += g·dt·exp(dt·A)·h
//	dx += Σ_k g·dt·B + D·dy,   ddt += Σ_k g·(A·exp(dt·A)·h + x·B),   dD += x·dy,   g ← g·exp(dt·A)
func (eng *Engine) oldSSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int,
	state *tensor.Tensor) (y, next *tensor.Tensor) {
	batch, l, width, heads := xbc.Dim(0), xbc.Dim(1), xbc.Dim(2), a.Len()
	d := heads * headDim
	n := (width - d) / (2 * groups)
	y = eng.New(batch, l, d)
	X, step, A, D, ys := eng.values(xbc), eng.values(dt), eng.values(a), eng.values(dw), eng.values(y)
	h := eng.start(state, batch*d*n)
	states := make([][]float64, batch*(l+1)) // of all channels before each position and after the last, for backward
	// places are those of a channel at a position, row, in xbc, of its B and C there, and of the head's dt.
	places := func(row, c int) (head, at, atB, atC, atDt int) {
		head = c / headDim
		group := head / (heads / groups)
		return head, row*width + c, row*width + d + group*n, row*width + d + (groups+group)*n, row*heads + head
	}
	for b := range batch {
		hs := h[b*d*n:][:d*n]
		for t := range l {
			states[b*(l+1)+t] = slices.Clone(hs)
			row := b*l + t
			for c := range d {
				head, at, atB, atC, atDt := places(row, c)
				ys[row*d+c] = D[head] * X[at]
				for k := range n {
					hs[c*n+k] = math.Exp(step[atDt]*A[head])*hs[c*n+k] + step[atDt]*X[at]*X[atB+k]
					ys[row*d+c] += X[atC+k] * hs[c*n+k]
				}
			}
		}
		states[b*(l+1)+l] = slices.Clone(hs)
	}
	next = eng.next(state, h)
	eng.record("SSD", list{y, next}, list{xbc, dt, a, dw, state}, func() {
		dys, dX, ddt, dA, dD := eng.gradOf(y), eng.gradOf(xbc), eng.gradOf(dt), eng.gradOf(a), eng.gradOf(dw)
		dstate := eng.grad(state, batch*d*n)
		gs := slices.Clone(eng.grad(next, batch*d*n))
		for b := range batch {
			for t := l - 1; t >= 0; t-- {
				before, after, g := states[b*(l+1)+t], states[b*(l+1)+t+1], gs[b*d*n:][:d*n]
				row := b*l + t
				for c := range d {
					head, at, atB, atC, atDt := places(row, c)
					dy, e := dys[row*d+c], math.Exp(step[atDt]*A[head])
					dD[head] += X[at] * dy
					dX[at] += D[head] * dy
					for k := range n {
						i := c*n + k
						g[i] += dy * X[atC+k]
						dX[atC+k] += dy * after[i]
						dX[atB+k] += g[i] * step[atDt] * X[at]
						dX[at] += g[i] * step[atDt] * X[atB+k]
						dA[head] += g[i] * step[atDt] * e * before[i]
						ddt[atDt] += g[i] * (A[head]*e*before[i] + X[at]*X[atB+k])
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
