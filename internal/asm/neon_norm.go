package main

// normNEON generates LayerNorm and its gradients.
func normNEON(file *armFile) {
	file.layerNorm()
	file.layerNormGrad()
	file.layerNormParamGrad()
}

// addDoubles adds the elements of v, or their squares, to two vectors of float64 sums from sums on. lo and hi are
// scratch.
func (c *neon) addDoubles(sums, v vreg, squares bool, lo, hi vreg) {
	for i, half := range []vreg{lo, hi} {
		c.v([]armOp{fcvtlD, fcvtl2D}[i], half, v)
	}
	for i, half := range []vreg{lo, hi} {
		if sum := sums + vreg(i); squares {
			c.v(fmlaD, sum, half, half)
		} else {
			c.v(faddD, sum, sum, half)
		}
	}
}

// meanD sets the first element of sums to the sum of two vectors in float64, divided by n.
func (c *neon) meanD(sums, n vreg) {
	c.v(faddD, sums, sums, sums+1)
	c.foldD(sums, sums)
	c.v(fdivD, sums, sums, n)
}

// single sets all elements of d to the first float64 of n, rounded.
func (c *neon) single(d, n vreg) {
	c.v(fcvtnD, d, n)
	c.dup(d, d, 0)
}

func (file *armFile) layerNorm() {
	c := file.function("layerNorm", neonISA)
	rows, d, y, mean, rstd, x := c.arg("rows"), c.arg("d"), c.arg("y"), c.arg("mean"), c.arg("rstd"), c.arg("x")
	w, b, xAt, wAt, bAt, r := c.arg("w"), c.arg("b"), c.x(), c.x(), c.x(), c.rows()
	const sums, v, lo, hi, m, n, mu, scale, eps, one, t = 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	c.double(n, d)
	c.doubleArg("eps", eps)
	c.oneD(one)
	// pass begins with zero sums and runs body for each vector of x.
	pass := func(name string, body func()) {
		c.zero(sums)
		c.zero(sums + 1)
		c.mov(xAt, x)
		r.each(d, []xreg{xAt}, armLoop{name: "layerNorm, " + name, work: 4, unit: "elements", bytes: 16,
			instructions: vectorWork}, body)
	}
	c.label("rows")
	pass("mean", func() {
		r.get(v, xAt)
		c.addDoubles(sums, v, false, lo, hi)
	})
	c.meanD(sums, n)
	c.copyV(mu, sums)
	c.single(m, mu)
	c.store(oneF, m, mean, 0)
	pass("variance", func() {
		r.get(v, xAt)
		c.v(fsubV, v, v, m)
		if r.few {
			c.keepFew(v, r.left, t)
		}
		c.addDoubles(sums, v, true, lo, hi)
	})
	c.meanD(sums, n)
	c.v(fcvtlD, lo, m)
	c.v(fsubD, lo, mu, lo)
	c.v(fmlsD, sums, lo, lo)
	c.v(faddD, sums, sums, eps)
	c.v(fsqrtD, sums, sums)
	c.v(fdivD, sums, one, sums)
	c.single(scale, sums)
	c.store(oneF, scale, rstd, 0)
	c.mov(wAt, w)
	c.mov(bAt, b)
	r.each(d, []xreg{x, y, wAt, bAt}, armLoop{name: "layerNorm, result", work: 4, unit: "elements", bytes: 64,
		instructions: vectorWork}, func() {
		r.get(v, x)
		r.get(lo, wAt)
		r.get(hi, bAt)
		c.v(fsubV, v, v, m)
		c.v(fmulV, v, v, scale)
		c.v(fmlaV, hi, v, lo)
		r.put(hi, y)
	})
	c.addImm(mean, mean, 4)
	c.addImm(rstd, rstd, 4)
	c.subtract(rows, 1, "rows")
	c.end()
}

func (file *armFile) layerNormGrad() {
	c := file.function("layerNormGrad", neonISA)
	rows, d, dx, dy, x := c.arg("rows"), c.arg("d"), c.arg("dx"), c.arg("dy"), c.arg("x")
	w, mean, rstd, dyAt, xAt, wAt, r := c.arg("w"), c.arg("mean"), c.arg("rstd"), c.x(), c.x(), c.x(), c.rows()
	const sumG, sumGX, g, hat, lo, hi, m, scale, n, meanG, meanGX, t = 0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
	c.double(n, d)
	// element sets g to dy·w and hat to x̂.
	element := func(dy, x xreg) {
		r.get(g, dy)
		r.get(lo, wAt)
		r.get(hat, x)
		c.v(fmulV, g, g, lo)
		c.v(fsubV, hat, hat, m)
		c.v(fmulV, hat, hat, scale)
	}
	c.label("rows")
	c.broadcastNext(m, mean)
	c.broadcastNext(scale, rstd)
	for i := range vreg(4) {
		c.zero(i)
	}
	c.mov(dyAt, dy)
	c.mov(xAt, x)
	c.mov(wAt, w)
	r.each(d, []xreg{dyAt, xAt, wAt}, armLoop{name: "layerNormGrad, sums", work: 4, unit: "elements", bytes: 48,
		instructions: vectorWork}, func() {
		element(dyAt, xAt)
		c.v(fmulV, hat, hat, g)
		if r.few {
			c.keepFew(hat, r.left, t) // 0·x̂ may be NaN outside
		}
		c.addDoubles(sumG, g, false, lo, hi)
		c.addDoubles(sumGX, hat, false, lo, hi)
	})
	c.meanD(sumG, n)
	c.meanD(sumGX, n)
	c.single(meanG, sumG)
	c.single(meanGX, sumGX)
	c.mov(wAt, w)
	r.each(d, []xreg{dx, dy, x, wAt}, armLoop{name: "layerNormGrad, result", work: 4, unit: "elements", bytes: 80,
		instructions: vectorWork}, func() {
		element(dy, x)
		r.get(lo, dx)
		c.v(fsubV, g, g, meanG)
		c.v(fmlsV, g, hat, meanGX)
		c.v(fmlaV, lo, g, scale)
		r.put(lo, dx)
	})
	c.subtract(rows, 1, "rows")
	c.end()
}

// layerNormParamGrad processes all rows for 4 columns at a time.
func (file *armFile) layerNormParamGrad() {
	c := file.function("layerNormParamGrad", neonISA)
	left, dw, db, dy, x := c.arg("d"), c.arg("dw"), c.arg("db"), c.arg("dy"), c.arg("x")
	rows, mean, rstd, dyAt, xAt, size, r := c.x(), c.x(), c.x(), c.x(), c.x(), c.bytes("d"), c.panels(left)
	const sumW, sumB, g, hat, m, scale = 0, 1, 2, 3, 4, 5
	l := armLoop{name: "layerNormParamGrad", work: 4, unit: "elements", bytes: 40, instructions: vectorWork}
	r.each([]xreg{dw, db, dy, x}, []int{1}, func(int) {
		row := c.fresh("row")
		c.argInto("rows", rows)
		c.argInto("mean", mean)
		c.argInto("rstd", rstd)
		r.get(sumW, dw, 0)
		r.get(sumB, db, 0)
		c.mov(dyAt, dy)
		c.mov(xAt, x)
		c.loop(row, l, func() {
			r.get(g, dyAt, 0)
			r.get(hat, xAt, 0)
			c.broadcastNext(m, mean)
			c.broadcastNext(scale, rstd)
			c.v(fsubV, hat, hat, m)
			c.v(fmulV, hat, hat, scale)
			c.v(fmlaV, sumW, g, hat)
			c.v(faddV, sumB, sumB, g)
			c.add(dyAt, dyAt, size)
			c.add(xAt, xAt, size)
			c.subtract(rows, 1, row)
		})
		r.put(sumW, dw, 0)
		r.put(sumB, db, 0)
		l.name = "" // of the last columns
	})
	c.end()
}
