package kernel

import (
	"math"
	"math/bits"
)

// Lanes is the number of channels that the long convolution takes through each step together: a point of a transform is a
// row of Lanes real parts and one of Lanes imaginary parts.
const Lanes = 16

// fft holds the passes of a complex transform of n points, Lanes of them side by side.
//
// The forward transform X[k] = Σ_t x[t]·exp(-2πi·tk/n) decimates in frequency and leaves X in a permuted order; the inverse
// decimates in time from that order: what stands between the two is pointwise, so nothing is ever sorted.
type fft struct {
	n      int
	passes []pass
}

// pass cuts blocks of n points into radix blocks of n/radix: for each q < n/radix, the points q + j·n/radix take a
// transform of radix points and are then turned by w[q·(radix-1) + k-1] = exp(-2πi·qk/n), k = 1 to radix-1.
type pass struct {
	radix, n int
	w        []rotation
}

// rotation is the complex number re + i·im of modulus 1.
type rotation struct{ re, im float32 }

// turn returns exp(2πi·num/den), computed in float64.
func turn(num, den int) rotation {
	sin, cos := math.Sincos(2 * math.Pi * float64(num) / float64(den))
	return rotation{float32(cos), float32(sin)}
}

// goodLength returns the least n ≥ l of the form 2^a·{1, 3, 5, 9, 15}, at most a quarter more than l.
func goodLength(l int) int {
	best := 0
	for _, odd := range []int{1, 3, 5, 9, 15} {
		n := odd
		for n < l {
			n *= 2
		}
		if best == 0 || n < best {
			best = n
		}
	}
	return best
}

// newFFT returns the passes for n points, n a good length: the odd factors first, then 2, then as many times 4 as go, so
// that the last pass, whose rotations are all 1 and are left out, is one of radix 4.
func newFFT(n int) *fft {
	f := &fft{n: n}
	for m := n; m > 1; {
		radix := 4
		switch {
		case m%3 == 0:
			radix = 3
		case m%5 == 0:
			radix = 5
		case bits.TrailingZeros(uint(m))%2 == 1:
			radix = 2
		}
		p := pass{radix: radix, n: m}
		if m > radix {
			for q := range m / radix {
				for k := 1; k < radix; k++ {
					p.w = append(p.w, turn(-q*k, m))
				}
			}
		}
		f.passes = append(f.passes, p)
		m /= radix
	}
	return f
}

// forward transforms re, im [n][Lanes] in place from natural to permuted order.
func (f *fft) forward(re, im []float32) { decimate(re, im, f.passes) }

// inverse undoes forward, but for a factor n: the forward transform with real and imaginary parts exchanged.
func (f *fft) inverse(re, im []float32) { undecimate(im, re, f.passes) }

// decimate takes one block through all passes, depth first: once a block fits a cache, it stays there.
func decimate(re, im []float32, passes []pass) {
	if len(passes) == 0 {
		return
	}
	p, rest := &passes[0], passes[1:]
	if len(rest) == 0 {
		butterfly(re, im, 0, Lanes, p.radix)
		return
	}
	part := p.n / p.radix * Lanes
	if p.radix == 4 {
		for q, w := 0, p.w; q < part; q, w = q+Lanes, w[3:] {
			difRadix4(re[q:], im[q:], part, (*[3]rotation)(w))
		}
	} else {
		for q, w := 0, p.w; q < part; q, w = q+Lanes, w[p.radix-1:] {
			butterfly(re, im, q, part, p.radix)
			rotate(re, im, q, part, w[:p.radix-1])
		}
	}
	for at := 0; at < p.n*Lanes; at += part {
		decimate(re[at:at+part], im[at:at+part], rest)
	}
}

// undecimate runs the passes of decimate from the last to the first, each rotating before its butterflies.
func undecimate(re, im []float32, passes []pass) {
	if len(passes) == 0 {
		return
	}
	p, rest := &passes[0], passes[1:]
	if len(rest) == 0 {
		butterfly(re, im, 0, Lanes, p.radix)
		return
	}
	part := p.n / p.radix * Lanes
	for at := 0; at < p.n*Lanes; at += part {
		undecimate(re[at:at+part], im[at:at+part], rest)
	}
	if p.radix == 4 {
		for q, w := 0, p.w; q < part; q, w = q+Lanes, w[3:] {
			ditRadix4(re[q:], im[q:], part, (*[3]rotation)(w))
		}
		return
	}
	for q, w := 0, p.w; q < part; q, w = q+Lanes, w[p.radix-1:] {
		rotate(re, im, q, part, w[:p.radix-1])
		butterfly(re, im, q, part, p.radix)
	}
}
