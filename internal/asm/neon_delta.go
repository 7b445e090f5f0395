package main

import "fmt"

// deltaNEON generates the block operations of the delta rule that are not products, with 4 columns in a vector.
func deltaNEON(file *armFile) {
	file.solveLower()
	file.axpyDots()
	file.decayPart()
	file.addRunning()
	file.decayedScores()
}

// solveLower processes the rows from top to bottom: each is read, changed by the rows before it, and written.
func (file *armFile) solveLower() {
	c := file.function("solveLower", neonISA)
	left, x, xs, mi, mj := c.arg("n"), c.arg("x"), c.bytes("xs"), c.bytes("mi"), c.bytes("mj")
	i, j, at, from, m, factor, r := c.x(), c.x(), c.x(), c.x(), c.x(), c.x(), c.panels(left)
	rows := c.arg("rows")
	const f, v = vreg(16), vreg(20)
	r.each([]xreg{x}, []int{4, 1}, func(vecs int) {
		row, term, end := c.fresh("row"), c.fresh("term"), c.fresh("end")
		c.argInto("m", m)
		c.argInto("rows", rows)
		c.set(i, 0)
		c.mov(at, x)
		c.label(row)
		c.addImm(i, i, 1)
		c.addImm(rows, rows, -1)
		c.ifZero(rows, end)
		c.add(at, at, xs)
		c.add(m, m, mi)
		for k := range vecs {
			r.get(vreg(k), at, k)
		}
		c.mov(from, x)
		c.mov(factor, m)
		c.mov(j, i)
		c.loop(term, armLoop{name: wide("solveLower", vecs), work: 4 * vecs, unit: "multiply-adds", bytes: 16*vecs + 4,
			instructions: vectorWork}, func() {
			c.broadcast(f, factor)
			for k := range vecs {
				r.get(v+vreg(k), from, k)
				c.v(fmlaV, vreg(k), v+vreg(k), f)
			}
			c.add(from, from, xs)
			c.add(factor, factor, mj)
			c.subtract(j, 1, term)
		})
		for k := range vecs {
			r.put(vreg(k), at, k)
		}
		c.jump(row)
		c.label(end)
	})
	c.end()
}

// axpyDots reads each row once for both results.
func (file *armFile) axpyDots() {
	c := file.function("axpyDots", neonISA)
	rows, n, dots, y, f := c.arg("rows"), c.arg("n"), c.arg("dots"), c.arg("y"), c.arg("f")
	x, w, ys, xs, ws := c.arg("x"), c.arg("w"), c.bytes("ys"), c.bytes("xs"), c.bytes("ws")
	yAt, xAt, wAt, r := c.x(), c.x(), c.x(), c.rows()
	const factor, sum, v, t, to = 0, 1, 2, 3, 4
	c.label("rows")
	c.broadcastNext(factor, f)
	c.zero(sum)
	c.mov(yAt, y)
	c.mov(xAt, x)
	c.mov(wAt, w)
	r.each(n, []xreg{yAt, xAt, wAt}, armLoop{name: "axpyDots", work: 8, unit: "multiply-adds", bytes: 64,
		instructions: vectorWork}, func() {
		r.get(v, xAt)
		r.get(t, wAt)
		c.v(fmlaV, sum, t, v)
		r.get(to, yAt)
		c.v(fmlaV, to, v, factor)
		r.put(to, yAt)
	})
	c.fold(faddV, sum, t)
	c.store(oneF, sum, dots, 0)
	c.addImm(dots, dots, 4)
	c.add(y, y, ys)
	c.add(x, x, xs)
	c.add(w, w, ws)
	c.subtract(rows, 1, "rows")
	c.end()
}

// decayPart processes the rows from top to bottom and back.
func (file *armFile) decayPart() {
	c := file.function("decayPart", neonISA)
	left, ld, gs, logs := c.arg("n"), c.bytes("ld"), c.bytes("gs"), c.arg("logs")
	each, since, upTo, total := c.arg("each"), c.arg("since"), c.arg("upTo"), c.arg("total")
	from, at, to, last, rows, r := c.x(), c.x(), c.x(), c.x(), c.x(), c.panels(left)
	e := expNeon{c, c.held(16, append(expConstants(), expLow, expHigh, 1)...)}
	const sum, x, run = 0, 1, 6
	l := armLoop{name: "decayPart", work: 4, unit: "elements", bytes: 48, instructions: vectorWork}
	r.each([]xreg{logs, each, since, upTo, total}, []int{1}, func(int) {
		down, up, first := c.fresh("down"), c.fresh("up"), c.fresh("first")
		c.mov(from, logs)
		c.mov(at, each)
		c.mov(to, since)
		c.mov(last, upTo)
		c.argInto("rows", rows)
		c.zero(sum)
		c.copyV(run, e.at[1])
		c.loop(down, l, func() {
			r.get(x, from, 0)
			c.v(faddV, sum, sum, x)
			e.exp(x, 2, 3, 4, 5)
			c.v(fmulV, run, run, x)
			r.put(x, at, 0)
			r.put(run, to, 0)
			c.add(from, from, gs)
			for _, p := range []xreg{at, to, last} {
				c.add(p, p, ld)
			}
			c.subtract(rows, 1, down)
		})
		e.exp(sum, 2, 3, 4, 5)
		r.put(sum, total, 0)
		c.argInto("rows", rows)
		c.copyV(run, e.at[1])
		c.jump(first)
		c.label(up)
		r.get(x, at, 0)
		c.v(fmulV, run, run, x)
		c.label(first)
		c.sub(last, last, ld)
		c.sub(at, at, ld)
		r.put(run, last, 0)
		c.subtract(rows, 1, up)
		l.name = "" // of the last columns
	})
	c.end()
}

// addRunning processes the rows with 4 vectors of columns at a time, then with one.
func (file *armFile) addRunning() {
	c := file.function("addRunning", neonISA)
	left, acc, y, ys := c.arg("n"), c.arg("acc"), c.arg("y"), c.bytes("ys")
	a, as, b, bs := c.arg("a"), c.bytes("as"), c.arg("b"), c.bytes("bs")
	yAt, aAt, bAt, rows, r := c.x(), c.x(), c.x(), c.x(), c.panels(left)
	const v, w, to = vreg(4), vreg(8), vreg(16)
	r.each([]xreg{acc, y, a, b}, []int{4, 1}, func(vecs int) {
		c.mov(yAt, y)
		c.mov(aAt, a)
		c.mov(bAt, b)
		c.argInto("rows", rows)
		for i := range vecs {
			r.get(vreg(i), acc, i)
		}
		row := c.fresh("row")
		c.loop(row, armLoop{name: wide("addRunning", vecs), work: 4 * vecs, unit: "elements", bytes: 64 * vecs,
			instructions: vectorWork}, func() {
			for i := range vecs {
				v, w, to := v+vreg(i), w+vreg(i), to+vreg(i)
				r.get(v, aAt, i)
				r.get(w, bAt, i)
				c.v(fmlaV, vreg(i), v, w)
				r.get(to, yAt, i)
				c.v(faddV, to, to, vreg(i))
				r.put(to, yAt, i)
			}
			c.add(yAt, yAt, ys)
			c.add(aAt, aAt, as)
			c.add(bAt, bAt, bs)
			c.subtract(rows, 1, row)
		})
		for i := range vecs {
			r.put(vreg(i), acc, i)
		}
	})
	c.end()
}

// decayedScores has the writers side by side, and decays those before a reader. All sums of a reader's scores are in 4
// vectors, or in fewer if there are fewer writers, and nothing is added across elements.
func (file *armFile) decayedScores() {
	c := file.function("decayedScores", neonISA)
	rows, n, ss, sq, sp := c.arg("rows"), c.arg("n"), c.bytes("ss"), c.arg("sq"), c.arg("sp")
	e, q, p, w, left, t, x := c.arg("e"), c.arg("q"), c.arg("p"), c.x(), c.x(), c.x(), c.x()
	mode, flush := c.x(), c.x()
	const dq, dp, before, number, ve, vq, vp, v, decayed, vt = vreg(0), vreg(4), vreg(8), vreg(12), vreg(16), vreg(17),
		vreg(18), vreg(19), vreg(23), vreg(27)
	c.both("MOVD FPCR, "+mode.String(), "")
	c.both("ORR $(1<<24), "+mode.String()+", "+flush.String(), "") // denormal numbers are 0
	c.both("MOVD "+flush.String()+", FPCR", "")
	c.bits(vt, 4, t) // number the writers from 1
	for i := range 4 {
		c.set(t, i+1)
		c.insert(number, i, t)
	}
	for i := range vreg(3) {
		c.v(addV, number+i+1, number+i, vt)
	}
	masks := func() { // of the writers up to number t
		c.dupX(vt, t)
		for i := range vreg(4) {
			c.v(cmhsV, before+i, vt, number+i)
		}
	}
	c.set(t, 0)
	c.label("reader")
	for i := range vreg(8) {
		c.zero(i)
	}
	masks()
	c.argInto("w", w)
	c.mov(left, n)
	for vecs := 1; vecs <= 4; vecs++ {
		terms, wider := c.fresh("terms"), c.fresh("wider")
		c.ifGreater(t, 4*vecs-1, wider)
		l := armLoop{name: wide("decayedScores", vecs), work: 12 * vecs, unit: "products", bytes: 32*vecs + 12,
			instructions: vectorWork}
		c.loop(terms, l, func() {
			c.broadcastNext(ve, e)
			c.broadcastNext(vq, q)
			c.broadcastNext(vp, p)
			for i := range vreg(vecs) {
				c.load(whole, v+i, w, 16*int(i))
				c.v(fmlaV, dp+i, v+i, vp)
				c.v(fmulV, decayed+i, v+i, ve)
				c.v(bitV, v+i, decayed+i, before+i)
				c.store(whole, v+i, w, 16*int(i))
				c.v(fmlaV, dq+i, v+i, vq)
			}
			c.addImm(w, w, 64)
			c.subtract(left, 1, terms)
		})
		c.jump("sums")
		c.label(wider)
	}
	c.label("sums")
	for i := range vreg(4) {
		c.v(andV, dp+i, dp+i, before+i)
	}
	c.addImm(t, t, 1)
	masks()
	for i := range vreg(4) {
		c.v(andV, dq+i, dq+i, before+i)
	}
	few := func(i int) string { return fmt.Sprintf("few%d", i) }
	for i := range 4 {
		c.ifLess(rows, 4*i+4, few(i))
		c.store(whole, dq+vreg(i), sq, 16*i)
		c.store(whole, dp+vreg(i), sp, 16*i)
	}
	c.jump("stored")
	for i := range 4 {
		c.label(few(i))
		c.lsl(x, rows, 62)
		c.ifZero(x, "stored")
		c.addImm(x, sq, 16*i)
		c.storeFew(dq+vreg(i), rows, x, left)
		c.addImm(x, sp, 16*i)
		c.storeFew(dp+vreg(i), rows, x, left)
		c.jump("stored")
	}
	c.label("stored")
	c.add(sq, sq, ss)
	c.add(sp, sp, ss)
	c.sub(x, rows, t)
	c.ifGreater(x, 0, "reader")
	c.both("MOVD "+mode.String()+", FPCR", "")
	c.end()
}
