package main

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
}
