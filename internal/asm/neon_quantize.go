package main

import "math"

// quantizeNEON generates the rounding of x for integer products.
func quantizeNEON(file *armFile) {
	c := file.function("quantizeGroups", neonISA)
	groups, x, to, zero, t := c.arg("groups"), c.arg("x"), c.arg("to"), c.arg("zero"), c.x()
	const (
		size, most, top, inverse, factor, ok, scratch = vreg(16), vreg(17), vreg(18), vreg(19), vreg(20), vreg(21), vreg(22)
		zeros, times, ones, sum, start                = vreg(23), vreg(24), vreg(25), vreg(26), vreg(27)
		vecs                                          = 8
	)
	c.bits(size, 1<<31-1, t)
	c.float(most, math.MaxFloat32, t)
	c.float(ones, 127, t)
	c.dupX(times, zero)
	c.zero(zeros)
	c.loop("group", armLoop{name: "quantizeGroups", work: 32, unit: "numbers", bytes: 128 + recordBytes,
		instructions: []string{"fmul", "fcvtns", "and", "umax", "add"}}, func() {
		for i := range vreg(vecs) {
			c.loadNext(whole, i, x)
			c.v(andV, vecs+i, i, size)
		}
		c.tree(umaxV, vecs, vecs)
		c.acrossMax(top, vecs)
		c.dup(top, top, 0)
		c.v(fdivV, inverse, ones, top)
		c.v(fdivV, factor, top, ones)
		c.v(fcmgeV, ok, most, top)
		c.v(fcmgeV, scratch, most, inverse)
		c.v(andV, ok, ok, scratch)
		c.v(andV, factor, factor, ok)
		c.v(fsubV, scratch, top, top) // NaN unless top is finite
		c.v(faddV, factor, factor, scratch)
		for i := range vreg(vecs) {
			c.v(fmulV, i, i, inverse)
			c.v(fcvtnsV, i, i)
			c.v(andV, i, i, ok)
			c.copyV(vecs+i, i)
		}
		c.tree(addV, vecs, vecs)
		c.acrossSum(sum, vecs)
		c.dup(sum, sum, 0)
		for i := range vreg(vecs / 2) {
			c.v(uzp1H, i, 2*i, 2*i+1)
		}
		c.v(uzp1B, 0, 0, 1)
		c.v(uzp1B, 1, 2, 3)
		c.v(mulV, start, sum, times)
		c.v(scvtfV, sum, sum)
		c.v(fmulV, sum, sum, factor)
		c.v(zip1V, factor, factor, start)
		c.v(zip1V, sum, sum, zeros)
		c.v(zip1D, factor, factor, sum)
		c.storePair(0, 1, to, 0)
		c.store(whole, factor, to, recordScale)
		c.addImm(to, to, recordBytes)
		c.subtract(groups, 1, "group")
	})
	c.end()
}

// tree combines n registers from v on into the first of them, halves onto halves.
func (c *neon) tree(join armOp, v vreg, n int) {
	for n /= 2; n > 0; n /= 2 {
		for i := range vreg(n) {
			c.v(join, v+i, v+i, v+vreg(n)+i)
		}
	}
}
