package reference

import (
	"math"
	"math/cmplx"

	"github.com/hippo-ssm/hippo/engine"
)

// DiagSystem discretizes x' = Ax + Bu mode by mode (S4D, arXiv:2206.11893 §3). A = -exp(InvAReal) + i·AImag, or has
// another real part, dt = exp(LogDt), and B is ones if not given:
//
//	bilinear:  Ā = (1 + dt·A/2)/(1 - dt·A/2),  B̄ = B·dt/(1 - dt·A/2)
//	ZOH:       Ā = exp(dt·A),                  B̄ = B·(Ā - 1)/A
//
// Their derivatives, with q = 1/(1 - dt·A/2), are
//
//	bilinear:  ∂Ā/∂A = dt·q²,  ∂Ā/∂dt = A·q²,  ∂B̄/∂A = B·dt²/2·q²,         ∂B̄/∂dt = B·q²,  ∂B̄/∂B = dt·q
//	ZOH:       ∂Ā/∂A = dt·Ā,   ∂Ā/∂dt = A·Ā,   ∂B̄/∂A = (B·dt·Ā - B̄)/A,    ∂B̄/∂dt = B·Ā,   ∂B̄/∂B = (Ā - 1)/A
//
// Backward:
//
//	g_A = g_Ā·conj(∂Ā/∂A) + g_B̄·conj(∂B̄/∂A),  g_dt and g_B likewise
//	dInvAReal = Re g_A·∂Re A/∂InvAReal,  dAImag = Im g_A,  dLogDt = Σ_n Re g_dt·dt,  dB = g_B
func (eng *Engine) DiagSystem(p *engine.DiagParams) *engine.DiagSystem {
	h := p.LogDt.Len()
	n := p.InvAReal.Len() / h
	s := &engine.DiagSystem{H: h, N: n, Abar: eng.New(h, n, 2), Bbar: eng.New(h, n, 2), C: eng.New(h, n, 2)}
	logDt, re, im := eng.values(p.LogDt), eng.values(p.InvAReal), eng.values(p.AImag)
	Abar, Bbar := eng.values(s.Abar), eng.values(s.Bbar)
	copy(eng.values(s.C), eng.values(p.C))
	mode := func(i int) (A, B, dt complex128) {
		a, _ := p.Real.Of(re[i])
		A, B, dt = complex(a, im[i]), 1, complex(math.Exp(logDt[i/n]), 0)
		if p.B != nil {
			B = pair(eng.values(p.B), i)
		}
		return A, B, dt
	}
	exponents := make([]complex128, h*n) // dt·A, for DiagScan
	for i := range exponents {
		A, B, dt := mode(i)
		exponents[i] = dt * A
		if p.Disc == engine.Bilinear {
			setPair(Abar, i, (1+dt*A/2)/(1-dt*A/2))
			setPair(Bbar, i, B*dt/(1-dt*A/2))
		} else {
			setPair(Abar, i, cmplx.Exp(dt*A))
			setPair(Bbar, i, B*(cmplx.Exp(dt*A)-1)/A)
		}
	}
	s.Private = exponents
	eng.record("DiagSystem", list{s.Abar, s.Bbar, s.C}, list{p.LogDt, p.InvAReal, p.AImag, p.B, p.C}, func() {
		dLogDt, dRe, dIm := eng.gradOf(p.LogDt), eng.gradOf(p.InvAReal), eng.gradOf(p.AImag)
		dB, dC := eng.grad(p.B, 2*h*n), eng.gradOf(p.C)
		gAbar, gBbar, gC := eng.gradOf(s.Abar), eng.gradOf(s.Bbar), eng.gradOf(s.C)
		for i := range h * n {
			A, B, dt := mode(i)
			a, b := pair(Abar, i), pair(Bbar, i)
			var aByA, aByDt, bByA, bByDt, bByB complex128
			if p.Disc == engine.Bilinear {
				q := 1 / (1 - dt*A/2)
				aByA, aByDt, bByA, bByDt, bByB = dt*q*q, A*q*q, B*dt*dt/2*q*q, B*q*q, dt*q
			} else {
				aByA, aByDt, bByA, bByDt, bByB = dt*a, A*a, (B*dt*a-b)/A, B*a, (a-1)/A
			}
			ga, gb := pair(gAbar, i), pair(gBbar, i)
			gA := ga*cmplx.Conj(aByA) + gb*cmplx.Conj(bByA)
			_, slope := p.Real.Of(re[i])
			dRe[i] += real(gA) * slope
			dIm[i] += imag(gA)
			dLogDt[i/n] += real(ga*cmplx.Conj(aByDt)+gb*cmplx.Conj(bByDt)) * real(dt)
			addPair(dB, i, gb*cmplx.Conj(bByB))
			addPair(dC, i, pair(gC, i))
		}
	})
	return s
}
