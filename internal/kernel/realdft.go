package kernel

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// RealDFT computes real sequences of any length l from the halves k ≤ l/2 of their discrete Fourier transforms, many
// side by side:
//
//	x[t] = Re Σ_k X[k]·exp(2πi·kt/l)
//
// With l = P·Q, k = a + P·b and t = Q·c + d the exponent is ac/P + ad/l + bd/Q: a product with a matrix over b for each
// a, a rotation, and one product over a. Both are products of real matrices with one column per sequence, at the speed
// of Gemm: about 4·l·(P+Q) operations per sequence. For the lengths that matter this is as fast as other transforms,
// works for any length, and loses no digits to many passes.
type RealDFT struct {
	l, p, q, half int
	inner         []float32 // (2q, 2·half): from real and imaginary parts of b to real parts of d, then imaginary ones
	outer         []float32 // (p, 2p): from real and imaginary parts of a to c
	turns         []rotation
}

var realDFTs sync.Map // by length

// NewRealDFT returns the transform for sequences of length l ≥ 1. Transforms are made once and shared.
func NewRealDFT(l int) *RealDFT {
	if f, ok := realDFTs.Load(l); ok {
		return f.(*RealDFT)
	}
	f := &RealDFT{l: l, p: 1}
	for p := 2; p*p <= l; p++ {
		if l%p == 0 {
			f.p = p
		}
	}
	f.q = l / f.p
	f.half = l/2/f.p + 1
	f.inner = make([]float32, 4*f.q*f.half)
	for d := range f.q {
		re, im := f.inner[2*d*f.half:], f.inner[2*(f.q+d)*f.half:]
		for b := range f.half {
			w := turn(b*d%f.q, f.q)
			re[2*b], re[2*b+1], im[2*b], im[2*b+1] = w.re, -w.im, w.im, w.re
		}
	}
	f.outer = make([]float32, 2*f.p*f.p)
	for c := range f.p {
		for a := range f.p {
			w := turn(a*c%f.p, f.p)
			f.outer[2*(c*f.p+a)], f.outer[2*(c*f.p+a)+1] = w.re, -w.im
		}
	}
	for a := range f.p {
		for d := range f.q {
			f.turns = append(f.turns, turn(a*d, l))
		}
	}
	realDFTs.Store(l, f)
	return f
}

// SpectrumRows returns the number of rows of a half of a transform, including rows that belong to no k.
func (f *RealDFT) SpectrumRows() int { return 2 * f.p * f.half }

// Row returns the row of the real part of X[k]. The row of the imaginary part follows it.
func (f *RealDFT) Row(k int) int { return 2 * (k%f.p*f.half + k/f.p) }

// Weight returns the factor for element k ≤ l/2 of a discrete Fourier transform with which Inverse gives its sequence:
// element k also represents l-k.
func (f *RealDFT) Weight(k int) float64 {
	if k == 0 || 2*k == f.l {
		return 1 / float64(f.l)
	}
	return 2 / float64(f.l)
}

// WorkSize returns the number of floats that Inverse and Transpose need as work for h sequences.
func (f *RealDFT) WorkSize(h int) int { return 2 * f.l * h }

// Inverse computes x (l, h) from X (SpectrumRows, h) by the formula of RealDFT. Rows of X that belong to no k must be
// zero: they are treated as the next larger k.
func (f *RealDFT) Inverse(x, X []float32, h int, work []float32) {
	y := work[:2*f.l*h] // [a][part][d][h]
	parallel.For(f.p, 1, func(lo, hi int) {
		for a := lo; a < hi; a++ {
			y := y[2*a*f.q*h:][:2*f.q*h]
			GemmInline(Product{
				Op: NN, M: 2 * f.q, N: h, K: 2 * f.half, A: f.inner, LDA: 2 * f.half, B: X[2*a*f.half*h:], LDB: h,
				C: y, LDC: h,
			})
			f.rotate(y, a, h, 1)
		}
	})
	Gemm(Product{
		Op: NN, M: f.p, N: f.q * h, K: 2 * f.p, A: f.outer, LDA: 2 * f.p, B: y, LDB: f.q * h, C: x, LDC: f.q * h,
	})
}

// Transpose computes dX, the gradients of a loss by the real and imaginary parts of X, from dx, the gradient by x.
func (f *RealDFT) Transpose(dX, dx []float32, h int, work []float32) {
	y := work[:2*f.l*h]
	Gemm(Product{
		Op: TN, M: 2 * f.p, N: f.q * h, K: f.p, A: f.outer, LDA: 2 * f.p, B: dx, LDB: f.q * h, C: y, LDC: f.q * h,
	})
	parallel.For(f.p, 1, func(lo, hi int) {
		for a := lo; a < hi; a++ {
			y := y[2*a*f.q*h:][:2*f.q*h]
			f.rotate(y, a, h, -1)
			GemmInline(Product{
				Op: TN, M: 2 * f.half, N: h, K: 2 * f.q, A: f.inner, LDA: 2 * f.half, B: y, LDB: h,
				C: dX[2*a*f.half*h:], LDC: h,
			})
		}
	})
}

// rotate multiplies the rows d of y by exp(sign·2πi·ad/l): the real parts (q, h), then the imaginary ones.
func (f *RealDFT) rotate(y []float32, a, h int, sign float32) {
	if a == 0 {
		return
	}
	for d := 1; d < f.q; d++ {
		w := f.turns[a*f.q+d]
		re, im := y[d*h:][:h], y[(f.q+d)*h:][:h]
		sin := sign * w.im
		for v, r := range re {
			i := im[v]
			re[v], im[v] = float32(w.re*r)-float32(sin*i), float32(sin*r)+float32(w.re*i)
		}
	}
}
