package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ssd generates the block operations of Mamba-2 that are not products.
func (c vector) ssd() {
	c.decays()
	c.rowsTimes("scaleRows", "sets y[r·ys + i] = s[r·ss]·x[r·xs + i]", false)
	c.rowsTimes("axpyRows", "adds s[r·ss]·x[r·xs + i] to y[r·ys + i], rounded once,", true)
	decay := c.vec(fixed)
	c.pointwise("carryState", "func(n int, state, added *float32, decay float32)",
		"sets state = decay·state + added, both operations rounded, and added to what state was.",
		[]string{"state", "added"}, 2,
		func() { c.VBROADCASTSS(c.param("decay"), decay) },
		func(v, rest []reg.Register) {
			before := rest[0]
			c.VMOVAPS(v[0], before)
			c.VMULPS(decay, v[0], v[0])
			c.VADDPS(v[1], v[0], v[0])
			c.VMOVAPS(before, v[1])
		})
}

// decays uses columns as lanes, and processes the rows of each from top to bottom.
func (c vector) decays() {
	c.function("decays", "func(q int, steps, l *float32)",
		"sets l[t·q + s], for s and t < q, to the exponential of the sum of steps s+1 to t, in this order, for s ≤ t and "+
			"to 0 for the others.")
	q, steps, l := c.arg("q"), c.arg("steps"), c.arg("l")
	columns, ld := c.span(q), c.bytes("q")
	sum, x, low, high, zero := c.vec(0), c.vec(1), c.vec(6), c.vec(7), c.vec(8)
	scratch := []reg.Register{c.vec(2), c.vec(3), c.vec(4), c.vec(5)}
	c.set(expLow, low)
	c.set(expHigh, high)
	c.zero(zero)
	c.holdExp(10)
	at, left, from, table := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	row := func(mask reg.Register, diagonal bool) {
		if c.lanes == 16 {
			c.VADDPS_BCST(Mem{Base: from}, sum, sum)
		} else {
			c.VBROADCASTSS(Mem{Base: from}, x)
			c.VADDPS(x, sum, sum)
		}
		if diagonal { // up to this row: sums, the row itself 0, then -Inf
			c.VANDPS(Mem{Base: table}, sum, sum)
			c.VORPS(Mem{Base: table, Disp: 4 * diagonalWords}, sum, sum)
			c.SUBQ(U8(4), table)
		}
		c.VMOVAPS(sum, x)
		c.exp(x, low, high, scratch)
		c.store(x, mask, Mem{Base: at})
		c.ADDQ(ld, at)
		c.ADDQ(U8(4), from)
	}
	c.each("columns", columns, func(i reg.GPVirtual, mask reg.Register) {
		label := func(s string) string {
			if mask != nil {
				s += "_tail"
			}
			return s
		}
		c.LEAQ(float(l, i), at)
		c.LEAQ(float(steps, i), from)
		c.MOVQ(i, left)
		c.ifZero(left, label("diagonal"))
		c.Label(label("above"))
		c.store(zero, mask, Mem{Base: at})
		c.ADDQ(ld, at)
		c.countDown(left, label("above"))

		c.Label(label("diagonal"))
		c.zero(sum)
		c.LEAQ(NewDataAddr(NewStaticSymbol("diagonal"), 4*diagonalWords/2), table)
		if mask != nil {
			c.MOVQ(columns.tail, left)
		} else {
			c.MOVQ(U32(c.lanes), left)
		}
		c.Label(label("rows"))
		row(mask, true)
		c.countDown(left, label("rows"))
		if mask != nil {
			return
		}
		c.Load(c.Param("q"), left)
		c.SUBQ(i, left)
		c.subtract(left, U8(c.lanes), c.JZ, "below_end")
		c.Label("below")
		row(nil, false)
		c.countDown(left, "below")
		c.Label("below_end")
	})
	c.end()

	c.data("diagonal")
	for i := range 2 * diagonalWords {
		word := uint32(0)
		switch {
		case i < diagonalWords/2: // sums are kept
			word = ^uint32(0)
		case i > diagonalWords+diagonalWords/2:
			word = math.Float32bits(float32(math.Inf(-1)))
		}
		c.AddDatum(4*i, U32(word))
	}
}

// diagonalWords is the size of each half of a table. For the row that has the diagonal in column r of a vector, 16
// words are read r before the middle of each half: the first half selects the columns that are kept, the second holds
// the bits that are ORed in.
const diagonalWords = 32

// rowsTimes generates the product of each row with a number.
func (c vector) rowsTimes(name, doc string, add bool) {
	c.function(name, "func(rows, n int, y *float32, ys int, x *float32, xs int, s *float32, ss int)",
		doc+" for r < rows, at least 1, and i < n.")
	rows, y, ys, x, xs := c.arg("rows"), c.arg("y"), c.bytes("ys"), c.arg("x"), c.bytes("xs")
	s, ss := c.arg("s"), c.bytes("ss")
	columns := c.span(c.arg("n"))
	factor, v, to := c.vec(0), c.vec(1), c.vec(2)
	c.Label("row")
	c.VBROADCASTSS(Mem{Base: s}, factor)
	c.each("columns", columns, func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(x, i), v, mask)
		if add {
			c.load(float(y, i), to, mask)
			c.VFMADD231PS(factor, v, to)
		} else {
			c.VMULPS(factor, v, to)
		}
		c.store(to, mask, float(y, i))
	})
	c.ADDQ(ys, y)
	c.ADDQ(xs, x)
	c.ADDQ(ss, s)
	c.countDown(rows, "row")
	c.end()
}
