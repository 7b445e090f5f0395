package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// firTile returns how many rows of the output and how many taps the direct filter computes at a time. The sums of the
// rows and the taps fill the registers, and each row of data is used for as many products as there are taps. Package
// kernel has the same constants.
func (s isa) firTile() (rows, taps int) {
	if s.lanes == 16 {
		return 16, 8
	}
	return 9, 4
}

// fir generates the direct filter of shift.go, for a tile of rows and for one row.
func (c vector) fir() {
	rows, taps := c.firTile()
	c.function("firTile", "func(d, n int, out *float32, outStep int, taps, data *float32, dataStep int)",
		"adds Σ_i taps[i·d + c]·data[(r-i)·dataStep + c], over i < width·n in ascending order, to out[r·outStep + c] for "+
			"r < height, c < d, of the height and width of level.firTile. The number n is at least 1; steps may be "+
			"negative.")
	out, outStep, coef, data, dataStep := c.arg("out"), c.bytes("outStep"), c.arg("taps"),
		c.arg("data"), c.bytes("dataStep")
	d := c.arg("d")
	s := c.span(d)
	last, back := c.GP64(), c.GP64()
	c.Comment(
		"To the last row of data that the first tap meets; to that of the next taps from the first that the last tap " +
			"met.")
	c.IMUL3Q(U8(rows-1), dataStep, last)
	c.IMUL3Q(U8(rows-2), dataStep, back)
	c.ADDQ(last, data)
	o, h, x, n := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	sum := func(r int) reg.Register { return c.vec(r) }
	tap := func(i int) reg.Register { return c.vec(rows + i) }
	c.each("columns", s, func(i reg.GPVirtual, mask reg.Register) {
		loop := "taps"
		if mask != nil {
			loop = "taps_tail"
		}
		c.LEAQ(float(out, i), o)
		for r := range rows {
			c.load(Mem{Base: o}, sum(r), mask)
			if r < rows-1 {
				c.ADDQ(outStep, o)
			}
		}
		c.LEAQ(float(coef, i), h)
		c.LEAQ(float(data, i), x)
		c.MOVQ(c.param("n"), n)
		c.Label(loop)
		for i := range taps {
			c.load(Mem{Base: h}, tap(i), mask)
			c.LEAQ(float(h, d), h)
		}
		for row := rows - 1; row > -taps; row-- {
			v := c.vec(rows + taps)
			c.load(Mem{Base: x}, v, mask)
			if row > 1-taps {
				c.SUBQ(dataStep, x)
			}
			for i := max(0, -row); i < taps && row+i < rows; i++ {
				c.VFMADD231PS(v, tap(i), sum(row+i))
			}
		}
		c.ADDQ(back, x)
		c.countDown(n, loop)
		for r := rows - 1; r >= 0; r-- {
			c.store(sum(r), mask, Mem{Base: o})
			if r > 0 {
				c.SUBQ(outStep, o)
			}
		}
	})
	c.end()

	c.function("firRow", "func(d, n int, out, taps, data *float32, dataStep int)",
		"adds Σ_i taps[i·d + c]·data[-i·dataStep + c], over i < n in ascending order, to out[c] for c < d. The "+
			"number n is",
		"at least 1; the step may be negative.")
	const wide = 4 // vectors at a time
	out, coef, data, dataStep = c.arg("out"), c.arg("taps"), c.arg("data"), c.bytes("dataStep")
	d = c.arg("d")
	left := c.GP64()
	c.MOVQ(d, left)
	h, x, n = c.GP64(), c.GP64(), c.GP64()
	// columns adds to the vectors at column i.
	columns := func(loop string, i reg.GPVirtual, vectors int, mask reg.Register) {
		at := func(p reg.Register, v int) Mem { return Mem{Base: p, Disp: 4 * c.lanes * v} }
		for v := range vectors {
			c.load(float(out, i).Offset(4*c.lanes*v), c.vec(v), mask)
		}
		c.LEAQ(float(coef, i), h)
		c.LEAQ(float(data, i), x)
		c.MOVQ(c.param("n"), n)
		c.Label(loop)
		for v := range vectors {
			c.load(at(h, v), c.vec(wide+v), mask)
			c.load(at(x, v), c.vec(2*wide+v), mask)
			c.VFMADD231PS(c.vec(2*wide+v), c.vec(wide+v), c.vec(v))
		}
		c.LEAQ(float(h, d), h)
		c.SUBQ(dataStep, x)
		c.countDown(n, loop)
		for v := range vectors {
			c.store(c.vec(v), mask, float(out, i).Offset(4*c.lanes*v))
		}
	}
	zero := c.GP64()
	c.XORQ(zero, zero)
	c.Label("wide")
	c.branch(left, c.JLT, U8(wide*c.lanes), "rest")
	columns("wide_taps", zero, wide, nil)
	for _, p := range []reg.Register{out, coef, data} {
		c.ADDQ(U32(4*wide*c.lanes), p)
	}
	c.SUBQ(U8(wide*c.lanes), left)
	c.JMP(LabelRef("wide"))
	c.Label("rest")
	c.each("columns", c.span(left), func(i reg.GPVirtual, mask reg.Register) {
		if mask == nil {
			columns("taps", i, 1, nil)
		} else {
			columns("taps_tail", i, 1, mask)
		}
	})
	c.end()
}
