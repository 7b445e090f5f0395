package autograd

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// ShiftSSM runs the shift SSM of H3 (arXiv:2212.14052 §3.1) over the rows of x (n, d):
//
//	s[t] = shift(s[t-1]) + B x[t],   y[t] = C·s[t] + D x[t]
//
// with B, C (d, m), D (d). Over a row it is the causal filter h[i] = Σ_j B[j] C[i+j]. A slot (d, m) holds the state.
func (t *Tape) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	d := x.Dim(-1)
	n := bw.Len() / d
	checkRows("ShiftSSM", r, x)
	if bw.Len() != cw.Len() || dw.Len() != d || bw.Len() != n*d {
		shapePanic("ShiftSSM", x, bw, cw, dw)
	}
	checkSlots("ShiftSSM", r, slots, n*d)
	return t.engine.ShiftSSM(x, bw, cw, dw, r, slots)
}

// DiagSystem discretizes the systems of p. The result is valid until Reset.
func (t *Tape) DiagSystem(p *engine.DiagParams) *engine.DiagSystem {
	h := p.LogDt.Len()
	n := p.InvAReal.Len() / h
	if p.InvAReal.Len() != h*n || p.AImag.Len() != h*n || p.C.Len() != 2*h*n || p.B != nil && p.B.Len() != 2*h*n ||
		p.Uneven && p.Disc != engine.ZOH {
		shapePanic("DiagSystem", p.LogDt, p.InvAReal, p.AImag, p.B, p.C)
	}
	return t.engine.DiagSystem(p)
}

// DiagKernel generates the convolution kernels of the h systems, in the engine's layout for convolutions. KernelRows
// returns them as rows (l, h):
//
//	K[j, h] = 2 Re Σ_n C[h,n] B̄[h,n] Ā[h,n]^j
func (t *Tape) DiagKernel(s *engine.DiagSystem, l int) *tensor.Tensor {
	return t.engine.DiagKernel(s, l)
}

// DiagSSM computes the inner part of H3 (arXiv:2212.14052 §3.1) over rows: for every head, with i, j < head_dim,
//
//	u_ij = k_i · v_j,   z_ij = SSM(u_ij) + D u_ij,   y_j = Σ_i q_i · z_ij
//
// where SSM is the head's diagonal system s and D (h) its skip. A slot (h·head_dim², modes, 2) holds the complex state
// of each u_ij. Memory in addition to inputs and outputs does not grow for rows longer than LongestAtOnce, which are
// convolved in pieces with a state between them (arXiv:2212.14052 §4.2).
func (t *Tape) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	v := g.V
	d := v.Dim(-1)
	g.HeadDim = max(1, g.HeadDim)
	checkRows("DiagSSM", r, v)
	if s.H*g.HeadDim != d || skip.Len() != s.H || (g.Q == nil) != (g.K == nil) || g.Q == nil && g.HeadDim != 1 ||
		g.Q != nil && !(g.Q.SameShape(v) && g.K.SameShape(v)) {
		shapePanic("DiagSSM", g.Q, g.K, v, skip)
	}
	checkSlots("DiagSSM", r, slots, d*g.HeadDim*s.N*2)
	return t.engine.DiagSSM(g, s, skip, r, slots)
}

// DiagScan runs the systems of s over the rows of u (n, h) with a time step for each position: position t comes r =
// steps[t] times dt after the one before, and its input is held for this time. With z = dt·A,
//
//	x[t] = e^(r z)·x[t-1] + B̄·(e^(r z)-1)/(e^z-1)·u[t],   y[t] = 2 Re Σ_n C x[t] + D u[t]
//
// with steps (n, 1), none below zero, the skip D (h), and slots (h, modes, 2). If all steps are 1, that is DiagSSM of a
// system sampled by zero-order hold. s must be of Uneven params, or of DSSSystem.
func (t *Tape) DiagScan(u, steps *tensor.Tensor, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := u.Dim(-1)
	checkRows("DiagScan", r, u)
	if d != s.H || skip.Len() != d || steps.Len() != u.Rows() {
		shapePanic("DiagScan", u, steps, skip)
	}
	checkSlots("DiagScan", r, slots, 2*d*s.N)
	return t.engine.DiagScan(u, steps, s, skip, r, slots)
}

// DSSSystem returns the diagonal system with the kernel of p. All modes must have Re Λ < 0, as others have no causal
// kernel.
func (t *Tape) DSSSystem(p *engine.DSSParams) *engine.DiagSystem {
	t.checkDSS(p)
	return t.engine.DSSSystem(p)
}

// DSSKernel generates the kernels K of p, in the engine's layout. With the softmax, modes may have Re Λ > 0: their
// kernels decay from the last tap to the first.
func (t *Tape) DSSKernel(p *engine.DSSParams, l int) *tensor.Tensor {
	t.checkDSS(p)
	if !p.LogNegRe && (p.Scale != engine.DSSSoftmax || l != p.L) {
		shapePanic("DSSKernel", p.Re, p.W)
	}
	return t.engine.DSSKernel(p, l)
}

func (t *Tape) checkDSS(p *engine.DSSParams) {
	n := p.Re.Len()
	h := p.W.Len() / (2 * n)
	if p.Im.Len() != n || p.W.Len() != 2*h*n || p.LogDt != nil && p.LogDt.Len() != 2*h ||
		p.Scale == engine.DSSSoftmax && p.L < 1 {
		shapePanic("DSS", p.Re, p.Im, p.LogDt, p.W)
	}
}

// DPLRSystem prepares the systems of p. The result is valid until Reset.
func (t *Tape) DPLRSystem(p *engine.DPLRParams) *engine.DPLRSystem {
	h := p.LogDt.Len()
	n := p.InvAReal.Len() / h
	if p.InvAReal.Len() != h*n || p.AImag.Len() != h*n || p.Ct.Len() != 2*h*n || p.B.Len() != 2*h*n ||
		p.Rank() > engine.MaxRank || p.P != nil && p.P.Len() != 2*p.Rank()*h*n || p.L < 1 {
		shapePanic("DPLRSystem", p.LogDt, p.InvAReal, p.AImag, p.B, p.P, p.Ct)
	}
	return t.engine.DPLRSystem(p)
}

// DPLRKernel generates the convolution kernels of the systems, l ≤ L, in the engine's layout. If no gradients of the
// systems are needed, it may return cached kernels, which may be longer.
//
//	K[j, h] = 2 Re Σ_n C Ābarʲ Bbar
func (t *Tape) DPLRKernel(s *engine.DPLRSystem, l int) *tensor.Tensor {
	if l > s.L {
		shapePanic("DPLRKernel")
	}
	return t.engine.DPLRKernel(s, l)
}

// DPLRSSM runs the systems of s over rows u (n, h): y = SSM(u) + D u with the skip D (h) or nil. A slot (h, modes, 2)
// holds the state of every channel.
//
// C~ describes a system for s.L steps. Longer rows are convolved in pieces with a state between them.
func (t *Tape) DPLRSSM(u *tensor.Tensor, s *engine.DPLRSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := u.Dim(-1)
	checkRows("DPLRSSM", r, u)
	if d != s.H || skip != nil && skip.Len() != d {
		shapePanic("DPLRSSM", u, skip)
	}
	checkSlots("DPLRSSM", r, slots, 2*d*s.N)
	return t.engine.DPLRSSM(u, s, skip, r, slots)
}
