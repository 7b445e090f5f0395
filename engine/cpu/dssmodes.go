package cpu

import (
	"math"
	"math/cmplx"

	"github.com/hippo-ssm/hippo/engine"
)

// dssEpsilon keeps the denominator x of the softmax away from 0: conj(x)/(|x|² + ε) replaces 1/x, with the ε of the
// official release.
const dssEpsilon = 1e-7

// dssMode holds the values that a mode of DSS computes from Λ, dt and W for a diagonal system. z has the opposite sign
// if mirrored.
type dssMode struct {
	lambda, z, raw, w complex128 // raw is W; w is W after scaling, or 0 if the mode runs in the other direction
	dt                [2]float64
	e                 complex128 // exp(z) - 1
	scale             complex128 // w/W
	phi               complex128 // z/(exp(z) - 1)
	x, r              complex128 // for the softmax: the denominator, and the replacement for 1/x
	all               complex128 // exp(L z) - 1
	on                bool
}

type dssOp struct {
	p        *engine.DSSParams
	d        *engine.DiagParams
	mirrored bool
}

// mode computes mode i of the h·n modes.
func (o *dssOp) mode(i int) (m dssMode) {
	p := o.p
	n := p.Re.Len()
	re, im := float64(p.Re.Data()[i%n]), float64(p.Im.Data()[i%n])
	if p.LogNegRe {
		re = -math.Exp(re)
	}
	if p.LogIm {
		im = math.Exp(im)
	}
	m.lambda, m.dt = complex(re, im), [2]float64{1, 1}
	if p.LogDt != nil {
		for k := range m.dt {
			m.dt[k] = math.Exp(float64(p.LogDt.Data()[i/n*2+k]))
		}
	}
	m.z = complex(m.dt[0]*re, m.dt[1]*im)
	m.on = re > 0 == o.mirrored
	if re > 0 {
		m.z = -m.z
	}
	m.e = expm1(m.z)
	m.phi = m.z / m.e
	m.raw = pair(p.W.Data(), i)
	switch p.Scale {
	case engine.DSSPlain:
		m.scale = 1
	case engine.DSSExp:
		m.scale = m.e / m.lambda
	case engine.DSSSoftmax:
		m.all = expm1(complex(float64(p.L), 0) * m.z)
		m.x = m.all * m.lambda
		m.r = cmplx.Conj(m.x) / complex(norm2(m.x)+dssEpsilon, 0)
		m.scale = m.e * m.r
	}
	if m.on {
		m.w = m.raw * m.scale
	}
	return m
}

func norm2(x complex128) float64 { return real(x)*real(x) + imag(x)*imag(x) }

// expm1 returns exp(z) - 1 without the cancellation near 0.
func expm1(z complex128) complex128 {
	// e^a (cos b + i sin b) - 1 with cos b - 1 = -2 sin²(b/2)
	a, s := math.Expm1(real(z)), math.Sin(imag(z)/2)
	sin, cos := math.Sincos(imag(z))
	return complex(a*cos-2*s*s, (a+1)*sin)
}

func (o *dssOp) Backward(eng *Engine) {
	p, d := o.p, o.d
	gInvA, gAImag, gC := eng.grad(d.InvAReal), eng.grad(d.AImag), eng.grad(d.C)
	dRe, dIm, dLogDt, dW := eng.gradOf(p.Re), eng.gradOf(p.Im), eng.gradOf(p.LogDt), eng.gradOf(p.W)
	n := p.Re.Len()
	for i := range p.W.Len() / 2 {
		m := o.mode(i)
		if !m.on {
			continue
		}
		gc := pair(gC, i)
		gz := complex(float64(gInvA[i])/real(m.z), float64(gAImag[i]))
		dphi := m.phi / m.z * (1 - (m.e+1)*m.phi)
		gz += gc * cmplx.Conj(m.w*dphi/2)
		gw := gc * cmplx.Conj(m.phi/2)
		addPair(dW, i, gw*cmplx.Conj(m.scale))
		g, gl := o.scaleGrad(&m, gw*cmplx.Conj(m.raw))
		gz += g
		if o.mirrored {
			gz = -gz
			if p.HoldMax {
				gz += gw * cmplx.Conj(m.w) * complex(float64(p.L-1), 0)
			}
		}
		gre, gim := m.dt[0]*real(gz)+real(gl), m.dt[1]*imag(gz)+imag(gl)
		if dLogDt != nil {
			dLogDt[i/n*2] += float32(m.dt[0] * real(m.lambda) * real(gz))
			dLogDt[i/n*2+1] += float32(m.dt[1] * imag(m.lambda) * imag(gz))
		}
		if p.LogNegRe {
			gre *= real(m.lambda)
		}
		if p.LogIm {
			gim *= imag(m.lambda)
		}
		if dRe != nil {
			dRe[i%n] += float32(gre)
		}
		if dIm != nil {
			dIm[i%n] += float32(gim)
		}
	}
}

// scaleGrad propagates the gradient g of the scale to z and Λ.
func (o *dssOp) scaleGrad(m *dssMode, g complex128) (gz, gl complex128) {
	switch o.p.Scale {
	case engine.DSSExp:
		return g * cmplx.Conj((m.e+1)/m.lambda), -g * cmplx.Conj(m.scale/m.lambda)
	case engine.DSSSoftmax:
		gr := g * cmplx.Conj(m.e)
		q := norm2(m.x) + dssEpsilon
		// r = conj(x)/q is not an analytic function of x.
		gx := cmplx.Conj(gr)/complex(q, 0) - complex(2*real(gr*m.x)/(q*q), 0)*m.x
		gz = g*cmplx.Conj((m.e+1)*m.r) + gx*cmplx.Conj(complex(float64(o.p.L), 0)*(m.all+1)*m.lambda)
		return gz, gx * cmplx.Conj(m.all)
	}
	return 0, 0
}
