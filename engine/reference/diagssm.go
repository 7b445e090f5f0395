package reference

import (
	"math/cmplx"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DiagSSM is the inner part of H3 (arXiv:2212.14052 §3.1). For each head and its i, j < head_dim, position by position:
//
//	u = k_i·v_j,   x' = Ā·x + B̄·u  (n modes),   z = 2 Re Σ_n C·x' + D·u,   y_j = Σ_i q_i·z
//
// Without gates k_i = q_i = 1. Backward runs through the positions from the last, with g the gradient of the state
// after a position:
//
//	dq_i += dy_j·z,   dz = dy_j·q_i,   dD += u·dz
//	g += 2 dz·conj(C),   dC += 2 dz·conj(x'),   dB̄ += g·u,   dĀ += g·conj(x)
//	du = D·dz + Re Σ_n g·conj(B̄),   g ← g·conj(Ā),   dk_i += du·v_j,   dv_j += du·k_i
func (eng *Engine) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d, p, n := g.V.Dim(1), g.HeadDim, s.N
	y := eng.like(g.V)
	q, k, v, ys, D := eng.gate(g.Q, g.V), eng.gate(g.K, g.V), eng.values(g.V), eng.values(y), eng.values(skip)
	Abar, Bbar, C := pairs(eng.values(s.Abar)), pairs(eng.values(s.Bbar)), pairs(eng.values(s.C))
	states := make([][]complex128, d*p*r.Total()) // before each position, for backward
	carried := eng.carry(slots, r, 2*d*p*n)
	// each calls f for every system: with its (head, i, j) and its number.
	each := func(f func(head, i, j, system int)) {
		for system := range d * p {
			f(system/(p*p), system/p%p, system%p, system)
		}
	}
	// places returns the indices of k_i and q_i, of v_j and of y_j at position t, counted through all rows.
	places := func(head, i, j, t int) (atI, atJ, out int) {
		return t*d + head*p + i, t*d + head*p + j, t*d + g.OutChannel(head, j, s.H)
	}
	step := func(head int, x []complex128, u float64) []complex128 {
		next := make([]complex128, n)
		for m := range next {
			next[m] = Abar[head*n+m]*x[m] + Bbar[head*n+m]*complex(u, 0)
		}
		return next
	}
	for row := range r.Count() {
		after := carried.after(row)
		each(func(head, i, j, system int) {
			x := pairs(after[2*system*n:][:2*n])
			for t := r.From(row); t < r.From(row)+r.Len(row); t++ {
				states[system*r.Total()+t] = x
				atI, atJ, out := places(head, i, j, t)
				u := k[atI] * v[atJ]
				x = step(head, x, u)
				z := D[head] * u
				for m := range n {
					z += 2 * real(C[head*n+m]*x[m])
				}
				ys[out] += q[atI] * z
			}
			copy(after[2*system*n:], unpaired(x))
		})
	}
	eng.recordRows("DiagSSM", list{y}, list{g.Q, g.K, g.V, s.Abar, s.Bbar, s.C, skip}, carried, func() {
		dy, dq, dk, dv := eng.gradOf(y), eng.grad(g.Q, len(v)), eng.grad(g.K, len(v)), eng.gradOf(g.V)
		dAbar, dBbar, dC, dD := eng.gradOf(s.Abar), eng.gradOf(s.Bbar), eng.gradOf(s.C), eng.gradOf(skip)
		for row := range r.Count() {
			dstate, dnext := carried.grads(row)
			each(func(head, i, j, system int) {
				g := pairs(dnext[2*system*n:][:2*n])
				for t := r.From(row) + r.Len(row) - 1; t >= r.From(row); t-- {
					atI, atJ, out := places(head, i, j, t)
					u, dz := k[atI]*v[atJ], dy[out]*q[atI]
					before := states[system*r.Total()+t]
					after := step(head, before, u)
					z, du := D[head]*u, D[head]*dz
					dD[head] += u * dz
					for m := range n {
						at := head*n + m
						z += 2 * real(C[at]*after[m])
						g[m] += complex(2*dz, 0) * cmplx.Conj(C[at])
						addPair(dC, at, complex(2*dz, 0)*cmplx.Conj(after[m]))
						addPair(dBbar, at, g[m]*complex(u, 0))
						addPair(dAbar, at, g[m]*cmplx.Conj(before[m]))
						du += real(g[m] * cmplx.Conj(Bbar[at]))
						g[m] *= cmplx.Conj(Abar[at])
					}
					dq[atI] += dy[out] * z
					dk[atI] += du * v[atJ]
					dv[atJ] += du * k[atI]
				}
				for m, v := range g {
					addPair(dstate, system*n+m, v)
				}
			})
		}
	})
	return y
}

// gate returns the values of a gate for v, or ones if there is no gate.
func (eng *Engine) gate(x, v *tensor.Tensor) []float64 {
	if x != nil {
		return eng.values(x)
	}
	ones := make([]float64, v.Len())
	for i := range ones {
		ones[i] = 1
	}
	return ones
}
