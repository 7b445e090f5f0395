package autograd

import (
	"fmt"
	"math"
	"math/cmplx"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Discretization turns x' = Ax + Bu into x[t] = Ābar x[t-1] + B̄ u[t] for a step dt.
type Discretization int

// The discretizations of a diagonal system.
const (
	Bilinear Discretization = iota // Ā = (1+dtA/2)/(1-dtA/2), B̄ = B dt/(1-dtA/2)
	ZOH                            // Ā = exp(dtA),             B̄ = B (exp(dtA)-1)/A
)

// DiagParams are the parameters of h diagonal state-space systems of n complex modes each, a mode standing for itself and
// its conjugate:
//
//	A = -exp(InvAReal) + i·AImag,  dt = exp(LogDt),  B, C complex as (…, 2)
//
// LogDt (h), InvAReal, AImag (h·n), B (h·n·2) or nil for ones, C (h·n·2): the parametrization of H3 and S4D
// (arXiv:2206.11893 §4). It keeps the discretized system while the parameters stay as they are, so that decoding does
// not compute it at every token.
type DiagParams struct {
	LogDt, InvAReal, AImag, B, C *tensor.Tensor
	Disc                         Discretization

	cached atomic.Pointer[cachedSystem]
}

type cachedSystem struct {
	versions [5]uint64
	sys      *DiagSystem
}

func (p *DiagParams) tensors() [5]*tensor.Tensor {
	return [5]*tensor.Tensor{p.LogDt, p.InvAReal, p.AImag, p.B, p.C}
}

func (p *DiagParams) versions() (v [5]uint64) {
	for i, x := range p.tensors() {
		if x != nil {
			v[i] = x.Version()
		}
	}
	return v
}

// DiagSystem is the discretized system, in float64 because the angles of Ā^l grow with l: x ← Ābar x + Bbar u,
// y = 2 Re Σ_n C x. Slices hold h·n values. Operations that use it add to its gradients (d/dRe + i·d/dIm).
type DiagSystem struct {
	H, N          int
	Abar, Bbar, C []complex128
	dA, dB, dC    []complex128
	wantGrad      bool
	a32, b32, c32 []float32 // Abar, Bbar, C as (h·n·2) float32 for the recurrence
}

// DiagSystem discretizes the systems of p. The result lives until Reset.
func (t *Tape) DiagSystem(p *DiagParams) *DiagSystem {
	h := p.LogDt.Len()
	n := p.InvAReal.Len() / h
	if p.InvAReal.Len() != h*n || p.AImag.Len() != h*n || p.C.Len() != 2*h*n || p.B != nil && p.B.Len() != 2*h*n {
		shapePanic("DiagSystem", p.LogDt, p.InvAReal, p.AImag, p.B, p.C)
	}
	if !t.wants(p.LogDt, p.InvAReal, p.AImag, p.B, p.C) {
		v := p.versions()
		if c := p.cached.Load(); c != nil && c.versions == v {
			return c.sys
		}
		sys := &DiagSystem{}
		sys.discretize(p, h, n)
		p.cached.Store(&cachedSystem{v, sys})
		return sys
	}
	op := take[diagSystemOp](t)
	op.p = p
	op.sys.discretize(p, h, n)
	op.sys.wantGrad = true
	for _, g := range []*[]complex128{&op.sys.dA, &op.sys.dB, &op.sys.dC} {
		*g = resize(*g, h*n)
		clear(*g)
	}
	t.push(op)
	return &op.sys
}

func (s *DiagSystem) discretize(p *DiagParams, h, n int) {
	s.H, s.N = h, n
	s.Abar, s.Bbar, s.C = resize(s.Abar, h*n), resize(s.Bbar, h*n), resize(s.C, h*n)
	s.a32, s.b32, s.c32 = resize(s.a32, 2*h*n), resize(s.b32, 2*h*n), resize(s.c32, 2*h*n)
	parallel.For(h, 8, func(lo, hi int) {
		for i := lo * n; i < hi*n; i++ {
			dt, a, b := p.mode(i, i/n)
			switch p.Disc {
			case Bilinear:
				den := 1 - dt*a/2
				s.Abar[i], s.Bbar[i] = (1+dt*a/2)/den, b*dt/den
			case ZOH:
				s.Abar[i] = cmplx.Exp(dt * a)
				s.Bbar[i] = b * (s.Abar[i] - 1) / a
			default:
				panic(fmt.Sprintf("autograd.DiagSystem: discretization %d", p.Disc))
			}
			s.C[i] = pair(p.C.Data(), i)
			setPair(s.a32, i, s.Abar[i])
			setPair(s.b32, i, s.Bbar[i])
			setPair(s.c32, i, s.C[i])
		}
	})
}

// mode returns dt, A and B of mode i, which belongs to channel h. The step is complex for the arithmetic's sake only.
func (p *DiagParams) mode(i, h int) (dt, a, b complex128) {
	dt = complex(math.Exp(float64(p.LogDt.Data()[h])), 0)
	a = complex(-math.Exp(float64(p.InvAReal.Data()[i])), float64(p.AImag.Data()[i]))
	b = 1
	if p.B != nil {
		b = pair(p.B.Data(), i)
	}
	return dt, a, b
}

func pair(x []float32, i int) complex128 { return complex(float64(x[2*i]), float64(x[2*i+1])) }

func setPair(x []float32, i int, v complex128) { x[2*i], x[2*i+1] = float32(real(v)), float32(imag(v)) }

func addPair(x []float32, i int, v complex128) {
	if x != nil {
		x[2*i] += float32(real(v))
		x[2*i+1] += float32(imag(v))
	}
}

type diagSystemOp struct {
	p   *DiagParams
	sys DiagSystem
}

func (o *diagSystemOp) Name() string                 { return "DiagSystem" }
func (o *diagSystemOp) Outputs(func(*tensor.Tensor)) {}

// Backward chains the gradients of Ā, B̄ and C, which the consumers of the system have collected, to the parameters. For a
// holomorphic w = f(z) the rule is dz += dw·conj(f'(z)).
func (o *diagSystemOp) Backward(t *Tape) {
	p, s := o.p, &o.sys
	var g [5][]float32
	for i, x := range p.tensors() {
		g[i] = t.gradOf(x)
	}
	dLogDt, dInvA, dAImag, dBp, dCp := g[0], g[1], g[2], g[3], g[4]
	parallel.For(s.H, 8, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			var ddt float64
			var step float64
			for i := h * s.N; i < (h+1)*s.N; i++ {
				dt, a, b := p.mode(i, h)
				step = real(dt)
				var dAbarDz, dBbarDz, dBbarDdt, dBbarDb, da complex128 // z = dt·A
				switch p.Disc {
				case Bilinear:
					den := 1 - dt*a/2
					dAbarDz = 1 / (den * den)
					dBbarDz = b * dt / 2 / (den * den)
					dBbarDdt = b / den
					dBbarDb = dt / den
				case ZOH:
					dAbarDz = s.Abar[i]
					dBbarDz = b / a * s.Abar[i]
					dBbarDb = (s.Abar[i] - 1) / a
					da = s.dB[i] * cmplx.Conj(-b*(s.Abar[i]-1)/(a*a))
				}
				dz := s.dA[i]*cmplx.Conj(dAbarDz) + s.dB[i]*cmplx.Conj(dBbarDz)
				da += dz * dt
				ddt += real(dz*cmplx.Conj(a)) + real(s.dB[i]*cmplx.Conj(dBbarDdt))
				if dInvA != nil {
					dInvA[i] += float32(real(da) * real(a)) // dA_re/dInvAReal = A_re
				}
				if dAImag != nil {
					dAImag[i] += float32(imag(da))
				}
				addPair(dBp, i, s.dB[i]*cmplx.Conj(dBbarDb))
				addPair(dCp, i, s.dC[i])
			}
			if dLogDt != nil {
				dLogDt[h] += float32(ddt * step)
			}
		}
	})
}
