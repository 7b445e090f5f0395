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
// The first pass of F reads the points t = q + j·part, j < radix. It takes x[t]·in[j] with in[j] = ω^{j·part}, and turns the
// results by ω^q together with its own rotations; the last pass back does the reverse.
//
// Sequences are [l][Lanes]. Spectra are [n][Lanes], real and imaginary parts apart, in an order of the plan's own. Parts that
// lie a multiple of 4 KB apart share cache sets: a gap of 2 KB between them saves up to a quarter of the time.
// A plan is read only and may be used by any number of goroutines.
type ConvPlan struct {
	fft *fft
	in  []rotation // ω^{j·part} = exp(iπj/2radix), for the radix of the first pass
	out []rotation // the same by 1/n
}

// plans holds a *ConvPlan for each n in use. Good lengths are few, so it stays small.
var plans sync.Map

// NewConvPlan returns the plan for sequences of up to l points, l ≥ 1; n is the next length that is a power of two, at least
// 4, times 1, 3, 5, 9 or 15. Plans are made once and shared.
func NewConvPlan(l int) *ConvPlan {
	n := goodLength(l)
	if p, ok := plans.Load(n); ok {
		return p.(*ConvPlan)
	}
	p := &ConvPlan{fft: newFFT(n)}
	radix := p.fft.passes[0].radix
	for j := range radix {
		w := turn(j, 4*radix)
		p.in = append(p.in, w)
		p.out = append(p.out, rotation{w.re / float32(n), w.im / float32(n)})
	}
	shared, _ := plans.LoadOrStore(n, p)
	return shared.(*ConvPlan)
}

// N returns the number of points of a spectrum, at least the l of NewConvPlan.
func (p *ConvPlan) N() int { return p.fft.n }

// gap is the number of floats between the parts of a spectrum.
const gap = 512

// SpectrumSize returns the number of floats of a spectrum with its gap.
func (p *ConvPlan) SpectrumSize() int { return 2*p.fft.n*Lanes + gap }

// Spectrum returns the parts of the spectrum in buf, of SpectrumSize floats.
func (p *ConvPlan) Spectrum(buf []float32) (re, im []float32) {
	n := p.fft.n * Lanes
	return buf[:n:n], buf[n+gap:][:n]
}

// Transform computes the spectrum re, im [n][Lanes] of x [l][Lanes], l ≤ n, taken as zero from l on.
func (p *ConvPlan) Transform(re, im, x []float32, l int) {
	re, im = p.part(re), p.part(im)
	p.first(re, im, x, l)
	forward(re, im, p.fft.passes[1:])
}

// Inverse computes the first l ≤ n points of y [l][Lanes] of a spectrum, which it destroys.
func (p *ConvPlan) Inverse(y, re, im []float32, l int) {
	re, im = p.part(re), p.part(im)
	backward(re, im, p.fft.passes[1:])
	p.last(y, re, im, l)
}

// Convolve computes the first l ≤ n points of y [l][Lanes] for x [l][Lanes] and the spectrum kre, kim of a kernel, as
// Transform, Mul and Inverse do, in less time. re and im are scratch of the size of a spectrum. y may be x.
func (p *ConvPlan) Convolve(y, x, re, im, kre, kim []float32, l int) {
	re, im, kre, kim = p.part(re), p.part(im), p.part(kre), p.part(kim)
	p.first(re, im, x, l)
	if rest := p.fft.passes[1:]; len(rest) > 0 {
		filter(re, im, kre, kim, rest)
	} else {
		mul(re, im, re, im, kre, kim)
	}
	p.last(y, re, im, l)
}

// part is one part of a spectrum, whole.
func (p *ConvPlan) part(x []float32) []float32 { return x[:p.fft.n*Lanes] }

func (p *ConvPlan) first(re, im, x []float32, l int) {
	first := &p.fft.passes[0]
	x = x[:l*Lanes]
	first.ends(l, func(q, count, rows int) { first.firstPart(re, im, x, q, count, rows, p.in) })
}

func (p *ConvPlan) last(y, re, im []float32, l int) {
	first := &p.fft.passes[0]
	y = y[:l*Lanes]
	first.ends(l, func(q, count, rows int) { first.lastPart(im, re, y, q, count, rows, p.out) })
}

// Mul computes z = x ⊙ k for spectra of n points; z may be x or k.
func (p *ConvPlan) Mul(zre, zim, xre, xim, kre, kim []float32) {
	p.product(mul, zre, zim, xre, xim, kre, kim)
}

// MulConj computes z = x ⊙ conj(k) for spectra of n points; z may be x or k.
func (p *ConvPlan) MulConj(zre, zim, xre, xim, kre, kim []float32) {
	p.product(mulConj, zre, zim, xre, xim, kre, kim)
}

// MulConjAdd adds x ⊙ conj(k) to z for spectra of n points.
func (p *ConvPlan) MulConjAdd(zre, zim, xre, xim, kre, kim []float32) {
	p.product(mulConjAdd, zre, zim, xre, xim, kre, kim)
}

// product calls f for parts of few points each.
func (p *ConvPlan) product(f func(zre, zim, xre, xim, kre, kim []float32), zre, zim, xre, xim, kre, kim []float32) {
	n := p.fft.n * Lanes
	for at := 0; at < n; at += callPoints * Lanes {
		end := min(n, at+callPoints*Lanes)
		f(zre[at:end], zim[at:end], xre[at:end], xim[at:end], kre[at:end], kim[at:end])
	}
}

// mulPortable computes z = x·k.
func mulPortable(zre, zim, xre, xim, kre, kim []float32) {
	zim, xre, xim, kre, kim = zim[:len(zre)], xre[:len(zre)], xim[:len(zre)], kre[:len(zre)], kim[:len(zre)]
	for i := range zre {
		a, b, c, d := xre[i], xim[i], kre[i], kim[i]
		zre[i] = float32(a*c) - float32(b*d)
		zim[i] = float32(a*d) + float32(b*c)
	}
}

// mulConjPortable computes z = x·conj(k).
func mulConjPortable(zre, zim, xre, xim, kre, kim []float32) {
	zim, xre, xim, kre, kim = zim[:len(zre)], xre[:len(zre)], xim[:len(zre)], kre[:len(zre)], kim[:len(zre)]
	for i := range zre {
		a, b, c, d := xre[i], xim[i], kre[i], kim[i]
		zre[i] = float32(a*c) + float32(b*d)
		zim[i] = float32(b*c) - float32(a*d)
	}
}

// mulConjAddPortable adds x·conj(k) to z.
func mulConjAddPortable(zre, zim, xre, xim, kre, kim []float32) {
	zim, xre, xim, kre, kim = zim[:len(zre)], xre[:len(zre)], xim[:len(zre)], kre[:len(zre)], kim[:len(zre)]
	for i := range zre {
		a, b, c, d := xre[i], xim[i], kre[i], kim[i]
		zre[i] += float32(a*c) + float32(b*d)
		zim[i] += float32(b*c) - float32(a*d)
	}
}
