package main

import "math"

// scanNEON generates the scan of a prompt and the decays of Mamba-2.
func scanNEON(file *armFile) {
	file.scanForward("scan", true)
	file.scanForward("scanSteps", false)
	file.decays()
}

// scanForward has 4 channels in a vector, and goes through all positions with them: scan writes outputs, scanSteps
// states and decays.
func (file *armFile) scanForward(name string, outputs bool) {
	c := file.function(name, neonISA)
	n, width, step, stride := c.arg("n"), c.arg("width"), c.bytes("step"), c.bytes("stride")
	u, delta, lanes := c.arg("u"), c.arg("delta"), c.arg("lanes")
	columns := []xreg{u, delta, lanes}
	var out, d, cAt, cc xreg
	if outputs {
		out, d, cAt, cc = c.arg("y"), c.arg("d"), c.x(), c.x()
		columns = append(columns, d)
	} else {
		out = c.arg("work")
	}
	uAt, deltaAt, outAt, bAt, at := c.x(), c.x(), c.x(), c.x(), c.x()
	b, rows, left := c.x(), c.x(), c.x()
	e, r := expNeon{c, c.held(16, append(expConstants(), expLow)...)}, c.panels(width)
	const dt, in, sum, skip, x, next, h, factor = 0, 1, 2, 3, 4, 5, 10, 11
	l := armLoop{name: name, work: 4, unit: "states", bytes: 48 + 4, instructions: vectorWork}
	if outputs {
		l.bytes += 4
	} else {
		l.bytes += 32
	}
	r.each(append(columns, out), []int{1}, func(int) {
		row, state := c.fresh("position"), c.fresh("state")
		c.argInto("rows", rows)
		c.argInto("b", bAt)
		c.mov(uAt, u)
		c.mov(deltaAt, delta)
		c.mov(outAt, out)
		if outputs {
			c.argInto("c", cAt)
			r.get(skip, d, 0)
		}
		c.label(row)
		r.get(dt, deltaAt, 0)
		r.get(in, uAt, 0)
		if outputs {
			c.v(fmulV, sum, in, skip)
			c.mov(cc, cAt)
		}
		c.v(fmulV, in, in, dt)
		c.mov(at, lanes)
		c.mov(b, bAt)
		c.mov(left, n)
		c.loop(state, l, func() {
			c.load(whole, x, at, scanA)
			c.v(fmulV, x, x, dt)
			e.exp(x, 5, 6, 7, 8)
			c.broadcastNext(next, b)
			c.v(fmulV, next, next, in)
			c.load(whole, h, at, scanH)
			c.v(fmlaV, next, h, x)
			c.store(whole, next, at, scanH)
			if outputs {
				c.broadcastNext(factor, cc)
				c.v(fmlaV, sum, next, factor)
			} else {
				c.store(whole, h, outAt, workH)
				c.store(whole, x, outAt, workDecay)
				c.addImm(outAt, outAt, scanStride)
			}
			c.addImm(at, at, scanStride)
			c.subtract(left, 1, state)
		})
		c.add(uAt, uAt, step)
		c.add(deltaAt, deltaAt, step)
		c.add(bAt, bAt, stride)
		if outputs {
			r.put(sum, outAt, 0)
			c.add(outAt, outAt, step)
			c.add(cAt, cAt, stride)
		}
		c.subtract(rows, 1, row)
		l.name = "" // of the last channels
	})
	c.end()
}

// decays has 4 columns in a vector, and goes down the rows.
func (file *armFile) decays() {
	c := file.function("decays", neonISA)
	left, steps, to, ld := c.arg("q"), c.arg("steps"), c.arg("l"), c.bytes("q")
	from, at, above, rows, r := c.x(), c.x(), c.x(), c.x(), c.panels(left)
	e := expNeon{c, c.held(16, append(expConstants(), expLow, expHigh)...)}
	const sum, x, zero, ones, none, t = 0, 1, 28, 29, 30, 31
	c.zero(zero)
	c.bytesOf(ones, 255)
	c.bits(none, math.Float32bits(float32(math.Inf(-1))), from)
	c.set(above, 0)
	row := func() {
		c.copyV(x, sum)
		e.exp(x, 2, 3, 4, 5)
		r.put(x, at, 0)
		c.add(at, at, ld)
	}
	r.each([]xreg{steps, to}, []int{1}, func(int) {
		zeros, diagonal, below, done := c.fresh("zeros"), c.fresh("diagonal"), c.fresh("below"), c.fresh("done")
		c.mov(at, to)
		c.mov(from, steps)
		c.mov(rows, above)
		c.ifZero(rows, diagonal)
		c.label(zeros)
		r.put(zero, at, 0)
		c.add(at, at, ld)
		c.subtract(rows, 1, zeros)
		c.label(diagonal)
		c.zero(sum)
		for i := range 4 { // columns up to this row have sums, that of the row itself 0, the others exponents of 0
			c.broadcastNext(x, from)
			c.v(faddV, sum, sum, x)
			if i == 0 {
				c.zero(sum)
			} else {
				c.ext(t, ones, zero, 16-4*i)
				c.v(andV, sum, sum, t)
			}
			c.ext(t, zero, none, 12-4*i)
			c.v(orrV, sum, sum, t)
			row()
			if r.few && i < 3 {
				c.ifLess(left, i+2, done)
			}
		}
		if !r.few {
			c.addImm(rows, left, -4)
			c.ifZero(rows, done)
			c.loop(below, armLoop{name: "decays", work: 4, unit: "elements", bytes: 20, instructions: vectorWork}, func() {
				c.broadcastNext(x, from)
				c.v(faddV, sum, sum, x)
				row()
				c.subtract(rows, 1, below)
			})
		}
		c.label(done)
		c.addImm(above, above, 4)
	})
	c.end()
}
