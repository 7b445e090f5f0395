package main

// packedNEON generates products of a row of x by a panel of 48 columns of weights. 12 vectors of sums make sure that no
// sum waits for another while the panel streams by.
func packedNEON(file *armFile) {
	file.packedFloat32()
	file.packedBF16()
}

const packedParts = packedWidth / 4 // vectors of a step

// packedNeon holds the registers of both kernels.
type packedNeon struct {
	*neon
	steps, x, w xreg
}

// The vectors besides the sums: terms of x, weights, and a mask.
const (
	packedX      = vreg(packedParts)
	packedW      = packedX + 1
	packedMask   = vreg(31)
	packedSpares = 31 - int(packedW)
)

func (c *neon) packed() packedNeon {
	p := packedNeon{c, c.arg("steps"), c.arg("x"), c.arg("w")}
	for i := range vreg(packedParts) {
		c.zero(i)
	}
	return p
}

func (file *armFile) packedFloat32() {
	p := file.function("packedFloat32", neonISA).packed()
	step := func(at int) {
		for i := 0; i < packedParts; i += 2 {
			v := packedW + vreg((i+at*packedParts)%(packedSpares&^1))
			p.loadPair(v, v+1, p.w, at*packedStep+16*i)
			p.e(fmlaE, vreg(i), v, packedX, at)
			p.e(fmlaE, vreg(i+1), v+1, packedX, at)
		}
	}
	p.ifLess(p.steps, 4, "rest")
	p.loop("loop", armLoop{name: "packedFloat32", work: 4 * packedWidth, unit: "multiply-adds", bytes: 4*packedStep + 16,
		instructions: []string{"fmla"}}, func() {
		p.loadNext(whole, packedX, p.x)
		for at := range 4 {
			step(at)
		}
		p.addImm(p.w, p.w, 4*packedStep)
		p.whileLeast(p.steps, 4, "loop")
	})
	p.label("rest")
	p.ifZero(p.steps, "sums")
	p.loadNext(oneF, packedX, p.x)
	step(0)
	p.addImm(p.w, p.w, packedStep)
	p.addImm(p.steps, p.steps, -1)
	p.jump("rest")
	p.label("sums")
	p.finish()
}

// packedBF16 widens the halves of a word with a mask and a shift; the first term is in the upper half.
func (file *armFile) packedBF16() {
	p := file.function("packedBF16", neonISA).packed()
	p.bytesOf(packedMask, 0xff)
	p.shl(packedMask, packedMask, 16)
	p.loop("loop", armLoop{name: "packedBF16", work: 2 * packedWidth, unit: "multiply-adds", bytes: packedStep + 8,
		instructions: []string{"fmla"}}, func() {
		p.loadNext(twoFs, packedX, p.x)
		for i := range packedParts {
			v := packedW + vreg(2*i%(packedSpares&^1))
			p.load(whole, v, p.w, 16*i)
			p.shl(v+1, v, 16)
			p.v(andV, v, v, packedMask)
			p.e(fmlaE, vreg(i), v, packedX, 0)
			p.e(fmlaE, vreg(i), v+1, packedX, 1)
		}
		p.addImm(p.w, p.w, packedStep)
		p.subtract(p.steps, 1, "loop")
	})
	p.finish()
}

// finish adds bias and y to the sums, depending on the arguments, and stores the results.
func (p packedNeon) finish() {
	bias, y, add := p.arg("bias"), p.arg("y"), p.arg("add")
	plus := func(from xreg) {
		for i := range packedParts {
			p.load(whole, packedX, from, 16*i)
			p.v(faddV, vreg(i), vreg(i), packedX)
		}
	}
	p.ifZero(bias, "add")
	plus(bias)
	p.label("add")
	p.ifZero(add, "store")
	plus(y)
	p.label("store")
	for i := range packedParts {
		p.store(whole, vreg(i), y, 16*i)
	}
	p.end()
}
