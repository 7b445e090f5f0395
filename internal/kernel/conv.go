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
// A convolution has three steps. Begin takes a sequence through the outer passes: those over points so far apart that all of
// them would not fit a cache together, which go over some columns of points, one after the other, instead. They leave blocks of
// points, and what stands between them and the way back, Convolve or Transpose, finishes one block after the other in the
// cache. End brings the outer passes back. Sequences are read and written row by row where they are needed: see Input, Output.
//
// A plan is read only and may be used by any number of goroutines.
type ConvPlan struct {
	n            int
	outer, inner []pass
	in           []rotation // ω^{j·part} = exp(iπj/2radix), for the radix of the first pass
	out          []rotation // the same by 1/n
	block        int        // floats in (a part of) a block
	blocks       int
	step         int // floats from block to block
}

const (
	blockPoints = 2048 // in a block, at most: its transforms of two sequences are 512 KB

	// Rows that lie a multiple of 4 KB apart share cache sets: gaps between blocks, and between the parts of a spectrum, save
	// up to a quarter of the time.
	blockGap = 5 * Lanes
	partGap  = 32*Lanes + 16*Lanes
)

// ConvRows is the most rows that a plan asks of an Input, or gives to an Output, at a time.
const ConvRows = 256

// plans holds a *ConvPlan for each n in use. Good lengths are few, so it stays small.
var plans sync.Map

// NewConvPlan returns the plan for sequences of up to l points, l ≥ 1; n is the next length that is a power of two, at least
// 4, times 1, 3, 5, 9 or 15. Plans are made once and shared.
func NewConvPlan(l int) *ConvPlan {
	n := goodLength(l)
	if p, ok := plans.Load(n); ok {
		return p.(*ConvPlan)
	}
	shared, _ := plans.LoadOrStore(n, newConvPlan(n))
	return shared.(*ConvPlan)
}

func newConvPlan(n int) *ConvPlan {
	passes := newPasses(n)
	p, outer := &ConvPlan{n: n}, 1
	for passes[outer-1].part > blockPoints {
		outer++
	}
	p.outer, p.inner = passes[:outer], passes[outer:]
	part := passes[outer-1].part
	p.block, p.blocks, p.step = part*Lanes, n/part, part*Lanes+blockGap
	for i := range p.outer {
		p.outer[i].step = p.outer[i].part / part * p.step
	}
	radix := passes[0].radix
	for j := range radix {
		w := turn(j, 4*radix)
		p.in = append(p.in, w)
		p.out = append(p.out, rotation{w.re / float32(n), w.im / float32(n)})
	}
	return p
}

// N returns the number of points of a spectrum, at least the l of NewConvPlan.
func (p *ConvPlan) N() int { return p.n }

// Spectrum is a sequence on its way through a transform: the real and the imaginary parts, [n][Lanes] with gaps, in an order
// of the plan's own, and room for some rows of the sequence.
type Spectrum struct{ re, im, rows []float32 }

// SpectrumSize returns the number of floats that a spectrum takes.
func (p *ConvPlan) SpectrumSize() int { return 2*p.blocks*p.step + partGap + ConvRows*Lanes }

// Spectrum returns a spectrum in buf, of SpectrumSize floats.
func (p *ConvPlan) Spectrum(buf []float32) Spectrum {
	n := p.blocks * p.step
	return Spectrum{re: buf[:n:n], im: buf[n+partGap:][:n:n], rows: buf[2*n+partGap:][:ConvRows*Lanes]}
}

// Convolve makes of the spectra of x and k, both after Begin, that of their convolution, for End, in x. It leaves k transformed
// for the next sequence: fresh says that it comes from Begin.
func (p *ConvPlan) Convolve(x, k Spectrum, fresh bool) {
	for b := range p.blocks {
		p.blockOf(x, b).convolve(p.blockOf(k, b), fresh, p.inner)
	}
}

// Transposed says what Transpose does besides.
type Transposed struct {
	First bool // the first sequence: k comes from Begin, unless Ready is set, and sum holds nothing yet
	Ready bool // k comes from Convolve, or from an earlier Transpose
	Last  bool // the last sequence: sum is made ready for End
	Again bool // u becomes the convolution of k and u, ready for End
}

// Transpose goes back from the gradient dy of k∗u, with the spectra of dy and u after Begin, and that of k: dy becomes that of
// u's gradient, for End, and k's gradient is added to sum, over all sequences in turn. For the first of them sum may be u, unless
// it is wanted again: there is no better place, as what stands there has just been read.
func (p *ConvPlan) Transpose(dy, u, k, sum Spectrum, o Transposed) {
	for b := range p.blocks {
		convolveGrad(p.blockOf(dy, b), p.blockOf(u, b), p.blockOf(k, b), p.blockOf(sum, b), o, p.inner)
	}
}

// AddAhead makes k, the spectrum of a kernel k after Begin, that of a kernel that also looks ahead: ahead is the spectrum of
// r[n-1-j] = a[j] after Begin. As ω^n = i, what is -i·a[j] at n-1-j of a kernel turns into a[j] at -1-j where it wraps around, and
// stays imaginary elsewhere, so that with k[j] - i·r[j] in the place of k[j]
//
//	y[t] = Σ_{j≤t} k[j]·x[t-j] + Σ_j a[j]·x[t+1+j]
func (p *ConvPlan) AddAhead(k, ahead Spectrum) {
	for b := range p.blocks {
		k, a := p.blockOf(k, b), p.blockOf(ahead, b)
		Add(k.re, a.im)
		Axpy(-1, a.re, k.im)
	}
}

// GradAhead makes of sum, after the last Transpose, the spectrum of the gradient of r of AddAhead, for End: dr is -1 times the
// imaginary part of what has dk for its real one.
func (p *ConvPlan) GradAhead(dr, sum Spectrum) {
	for b := range p.blocks {
		dr, sum := p.blockOf(dr, b), p.blockOf(sum, b)
		copy(dr.im, sum.re)
		copy(dr.re, sum.im)
		Scale(dr.re, -1)
	}
}

// blockOf returns block b.
func (p *ConvPlan) blockOf(s Spectrum, b int) parts {
	return parts{s.re[b*p.step:][:p.block], s.im[b*p.step:][:p.block]}
}
