package reference

import (
	"math/cmplx"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DiagSSM is the inner part of H3 (arXiv:2212.14052 §3.1). For each head and its i, j < head_dim, position by position:
//
//	u = k_i·v_j,   x' = Ā·x + B̄·u  (n modes),   z = 2 Re Σ_n C·x' + D·u,   y_j = Σ_i q_i·z
//
// with k_i = q_i = 1 without gates. Backward goes through the positions from the last, with g the gradient of the state
// after a position:
//
//	dq_i += dy_j·z,   dz = dy_j·q_i,   dD += u·dz
//	g += 2 dz·conj(C),   dC += 2 dz·conj(x'),   dB̄ += g·u,   dĀ += g·conj(x)
//	du = D·dz + Re Σ_n g·conj(B̄),   g ← g·conj(Ā),   dk_i += du·v_j,   dv_j += du·k_i
func (eng *Engine) oldDiagSSM(g engine.Gates, s *engine.DiagSystem, skip, state *tensor.Tensor) (y, next *tensor.Tensor) {
	batch, l, d, p, n := g.V.Dim(0), g.V.Dim(1), g.V.Dim(2), g.HeadDim, s.N
	y = eng.like(g.V)
	q, k, v, ys, D := eng.gate(g.Q, g.V), eng.gate(g.K, g.V), eng.values(g.V), eng.values(y), eng.values(skip)
	Abar, Bbar, C := pairs(eng.values(s.Abar)), pairs(eng.values(s.Bbar)), pairs(eng.values(s.C))
	x := pairs(eng.start(state, 2*batch*d*p*n))
	states := make([][]complex128, batch*d*p*(l+1)) // before each position and after the last, for backward
	// each calls f for every system: of (sequence b, head, i, j), with its own number.
	each := func(f func(b, head, i, j, system int)) {
		for system := range batch * d * p {
			f(system/(d*p), system/(p*p)%s.H, system/p%p, system%p, system)
		}
	}
	// places are those of k_i and q_i, of v_j and of y_j at position t.
	places := func(b, head, i, j, t int) (atI, atJ, out int) {
		row := (b*l + t) * d
		return row + head*p + i, row + head*p + j, row + g.OutChannel(head, j, s.H)
	}
	each(func(b, head, i, j, system int) {
		xs := x[system*n:][:n]
		for t := range l {
			states[system*(l+1)+t] = slices.Clone(xs)
			atI, atJ, out := places(b, head, i, j, t)
			u := k[atI] * v[atJ]
			z := D[head] * u
			for m := range n {
				xs[m] = Abar[head*n+m]*xs[m] + Bbar[head*n+m]*complex(u, 0)
				z += 2 * real(C[head*n+m]*xs[m])
			}
			ys[out] += q[atI] * z
		}
		states[system*(l+1)+l] = slices.Clone(xs)
	})
	next = eng.next(state, unpaired(x))
	eng.record("DiagSSM", list{y, next}, list{g.Q, g.K, g.V, s.Abar, s.Bbar, s.C, skip, state}, func() {
		dy, dq, dk, dv := eng.gradOf(y), eng.grad(g.Q, len(v)), eng.grad(g.K, len(v)), eng.gradOf(g.V)
		dAbar, dBbar, dC, dD := eng.gradOf(s.Abar), eng.gradOf(s.Bbar), eng.gradOf(s.C), eng.gradOf(skip)
		dstate, dnext := eng.grad(state, 2*len(x)), eng.grad(next, 2*len(x))
		each(func(b, head, i, j, system int) {
			g := pairs(dnext[2*system*n:][:2*n])
			for t := l - 1; t >= 0; t-- {
				before, after := states[system*(l+1)+t], states[system*(l+1)+t+1]
				atI, atJ, out := places(b, head, i, j, t)
				u, dz := k[atI]*v[atJ], dy[out]*q[atI]
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
	})
	return y, next
}

// gate are the values of a gate for v, ones where there is none.
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
