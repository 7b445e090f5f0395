package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// ShiftSSM is the shift SSM of H3 (arXiv:2212.14052 §3.1), channel by channel, with a state s[0..n):
//
//	s'[j] = s[j-1] + B[j]·x,  s[-1] = 0        (the state moves one place on)
//	y = Σ_j C[j]·s'[j] + D·x
//
// Backward runs through the positions from the last, with g the gradient of the state after a position:
//
//	g[j] += C[j]·dy,   dC[j] += s'[j]·dy,   dB[j] += g[j]·x,   dx += Σ_j g[j]·B[j] + D·dy,   g[j-1] ← g[j]
func (eng *Engine) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	d := x.Dim(-1)
	n := bw.Len() / d
	y := eng.like(x)
	xs, ys, B, C, D := eng.values(x), eng.values(y), eng.values(bw), eng.values(cw), eng.values(dw)
	states := make([][]float64, len(xs)) // after each position, for backward
	c := eng.carry(slots, r, d*n)
	for row := range r.Count() {
		after := c.after(row)
		for t := range r.Len(row) {
			for ch := range d {
				s := after[ch*n:][:n]
				i := (r.From(row)+t)*d + ch
				for j := n - 1; j >= 0; j-- {
					if s[j] = B[ch*n+j] * xs[i]; j > 0 {
						s[j] += s[j-1]
					}
				}
				ys[i] = D[ch] * xs[i]
				for j, v := range s {
					ys[i] += C[ch*n+j] * v
				}
				states[i] = append([]float64(nil), s...)
			}
		}
	}
	eng.recordRows("ShiftSSM", list{y}, list{x, bw, cw, dw}, c, func() {
		dy, dx, dB, dC, dD := eng.gradOf(y), eng.gradOf(x), eng.gradOf(bw), eng.gradOf(cw), eng.gradOf(dw)
		for row := range r.Count() {
			ds, dnext := c.grads(row)
			for ch := range d {
				g := append([]float64(nil), dnext[ch*n:][:n]...)
				for t := r.Len(row) - 1; t >= 0; t-- {
					i := (r.From(row)+t)*d + ch
					dx[i] += D[ch] * dy[i]
					dD[ch] += xs[i] * dy[i]
					for j := range g {
						g[j] += C[ch*n+j] * dy[i]
						dC[ch*n+j] += states[i][j] * dy[i]
						dB[ch*n+j] += g[j] * xs[i]
						dx[i] += g[j] * B[ch*n+j]
					}
					copy(g, g[1:])
					g[n-1] = 0
				}
				for j, v := range g {
					ds[ch*n+j] += v
				}
			}
		}
	})
	return y
}
