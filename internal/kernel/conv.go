package kernel

import "sync"

// ConvPlan computes causal convolutions y[t] = Σ_{j≤t} k[j]·x[t-j] of real sequences, Lanes channels side by side, by
// the right-angle transform: with ω = exp(iπ/2n), n ≥ l, a cyclic convolution of the twisted sequences ω^t·x[t] and
// ω^t·k[t] rotates the part that wraps around by ω^n = i, so that
//
//	y = Re(ω^{-t} · F⁻¹(k̂ ⊙ x̂)),  x̂ = F(ω^t·x),  k̂ = F(ω^t·k)
//
// is the causal part alone. No padding to 2l is needed. F is the discrete Fourier transform of n points. The transposes
// are dx = Re(ω^{-t} · F⁻¹(conj(k̂) ⊙ dŷ)) and dk = Re(ω^{-t} · F⁻¹(Σ_b conj(x̂) ⊙ dŷ)).
//
// The first pass of F reads the points t = q + j·part, j < radix. It takes x[t]·in[j] with in[j] = ω^{j·part}, and
// merges the rotation of its results by ω^q into its own rotations. The last pass of the inverse does the reverse.
//
// A convolution has three steps. Begin runs the outer passes, whose points are too far apart to fit a cache together;
// these passes go over a few columns of points at a time. The outer passes leave blocks of points. Convolve or
// Transpose then finishes one block after the other in the cache. End runs the inverse of the outer passes. Sequences
// are read and written row by row when needed: see Input and Output.
//
// A plan is read-only and may be used by any number of goroutines.
type ConvPlan struct {
	n            int
	outer, inner []pass
	in           []rotation // ω^{j·part} = exp(iπj/2radix), for the radix of the first pass
	out          []rotation // the same, scaled by 1/n
	block        int        // floats in (a part of) a block
	blocks       int
	step         int // floats from block to block
}

const (
	blockPoints = 2048 // the largest number of points of a block: two transformed sequences then take 512 KB

	// Rows that lie a multiple of 4 KB apart share cache sets: gaps between blocks, and between the parts of a
	// spectrum, save up to a quarter of the time.
	blockGap = 5 * Lanes
	partGap  = 32*Lanes + 16*Lanes
)

// ConvRows is the largest number of rows that a plan requests from an Input, or passes to an Output, at once.
const ConvRows = 256

// plans holds a *ConvPlan for each n in use. It stays small because there are few good lengths.
var plans sync.Map

// NewConvPlan returns the plan for sequences of up to l points, l ≥ 1; n is the next length that is a power of two, at
// least 4, times 1, 3, 5, 9 or 15. Plans are made once and shared.
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

// Spectrum is a sequence during a transform: its real and imaginary parts, [n][Lanes] with gaps, in an order private to
// the plan, and room for ConvRows rows of the sequence.
type Spectrum struct{ re, im, rows []float32 }

// SpectrumSize returns the number of floats that a spectrum takes.
func (p *ConvPlan) SpectrumSize() int { return 2*p.blocks*p.step + partGap + ConvRows*Lanes }

// Spectrum returns a spectrum in buf, of SpectrumSize floats.
func (p *ConvPlan) Spectrum(buf []float32) Spectrum {
	n := p.blocks * p.step
	return Spectrum{re: buf[:n:n], im: buf[n+partGap:][:n:n], rows: buf[2*n+partGap:][:ConvRows*Lanes]}
}

// Convolve replaces x by the spectrum of the convolution of x and k, ready for End. x comes from Begin. If fresh is
// set, k comes from Begin too; Convolve leaves it transformed, and the next call passes it with fresh unset.
func (p *ConvPlan) Convolve(x, k Spectrum, fresh bool) {
	for b := range p.blocks {
		p.blockOf(x, b).convolve(p.blockOf(k, b), fresh, p.inner)
	}
}

// Transposed holds the options of Transpose.
type Transposed struct {
	First bool // the first sequence: k comes from Begin, unless Ready is set, and sum has no contents yet
	Ready bool // k comes from Convolve, or from an earlier Transpose
	Last  bool // the last sequence: sum is made ready for End
	Again bool // u becomes the convolution of k and u, ready for End
}

// Transpose is the backward pass of the convolution k∗u. It takes the spectra of the gradient dy and of u after Begin,
// and the spectrum of k. It replaces dy by the spectrum of u's gradient, ready for End, and adds k's gradient to sum,
// over all sequences in turn. For the first sequence sum may be u, unless Again is set: u has just been read, so its
// memory is in the cache.
func (p *ConvPlan) Transpose(dy, u, k, sum Spectrum, o Transposed) {
	for b := range p.blocks {
		convolveGrad(p.blockOf(dy, b), p.blockOf(u, b), p.blockOf(k, b), p.blockOf(sum, b), o, p.inner)
	}
}

// AddAhead turns k, the spectrum of a causal kernel after Begin, into the spectrum of a kernel that also looks ahead.
// ahead is the spectrum of r[n-1-j] = a[j] after Begin. Because ω^n = i, an entry -i·a[j] at n-1-j of the kernel
// becomes a[j] at -1-j where it wraps around, and stays imaginary elsewhere. So with k[j] - i·r[j] in place of k[j]
//
//	y[t] = Σ_{j≤t} k[j]·x[t-j] + Σ_j a[j]·x[t+1+j]
func (p *ConvPlan) AddAhead(k, ahead Spectrum) {
	for b := range p.blocks {
		k, a := p.blockOf(k, b), p.blockOf(ahead, b)
		Add(k.re, a.im)
		Axpy(-1, a.re, k.im)
	}
}

// GradAhead computes dr, the spectrum of the gradient of the r of AddAhead, ready for End, from sum after the last
// Transpose: sum represents a complex sequence with real part dk and imaginary part -dr.
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
