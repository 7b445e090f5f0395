package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose generates the transposition of matrices in tiles of 8x8. AVX-512 with tiles of 16x16 takes the same time.
func transpose(ctx *build.Context) {
	c := asm{ctx, avx2}
	c.lanesOfRows()
	c.function("transpose", "func(down, across int, y *float32, ldy int, x *float32, ldx int)",
		"sets y[j·ldy + i] = x[i·ldx + j] for i < 8·down, j < 8·across, both at least 1.")
	ldx, ldy := c.bytes("ldx"), c.bytes("ldy")
	x, y, across := c.arg("x"), c.arg("y"), c.arg("across")
	ldx3, ldy3 := c.GP64(), c.GP64()
	c.LEAQ(Mem{Base: ldx, Index: ldx, Scale: 2}, ldx3)
	c.LEAQ(Mem{Base: ldy, Index: ldy, Scale: 2}, ldy3)
	from, to, down, low, ahead := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.Label("across")
	c.MOVQ(x, from)
	c.MOVQ(y, to)
	c.Load(c.Param("down"), down)
	c.Label("down")
	c.LEAQ(Mem{Base: from, Index: ldx, Scale: 4}, low)
	xmm := func(v int) reg.Register { return reg.Vector.Lookup(reg.Index(v), reg.S128) }
	for half := range 2 { // the columns 4·half to 4·half+3 of rows i and i+4
		for i := range 4 {
			m, n := stride(from, ldx, ldx3, i), stride(low, ldx, ldx3, i)
			c.VMOVUPS(m.Offset(16*half), xmm(4*half+i))
			c.VINSERTF128(U8(1), n.Offset(16*half), c.vec(4*half+i), c.vec(4*half+i))
		}
	}
	c.LEAQ(Mem{Base: from, Index: ldx, Scale: 8}, from)
	c.Comment("Rows may be pages apart, where the machine does not guess which is next.")
	c.LEAQ(Mem{Base: from, Index: ldx, Scale: 8}, ahead)
	for range 2 {
		for i := range 4 {
			c.PREFETCHT0(stride(ahead, ldx, ldx3, i))
		}
		c.LEAQ(Mem{Base: ahead, Index: ldx, Scale: 4}, ahead)
	}
	c.LEAQ(Mem{Base: to, Index: ldy, Scale: 4}, low)
	for half := range 2 {
		v := func(i int) reg.Register { return c.vec(4*half + i) }
		t := func(i int) reg.Register { return c.vec(8 + 4*half + i) }
		for i := 0; i < 4; i += 2 {
			c.VUNPCKLPS(v(i+1), v(i), t(i))
			c.VUNPCKHPS(v(i+1), v(i), t(i+1))
		}
		base := to
		if half == 1 {
			base = low
		}
		for i := range 2 {
			c.VUNPCKLPD(t(2+i), t(i), v(2*i))
			c.VUNPCKHPD(t(2+i), t(i), v(2*i+1))
		}
		for i := range 4 {
			c.VMOVUPS(v(i), stride(base, ldy, ldy3, i))
		}
	}
	c.ADDQ(U8(32), to)
	c.countDown(down, "down")
	c.ADDQ(U8(32), x)
	c.LEAQ(Mem{Base: y, Index: ldy, Scale: 8}, y)
	c.countDown(across, "across")
	c.end()
}
