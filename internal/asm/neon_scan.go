package main

import "math"

// scanNEON generates the scan of a prompt and the decays of Mamba-2.
func scanNEON(file *armFile) {
	file.scanForward("scan", true)
	file.scanForward("scanSteps", false)
	file.scanBack()
	file.decays()
}

// scanForward has 4 channels in a vector and processes all positions for them. scan writes outputs, scanSteps states
// and decays.
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

// scanBack has 4 channels in a vector and processes all positions from the last one.
func (file *armFile) scanBack() {
	c := file.function("scanBack", neonISA)
	n, width, step, stride := c.arg("n"), c.arg("width"), c.bytes("step"), c.bytes("stride")
	du, dDelta, dy, u, delta := c.arg("du"), c.arg("ddelta"), c.arg("dy"), c.arg("u"), c.arg("delta")
	d, dd, lanes, work := c.arg("d"), c.arg("dd"), c.arg("lanes"), c.arg("work")
	row, b, cc, w, at, p := c.x(), c.x(), c.x(), c.x(), c.x(), c.x()
	rows, left, r := c.x(), c.x(), c.panels(width)
	const dt, in, dIn, dDt, vy, h, decay, g, vb, t, skip, dSkip, vu = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
	l := armLoop{name: "scanBack", work: 4, unit: "states", bytes: 11*16 + 8, instructions: vectorWork}
	here := func(v vreg, x xreg) {
		c.add(p, x, row)
		r.get(v, p, 0)
	}
	r.each([]xreg{du, dDelta, dy, u, delta, d, dd, lanes, work}, []int{1}, func(int) {
		position, state := c.fresh("position"), c.fresh("state")
		c.argInto("rows", rows)
		c.argInto("b", b)
		c.argInto("c", cc)
		r.get(skip, d, 0)
		r.get(dSkip, dd, 0)
		c.addImm(left, rows, -1)
		c.mul(row, step, left)
		c.mul(p, stride, left)
		c.add(b, b, p)
		c.add(cc, cc, p)
		c.mul(p, n, left)
		c.addShifted(w, work, p, 8)
		c.label(position)
		here(dt, delta)
		here(vu, u)
		here(vy, dy)
		c.v(fmulV, in, vu, dt)
		c.v(fmlaV, dSkip, vu, vy)
		c.zero(dIn)
		c.zero(dDt)
		c.mov(at, lanes)
		c.mov(left, n)
		c.loop(state, l, func() {
			c.load(whole, h, w, workH)
			c.load(whole, decay, w, workDecay)
			c.broadcastNext(vb, b)
			c.broadcastNext(t, cc)
			c.load(whole, g, at, scanHGrad)
			c.v(fmlaV, g, vy, t)
			c.v(fmulV, t, vb, in)
			c.v(fmlaV, t, h, decay) // the state after the step
			c.load(whole, 13, w, workCGrad)
			c.v(fmlaV, 13, t, vy)
			c.store(whole, 13, w, workCGrad)
			c.load(whole, 14, w, workBGrad)
			c.v(fmlaV, 14, in, g)
			c.store(whole, 14, w, workBGrad)
			c.v(fmlaV, dIn, vb, g)
			c.v(fmulV, g, g, decay)
			c.store(whole, g, at, scanHGrad)
			c.v(fmulV, g, g, h) // the gradient of the decay, times the decay
			c.load(whole, 15, at, scanA)
			c.v(fmlaV, dDt, g, 15)
			c.load(whole, 16, at, scanAGrad)
			c.v(fmlaV, 16, g, dt)
			c.store(whole, 16, at, scanAGrad)
			c.addImm(at, at, scanStride)
			c.addImm(w, w, scanStride)
			c.subtract(left, 1, state)
		})
		c.lsl(p, n, 9) // to the work of the previous position
		c.sub(w, w, p)
		here(t, du)
		c.v(fmlaV, t, dIn, dt)
		c.v(fmlaV, t, skip, vy)
		r.put(t, p, 0)
		here(t, dDelta)
		c.v(fmlaV, t, dIn, vu)
		c.v(faddV, t, t, dDt)
		r.put(t, p, 0)
		c.sub(row, row, step)
		for _, x := range []xreg{b, cc} { // these point past the states
			c.sub(x, x, stride)
			c.lsl(p, n, 2)
			c.sub(x, x, p)
		}
		c.subtract(rows, 1, position)
		r.put(dSkip, dd, 0)
		l.name = "" // of the last channels
	})
	c.end()
}

// decays has 4 columns in a vector and processes the rows from top to bottom.
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
		for i := range 4 { // up to this row: sums, the row itself 0, then -Inf
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
