package kernel

import "math"

// ComplexScan is one channel of Mamba's selective scan with n complex states over some positions:
//
//	h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t],   y[t] = 2 Re Σ_n C[t]·h[t] + skip·u[t]
//
// Complex numbers are pairs.
type ComplexScan struct {
	Rows     int       // number of positions
	U, Delta []float32 // u and Δ; also y and all gradients of these
	Step     int       // distance between positions of U and Delta, in floats
	B, C     []float32 // n complex numbers each; also their gradients
	Stride   int       // distance between positions of B and C, in floats
	A        []float32 // n complex numbers
	Skip     float32
}

// Run runs the scan from the state h, which becomes the state after the scan. y may be nil. If work has Rows·4n floats,
// Run stores the state before each step and the decays there, for Back.
func (s *ComplexScan) Run(y, h, work []float32) {
	n, step, a := len(h)/2, s.Step, s.A
	for t := range s.Rows {
		dt, in := s.Delta[t*step], s.U[t*step]
		bt, ct := s.B[t*s.Stride:][:2*n], s.C[t*s.Stride:][:2*n]
		var sum float32
		for i := range n {
			x, decay := pairAt(h, i), cexp(dt*a[2*i], dt*a[2*i+1])
			if work != nil {
				w := work[t*4*n:][:4*n]
				putPair(w[:2*n], i, x)
				putPair(w[2*n:], i, decay)
			}
			x = decay*x + times32(dt*in, pairAt(bt, i))
			putPair(h, i, x)
			sum += real(pairAt(ct, i) * x)
		}
		if y != nil {
			y[t*step] = 2*sum + float32(s.Skip*in)
		}
	}
}

// ComplexScanGrads holds the gradients of the inputs of a ComplexScan, each laid out like its input.
type ComplexScanGrads struct{ U, Delta, B, C, A []float32 }

// Back is the backward pass of Run, using the values that Run stored in work. h (n pairs) holds the gradient of the
// state after the last position, and is replaced by the gradient of the state before the first. Back adds to all of d,
// and returns the gradient of the skip.
func (s *ComplexScan) Back(d ComplexScanGrads, dy, h, work []float32) (dskip float32) {
	n, a, da := len(h)/2, s.A, d.A
	for t := s.Rows - 1; t >= 0; t-- {
		at := t * s.Step
		dt, in, out := s.Delta[at], s.U[at], dy[at]
		bt, ct, w := s.B[t*s.Stride:][:2*n], s.C[t*s.Stride:][:2*n], work[t*4*n:][:4*n]
		dbt, dct := d.B[t*s.Stride:][:2*n], d.C[t*s.Stride:][:2*n]
		var dIn, dDt float32 // the gradients of Δ·u, and of Δ through the decay
		for i := range n {
			old, decay, bi := pairAt(w, i), pairAt(w[2*n:], i), pairAt(bt, i)
			x := decay*old + times32(dt*in, bi)
			gi := pairAt(h, i) + times32(2*out, conj(pairAt(ct, i)))
			putPair(dct, i, pairAt(dct, i)+times32(2*out, conj(x)))
			putPair(dbt, i, pairAt(dbt, i)+times32(dt*in, gi))
			dIn += real(gi * conj(bi))
			gi *= conj(decay)
			putPair(h, i, gi)
			dExponent := gi * conj(old)
			dDt += real(dExponent * conj(pairAt(a, i)))
			putPair(da, i, pairAt(da, i)+times32(dt, dExponent))
		}
		d.U[at] += float32(dIn*dt) + float32(out*s.Skip)
		d.Delta[at] += float32(dIn*in) + dDt
		dskip += float32(out * in)
	}
	return dskip
}

func pairAt(x []float32, i int) complex64     { return complex(x[2*i], x[2*i+1]) }
func putPair(x []float32, i int, v complex64) { x[2*i], x[2*i+1] = real(v), imag(v) }
func conj(v complex64) complex64              { return complex(real(v), -imag(v)) }

func times32(s float32, v complex64) complex64 { return complex(s*real(v), s*imag(v)) }

// cexp returns e^(re + i·im).
func cexp(re, im float32) complex64 {
	sin, cos := sincos(float64(im))
	size := Exp(re)
	return complex(size*cos, size*sin)
}

// sincos returns the sine and cosine of x with an absolute error below 1e-7, by Taylor polynomials about the nearest
// multiple of π/2.
func sincos(x float64) (sin, cos float32) {
	if !(math.Abs(x) < 1<<20) {
		s, c := math.Sincos(x)
		return float32(s), float32(c)
	}
	k := math.RoundToEven(x * (2 / math.Pi))
	r := x - k*(math.Pi/2)
	q := r * r
	s := r * (1 + q*(-1./6+q*(1./120+q*(-1./5040+q*(1./362880)))))
	c := 1 + q*(-1./2+q*(1./24+q*(-1./720+q*(1./40320-q*(1./3628800)))))
	switch int(k) & 3 {
	case 1:
		s, c = c, -s
	case 2:
		s, c = -s, -c
	case 3:
		s, c = -c, s
	}
	return float32(s), float32(c)
}
