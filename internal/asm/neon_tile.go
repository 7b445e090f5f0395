package main

import "fmt"

// tileNEON generates the products of tiles of integer rows with vectors, and the reordering of rows for them, as
// rowtile.go does for amd64. SDOT needs both factors signed.
func tileNEON(file *armFile) {
	file.tileDots()
	file.tileSums()
	file.tileKeys()
	file.tileValues()
}

// forRows emits code for up to most rows of x. body writes the code for each number of rows.
func (c *neon) forRows(most int, body func(rows int)) {
	m := c.arg("m")
	own := c.next
	for rows := 1; rows <= most; rows++ {
		next := fmt.Sprintf("more%d", rows)
		if rows < most {
			c.ifGreater(m, rows, next)
		}
		c.next = own
		body(rows)
		c.end()
		if rows < most {
			c.label(next)
		}
	}
}

// tileColumns is the number of columns in 4 vectors of sums.
const tileColumns = 16

// tileDots keeps the sums of 4 vectors and 16 rows of the tile in registers.
func (file *armFile) tileDots() {
	c := file.function("tileDots", dotISA)
	c.forRows(4, func(rows int) {
		ldx, ldy, w, factor, scale := c.arg("ldx"), c.bytes("ldy"), c.arg("w"), c.arg("factor"), c.arg("scale")
		y, steps, left, from, at := c.arg("y"), c.x(), c.x(), c.x(), c.x()
		x := []xreg{c.x()}
		for i := 1; i < rows; i++ {
			x = append(x, c.x())
		}
		sum := func(i, part int) vreg { return vreg(4*i + part) }
		const words, terms, factors, t = vreg(16), vreg(20), vreg(24), vreg(28)
		for i := range rows {
			c.broadcastNext(factors+vreg(i), factor)
		}
		columns, loop := fmt.Sprintf("columns_%d", rows), fmt.Sprintf("steps_%d", rows)
		c.set(left, tileKeys/tileColumns)
		c.label(columns)
		c.argInto("x", x[0])
		for i := 1; i < rows; i++ {
			c.add(x[i], x[i-1], ldx)
		}
		for i := range 4 * rows {
			c.zero(vreg(i))
		}
		c.argInto("steps", steps)
		c.mov(from, w)
		c.loop(loop, armLoop{name: fmt.Sprintf("tileDots, %d rows", rows), work: 16 * tileColumns * rows,
			unit: "multiply-adds", bytes: 16*tileColumns + 16*rows, instructions: []string{"sdot"}}, func() {
			for i := range rows {
				c.loadNext(whole, terms+vreg(i), x[i])
			}
			for step := range 4 {
				for part := range 4 {
					c.load(whole, words+vreg(part), from, tileStep*step+16*part)
					for i := range rows {
						c.e(sdotE, sum(i, part), words+vreg(part), terms+vreg(i), step)
					}
				}
			}
			c.addImm(from, from, 4*tileStep)
			c.subtract(steps, 4, loop)
		})
		c.mov(at, y)
		for i := range rows {
			for part := range 4 {
				s := sum(i, part)
				c.load(whole, t, scale, 16*part)
				c.v(fmulV, t, t, factors+vreg(i))
				c.v(scvtfV, s, s)
				c.v(fmulV, s, s, t)
				c.store(whole, s, at, 16*part)
			}
			c.add(at, at, ldy)
		}
		for _, p := range []xreg{w, scale, y} {
			c.addImm(p, p, 4*tileColumns)
		}
		c.subtract(left, 1, columns)
	})
}

// tileSums keeps in registers the sums of the upper and the lower digits of up to 2 rows of weights, for 16 columns.
func (file *armFile) tileSums() {
	c := file.function("tileSums", dotISA)
	c.forRows(2, func(rows int) {
		k, w, factor, y, ldy := c.arg("k"), c.arg("w"), c.arg("factor"), c.arg("y"), c.bytes("ldy")
		x, steps, from, at, t, add := c.x(), c.x(), c.x(), c.x(), c.x(), c.arg("add")
		label := func(s string) string { return fmt.Sprintf("%s_%d", s, rows) }
		sum := func(i, digit, part int) vreg { return vreg(8*i + 4*digit + part) }
		const words, factors, v = vreg(16), vreg(20), vreg(24)
		for i := range rows {
			c.broadcastNext(factors+vreg(i), factor)
		}
		c.label(label("columns"))
		for i := range 8 * rows {
			c.zero(vreg(i))
		}
		c.argInto("x", x)
		c.argInto("steps", steps)
		c.mov(from, w)
		c.loop(label("steps"), armLoop{name: fmt.Sprintf("tileSums, %d rows", rows), work: 4 * tileColumns * rows,
			unit: "multiply-adds of two digits", bytes: 4*tileColumns + 8*rows, instructions: []string{"sdot"}}, func() {
			for part := range 4 {
				c.load(whole, words+vreg(part), from, 16*part)
			}
			for i := range rows {
				for digit := range 2 {
					at := x
					if place := 2*i + digit; place > 0 {
						at = t
						c.addImm(t, x, tileKeys*place)
					}
					c.broadcast(v, at)
					for part := range 4 {
						c.v(sdotV, sum(i, digit, part), words+vreg(part), v)
					}
				}
			}
			c.addImm(x, x, 4)
			c.addImm(from, from, 4*tileColumns)
			c.subtract(steps, 1, label("steps"))
		})
		c.mov(at, y)
		for i := range rows {
			set := label(fmt.Sprintf("set%d", i))
			for part := range 4 {
				s := sum(i, 0, part)
				c.shl(s, s, digitBits)
				c.v(addV, s, s, sum(i, 1, part))
				c.v(scvtfV, s, s)
				c.v(fmulV, s, s, factors+vreg(i))
			}
			c.ifZero(add, set)
			for part := range 4 {
				c.load(whole, v, at, 16*part)
				c.v(faddV, sum(i, 0, part), sum(i, 0, part), v)
			}
			c.label(set)
			for part := range 4 {
				c.store(whole, sum(i, 0, part), at, 16*part)
			}
			c.add(at, at, ldy)
		}
		c.addImm(w, w, tileSteps*4*tileColumns)
		c.addImm(y, y, 4*tileColumns)
		c.subtract(k, tileColumns, label("columns"))
	})
}

// tileKeys transposes words of 4 bytes. It is never called with bits to flip here.
func (file *armFile) tileKeys() {
	c := file.function("tileKeys", dotISA)
	fours, k, w, to, left, at := c.arg("groups"), c.arg("k"), c.arg("w"), c.arg("to"), c.x(), c.x()
	c.lsl(fours, fours, 2)
	rows := []xreg{w, c.x(), c.x(), c.x()}
	c.label("rows")
	for i := 1; i < 4; i++ {
		c.add(rows[i], rows[i-1], k)
	}
	c.mov(left, k)
	c.mov(at, to)
	c.loop("words", armLoop{name: "tileKeys", work: 64, unit: "bytes", bytes: 128,
		instructions: []string{"zip1", "zip2"}}, func() {
		for i, p := range rows {
			c.loadNext(whole, vreg(i), p)
		}
		c.transpose4(0, 4)
		for i := range 4 {
			c.store(whole, vreg(i), at, tileStep*i)
		}
		c.addImm(at, at, 4*tileStep)
		c.subtract(left, 16, "words")
	})
	c.mov(w, rows[3])
	c.addImm(to, to, 16)
	c.subtract(fours, 1, "rows")
	c.end()
}

// tileValues transposes bytes of 4 rows.
func (file *armFile) tileValues() {
	c := file.function("tileValues", dotISA)
	steps, k, w, to, left, at := c.arg("steps"), c.arg("k"), c.arg("w"), c.arg("to"), c.x(), c.x()
	rows := []xreg{w, c.x(), c.x(), c.x()}
	c.label("rows")
	for i := 1; i < 4; i++ {
		c.add(rows[i], rows[i-1], k)
	}
	c.mov(left, k)
	c.mov(at, to)
	c.loop("columns", armLoop{name: "tileValues", work: 64, unit: "bytes", bytes: 128,
		instructions: []string{"zip1", "zip2"}}, func() {
		for i, p := range rows {
			c.loadNext(whole, vreg(i), p)
		}
		for i := range vreg(2) {
			c.v(zip1B, 4+i, 2*i, 2*i+1)
			c.v(zip2B, 6+i, 2*i, 2*i+1)
		}
		for i := range vreg(2) {
			c.v(zip1H, 2*i, 4+2*i, 5+2*i)
			c.v(zip2H, 2*i+1, 4+2*i, 5+2*i)
		}
		for i := range 4 {
			c.store(whole, vreg(i), at, 16*i)
		}
		c.addImm(at, at, tileSteps*4*tileColumns)
		c.subtract(left, tileColumns, "columns")
	})
	c.mov(w, rows[3])
	c.addImm(to, to, 4*tileColumns)
	c.subtract(steps, 1, "rows")
	c.end()
}
