package reference

import (
	"math"
	"math/cmplx"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// dssMode is a mode of DSS (arXiv:2203.14343 §3). With z = dt_re·Re Λ + i·dt_im·Im Λ its part of the kernel is
//
//	K_k = Re W·S·exp(z·(k - o))
//	plain:    S = 1,             o = 0
//	exp:      S = (e^z - 1)/Λ,   o = 0
//	softmax:  S = (e^z' - 1)·r,  r = conj(x)/(|x|² + 1e-7) for 1/x,  x = (e^(L·z') - 1)·Λ
//
// where z' = z and o = 0, except for Re Λ > 0. In that case the softmax is counted from the end, where it is largest:
// z' = -z and o = L-1.
type dssMode struct {
	lambda, z    complex128
	dtRe, dtIm   float64
	sign         float64 // of z' = sign·z
	scale        complex128
	origin       float64    // o
	x, r         complex128 // of the softmax
	own, channel int        // the number of the mode, and of its channel
}

// dssEpsilon is added to |x|² in the official release.
const dssEpsilon = 1e-7

// dssMode returns mode i of the h·n modes of p.
func (eng *Engine) dssMode(p *engine.DSSParams, i int) dssMode {
	n := p.Re.Len()
	m := dssMode{own: i % n, channel: i / n, dtRe: 1, dtIm: 1, sign: 1, scale: 1}
	re, im := eng.values(p.Re)[m.own], eng.values(p.Im)[m.own]
	if p.LogNegRe {
		re = -math.Exp(re)
	}
	if p.LogIm {
		im = math.Exp(im)
	}
	if p.LogDt != nil {
		m.dtRe, m.dtIm = math.Exp(eng.values(p.LogDt)[2*m.channel]), math.Exp(eng.values(p.LogDt)[2*m.channel+1])
	}
	m.lambda, m.z = complex(re, im), complex(m.dtRe*re, m.dtIm*im)
	if re > 0 {
		m.sign, m.origin = -1, float64(p.L-1)
	}
	switch p.Scale {
	case engine.DSSExp:
		m.scale = (cmplx.Exp(m.z) - 1) / m.lambda
	case engine.DSSSoftmax:
		z := complex(m.sign, 0) * m.z
		m.x = (cmplx.Exp(complex(float64(p.L), 0)*z) - 1) * m.lambda
		m.r = cmplx.Conj(m.x) / complex(square(m.x)+dssEpsilon, 0)
		m.scale = (cmplx.Exp(z) - 1) * m.r
	}
	return m
}

// dssBack adds to the gradients of the parameters the terms through z and S, by their derivatives
//
//	exp:      ∂S/∂z = e^z/Λ,  ∂S/∂Λ = -S/Λ
//	softmax:  ∂S/∂z' = e^z'·r,  ∂S/∂r = e^z' - 1,  ∂x/∂z' = L·e^(L·z')·Λ,  ∂x/∂Λ = e^(L·z') - 1
//
// and, as r is no analytic function of x, g_x = conj(g_r)/q - 2 Re(g_r·x)/q²·x with q = |x|² + 1e-7. Then
//
//	g_Re Λ = dt_re·Re g_z + Re g_Λ,  dLogDt_re = dt_re·Re Λ·Re g_z,  the same for Im
//	dRe = g_Re Λ, times Re Λ where that is -exp(Re);  dIm = g_Im Λ, times Im Λ where that is exp(Im)
func (eng *Engine) dssBack(p *engine.DSSParams, m *dssMode, gz, gScale complex128) {
	var gLambda complex128
	switch p.Scale {
	case engine.DSSExp:
		gz += gScale * cmplx.Conj(cmplx.Exp(m.z)/m.lambda)
		gLambda = -gScale * cmplx.Conj(m.scale/m.lambda)
	case engine.DSSSoftmax:
		z, l, q := complex(m.sign, 0)*m.z, complex(float64(p.L), 0), square(m.x)+dssEpsilon
		gr := gScale * cmplx.Conj(cmplx.Exp(z)-1)
		gx := cmplx.Conj(gr)/complex(q, 0) - complex(2*real(gr*m.x)/(q*q), 0)*m.x
		gLambda = gx * cmplx.Conj(cmplx.Exp(l*z)-1)
		gz += complex(m.sign, 0) * (gScale*cmplx.Conj(cmplx.Exp(z)*m.r) + gx*cmplx.Conj(l*cmplx.Exp(l*z)*m.lambda))
	}
	re, im := m.dtRe*real(gz)+real(gLambda), m.dtIm*imag(gz)+imag(gLambda)
	if p.LogNegRe {
		re *= real(m.lambda)
	}
	if p.LogIm {
		im *= imag(m.lambda)
	}
	eng.gradOf(p.Re)[m.own] += re
	eng.gradOf(p.Im)[m.own] += im
	dLogDt := eng.grad(p.LogDt, 2*m.channel+2)
	dLogDt[2*m.channel] += m.dtRe * real(m.lambda) * real(gz)
	dLogDt[2*m.channel+1] += m.dtIm * imag(m.lambda) * imag(gz)
}

func square(z complex128) float64 { return real(z)*real(z) + imag(z)*imag(z) }

// DSSKernel returns the sum of the modes, (l, h). Backward, with g = dK_k for each k < l:
//
//	g_W = Σ_k g·conj(S·E),  g_S = Σ_k g·conj(W·E),  g_z = Σ_k g·conj(W·S·E·(k - o)),  E = exp(z·(k - o))
//
// HoldMax treats z·o as a constant: then k replaces k - o in g_z.
func (eng *Engine) DSSKernel(p *engine.DSSParams, l int) *tensor.Tensor {
	size := p.W.Len() / 2
	h := size / p.Re.Len()
	k := eng.New(l, h)
	K, W := eng.values(k), eng.values(p.W)
	at := func(m *dssMode, k int) complex128 { return cmplx.Exp(m.z * complex(float64(k)-m.origin, 0)) }
	for i := range size {
		m := eng.dssMode(p, i)
		for j := range l {
			K[j*h+m.channel] += real(pair(W, i) * m.scale * at(&m, j))
		}
	}
	eng.record("DSSKernel", list{k}, list{p.Re, p.Im, p.LogDt, p.W}, func() {
		dK, dW := eng.gradOf(k), eng.gradOf(p.W)
		for i := range size {
			m := eng.dssMode(p, i)
			w := pair(W, i)
			var gz, gScale complex128
			for j := range l {
				g, e := complex(dK[j*h+m.channel], 0), at(&m, j)
				steps := float64(j)
				if !p.HoldMax {
					steps -= m.origin
				}
				addPair(dW, i, g*cmplx.Conj(m.scale*e))
				gScale += g * cmplx.Conj(w*e)
				gz += g * cmplx.Conj(w*m.scale*e*complex(steps, 0))
			}
			eng.dssBack(p, &m, gz, gScale)
		}
	})
	return k
}

// DSSSystem returns the system whose kernel is made of the modes with Re Λ < 0, sampled by zero-order hold with dt = B
// = 1:
//
//	Ā = e^z,   B̄ = v = (e^z - 1)/z,   C = W·S/(2v),   so that 2 Re C·B̄·Āᵏ = Re W·S·e^(z·k)
//
// A mode with Re Λ > 0 has no kernel that runs forwards. It gets Ā = e^z', C = 0, and no gradient. Backward:
//
//	g_W = g_C·conj(S/(2v)),  g_S = g_C·conj(W/(2v)),  g_v = g_B̄ - g_C·conj(C/v)
//	g_z = g_Ā·conj(e^z) + g_v·conj((e^z - v)/z)
func (eng *Engine) DSSSystem(p *engine.DSSParams) *engine.DiagSystem {
	n, size := p.Re.Len(), p.W.Len()/2
	h := size / n
	s := &engine.DiagSystem{H: h, N: n, Abar: eng.New(h, n, 2), Bbar: eng.New(h, n, 2), C: eng.New(h, n, 2)}
	Abar, Bbar, C, W := eng.values(s.Abar), eng.values(s.Bbar), eng.values(s.C), eng.values(p.W)
	exponents := make([]complex128, size)
	s.Private = exponents
	for i := range size {
		m := eng.dssMode(p, i)
		z := complex(m.sign, 0) * m.z
		exponents[i] = z
		v := (cmplx.Exp(z) - 1) / z
		setPair(Abar, i, cmplx.Exp(z))
		setPair(Bbar, i, v)
		if m.sign > 0 {
			setPair(C, i, pair(W, i)*m.scale/(2*v))
		}
	}
	eng.record("DSSSystem", list{s.Abar, s.Bbar, s.C}, list{p.Re, p.Im, p.LogDt, p.W}, func() {
		dAbar, dBbar, dC, dW := eng.gradOf(s.Abar), eng.gradOf(s.Bbar), eng.gradOf(s.C), eng.gradOf(p.W)
		for i := range size {
			m := eng.dssMode(p, i)
			if m.sign < 0 {
				continue
			}
			a, v, gC := pair(Abar, i), pair(Bbar, i), pair(dC, i)
			gv := pair(dBbar, i) - gC*cmplx.Conj(pair(C, i)/v)
			addPair(dW, i, gC*cmplx.Conj(m.scale/(2*v)))
			gz := pair(dAbar, i)*cmplx.Conj(a) + gv*cmplx.Conj((a-v)/m.z)
			eng.dssBack(p, &m, gz, gC*cmplx.Conj(pair(W, i)/(2*v)))
		}
	})
	return s
}
