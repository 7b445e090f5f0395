package main

import . "github.com/mmcloughlin/avo/operand"

// modeProducts generates the arithmetic of modes.go.
func (c vector) modeProducts() {
	c.function("modesMul", "func(n int, m, x, y *float64, a float64)", "sets m = a·x·y for n modes.")
	a := c.real("a")
	c.modes(func(at func(string) cplx) {
		c.store64(c.scaled(c.cmul(c.load64(at("x")), c.load64(at("y"))), a), at("m"))
	}, "m", "x", "y")

	c.function("modesMulConj", "func(n int, m, x, y *float64, a float64)", "sets m = a·x·conj(y) for n modes.")
	a = c.real("a")
	c.modes(func(at func(string) cplx) {
		c.store64(c.scaled(c.cmulConj(c.load64(at("x")), c.load64(at("y"))), a), at("m"))
	}, "m", "x", "y")

	c.function("modesAddConjMul", "func(n int, m, x, y *float64, a float64)", "adds a·conj(x·y) to m for n modes.")
	a = c.real("a")
	c.modes(func(at func(string) cplx) {
		m, product := c.load64(at("m")), c.cmul(c.load64(at("x")), c.load64(at("y")))
		c.VFMADD231PD(a, product.re, m.re)
		c.VFNMADD231PD(a, product.im, m.im)
		c.store64(m, at("m"))
	}, "m", "x", "y")

	c.slowModes()
}

// slowModes generates the first steps of the parts of kernel/vandermonde.go.
func (c vector) slowModes() {
	c.function("slowModes", "func(n, halvings int, stepped, inverse, start, z *float64)",
		"is slowModes; halvings is at least 1.")
	halvings := c.arg("halvings")
	square := func(x cplx) {
		y := c.cmul(x, x)
		c.VMOVAPD(y.re, x.re)
		c.VMOVAPD(y.im, x.im)
	}
	c.modes(func(at func(string) cplx) {
		z := c.load64(at("z"))
		size, minus, one := c.mul(z.re, z.re), c.constant(0), c.constant(1)
		c.VFMADD231PD(z.im, z.im, size)
		least := c.constant(0x1p-1000) // so that 0 times the result is 0
		c.VMAXPD(least, size, size)
		c.VDIVPD(size, one, size)
		c.VSUBPD(z.im, minus, minus)
		x := c.scaled(cplx{z.re, minus}, size)
		c.store64(x, at("inverse"))
		for range 4 {
			square(x)
		}
		start := cplx{c.new(), c.new()}
		c.VMOVAPD(x.re, start.re)
		c.VMOVAPD(x.im, start.im)
		square(z)
		left := c.GP64()
		c.MOVQ(halvings, left)
		c.Label("halvings")
		c.DECQ(left)
		c.JZ(LabelRef("halved"))
		square(z)
		square(x)
		product := c.cmul(start, x)
		c.VMOVAPD(product.re, start.re)
		c.VMOVAPD(product.im, start.im)
		c.JMP(LabelRef("halvings"))
		c.Label("halved")
		c.store64(z, at("stepped"))
		c.store64(start, at("start"))
	}, "stepped", "inverse", "start", "z")
}
