package reference

import (
	"math/cmplx"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DiagScan is a diagonal system at the times of its inputs. With z = dt·A, b = B̄/(e^z - 1) = B/A and r = steps, it
// computes at each position of a channel
//
//	x' = e^(r z)·x + b·(e^(r z) - 1)·u  (n modes),   y = 2 Re Σ_n C·x' + D·u
//
// which is exact for an input that is u from the previous position to this one. Backward runs through the positions
// from the last, with g the gradient of the state after a position and E = e^(r z):
//
//	g += 2 dy·conj(C),   dC += 2 dy·conj(x'),   dD += u·dy,   du = D·dy + Re Σ_n g·conj(b·(E - 1))
//	e = g·conj(E·(x + b·u)),   dz += r·e,   dr += Re Σ_n e·conj(z),   db += g·conj(E - 1)·u,   g ← g·conj(E)
//	dB̄ = db·conj(1/(e^z - 1)),   dĀ = dz·conj(1/Ā) - db·conj(b/(Ā - 1))
func (eng *Engine) DiagScan(u, steps *tensor.Tensor, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d, n := s.H, s.N
	y := eng.like(u)
	us, rs, ys, D := eng.values(u), eng.values(steps), eng.values(y), eng.values(skip)
	z, Abar, Bbar := s.Private.([]complex128), pairs(eng.values(s.Abar)), pairs(eng.values(s.Bbar))
	C, b := pairs(eng.values(s.C)), make([]complex128, d*n)
	for i := range b {
		b[i] = Bbar[i] / (Abar[i] - 1)
	}
	states := make([]complex128, len(us)*n) // before each position
	carried := eng.carry(slots, r, 2*d*n)
	for row := range r.Count() {
		x := pairs(carried.after(row))
		for t := r.From(row); t < r.From(row)+r.Len(row); t++ {
			for i := range x {
				c := t*d + i/n
				states[t*d*n+i] = x[i]
				decay := cmplx.Exp(complex(rs[t], 0) * z[i])
				x[i] = decay*x[i] + b[i]*(decay-1)*complex(us[c], 0)
				ys[c] += 2 * real(C[i]*x[i])
			}
			for c := range d {
				ys[t*d+c] += D[c] * us[t*d+c]
			}
		}
		copy(carried.after(row), unpaired(x))
	}
	eng.recordRows("DiagScan", list{y}, list{u, steps, s.Abar, s.Bbar, s.C, skip}, carried, func() {
		dy, du, dr, dD := eng.gradOf(y), eng.gradOf(u), eng.gradOf(steps), eng.gradOf(skip)
		dAbar, dBbar, dC := eng.gradOf(s.Abar), eng.gradOf(s.Bbar), eng.gradOf(s.C)
		dz, db := make([]complex128, d*n), make([]complex128, d*n)
		for row := range r.Count() {
			dstate, dnext := carried.grads(row)
			g := pairs(dnext)
			for t := r.From(row) + r.Len(row) - 1; t >= r.From(row); t-- {
				for c := range d {
					du[t*d+c] += D[c] * dy[t*d+c]
					dD[c] += us[t*d+c] * dy[t*d+c]
				}
				for i := range g {
					at := t*d + i/n
					x, in, out := states[t*d*n+i], complex(us[at], 0), complex(2*dy[at], 0)
					decay := cmplx.Exp(complex(rs[t], 0) * z[i])
					g[i] += out * cmplx.Conj(C[i])
					addPair(dC, i, out*cmplx.Conj(decay*x+b[i]*(decay-1)*in))
					du[at] += real(g[i] * cmplx.Conj(b[i]*(decay-1)))
					e := g[i] * cmplx.Conj(decay*(x+b[i]*in))
					dz[i] += complex(rs[t], 0) * e
					dr[t] += real(e * cmplx.Conj(z[i]))
					db[i] += g[i] * cmplx.Conj(decay-1) * in
					g[i] *= cmplx.Conj(decay)
				}
			}
			for i, v := range g {
				addPair(dstate, i, v)
			}
		}
		for i := range b {
			addPair(dBbar, i, db[i]*cmplx.Conj(1/(Abar[i]-1)))
			addPair(dAbar, i, dz[i]*cmplx.Conj(1/Abar[i])-db[i]*cmplx.Conj(b[i]/(Abar[i]-1)))
		}
	})
	return y
}
