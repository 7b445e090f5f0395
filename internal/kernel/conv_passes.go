package kernel

import "unsafe"

// The functions below compute parts of each pass of the long convolution, in Go or in assembly.

// difPart computes dif for count points of each block. re and im begin at point q of the first block.
func (p *pass) difPart(re, im []float32, q, count, blocks int) {
	if !cpu.has(difCode) {
		p.difPortable(re, im, q, count, blocks)
		return
	}
	vecDif(p.radix, &re[0], &im[0], p.step, count, blocks, &p.w[q*p.radix].re)
}

// ditPart computes dit for the same points.
func (p *pass) ditPart(re, im []float32, q, count, blocks int) {
	if !cpu.has(ditCode) {
		p.ditPortable(re, im, q, count, blocks)
		return
	}
	vecDit(p.radix, &re[0], &im[0], p.step, count, blocks, &p.w[q*p.radix].re)
}

// firstPart computes dif of the rows r by in, for count points of one block: see firstPortable.
func (p *pass) firstPart(re, im []float32, r *realRows, q, count int, in []rotation) {
	if !cpu.has(firstCode) {
		p.firstPortable(re, im, r, q, count, in)
		return
	}
	vecFirst(p.radix, &re[0], &im[0], p.step, &r.x[0], r.step, r.next, r.ahead, count, r.rows,
		&in[0].re, &p.w[q*p.radix].re)
}

// lastPart is the reverse of firstPart: see lastPortable.
func (p *pass) lastPart(re, im []float32, r *realRows, q, count int, out []rotation) {
	if !cpu.has(lastCode | lastAddCode | lastStreamCode) {
		p.lastPortable(re, im, r, q, count, out)
		return
	}
	x, o, w := &r.x[0], &out[0].re, &p.w[q*p.radix].re
	switch {
	case r.add:
		vecLastAdd(p.radix, &re[0], &im[0], p.step, x, r.step, r.next, r.ahead, count, r.rows, o, w)
	case r.stream():
		vecLastStream(p.radix, &re[0], &im[0], p.step, x, r.step, r.next, r.ahead, count, r.rows, o, w)
	default:
		vecLast(p.radix, &re[0], &im[0], p.step, x, r.step, r.next, r.ahead, count, r.rows, o, w)
	}
}

// middleGradPart computes middleGrad for some blocks.
func (p *pass) middleGradPart(dy, u, k, s parts, first bool, blocks int) {
	switch {
	case !cpu.has(middleGradCode | middleGradFirstCode):
		p.middleGradPortable(dy, u, k, s, first, blocks)
	case first:
		vecMiddleGradFirst(p.radix, &dy.re[0], &dy.im[0], &k.re[0], &k.im[0], &u.re[0], &u.im[0],
			&s.re[0], &s.im[0], blocks)
	default:
		vecMiddleGrad(p.radix, &dy.re[0], &dy.im[0], &k.re[0], &k.im[0], &u.re[0], &u.im[0],
			&s.re[0], &s.im[0], blocks)
	}
}

// middlePart computes middle for some blocks.
func (p *pass) middlePart(re, im, kre, kim []float32, blocks int) {
	if !cpu.has(middleCode) {
		p.middlePortable(re, im, kre, kim, blocks)
		return
	}
	vecMiddle(p.radix, &re[0], &im[0], &kre[0], &kim[0], blocks)
}

// mul computes z = x·k for slices of a length that is a positive multiple of Lanes.
func mul(zre, zim, xre, xim, kre, kim []float32) {
	if !cpu.has(complexMulCode) {
		mulPortable(zre, zim, xre, xim, kre, kim)
		return
	}
	vecComplexMul(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
}

// mulConj computes z = x·conj(k) for slices as in mul.
func mulConj(zre, zim, xre, xim, kre, kim []float32) {
	if !cpu.has(complexMulConjCode) {
		mulConjPortable(zre, zim, xre, xim, kre, kim)
		return
	}
	vecComplexMulConj(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
}

// mulConjAdd adds x·conj(k) to z.
func mulConjAdd(zre, zim, xre, xim, kre, kim []float32) {
	if !cpu.has(complexMulConjAddCode) {
		mulConjAddPortable(zre, zim, xre, xim, kre, kim)
		return
	}
	vecComplexMulConjAdd(&zre[0], &zim[0], &xre[0], &xim[0], &kre[0], &kim[0], len(zre))
}

// streamFrom is the size of rows in bytes from which on they are written past the caches. Such large rows would be
// evicted from the caches before they are read, and streaming saves fetching the lines that are overwritten.
const streamFrom = 8 << 20

// streamed ends a pass that wrote rows past the caches. It ensures that other cores see those rows before anything that
// this core writes later.
func streamed() {
	if cpu.has(fenceCode) {
		vecFence()
	}
}

// stream reports whether the last pass writes its rows past the caches.
func (r *realRows) stream() bool {
	return 4*r.rows*r.step >= streamFrom && r.step%Lanes == 0 && r.next%Lanes == 0 &&
		uintptr(unsafe.Pointer(&r.x[0]))%64 == 0
}
