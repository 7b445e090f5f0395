package engine

import (
	"math"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/tensor"
)

// Systems are state-space models whose coefficients do not depend on the input.
type Systems interface {
	// ShiftSSM computes s[t] = shift(s[t-1]) + B x[t] and returns y[t] = C·s[t] + D x[t]; x (n, d), B, C (d, m), D (d),
	// slots (d, m).
	ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *Rows, slots Slots) *tensor.Tensor

	// DiagSystem discretizes the systems of p.
	DiagSystem(p *DiagParams) *DiagSystem
	// DiagKernel returns K[j, h] = 2 Re Σ_n C[h,n] Bbar[h,n] Abar[h,n]^j for j < l, in the engine's layout. Because of
	// rounding, kernels of other lengths may have other bits. A row whose bits must not depend on other rows needs the
	// kernel of its own length.
	DiagKernel(s *DiagSystem, l int) *tensor.Tensor
	// DiagSSM computes u_ij = k_i·v_j and z_ij = SSM(u_ij) + D u_ij, and returns y_j = Σ_i q_i·z_ij for each head; D
	// (h), slots (h·head_dim², modes, 2).
	DiagSSM(g Gates, s *DiagSystem, skip *tensor.Tensor, r *Rows, slots Slots) *tensor.Tensor
	// DiagScan is DiagSSM without gates, for positions at uneven times: position t comes r = steps[t] times dt after
	// the previous one. With z = dt·A, it computes x[t] = e^(r z)·x[t-1] + Bbar·(e^(r z)-1)/(e^z-1)·u[t], which holds
	// u[t] for that time, and returns y = 2 Re Σ_n C x + D u. u (n, h), steps (n, 1), D (h), slots (h, modes, 2). s is
	// made from DiagParams with Uneven, or by DSSSystem.
	DiagScan(u, steps *tensor.Tensor, s *DiagSystem, skip *tensor.Tensor, r *Rows, slots Slots) *tensor.Tensor

	// DSSSystem returns the diagonal system with the kernel of p, for all modes with Re Λ < 0.
	DSSSystem(p *DSSParams) *DiagSystem
	// DSSKernel returns the kernels K of p for j < l, in the engine's layout. With the softmax, modes with Re Λ > 0 are
	// allowed.
	DSSKernel(p *DSSParams, l int) *tensor.Tensor

	// DPLRSystem prepares the systems of p.
	DPLRSystem(p *DPLRParams) *DPLRSystem
	// DPLRKernel returns K[j, h] = 2 Re Σ_n C Abarʲ Bbar for j < l ≤ L, in the engine's layout. If the systems need no
	// gradients, it may return cached kernels, which may be longer.
	DPLRKernel(s *DPLRSystem, l int) *tensor.Tensor
	// DPLRSSM returns y = SSM(u) + D u, u (n, h), D (h) or nil, slots (h, modes, 2).
	DPLRSSM(u *tensor.Tensor, s *DPLRSystem, skip *tensor.Tensor, r *Rows, slots Slots) *tensor.Tensor
}

// Cache holds what an engine has computed from parameters, such as a discretized system, until they change. It is safe
// for concurrent use.
type Cache struct{ p atomic.Pointer[cached] }

type cached struct {
	owner    any // the engine and its purpose
	versions [8]uint64
	value    any
}

// Load returns what owner stored for xs, or nil if any of xs has changed since. Some of xs may be nil.
func (c *Cache) Load(owner any, xs ...*tensor.Tensor) any {
	v := c.p.Load()
	if v == nil || v.owner != owner || v.versions != versions(xs) {
		return nil
	}
	return v.value
}

// Store saves a value that owner has computed from the current xs.
func (c *Cache) Store(owner, value any, xs ...*tensor.Tensor) {
	c.p.Store(&cached{owner, versions(xs), value})
}

func versions(xs []*tensor.Tensor) (v [8]uint64) {
	for i, x := range xs {
		if x != nil {
			v[i] = x.Version()
		}
	}
	return v
}

// Discretization turns x' = Ax + Bu into x[t] = Abar x[t-1] + Bbar u[t] for a step dt.
type Discretization int

// The discretizations of a diagonal system.
const (
	Bilinear Discretization = iota // Abar = (1+dtA/2)/(1-dtA/2), Bbar = B dt/(1-dtA/2)
	ZOH                            // Abar = exp(dtA),             Bbar = B (exp(dtA)-1)/A
)

// RealPart determines how the real part of A follows from its parameter x, so that systems are stable (S4D,
// arXiv:2206.11893, §3.4). All but the last keep it negative.
type RealPart int

// The real parts of A.
const (
	NegExp      RealPart = iota // -e^x
	NegSoftplus                 // -log(1+e^x)
	NegReLU                     // -max(x, 0) - 1e-4
	Negative                    // -x
)

// ReLUFloor keeps NegReLU below zero by this amount, because sampling divides by A.
const ReLUFloor = 1e-4

// Of returns the real part of A and its derivative with respect to x.
func (r RealPart) Of(x float64) (re, slope float64) {
	switch r {
	case NegSoftplus:
		return -max(x, 0) - math.Log1p(math.Exp(-math.Abs(x))), -1 / (1 + math.Exp(-x))
	case NegReLU:
		if x > 0 {
			return -x - ReLUFloor, -1
		}
		return -ReLUFloor, 0
	case Negative:
		return -x, -1
	}
	return -math.Exp(x), -math.Exp(x)
}

// DiagParams holds the parameters of h diagonal state-space systems of n complex modes each. A mode stands for itself
// and its conjugate:
//
//	A = -exp(InvAReal) + i·AImag,  dt = exp(LogDt),  B, C complex as (…, 2)
//
// or another RealPart of A. LogDt (h), InvAReal, AImag (h·n), B (h·n·2) or nil for ones, C (h·n·2): the parametrization
// of H3 and S4D (arXiv:2206.11893 §4). An engine caches the discretized system until the parameters change, so that
// decoding does not compute it at every token.
type DiagParams struct {
	LogDt, InvAReal, AImag, B, C *tensor.Tensor
	Disc                         Discretization
	Real                         RealPart
	Uneven                       bool // the system is for DiagScan, and sampled by ZOH

	Cache Cache
}

// Tensors returns the parameters; B may be nil.
func (p *DiagParams) Tensors() [5]*tensor.Tensor {
	return [5]*tensor.Tensor{p.LogDt, p.InvAReal, p.AImag, p.B, p.C}
}

// DiagSystem is H discretized systems of N modes: x[t] = Abar x[t-1] + Bbar u[t], y = 2 Re Σ_n C x. Abar, Bbar and C
// are complex numbers (h, n, 2) in float64 whatever the engine, because the angles of Abar^l grow with l. They have
// gradients like all results of a tape.
type DiagSystem struct {
	H, N          int
	Abar, Bbar, C *tensor.Tensor

	Private any // for the engine that made it
}

// DSSScale determines the meaning of the weights W of DSS.
type DSSScale int

// The three kernels of the release.
const (
	DSSPlain   DSSScale = iota // K_k = Re Σ_i W_i exp(z_i k)
	DSSExp                     // W_i times (exp(z_i) - 1)/Λ_i: zero-order hold with B = 1
	DSSSoftmax                 // W_i/Λ_i times the softmax of z_i k over k < L
)

// DSSParams holds the parameters of h channels of diagonal state spaces (Gupta et al., arXiv:2203.14343), which have n
// complex modes Λ in common, without conjugates:
//
//	z_i = dt_re·Re Λ_i + i·dt_im·Im Λ_i,  dt = exp(LogDt)
//
// Re, Im (n), LogDt (h, 2) or nil for dt = 1, W (h, n, 2). Re Λ is Re, or -exp(Re) if LogNegRe is set; Im Λ is Im, or
// exp(Im) if LogIm is set. With dt = 1 and both set this is GSS (arXiv:2206.13947, §3.2). The system is cached until
// the parameters change.
type DSSParams struct {
	Re, Im, LogDt, W *tensor.Tensor
	LogNegRe, LogIm  bool
	Scale            DSSScale
	L                int // length of the softmax
	// HoldMax treats z·(L-1), which the softmax subtracts from the exponents of a mode with Re Λ > 0, as a constant in
	// the backward pass. That is not the gradient, but what the release trains with.
	HoldMax bool

	Cache [2]Cache // for the modes with Re Λ < 0, and for the others
}

// Tensors returns the parameters; LogDt may be nil.
func (p *DSSParams) Tensors() [4]*tensor.Tensor { return [4]*tensor.Tensor{p.Re, p.Im, p.LogDt, p.W} }

// DPLRParams holds the parameters of h state-space systems of S4 (arXiv:2111.00396): diagonal plus low rank, of n
// complex modes that stand for themselves and their conjugates, so that P_r^* x and y are real,
//
//	x' = (Λ - Σ_r P_r P_r^*) x + B u,  y = 2 Re Σ_n C x,  Λ = -exp(InvAReal) + i·AImag,  dt = exp(LogDt)
//
// sampled by the bilinear rule. LogDt (h), InvAReal, AImag (h·n), B, Ct (h·n·2), P (rank·h·n·2) or nil for a diagonal
// system; the rank is at most MaxRank. Ct is what S4 trains instead of C, C~ = C (I - Abar^L). An engine
// caches what stepping needs and, without gradients, the kernels until the parameters change.
type DPLRParams struct {
	LogDt, InvAReal, AImag, B, P, Ct *tensor.Tensor
	L                                int

	Cache Cache
}

// MaxRank is the largest rank of a correction, which is that of HiPPO-LegT.
const MaxRank = 2

// Tensors returns the parameters; P may be nil.
func (p *DPLRParams) Tensors() [6]*tensor.Tensor {
	return [6]*tensor.Tensor{p.LogDt, p.InvAReal, p.AImag, p.B, p.Ct, p.P}
}

// Rank returns the rank of the correction.
func (p *DPLRParams) Rank() int {
	if p.P == nil {
		return 0
	}
	return p.P.Len() / (2 * p.InvAReal.Len())
}

// DPLRSystem holds the systems of DPLRParams in float64 and units of dt/2, because the angles of Abar^l grow with l:
//
//	λ = dt/2·Λ,  p = √(dt/2)·P,  b = dt/2·B,  A = λ - Σ_r p_r p_r^*,  Abar = (I - A)⁻¹(I + A)
//
// Lambda, B, Ct (h, n, 2) and P (rank, h, n, 2) or nil are complex numbers. They have gradients like all results of a
// tape.
type DPLRSystem struct {
	H, N, L, Rank    int
	Lambda, B, P, Ct *tensor.Tensor

	Private any // for the engine that made it
}
