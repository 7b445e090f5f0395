package kernel

// What follows chooses the code of the level in use for each pass of the long convolution.

// difPart is dif for points q to q+count of some blocks.
func (p *pass) difPart(re, im []float32, q, count, blocks int) {
	switch cpu {
	case generic:
		p.difPortable(re, im, q, count, blocks)
	case avx2:
		difAVX2(p.radix, &re[q*Lanes], &im[q*Lanes], p.part, count, blocks, &p.w[q*p.radix].re)
	default:
		difAVX512(p.radix, &re[q*Lanes], &im[q*Lanes], p.part, count, blocks, &p.w[q*p.radix].re)
	}
}

// ditPart is dit for points q to q+count of some blocks.
func (p *pass) ditPart(re, im []float32, q, count, blocks int) {
	switch cpu {
	case generic:
		p.ditPortable(re, im, q, count, blocks)
	case avx2:
		ditAVX2(p.radix, &re[q*Lanes], &im[q*Lanes], p.part, count, blocks, &p.w[q*p.radix].re)
	default:
		ditAVX512(p.radix, &re[q*Lanes], &im[q*Lanes], p.part, count, blocks, &p.w[q*p.radix].re)
	}
}

// firstPart is dif of the block x[q + j·part]·in[j] for points q to q+count, where x has rows of the rows j.
func (p *pass) firstPart(re, im, x []float32, q, count, rows int, in []rotation) {
	switch cpu {
	case generic:
		p.firstPortable(re, im, x, q, count, rows, in)
	case avx2:
		firstAVX2(p.radix, &re[q*Lanes], &im[q*Lanes], row(x, q), p.part, count, rows, &in[0].re, &p.w[q*p.radix].re)
	default:
		firstAVX512(p.radix, &re[q*Lanes], &im[q*Lanes], row(x, q), p.part, count, rows, &in[0].re, &p.w[q*p.radix].re)
	}
}

// lastPart is the reverse of firstPart: see lastPortable.
func (p *pass) lastPart(re, im, y []float32, q, count, rows int, out []rotation) {
	switch cpu {
	case generic:
		p.lastPortable(re, im, y, q, count, rows, out)
	case avx2:
		lastAVX2(p.radix, &re[q*Lanes], &im[q*Lanes], row(y, q), p.part, count, rows, &out[0].re, &p.w[q*p.radix].re)
	default:
		lastAVX512(p.radix, &re[q*Lanes], &im[q*Lanes], row(y, q), p.part, count, rows, &out[0].re, &p.w[q*p.radix].re)
	}
}

// middlePart is middle for some blocks.
func (p *pass) middlePart(re, im, kre, kim []float32, blocks int) {
	switch cpu {
	case generic:
		p.middlePortable(re, im, kre, kim, blocks)
	case avx2:
		middleAVX2(p.radix, &re[0], &im[0], &kre[0], &kim[0], blocks)
	default:
		middleAVX512(p.radix, &re[0], &im[0], &kre[0], &kim[0], blocks)
	}
}

// mul computes z = x·k for slices of a length that is a positive multiple of Lanes.
func mul(zre, zim, xre, xim, kre, kim []float32) {
	switch cpu {
	case generic:
		mulPortable(zre, zim, xre, xim, kre, kim)
	case avx2:
		mulAVX2(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
	default:
		mulAVX512(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
	}
}

// mulConj computes z = x·conj(k) for such slices.
func mulConj(zre, zim, xre, xim, kre, kim []float32) {
	switch cpu {
	case generic:
		mulConjPortable(zre, zim, xre, xim, kre, kim)
	case avx2:
		mulConjAVX2(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
	default:
		mulConjAVX512(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
	}
}

// mulConjAdd adds x·conj(k) to z.
func mulConjAdd(zre, zim, xre, xim, kre, kim []float32) {
	switch cpu {
	case generic:
		mulConjAddPortable(zre, zim, xre, xim, kre, kim)
	case avx2:
		mulConjAddAVX2(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
	default:
		mulConjAddAVX512(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
	}
}

// row returns row q of x, nil if there is none.
func row(x []float32, q int) *float32 {
	if q*Lanes < len(x) {
		return &x[q*Lanes]
	}
	return nil
}
