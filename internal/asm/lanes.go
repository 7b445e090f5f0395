package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanesOfRows generates the transpositions between rows and lanes, for 16 rows side by side.
func (c asm) lanesOfRows() {
	c.toLanes("toLanes", "", func(v reg.Register, to Mem) { c.VMOVUPS(v, to) })
	c.toLanes("toLanesStream", ", past the caches, where y begins at a multiple of 64 bytes. A fence must follow",
		func(v reg.Register, to Mem) { c.VMOVNTPS(v, to) })
	c.fromLanes()
}

// How far ahead rows and lanes are prefetched, in bytes: a line of each row, and as much as memory delivers while so
// much is transposed.
const (
	rowsAhead  = 256
	lanesAhead = 4096
)

// begin begins a function with an argument n, at least 1, and rows that are ld apart. It returns n, the distance of
// rows, and three times that distance.
func (c asm) begin(name, signature, ld string, doc ...string) (n, ld1, ld3 reg.GPVirtual) {
	c.function(name, signature, doc...)
	n, ld1, ld3 = c.GP64(), c.bytes(ld), c.GP64()
	c.Load(c.Param("n"), n)
	c.LEAQ(Mem{Base: ld1, Index: ld1, Scale: 2}, ld3)
	return n, ld1, ld3
}

// fours returns pointers to every fourth of 16 rows from the argument on.
func (c asm) fours(arg string, ld reg.GPVirtual) (at [4]reg.GPVirtual) {
	for i := range at {
		at[i] = c.GP64()
		if i == 0 {
			c.Load(c.Param(arg), at[0])
		} else {
			c.LEAQ(Mem{Base: at[i-1], Index: ld, Scale: 4}, at[i])
		}
	}
	return at
}

// quad transposes four columns of eight rows. x returns the address of four floats of a row, and vector to+j becomes
// column j. It uses four vectors from t on.
func (c asm) quad(x func(row int) Mem, to, t int) {
	for i := range 4 {
		c.VMOVUPS(x(i), reg.Vector.Lookup(reg.Index(to+i), reg.S128))
		c.VINSERTF128(U8(1), x(i+4), c.vec(to+i), c.vec(to+i))
	}
	for i := 0; i < 4; i += 2 {
		c.VUNPCKLPS(c.vec(to+i+1), c.vec(to+i), c.vec(t+i))
		c.VUNPCKHPS(c.vec(to+i+1), c.vec(to+i), c.vec(t+i+1))
	}
	for i := range 2 {
		c.VUNPCKLPD(c.vec(t+2+i), c.vec(t+i), c.vec(to+2*i))
		c.VUNPCKHPD(c.vec(t+2+i), c.vec(t+i), c.vec(to+2*i+1))
	}
}

func (c asm) toLanes(name, how string, store func(v reg.Register, to Mem)) {
	n, ld, ld3 := c.begin(name, "func(n int, y, x *float32, ldx int)", "ldx",
		"sets y[16·j + i] = x[i·ldx + j] for i < 16, j < 16·n"+how+".")
	x, y := c.fours("x", ld), c.arg("y")
	c.Label("loop")
	for i := range 16 {
		c.PREFETCHT0(stride(x[i/4], ld, ld3, i%4).Offset(rowsAhead))
	}
	for column := 0; column < 16; column += 4 {
		for half := range 2 {
			c.quad(func(row int) Mem { return stride(x[2*half+row/4], ld, ld3, row%4).Offset(4 * column) },
				4*half, 8+4*half)
		}
		for j := range 4 {
			for half := range 2 { // a whole line
				store(c.vec(4*half+j), Mem{Base: y, Disp: 64*(column+j) + 32*half})
			}
		}
	}
	for _, r := range x {
		c.ADDQ(U8(64), r)
	}
	c.ADDQ(U32(1024), y)
	c.countDown(n, "loop")
	c.end()
}

func (c asm) fromLanes() {
	n, ld, ld3 := c.begin("fromLanes", "func(n int, y *float32, ldy int, x *float32)", "ldy",
		"sets y[i·ldy + j] = x[16·j + i] for i < 16, j < 8·n.")
	y, x := c.fours("y", ld), c.arg("x")
	c.Label("loop")
	for j := range 8 {
		c.PREFETCHT0(Mem{Base: x, Disp: 64*j + lanesAhead})
	}
	for i := range 4 {
		c.quad(func(row int) Mem { return Mem{Base: x, Disp: 64*row + 16*i} }, 4*(i%2), 8+4*(i%2))
		for j := range 4 {
			c.VMOVUPS(c.vec(4*(i%2)+j), stride(y[i], ld, ld3, j))
		}
	}
	for _, r := range y {
		c.ADDQ(U8(32), r)
	}
	c.ADDQ(U32(512), x)
	c.countDown(n, "loop")
	c.end()
}
