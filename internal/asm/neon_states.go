package main

// statesNEON generates the steps of states. Each processes the states of a channel, or the columns of a row, four at a
// time.
func statesNEON(file *armFile) {
	file.scanStep()
	file.ssdStep()
	file.ssdStepHalves()
	file.deltaStep("deltaStep", 1)
	file.deltaStep("deltaStepTwice", 2)
	file.rowsTimes("scaleRows", false)
	file.rowsTimes("axpyRows", true)
	var decay vreg
	file.point(pointKernel{name: "carryState", arrays: []string{"state", "added"}, written: 2, slots: 4,
		prepare: func(p *pointNeon) { decay = p.keep("decay") },
		body: func(p *pointNeon, v []vreg) {
			before := p.r(2)
			p.copyV(before, v[0])
			p.v(fmulV, v[0], v[0], decay)
			p.v(faddV, v[0], v[0], v[1])
			p.copyV(v[1], before)
		}})
	file.rowsByRows("mulMatrix", false)
	file.rowsByRows("mulAddMatrix", true)
}

// held loads the constants of exp into registers from first on.
func (c *neon) held(first vreg, constants ...float64) map[float64]vreg {
	at, t := map[float64]vreg{}, c.x()
	for i, k := range constants {
		at[k] = first + vreg(i)
		c.float(at[k], k, t)
	}
	return at
}

// scanStep sums over the states in one strand for each element of a vector.
func (file *armFile) scanStep() {
	c := file.function("scanStep", neonISA)
	d, n, y, h, a := c.arg("d"), c.arg("n"), c.arg("y"), c.arg("h"), c.arg("a")
	u, delta, b, cc, skip := c.arg("u"), c.arg("delta"), c.arg("b"), c.arg("c"), c.arg("skip")
	bAt, cAt, r := c.x(), c.x(), c.rows()
	e := expNeon{c, c.held(16, append(expConstants(), expLow)...)}
	const dt, in, sum, x, t = 0, 1, 2, 3, 4
	c.label("channel")
	c.broadcast(dt, delta)
	c.broadcast(in, u)
	c.v(fmulV, in, in, dt)
	c.zero(sum)
	c.mov(bAt, b)
	c.mov(cAt, cc)
	r.each(n, []xreg{h, a, bAt, cAt},
		armLoop{name: "scanStep", work: 4, unit: "states", bytes: 5 * 16, instructions: vectorWork}, func() {
			r.get(x, a)
			c.v(fmulV, x, x, dt)
			e.exp(x, 5, 6, 7, 8)
			r.get(t, h)
			c.v(fmulV, t, t, x)
			r.get(x, bAt)
			c.v(fmlaV, t, x, in)
			r.put(t, h)
			r.get(x, cAt)
			c.v(fmlaV, sum, x, t)
		})
	c.fold(faddV, sum, t)
	c.broadcast(t, skip)
	c.broadcast(x, u)
	c.v(fmlaV, sum, t, x)
	c.store(oneF, sum, y, 0)
	for _, p := range []xreg{y, u, delta, skip} {
		c.addImm(p, p, 4)
	}
	c.subtract(d, 1, "channel")
	c.end()
}

// expNeon writes exp with constants in registers.
type expNeon struct {
	*neon
	at map[float64]vreg
}

// exp does the same as pointNeon.exp. It checks for large x only if expHigh is held: otherwise x cannot exceed it.
func (e expNeon) exp(x, f, t, a, b vreg) {
	p := &pointNeon{neon: e.neon, known: e.at}
	_, large := e.at[expHigh]
	p.exp(x, large, f, t, a, b)
}

func (file *armFile) ssdStep() {
	c := file.function("ssdStep", neonISA)
	d, n, y, h, x, b, cc := c.arg("d"), c.arg("n"), c.arg("y"), c.arg("h"), c.arg("x"), c.arg("b"), c.arg("c")
	bAt, cAt, r := c.x(), c.x(), c.rows()
	const decay, in, sum, t, v = 0, 1, 2, 3, 4
	c.floatArg("decay", decay)
	c.label("channel")
	c.broadcast(in, x)
	c.zero(sum)
	c.mov(bAt, b)
	c.mov(cAt, cc)
	r.each(n, []xreg{h, bAt, cAt}, armLoop{name: "ssdStep", work: 4, unit: "states", bytes: 4 * 16,
		instructions: vectorWork}, func() {
		r.get(t, h)
		c.v(fmulV, t, t, decay)
		r.get(v, bAt)
		c.v(fmlaV, t, v, in)
		r.put(t, h)
		r.get(v, cAt)
		c.v(fmlaV, sum, v, t)
	})
	c.endChannel(sum, t, y, x, d)
	c.end()
}

// endChannel stores the folded sum of a channel at y and continues with the next channel if any of d are left. t is
// scratch.
func (c *neon) endChannel(sum, t vreg, y, x, d xreg) {
	c.fold(faddV, sum, t)
	c.store(oneF, sum, y, 0)
	c.addImm(y, y, 4)
	c.addImm(x, x, 4)
	c.subtract(d, 1, "channel")
}

// ssdStepHalves splits each word into two numbers. A shift converts the number at the even index to float32, a mask the
// one at the odd index after it.
func (file *armFile) ssdStepHalves() {
	c := file.function("ssdStepHalves", neonISA)
	d, words, y, h, x, b, cc := c.arg("d"), c.arg("words"), c.arg("y"), c.arg("h"), c.arg("x"), c.arg("b"), c.arg("c")
	at, r, t := [4]xreg{c.x(), c.x(), c.x(), c.x()}, c.rows(), c.x()
	const decay, in, sum, v, bits, upper, half, last, even, odd = 0, 1, 2, 3, 4, 5, 6, 7, 16, 17
	c.floatArg("decay", decay)
	c.bits(upper, 0xffff0000, t)
	c.bits(half, 0x7fff, t)
	c.bits(last, 1, t)
	c.label("channel")
	c.broadcast(in, x)
	c.zero(sum)
	for i, from := range []xreg{b, cc} {
		c.mov(at[2*i], from)
		c.addShifted(at[2*i+1], from, words, 2)
	}
	r.each(words, append([]xreg{h}, at[:]...), armLoop{name: "ssdStepHalves", work: 8, unit: "states", bytes: 6 * 16,
		instructions: vectorWork}, func() {
		r.get(odd, h)
		c.shl(even, odd, 16)
		c.v(andV, odd, odd, upper)
		for i, number := range []vreg{even, odd} {
			c.v(fmulV, number, number, decay)
			r.get(v, at[i])
			c.v(fmlaV, number, v, in)
			r.get(v, at[2+i])
			c.v(fmlaV, sum, v, number)
			c.ushr(bits, number, 16) // to nearest, ties to even
			c.v(andV, bits, bits, last)
			c.v(addV, number, number, bits)
			c.v(addV, number, number, half)
		}
		c.ushr(even, even, 16)
		c.v(andV, odd, odd, upper)
		c.v(orrV, odd, odd, even)
		r.put(odd, h)
	})
	c.endChannel(sum, v, y, x, d)
	c.end()
}

// deltaStep processes the rows of a state with 4 vectors of columns in registers, then with one vector at a time.
func (file *armFile) deltaStep(name string, pairs int) {
	c := file.function(name, neonISA)
	s, y, ld, left := c.arg("s"), c.arg("y"), c.bytes("ld"), c.arg("n")
	names, columns := []string{"decay", "q", "a", "k"}[:2+pairs], []xreg{c.arg("x")}
	if pairs == 2 {
		columns = append(columns, c.arg("v"))
	}
	at, rows, r := c.x(), c.x(), c.panels(left)
	var numbers []xreg
	for range names {
		numbers = append(numbers, c.x())
	}
	const sums, factors, state, inputs = vreg(0), vreg(4), vreg(8), vreg(16)
	r.each(append([]xreg{s, y}, columns...), []int{4, 1}, func(vecs int) {
		for i := range vecs {
			c.zero(sums + vreg(i))
			for j, x := range columns {
				r.get(inputs+vreg(4*j+i), x, i)
			}
		}
		c.mov(at, s)
		c.argInto("dk", rows)
		for i, n := range names {
			c.argInto(n, numbers[i])
		}
		loop := c.fresh("row")
		c.loop(loop, armLoop{name: wide(file.last().kernel.name, vecs), work: 4 * vecs, unit: "states", bytes: 32 * vecs,
			instructions: vectorWork}, func() {
			for i, p := range numbers {
				c.broadcast(factors+vreg(i), p)
				c.addImm(p, p, 4)
			}
			for i := range vecs {
				v := state + vreg(i)
				r.get(v, at, i)
				c.v(fmulV, v, v, factors)
				for j := range columns {
					c.v(fmlaV, v, inputs+vreg(4*j+i), factors+2+vreg(j))
				}
				r.put(v, at, i)
				c.v(fmlaV, sums+vreg(i), v, factors+1)
			}
			c.add(at, at, ld)
			c.subtract(rows, 1, loop)
		})
		for i := range vecs {
			r.put(sums+vreg(i), y, i)
		}
	})
	c.end()
}

// wide returns the name of a loop if it is the widest, else "".
func wide(name string, vecs int) string {
	if vecs < 4 {
		return ""
	}
	return name
}

// last returns the function that is being written.
func (file *armFile) last() *armFunction { return file.functions[len(file.functions)-1] }

// rowsTimes multiplies each row by a number.
func (file *armFile) rowsTimes(name string, add bool) {
	c := file.function(name, neonISA)
	rows, n, y, ys, x, xs := c.arg("rows"), c.arg("n"), c.arg("y"), c.bytes("ys"), c.arg("x"), c.bytes("xs")
	s, ss, yAt, xAt, r := c.arg("s"), c.bytes("ss"), c.x(), c.x(), c.rows()
	const factor, v, to = 0, 1, 2
	c.label("rows")
	c.broadcast(factor, s)
	c.mov(yAt, y)
	c.mov(xAt, x)
	l := armLoop{name: name, work: 4, unit: "elements", bytes: 48, instructions: vectorWork}
	r.each(n, []xreg{yAt, xAt}, l, func() {
		r.get(v, xAt)
		if add {
			r.get(to, yAt)
			c.v(fmlaV, to, v, factor)
		} else {
			c.v(fmulV, to, v, factor)
		}
		r.put(to, yAt)
	})
	c.add(y, y, ys)
	c.add(x, x, xs)
	c.add(s, s, ss)
	c.subtract(rows, 1, "rows")
	c.end()
}

// rowsByRows multiplies rows element by element.
func (file *armFile) rowsByRows(name string, add bool) {
	c := file.function(name, neonISA)
	rows, n, y, ys := c.arg("rows"), c.arg("n"), c.arg("y"), c.bytes("ys")
	a, as, b, bs := c.arg("a"), c.bytes("as"), c.arg("b"), c.bytes("bs")
	yAt, aAt, bAt, r := c.x(), c.x(), c.x(), c.rows()
	const v, w, to = 0, 1, 2
	c.label("rows")
	c.mov(yAt, y)
	c.mov(aAt, a)
	c.mov(bAt, b)
	l := armLoop{name: name, work: 4, unit: "elements", bytes: 48, instructions: vectorWork}
	r.each(n, []xreg{yAt, aAt, bAt}, l, func() {
		r.get(v, aAt)
		r.get(w, bAt)
		if add {
			r.get(to, yAt)
			c.v(fmlaV, to, v, w)
		} else {
			c.v(fmulV, to, v, w)
		}
		r.put(to, yAt)
	})
	c.add(y, y, ys)
	c.add(a, a, as)
	c.add(b, b, bs)
	c.subtract(rows, 1, "rows")
	c.end()
}
