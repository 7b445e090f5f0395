package kernel

import (
	"math"
	"math/bits"
)

// Lanes is the number of channels that the long convolution processes together: a point of a transform is a row of
// Lanes real parts and one of Lanes imaginary parts.
const Lanes = 16

// A transform of n points, Lanes of them side by side, X[k] = Σ_t x[t]·exp(-2πi·tk/n), is a sequence of passes; n is a
// good length. The transform decimates in frequency and leaves X in a permuted order. The inverse decimates in time
// from that order. All work between the two is pointwise, so nothing is ever sorted. The first pass reads the real
// sequence, and the last pass of the inverse writes one: see ConvPlan.

// pass cuts blocks of radix·part points into radix blocks of part points: for each q < part, the points q + j·part
// undergo a transform of radix points and are then multiplied by w[q·radix+j] = exp(-2πi·qk/(radix·part)), where k is
// the frequency of result j: j itself, except that radix 8 has the order 0, 2, 4, 6, 1, 3, 5, 7.
type pass struct {
	radix, part int
	step        int // floats from point q + j·part to the next j: part·Lanes, or more if there are gaps
	w           []rotation
}

// rotation is the complex number re + i·im, of modulus 1 unless stated.
type rotation struct{ re, im float32 }

// turn returns exp(2πi·num/den), computed in float64.
func turn(num, den int) rotation {
	sin, cos := math.Sincos(2 * math.Pi * float64(num) / float64(den))
	return rotation{float32(cos), float32(sin)}
}

// goodLength returns the smallest n ≥ l of the form 2^a·{1, 3, 5, 9, 15}, a ≥ 2. It is at most a quarter more than the
// next multiple of 4.
func goodLength(l int) int {
	best := 0
	for _, odd := range []int{1, 3, 5, 9, 15} {
		n := 4 * odd
		for n < l {
			n *= 2
		}
		if best == 0 || n < best {
			best = n
		}
	}
	return best
}

// radices returns the radices of the passes for n points in their order: 8 and 4 for the power of two, then 3 and 5.
// The first is 4 or 8. Of the others, the last ones are 8, because rows of points that are far apart share cache sets,
// and eight such rows are too many. In a long transform the second radix is 8 too: that is an outer pass, whose rows
// have gaps between them, and it leaves smaller blocks.
func radices(n int) (r []int) {
	a := bits.TrailingZeros(uint(n))
	odd := n >> a
	take := func(radix, bits int) { r, a = append(r, radix), a-bits }
	switch {
	case a == 2 || a == 4:
		take(4, 2)
	case a > 15:
		take(8, 3)
		take(8, 3)
	default:
		take(8, 3)
	}
	for a%3 != 0 {
		take(4, 2)
	}
	for a > 0 {
		take(8, 3)
	}
	for _, radix := range []int{3, 5} {
		for odd%radix == 0 {
			r = append(r, radix)
			odd /= radix
		}
	}
	return r
}

// newPasses returns the passes for n points, n a good length. The rotations of the first pass include those by
// exp(2πi·q/4n) of its points q.
func newPasses(n int) (passes []pass) {
	m := n
	for i, radix := range radices(n) {
		p := pass{radix: radix, part: m / radix, step: m / radix * Lanes}
		for q := range p.part {
			for j := range radix {
				k := j
				if radix == 8 {
					k = 2*(j%4) + j/4
				}
				if i == 0 {
					p.w = append(p.w, turn(q-4*q*k, 4*n))
				} else {
					p.w = append(p.w, turn(-q*k, m))
				}
			}
		}
		passes = append(passes, p)
		m = p.part
	}
	return passes
}

// cached is the number of points up to which a block of each spectrum stays in the nearest cache, so that passes may go
// over all of it.
const cached = 128

// parts are the real and imaginary parts of one or more blocks during the inner passes.
type parts struct{ re, im []float32 }

// sub returns n floats of each part from at on.
func (x parts) sub(at, n int) parts { return parts{x.re[at:][:n], x.im[at:][:n]} }

// from returns each part from float at on.
func (x parts) from(at int) parts { return parts{x.re[at:], x.im[at:]} }

// split returns the size of the blocks that passes process one by one, depth first. ok is false if they process all of
// x at once.
func (x parts) split(passes []pass) (n int, ok bool) {
	n = passes[0].size()
	return n, n < len(x.re) && len(x.re) > cached*Lanes
}

// convolve transforms x, and k too if fresh is set, multiplies them, and transforms back, up to a factor that is the
// product of the radices. The inverse is the forward transform with real and imaginary parts exchanged.
func (x parts) convolve(k parts, fresh bool, passes []pass) {
	if len(passes) == 0 {
		mul(x.re, x.im, x.re, x.im, k.re, k.im)
		return
	}
	if n, ok := x.split(passes); ok {
		for at := 0; at < len(x.re); at += n {
			x.sub(at, n).convolve(k.sub(at, n), fresh, passes)
		}
		return
	}
	if fresh {
		passes[0].dif(k.re, k.im)
	}
	if len(passes) == 1 {
		passes[0].middle(x.re, x.im, k.re, k.im)
		return
	}
	passes[0].dif(x.re, x.im)
	x.convolve(k, fresh, passes[1:])
	passes[0].dit(x.im, x.re)
}

// convolveGrad does the work of ConvPlan.Transpose for a whole number of blocks.
func convolveGrad(dy, u, k, sum parts, o Transposed, passes []pass) {
	if len(passes) == 0 {
		times := mulConjAdd
		if o.First {
			times = mulConj
		}
		times(sum.re, sum.im, dy.re, dy.im, u.re, u.im)
		mulConj(dy.re, dy.im, dy.re, dy.im, k.re, k.im)
		if o.Again {
			mul(u.re, u.im, u.re, u.im, k.re, k.im)
		}
		return
	}
	if n, ok := dy.split(passes); ok {
		for at := 0; at < len(dy.re); at += n {
			convolveGrad(dy.sub(at, n), u.sub(at, n), k.sub(at, n), sum.sub(at, n), o, passes)
		}
		return
	}
	first := &passes[0]
	if o.First && !o.Ready {
		first.dif(k.re, k.im)
	}
	first.dif(u.re, u.im)
	if len(passes) > 1 {
		first.dif(dy.re, dy.im)
		convolveGrad(dy, u, k, sum, o, passes[1:])
		first.dit(dy.im, dy.re)
	} else {
		first.middleGrad(dy, u, k, sum, o.First)
		if o.Again {
			mul(u.re, u.im, u.re, u.im, k.re, k.im)
		}
	}
	if o.Last {
		first.dit(sum.im, sum.re)
	}
	if o.Again {
		first.dit(u.im, u.re)
	}
}

// callPoints is the number of points in a call of assembly, which cannot be interrupted: some 50 µs if they come from
// memory.
const callPoints = 4096

// size returns the number of floats in the real parts of a block.
func (p *pass) size() int { return p.radix * p.part * Lanes }

// calls calls f for points q to q+count of several blocks, from float at on, such that each call has few points and all
// calls together cover n floats.
func (p *pass) calls(n int, f func(at, q, count, blocks int)) {
	count := min(p.part, callPoints/p.radix)
	blocks := max(1, callPoints/(p.radix*p.part))
	for at := 0; at < n; at += blocks * p.size() {
		for q := 0; q < p.part; q += count {
			f(at, q, min(count, p.part-q), min(blocks, (n-at)/p.size()))
		}
	}
}

// dif transforms all blocks of re and im, from natural to permuted order.
func (p *pass) dif(re, im []float32) {
	p.calls(len(re), func(at, q, count, blocks int) {
		at += q * Lanes
		p.difPart(re[at:], im[at:], q, count, blocks)
	})
}

// dit transforms all blocks of re and im, from permuted to natural order, rotating them first.
func (p *pass) dit(re, im []float32) {
	p.calls(len(re), func(at, q, count, blocks int) {
		at += q * Lanes
		p.ditPart(re[at:], im[at:], q, count, blocks)
	})
}

// middle transforms all blocks, which have part 1, multiplies them by k, and transforms back.
func (p *pass) middle(re, im, kre, kim []float32) {
	p.calls(len(re), func(at, _, _, blocks int) { p.middlePart(re[at:], im[at:], kre[at:], kim[at:], blocks) })
}

// middleGrad is middle for dy and conj(k). It also adds the product of the transformed dy with conj(u) to sum, or sets
// sum to it if first is set.
func (p *pass) middleGrad(dy, u, k, sum parts, first bool) {
	p.calls(len(dy.re), func(at, _, _, blocks int) {
		p.middleGradPart(dy.from(at), u.from(at), k.from(at), sum.from(at), first, blocks)
	})
}
