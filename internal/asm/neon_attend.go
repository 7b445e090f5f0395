package main

import "fmt"

// attendNEON generates what one query computes with keys and values, row by row as attend does.
func attendNEON(file *armFile) {
	for _, f := range rowForms[:2] { // integers are multiplied without conversion: see rowtile.go
		file.rowDots(f)
		file.rowSums(f)
	}
	for _, f := range rowForms[1:] {
		file.widenRows(f)
	}
}

// sixteen reads 16 elements of a row, from p + disp elements, as float32 into 4 registers from v on. For bf16 and int8
// it uses t and the register after it.
func (c *neon) sixteen(f rowForm, v vreg, p xreg, disp int, t vreg) {
	disp <<= f.shift
	switch f.name {
	case "":
		c.loadPair(v, v+1, p, disp)
		c.loadPair(v+2, v+3, p, disp+32)
	case "BF16":
		c.loadPair(t, t+1, p, disp)
		for i := range vreg(2) {
			c.v(shllV, v+2*i, t+i)
			c.v(shll2V, v+2*i+1, t+i)
		}
	default:
		c.load(whole, t, p, disp)
		c.v(sxtl2B, t+1, t)
		c.v(sxtlB, t, t)
		for i := range vreg(2) {
			c.v(sxtlH, v+2*i, t+i)
			c.v(sxtl2H, v+2*i+1, t+i)
		}
		for i := range vreg(4) {
			c.v(scvtfV, v+i, v+i)
		}
	}
}

// rowDots computes four rows, one after the other, so that memory is read strictly in sequence. Each row has 4 vectors
// of sums.
func (file *armFile) rowDots(f rowForm) {
	c := file.function("rowDots"+f.name, neonISA)
	n, k, w, ldw, x, y := c.arg("n"), c.arg("k"), c.arg("w"), c.arg("ldw"), c.arg("x"), c.arg("y")
	if f.shift > 0 {
		c.lsl(ldw, ldw, int(f.shift))
	}
	wAt, xAt, left := c.x(), c.x(), c.x()
	c.label("group")
	c.ifGreater(n, 3, "whole")
	c.label("back") // until there are four rows
	c.sub(w, w, ldw)
	c.addImm(y, y, -4)
	c.addImm(n, n, 1)
	c.ifLess(n, 4, "back")
	c.label("whole")
	const sums, rows, weights, terms, t = vreg(0), vreg(4), vreg(8), vreg(12), vreg(16)
	for row := range vreg(4) {
		loop := fmt.Sprintf("terms%d", row)
		for i := range vreg(4) {
			c.zero(sums + i)
		}
		c.mov(wAt, w)
		c.mov(xAt, x)
		c.mov(left, k)
		l := armLoop{name: "rowDots" + f.name, work: 16, unit: "multiply-adds", bytes: 16<<f.shift + 64,
			instructions: []string{"fmla", "scvtf", "shll", "shll2", "sxtl", "sxtl2"}}
		if row > 0 {
			l.name = "" // the same
		}
		c.loop(loop, l, func() {
			c.sixteen(f, weights, wAt, 0, t)
			c.loadPair(terms, terms+1, xAt, 0)
			c.loadPair(terms+2, terms+3, xAt, 32)
			for i := range vreg(4) {
				c.v(fmlaV, sums+i, weights+i, terms+i)
			}
			c.addImm(wAt, wAt, 16<<f.shift)
			c.addImm(xAt, xAt, 64)
			c.subtract(left, 16, loop)
		})
		c.tree(faddV, sums, 4)
		c.copyV(rows+row, sums)
		c.add(w, w, ldw)
	}
	c.v(faddpV, rows, rows, rows+1)
	c.v(faddpV, rows+1, rows+2, rows+3)
	c.v(faddpV, rows, rows, rows+1)
	c.store(whole, rows, y, 0)
	c.addImm(y, y, 16)
	c.addImm(n, n, -4)
	c.ifGreater(n, 0, "group")
	c.end()
}

// rowSums keeps the sums of up to 64 columns in registers.
func (file *armFile) rowSums(f rowForm) {
	c := file.function("rowSums"+f.name, neonISA)
	n, k, w, ldw, x, y, add := c.arg("n"), c.arg("k"), c.arg("w"), c.arg("ldw"), c.arg("x"), c.arg("y"), c.arg("add")
	if f.shift > 0 {
		c.lsl(ldw, ldw, int(f.shift))
	}
	const weights, factor, t = vreg(16), vreg(20), vreg(21)
	for columns := 16; columns <= 64; columns += 16 {
		name := func(s string) string { return fmt.Sprintf("%s%d", s, columns) }
		if columns < 64 {
			c.ifGreater(k, columns, name("wider"))
		}
		for i := range columns / 4 {
			c.zero(vreg(i))
		}
		c.loop(name("row"), armLoop{name: fmt.Sprintf("rowSums%s, %d columns", f.name, columns), work: columns,
			unit: "multiply-adds", bytes: columns<<f.shift + 4,
			instructions: []string{"fmla", "scvtf", "shll", "shll2", "sxtl", "sxtl2"}}, func() {
			c.broadcast(factor, x)
			for i := 0; i < columns; i += 16 {
				c.sixteen(f, weights, w, i, t)
				for j := range vreg(4) {
					c.v(fmlaV, vreg(i/4)+j, weights+j, factor)
				}
			}
			c.addImm(x, x, 4)
			c.add(w, w, ldw)
			c.subtract(n, 1, name("row"))
		})
		c.ifZero(add, name("store"))
		for i := range columns / 4 {
			c.load(whole, weights, y, 16*i)
			c.v(faddV, vreg(i), vreg(i), weights)
		}
		c.label(name("store"))
		for i := range columns / 4 {
			c.store(whole, vreg(i), y, 16*i)
		}
		c.end()
		c.label(name("wider"))
	}
	c.end()
}

// widenRows converts whole rows to float32.
func (file *armFile) widenRows(f rowForm) {
	c := file.function("widen"+f.name, neonISA)
	n, k, w, y, left := c.arg("n"), c.arg("k"), c.arg("w"), c.arg("y"), c.x()
	scaled := f.name == "Int8"
	var scale xreg
	if scaled {
		scale = c.arg("scale")
	}
	const v, t, factor = vreg(0), vreg(4), vreg(6)
	c.label("row")
	if scaled {
		c.broadcast(factor, scale)
		c.addImm(scale, scale, 4)
	}
	c.mov(left, k)
	c.loop("terms", armLoop{name: "widen" + f.name, work: 16, unit: "elements", bytes: 16<<f.shift + 64,
		instructions: []string{"fmul", "scvtf", "shll", "shll2", "sxtl", "sxtl2"}}, func() {
		c.sixteen(f, v, w, 0, t)
		if scaled {
			for i := range vreg(4) {
				c.v(fmulV, v+i, v+i, factor)
			}
		}
		c.storePair(v, v+1, y, 0)
		c.storePair(v+2, v+3, y, 32)
		c.addImm(w, w, 16<<f.shift)
		c.addImm(y, y, 64)
		c.subtract(left, 16, "terms")
	})
	c.subtract(n, 1, "row")
	c.end()
}
