package main

// filtersNEON generates the direct filter, and the steps of shift registers and of diagonal systems.
func filtersNEON(file *armFile) {
	file.firTile()
	file.firRow()
	file.laneRows("mulRows", false)
	file.laneRows("mulAddRows", true)
	file.shiftStep()
	file.diagSteps()
}

// laneRows multiplies rows of 16 channels.
func (file *armFile) laneRows(name string, add bool) {
	c := file.function(name, neonISA)
	rows, z, zs, x, xs := c.arg("n"), c.arg("z"), c.bytes("zs"), c.arg("x"), c.bytes("xs")
	y, ys := c.arg("y"), c.bytes("ys")
	var a, as xreg
	if add {
		a, as = c.arg("a"), c.bytes("as")
	}
	l := armLoop{name: name, work: 16, unit: "elements", bytes: 3 * 64, instructions: vectorWork}
	c.loop("row", l, func() {
		for i := range vreg(4) {
			c.load(whole, 4+i, x, 16*int(i))
			c.load(whole, 8+i, y, 16*int(i))
			if add {
				c.load(whole, i, a, 16*int(i))
				c.v(fmlaV, i, 4+i, 8+i)
			} else {
				c.v(fmulV, i, 4+i, 8+i)
			}
			c.store(whole, i, z, 16*int(i))
		}
		if add {
			c.add(a, a, as)
		}
		c.add(z, z, zs)
		c.add(x, x, xs)
		c.add(y, y, ys)
		c.subtract(rows, 1, "row")
	})
	c.end()
}

// firTile keeps the sums and taps of a tile, for up to 2 vectors of columns, in registers.
func (file *armFile) firTile() {
	const rows, taps = 9, 4 // see isa.firTile
	c := file.function("firTile", neonISA)
	left, d, out, outStep := c.arg("d"), c.bytes("d"), c.arg("out"), c.bytes("outStep")
	coef, data, step := c.arg("taps"), c.arg("data"), c.bytes("dataStep")
	back, o, h, x, n, r := c.x(), c.x(), c.x(), c.x(), c.x(), c.panels(left)
	c.lsl(back, step, 3)
	c.add(data, data, back) // the last row of data for the first tap
	c.sub(back, back, step) // from the first row for the last tap to the last row for the next taps
	r.each([]xreg{out, coef, data}, []int{2, 1}, func(vecs int) {
		sum := func(row, v int) vreg { return vreg(row*vecs + v) }
		tap := func(i, v int) vreg { return vreg((rows+i)*vecs + v) }
		c.mov(o, out)
		for row := range rows {
			for v := range vecs {
				r.get(sum(row, v), o, v)
			}
			if row < rows-1 {
				c.add(o, o, outStep)
			}
		}
		c.mov(h, coef)
		c.mov(x, data)
		c.argInto("n", n)
		loop, l := c.fresh("taps"), armLoop{name: "firTile", work: 4 * vecs * rows * taps, unit: "multiply-adds",
			bytes: 16 * vecs * (rows + 2*taps - 1), instructions: vectorWork}
		if vecs == 1 {
			l.name = ""
		}
		c.loop(loop, l, func() {
			for i := range taps {
				for v := range vecs {
					r.get(tap(i, v), h, v)
				}
				c.add(h, h, d)
			}
			for row := rows - 1; row > -taps; row-- {
				for v := range vecs {
					in := tap(taps, v)
					r.get(in, x, v)
					for i := max(0, -row); i < taps && row+i < rows; i++ {
						c.v(fmlaV, sum(row+i, v), in, tap(i, v))
					}
				}
				if row > 1-taps {
					c.sub(x, x, step)
				}
			}
			c.add(x, x, back)
			c.subtract(n, 1, loop)
		})
		for row := rows - 1; row >= 0; row-- {
			for v := range vecs {
				r.put(sum(row, v), o, v)
			}
			if row > 0 {
				c.sub(o, o, outStep)
			}
		}
	})
	c.end()
}

// firRow adds taps to a row, 4 vectors of columns at a time, then one.
func (file *armFile) firRow() {
	c := file.function("firRow", neonISA)
	d, out, coef, data := c.bytes("d"), c.arg("out"), c.arg("taps"), c.arg("data")
	step, left := c.bytes("dataStep"), c.arg("d")
	h, x, n, r := c.x(), c.x(), c.x(), c.panels(left)
	r.each([]xreg{out, coef, data}, []int{4, 1}, func(vecs int) {
		for i := range vecs {
			r.get(vreg(i), out, i)
		}
		c.mov(h, coef)
		c.mov(x, data)
		c.argInto("n", n)
		loop := c.fresh("taps")
		c.loop(loop, armLoop{name: wide("firRow", vecs), work: 4 * vecs, unit: "multiply-adds", bytes: 32 * vecs,
			instructions: vectorWork}, func() {
			for i := range vecs {
				r.get(vreg(4+2*i), h, i)
				r.get(vreg(5+2*i), x, i)
				c.v(fmlaV, vreg(i), vreg(4+2*i), vreg(5+2*i))
			}
			c.add(h, h, d)
			c.sub(x, x, step)
			c.subtract(n, 1, loop)
		})
		for i := range vecs {
			r.put(vreg(i), out, i)
		}
	})
	c.end()
}

// shiftStep processes the vectors of a state from the last to the first, 4 at a time, so that it can shift in place.
func (file *armFile) shiftStep() {
	c := file.function("shiftStep", neonISA)
	channels, n := c.arg("channels"), c.arg("n")
	x, skip, y := c.arg("x"), c.arg("d"), c.arg("y")
	ends := []xreg{c.arg("s"), c.arg("b"), c.arg("c")} // of a channel
	s, b, cc, before, left, size := c.x(), c.x(), c.x(), c.x(), c.x(), c.bytes("n")
	const in, zero, sums, v, factor = vreg(0), vreg(1), vreg(2), vreg(6), vreg(10)
	at := []xreg{s, b, cc}
	four := func(first bool) {
		for _, p := range at {
			c.addImm(p, p, -64)
		}
		if !first {
			c.addImm(before, s, -4)
		}
		for i := vreg(3); i >= 0; i-- {
			if first && i == 0 {
				c.load(whole, v, s, 0)
				c.ext(v, zero, v, 12)
			} else if first {
				c.addImm(before, s, 16*int(i)-4)
				c.load(whole, v+i, before, 0)
			} else {
				c.load(whole, v+i, before, 16*int(i))
			}
			c.load(whole, factor+i, b, 16*int(i))
			c.v(fmlaV, v+i, factor+i, in)
		}
		for i := range vreg(4) {
			c.store(whole, v+i, s, 16*int(i))
			c.load(whole, factor+i, cc, 16*int(i))
			c.v(fmlaV, sums+i, v+i, factor+i)
		}
	}
	c.zero(zero)
	c.label("channel")
	c.broadcastNext(in, x)
	for i := range vreg(4) {
		c.zero(sums + i)
	}
	for i, p := range ends {
		c.add(p, p, size)
		c.mov(at[i], p)
	}
	c.mov(left, n)
	c.addImm(left, left, -16)
	c.ifZero(left, "first")
	c.loop("vectors", armLoop{name: "shiftStep", work: 16, unit: "states", bytes: 4 * 64, instructions: vectorWork},
		func() {
			four(false)
			c.subtract(left, 16, "vectors")
		})
	c.label("first")
	four(true)
	c.tree(faddV, sums, 4)
	c.fold(faddV, sums, v)
	c.broadcastNext(v, skip)
	c.v(fmlaV, sums, v, in)
	c.store(oneF, sums, y, 0)
	c.addImm(y, y, 4)
	c.subtract(channels, 1, "channel")
	c.end()
}

// diagSteps stores the real and the imaginary part of a mode side by side.
func (file *armFile) diagSteps() {
	c := file.function("diagSteps", neonISA)
	systems, per, n, z, us := c.arg("systems"), c.x(), c.arg("n"), c.arg("z"), c.arg("u")
	skip, x, a, b, out := c.arg("skip"), c.arg("x"), c.arg("a"), c.arg("b"), c.arg("c")
	aAt, bAt, cAt, t, r := c.x(), c.x(), c.x(), c.x(), c.rows()
	const u, d, sum, state, pole, im, next, factor, sign = 0, 1, 2, 3, 4, 5, 6, 7, 16
	c.bits(sign, 1<<31, t)
	c.zero(sum)
	c.v(trn1V, sign, sign, sum) // of real parts
	c.label("system")
	c.argInto("per", per)
	c.broadcastNext(d, skip)
	c.label("channel")
	c.broadcastNext(u, us)
	c.zero(sum)
	c.mov(aAt, a)
	c.mov(bAt, b)
	c.mov(cAt, out)
	r.each(n, []xreg{x, aAt, bAt, cAt}, armLoop{name: "diagSteps", work: 2, unit: "modes", bytes: 5 * 16,
		instructions: vectorWork}, func() {
		r.get(state, x)
		r.get(pole, aAt)
		c.v(rev64V, next, state)
		c.v(trn2V, im, pole, pole)
		c.v(trn1V, pole, pole, pole)
		c.v(fmulV, next, next, im)
		c.v(eorV, next, next, sign)
		c.v(fmlaV, next, state, pole) // re·re - im·im, re·im + im·re
		r.get(factor, bAt)
		c.v(fmlaV, next, factor, u)
		r.put(next, x)
		r.get(factor, cAt)
		c.v(fmlaV, sum, factor, next)
	})
	c.v(zip2D, next, sum, sum)
	c.v(faddV, sum, sum, next)
	c.dup(next, sum, 1)
	c.v(fsubV, sum, sum, next)
	c.v(faddV, sum, sum, sum)
	c.v(fmlaV, sum, u, d)
	c.store(oneF, sum, z, 0)
	c.addImm(z, z, 4)
	c.subtract(per, 1, "channel")
	c.mov(a, aAt)
	c.mov(b, bAt)
	c.mov(out, cAt)
	c.subtract(systems, 1, "system")
	c.end()
}
