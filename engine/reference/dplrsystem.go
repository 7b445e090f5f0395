package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
)

// DPLRSystem returns the parameters of S4 (arXiv:2111.00396) in units of a = dt/2 = exp(LogDt)/2:
//
//	λ = a·(-exp(InvAReal) + i·AImag),   b = a·B,   p = √a·P,   C~ itself
//
// Backward:
//
//	dInvAReal = Re g_λ·Re λ,   dAImag = Im g_λ·a,   dB = g_b·a,   dP = g_p·√a
//	dLogDt = Σ_n Re(g_λ·conj(λ) + g_b·conj(b) + Σ_r g_p·conj(p)/2)
//
// A tape that does not record reuses the matrices of a system that the last one stored, because they take long to
// compute.
func (eng *Engine) DPLRSystem(p *engine.DPLRParams) *engine.DPLRSystem {
	params := p.Tensors()
	if s, ok := p.Cache.Load(kind, params[:]...).(*engine.DPLRSystem); ok && !eng.Recording {
		return s
	}
	h, rank := p.LogDt.Len(), p.Rank()
	n := p.InvAReal.Len() / h
	s := &engine.DPLRSystem{H: h, N: n, L: p.L, Rank: rank,
		Lambda: eng.New(h, n, 2), B: eng.New(h, n, 2), Ct: eng.New(h, n, 2)}
	if rank > 0 {
		s.P = eng.New(rank, h, n, 2)
	}
	logDt, re, im := eng.values(p.LogDt), eng.values(p.InvAReal), eng.values(p.AImag)
	λ, b, low, B, P := eng.values(s.Lambda), eng.values(s.B), eng.values(s.P), eng.values(p.B), eng.values(p.P)
	copy(eng.values(s.Ct), eng.values(p.Ct))
	half := func(i int) float64 { return math.Exp(logDt[i/n]) / 2 } // a of mode i
	for i := range h * n {
		a := half(i)
		setPair(λ, i, complex(-a*math.Exp(re[i]), a*im[i]))
		setPair(b, i, complex(a, 0)*pair(B, i))
		for r := range rank {
			setPair(low, r*h*n+i, complex(math.Sqrt(a), 0)*pair(P, r*h*n+i))
		}
	}
	if !eng.Recording {
		s.Private = eng.matrices(s)
		p.Cache.Store(kind, s, params[:]...)
	}
	eng.record("DPLRSystem", list{s.Lambda, s.B, s.P, s.Ct}, params[:], func() {
		dLogDt, dRe, dIm, dB := eng.gradOf(p.LogDt), eng.gradOf(p.InvAReal), eng.gradOf(p.AImag), eng.gradOf(p.B)
		dP, dCt := eng.grad(p.P, len(P)), eng.gradOf(p.Ct)
		gλ, gb, gp, gCt := eng.gradOf(s.Lambda), eng.gradOf(s.B), eng.grad(s.P, len(P)), eng.gradOf(s.Ct)
		for i := range h * n {
			a := half(i)
			dRe[i] += gλ[2*i] * λ[2*i]
			dIm[i] += gλ[2*i+1] * a
			for j := 2 * i; j < 2*i+2; j++ { // real and imaginary part
				dB[j] += gb[j] * a
				dCt[j] += gCt[j]
				dLogDt[i/n] += gλ[j]*λ[j] + gb[j]*b[j]
				for r := range rank {
					dP[2*r*h*n+j] += gp[2*r*h*n+j] * math.Sqrt(a)
					dLogDt[i/n] += gp[2*r*h*n+j] * low[2*r*h*n+j] / 2
				}
			}
		}
	})
	return s
}
