package kernel

import "sync"

// ConvPlan computes causal convolutions y[t] = Σ_{j≤t} k[j]·x[t-j] of real sequences, Lanes channels side by side, by the
// right-angle transform: with ω = exp(iπ/2n), n ≥ l, a cyclic convolution of the twisted sequences ω^t·x[t] and ω^t·k[t]
// turns what wraps around by ω^n = i, so that
//
//	y = Re(ω^{-t} · F⁻¹(k̂ ⊙ x̂)),  x̂ = F(ω^t·x),  k̂ = F(ω^t·k)
//
// holds the causal part alone: no padding to 2l. F is the discrete Fourier transform of n points. The transposes are
// dx = Re(ω^{-t} · F⁻¹(conj(k̂) ⊙ dŷ)) and dk = Re(ω^{-t} · F⁻¹(Σ_b conj(x̂) ⊙ dŷ)).
//
// Sequences are [l][Lanes]. Spectra are [n][Lanes], real and imaginary parts apart, in an order of the plan's own. Parts that
// lie a multiple of 4 KB apart share cache sets: a gap of 2 KB between them saves up to a quarter of the time.
// A plan is read only and may be used by any number of goroutines.
type ConvPlan struct {
	fft   *fft
	twist []rotation // ω^t, t < n
}

// plans holds a *ConvPlan for each n in use. Good lengths are few, so it stays small.
var plans sync.Map

// NewConvPlan returns the plan for sequences of up to l points, l ≥ 1; n is the next length that is a power of two times 1,
// 3, 5, 9 or 15. Plans are made once and shared.
func NewConvPlan(l int) *ConvPlan {
	n := goodLength(l)
	if p, ok := plans.Load(n); ok {
		return p.(*ConvPlan)
	}
	p := &ConvPlan{fft: newFFT(n), twist: make([]rotation, n)}
	for t := range p.twist {
		p.twist[t] = turn(t, 4*n)
	}
	shared, _ := plans.LoadOrStore(n, p)
	return shared.(*ConvPlan)
}

// N returns the number of points of a spectrum, at least the l of NewConvPlan.
func (p *ConvPlan) N() int { return p.fft.n }

// Transform computes the spectrum re, im [n][Lanes] of x [l][Lanes], l ≤ n, taken as zero from l on.
func (p *ConvPlan) Transform(re, im, x []float32, l int) {
	n := p.fft.n
	for t, w := range p.twist[:l] {
		r, i, x := lanes(re[t*Lanes:]), lanes(im[t*Lanes:]), lanes(x[t*Lanes:])
		for v, x := range x {
			r[v], i[v] = x*w.re, x*w.im
		}
	}
	clear(re[l*Lanes : n*Lanes])
	clear(im[l*Lanes : n*Lanes])
	p.fft.forward(re, im)
}

// Inverse computes the first l ≤ n points of y [l][Lanes] of a spectrum, which it destroys.
func (p *ConvPlan) Inverse(y, re, im []float32, l int) {
	p.fft.inverse(re, im)
	scale := 1 / float32(p.fft.n)
	for t, w := range p.twist[:l] {
		y, r, i := lanes(y[t*Lanes:]), lanes(re[t*Lanes:]), lanes(im[t*Lanes:])
		cos, sin := w.re*scale, w.im*scale
		for v := range y {
			y[v] = float32(r[v]*cos) + float32(i[v]*sin)
		}
	}
}

// Mul computes z = x ⊙ k for spectra of n points; z may be x or k.
func (p *ConvPlan) Mul(zre, zim, xre, xim, kre, kim []float32) {
	n := p.fft.n * Lanes
	zre, zim, xre, xim, kre, kim = zre[:n], zim[:n], xre[:n], xim[:n], kre[:n], kim[:n]
	for i := range zre {
		a, b, c, d := xre[i], xim[i], kre[i], kim[i]
		zre[i] = float32(a*c) - float32(b*d)
		zim[i] = float32(a*d) + float32(b*c)
	}
}

// MulConj computes z = x ⊙ conj(k) for spectra of n points; z may be x or k.
func (p *ConvPlan) MulConj(zre, zim, xre, xim, kre, kim []float32) {
	n := p.fft.n * Lanes
	zre, zim, xre, xim, kre, kim = zre[:n], zim[:n], xre[:n], xim[:n], kre[:n], kim[:n]
	for i := range zre {
		a, b, c, d := xre[i], xim[i], kre[i], kim[i]
		zre[i] = float32(a*c) + float32(b*d)
		zim[i] = float32(b*c) - float32(a*d)
	}
}

// MulConjAdd adds x ⊙ conj(k) to z for spectra of n points.
func (p *ConvPlan) MulConjAdd(zre, zim, xre, xim, kre, kim []float32) {
	n := p.fft.n * Lanes
	zre, zim, xre, xim, kre, kim = zre[:n], zim[:n], xre[:n], xim[:n], kre[:n], kim[:n]
	for i := range zre {
		a, b, c, d := xre[i], xim[i], kre[i], kim[i]
		zre[i] += float32(a*c) + float32(b*d)
		zim[i] += float32(b*c) - float32(a*d)
	}
}
