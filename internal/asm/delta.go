package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// delta generates the operations of the delta rule that are not products.
func (c vector) delta() {
	c.deltaStep("deltaStep", 1)
	c.deltaStep("deltaStepTwice", 2)
	c.solveLower()
	c.axpyDots()
}

// deltaStep processes the columns of a state from left to right, as many at a time as there are accumulators for, and
// all rows of them from top to bottom.
func (c vector) deltaStep(name string, pairs int) {
	signature, doc := "func(dk, n, ld int, s, decay, q, y, a, x", "a·xᵀ"
	if pairs == 2 {
		signature, doc = signature+", k, v", doc+" + k·vᵀ"
	}
	c.function(name, signature+" *float32)", "sets S ← Diag(decay)·S + "+doc+" and y = Sᵀ·q, for a state of dk rows, "+
		"at least 1, that lie ld floats apart, and n columns. The first product is rounded, then each sum.")
	dk, ld, s, y := c.arg("dk"), c.bytes("ld"), c.arg("s"), c.arg("y")
	rows := []reg.GPVirtual{c.arg("decay"), c.arg("q")}
	var columns []reg.GPVirtual
	for _, pair := range [][2]string{{"a", "x"}, {"k", "v"}}[:pairs] {
		rows, columns = append(rows, c.arg(pair[0])), append(columns, c.arg(pair[1]))
	}
	left := c.arg("n")
	at, r := c.GP64(), c.GP64()
	sums, factors, temp := 0, 8, 12 // 8 accumulators, 4 numbers of a row
	if c.lanes == 8 {
		factors, temp = 4, 8
	}
	panel := func(vectors int, mask reg.Register) {
		label := "row_" + strconv.Itoa(vectors)
		if mask != nil {
			label += "_tail"
		}
		for i := range vectors {
			c.zero(c.vec(sums + i))
		}
		c.MOVQ(s, at)
		c.XORQ(r, r)
		c.Label(label)
		for i, x := range rows {
			c.VBROADCASTSS(float(x, r), c.vec(factors+i))
		}
		for i := range vectors {
			t := c.vec(temp + i%4)
			c.load(Mem{Base: at, Disp: 4 * c.lanes * i}, t, mask)
			c.VMULPS(c.vec(factors), t, t)
			for j, x := range columns {
				m := Mem{Base: x, Disp: 4 * c.lanes * i}
				if mask == nil {
					c.VFMADD231PS(m, c.vec(factors+2+j), t)
				} else {
					c.load(m, c.vec(temp+1), mask)
					c.VFMADD231PS(c.vec(temp+1), c.vec(factors+2+j), t)
				}
			}
			c.store(t, mask, Mem{Base: at, Disp: 4 * c.lanes * i})
			c.VFMADD231PS(c.vec(factors+1), t, c.vec(sums+i))
		}
		c.ADDQ(ld, at)
		c.countUp(r, U8(1), dk, label)
		for i := range vectors {
			c.store(c.vec(sums+i), mask, Mem{Base: y, Disp: 4 * c.lanes * i})
		}
	}
	for _, vectors := range []int{8, 4, 1} {
		if vectors > factors {
			continue
		}
		label := strconv.Itoa(vectors)
		c.Label("panel_" + label)
		c.branch(left, c.JLT, U8(vectors*c.lanes), "panel_"+label+"_done")
		panel(vectors, nil)
		for _, p := range append(columns, s, y) {
			c.ADDQ(U32(4*c.lanes*vectors), p)
		}
		c.SUBQ(U8(vectors*c.lanes), left)
		c.JMP(LabelRef("panel_" + label))
		c.Label("panel_" + label + "_done")
	}
	c.ifZero(left, "done")
	panel(1, c.mask(left))
	c.Label("done")
	c.end()
}

// solveLower uses columns as lanes. Each row is read, changed by the rows before it, and written.
func (c vector) solveLower() {
	c.function("solveLower", "func(rows, n int, x *float32, xs int, m *float32, mi, mj int)",
		"adds to row i of x (rows, n), whose rows lie xs floats apart, m[i·mi + j·mj] times row j for all j < i, for "+
			"i from 1 on, each sum",
		"in the order of j and rounded once.")
	rows, left, x, xs := c.arg("rows"), c.arg("n"), c.arg("x"), c.bytes("xs")
	mi, mj := c.bytes("mi"), c.bytes("mj")
	i, j, at, from, m, factor := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	panel := func(vectors int, mask reg.Register) {
		name := strconv.Itoa(vectors)
		if mask != nil {
			name += "_tail"
		}
		c.MOVQ(U32(1), i)
		c.LEAQ(Mem{Base: x, Index: xs, Scale: 1}, at)
		c.Load(c.Param("m"), m)
		c.Label("row_" + name)
		c.branch(i, c.JGE, rows, "end_"+name)
		c.ADDQ(mi, m)
		for v := range vectors {
			c.load(Mem{Base: at, Disp: 4 * c.lanes * v}, c.vec(v), mask)
		}
		c.MOVQ(x, from)
		c.MOVQ(m, factor)
		c.MOVQ(i, j)
		c.Label("term_" + name)
		c.VBROADCASTSS(Mem{Base: factor}, c.vec(8))
		for v := range vectors {
			t := Mem{Base: from, Disp: 4 * c.lanes * v}
			if mask == nil {
				c.VFMADD231PS(t, c.vec(8), c.vec(v))
			} else {
				c.load(t, c.vec(9), mask)
				c.VFMADD231PS(c.vec(9), c.vec(8), c.vec(v))
			}
		}
		c.ADDQ(xs, from)
		c.ADDQ(mj, factor)
		c.countDown(j, "term_"+name)
		for v := range vectors {
			c.store(c.vec(v), mask, Mem{Base: at, Disp: 4 * c.lanes * v})
		}
		c.ADDQ(xs, at)
		c.INCQ(i)
		c.JMP(LabelRef("row_" + name))
		c.Label("end_" + name)
	}
	for _, vectors := range []int{8, 4, 1} {
		name := strconv.Itoa(vectors)
		c.Label("panel_" + name)
		c.branch(left, c.JLT, U8(vectors*c.lanes), "panel_"+name+"_done")
		panel(vectors, nil)
		c.ADDQ(U32(4*c.lanes*vectors), x)
		c.SUBQ(U8(vectors*c.lanes), left)
		c.JMP(LabelRef("panel_" + name))
		c.Label("panel_" + name + "_done")
	}
	c.ifZero(left, "done")
	panel(1, c.mask(left))
	c.Label("done")
	c.end()
}

// axpyDots reads each row once for both results.
func (c vector) axpyDots() {
	c.function("axpyDots", "func(rows, n int, dots, y *float32, ys int, f, x *float32, xs int, w *float32, ws int)",
		"adds f[r]·x[r·xs + i] to y[r·ys + i], rounded once, and sets dots[r] = Σ_i x[r·xs + i]·w[r·ws + i], for r < "+
			"rows, at least 1, and i < n. A sum has one strand for each lane; then halves are added onto one another.")
	rows, dots, y, f, x, w := c.arg("rows"), c.arg("dots"), c.arg("y"), c.arg("f"), c.arg("x"), c.arg("w")
	ys, xs, ws := c.bytes("ys"), c.bytes("xs"), c.bytes("ws")
	columns := c.span(c.arg("n"))
	factor, v, t, sum := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.Label("row")
	c.VBROADCASTSS(Mem{Base: f}, factor)
	c.zero(sum)
	c.each("columns", columns, func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(x, i), v, mask)
		c.load(float(w, i), t, mask)
		c.VFMADD231PS(v, t, sum)
		c.load(float(y, i), t, mask)
		c.VFMADD231PS(factor, v, t)
		c.store(t, mask, float(y, i))
	})
	c.fold(c.VADDPS, sum, t)
	c.VMOVSS(c.xmm(sum), Mem{Base: dots})
	for _, p := range []reg.GPVirtual{f, dots} {
		c.ADDQ(U8(4), p)
	}
	c.ADDQ(ys, y)
	c.ADDQ(xs, x)
	c.ADDQ(ws, w)
	c.countDown(rows, "row")
	c.end()
}
