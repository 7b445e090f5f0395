package main

// packNEON generates the copy of B of a product into panels.
func packNEON(file *armFile) {
	file.transposeRows()
	file.copyRows()
}

// transposeRows transposes 8 rows, squares of 4 at a time.
func (file *armFile) transposeRows() {
	c := file.function("pack", neonISA)
	k, dst, ld, width := c.arg("k"), c.arg("dst"), c.bytes("ld"), c.bytes("width")
	src := []xreg{c.arg("src")}
	for i := 1; i < 8; i++ {
		src = append(src, c.x())
		c.add(src[i], src[i-1], ld)
	}
	c.ifLess(k, 4, "rest")
	l := armLoop{name: "pack", work: 32, unit: "floats", bytes: 128, instructions: []string{"zip1", "zip2"}}
	c.loop("loop", l, func() {
		for half := range 2 {
			rows := vreg(8 * half)
			for i := range 4 {
				c.loadNext(whole, rows+vreg(i), src[4*half+i])
			}
			c.transpose4(rows, rows+4)
		}
		for column := range vreg(4) {
			c.storePair(column, column+8, dst, 0)
			c.add(dst, dst, width)
		}
		c.whileLeast(k, 4, "loop")
	})
	c.label("rest")
	c.ifZero(k, "end")
	for i := range 8 {
		c.loadNext(oneF, vreg(i), src[i])
		c.store(oneF, vreg(i), dst, 4*i)
	}
	c.add(dst, dst, width)
	c.addImm(k, k, -1)
	c.jump("rest")
	c.label("end")
	c.end()
}

// transpose4 transposes the square in 4 registers from v on, using 4 others from t on.
func (c *neon) transpose4(v, t vreg) {
	for i := range vreg(2) {
		c.v(zip1V, t+2*i, v+i, v+2+i)
		c.v(zip2V, t+2*i+1, v+i, v+2+i)
	}
	for i := range vreg(2) {
		c.v(zip1V, v+2*i, t+i, t+2+i)
		c.v(zip2V, v+2*i+1, t+i, t+2+i)
	}
}

// copyRows copies rows into panels, 16 floats at a time.
func (file *armFile) copyRows() {
	c := file.function("copy", neonISA)
	k, src, dst := c.arg("k"), c.arg("src"), c.arg("dst")
	ld, width, panel := c.bytes("ld"), c.bytes("width"), c.bytes("panel")
	from, to, left, n, t := c.x(), c.x(), c.x(), c.arg("n"), c.x()
	c.sub(panel, panel, width) // from the end of a row in one panel to its start in the next
	c.label("rows")
	c.mov(from, src)
	c.mov(to, dst)
	c.mov(left, n)
	column := c.x() // bytes left of the row in the panel
	c.mov(column, width)
	c.label("wide")
	c.ifLess(left, 16, "border")
	for i := range vreg(4) {
		c.loadNext(whole, i, from)
	}
	c.storePair(0, 1, to, 0)
	c.storePair(2, 3, to, 32)
	c.addImm(to, to, 64)
	c.addImm(left, left, -16)
	c.subtract(column, 64, "wide")
	c.mov(column, width)
	c.add(to, to, panel)
	c.jump("wide")
	c.label("border")
	c.ifLess(left, 4, "few")
	c.loadNext(whole, 0, from)
	c.store(whole, 0, to, 0)
	c.addImm(to, to, 16)
	c.addImm(left, left, -4)
	c.jump("border")
	c.label("few")
	c.ifZero(left, "row")
	c.loadFew(0, left, from, t)
	c.storeFew(0, left, to, t)
	c.label("row")
	c.add(src, src, ld)
	c.add(dst, dst, width)
	c.subtract(k, 1, "rows")
	c.end()
}
