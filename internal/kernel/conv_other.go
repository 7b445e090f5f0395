//go:build !amd64

package kernel

// There is no assembly for the long convolution on this architecture.

// difPart is dif for points q to q+count of some blocks.
func (p *pass) difPart(re, im []float32, q, count, blocks int) {
	p.difPortable(re, im, q, count, blocks)
}

// ditPart is dit for points q to q+count of some blocks.
func (p *pass) ditPart(re, im []float32, q, count, blocks int) {
	p.ditPortable(re, im, q, count, blocks)
}

// firstPart is dif of the block x[q + j·part]·in[j] for points q to q+count, where x has rows of the rows j.
func (p *pass) firstPart(re, im, x []float32, q, count, rows int, in []rotation) {
	p.firstPortable(re, im, x, q, count, rows, in)
}

// lastPart is the reverse of firstPart: see lastPortable.
func (p *pass) lastPart(re, im, y []float32, q, count, rows int, out []rotation) {
	p.lastPortable(re, im, y, q, count, rows, out)
}

// middlePart is middle for some blocks.
func (p *pass) middlePart(re, im, kre, kim []float32, blocks int) {
	p.middlePortable(re, im, kre, kim, blocks)
}

// mul computes z = x·k for slices of a length that is a positive multiple of Lanes.
func mul(zre, zim, xre, xim, kre, kim []float32) {
	mulPortable(zre, zim, xre, xim, kre, kim)
}

// mulConj computes z = x·conj(k) for such slices.
func mulConj(zre, zim, xre, xim, kre, kim []float32) {
	mulConjPortable(zre, zim, xre, xim, kre, kim)
}

// mulConjAdd adds x·conj(k) to z.
func mulConjAdd(zre, zim, xre, xim, kre, kim []float32) {
	mulConjAddPortable(zre, zim, xre, xim, kre, kim)
}
