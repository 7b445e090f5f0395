package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// pack generates the transposition of rows of B of a product A·Bᵀ into a panel. It stores 32 bytes a cycle, the most
// that the processor can, so there is no wider version.
func pack(ctx *build.Context) {
	c := asm{ctx, avx2}
	c.function("pack", "func(k int, src *float32, ld int, dst *float32, width int)",
		"transposes 8 rows of k ≥ 1 floats: dst[p·width + r] = src[r·ld + p] for p < k, r < 8.")

	ld, width := c.bytes("ld"), c.bytes("width")
	ld3, width3 := c.GP64(), c.GP64()
	c.LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, ld3)
	c.LEAQ(Mem{Base: width, Index: width, Scale: 2}, width3)
	k, src, src4, dst, next := c.arg("k"), c.arg("src"), c.GP64(), c.arg("dst"), c.GP64()
	c.LEAQ(Mem{Base: src, Index: ld, Scale: 4}, src4)

	s := square{asm: c, rows: 0, spare: 8}
	// at returns a function that returns the address of column 8·sub of row i, counted from the first column left.
	at := func(sub int) func(i int) Mem {
		return func(i int) Mem {
			m := stride(src, ld, ld3, i%4)
			if i >= 4 {
				m.Base = src4
			}
			return m.Offset(32 * sub)
		}
	}
	// put stores the columns of a square. If fewer than 8 are left, it jumps to label done after them.
	put := func(done string) {
		for q := range 2 {
			for i, col := range s.columns(q) {
				if done != "" && 4*q+i == 7 {
					return // fewer than 8
				}
				c.VMOVUPS(col, stride(dst, width, width3, i))
				if done != "" && 4*q+i < 6 {
					c.DECQ(k)
					c.JZ(LabelRef(done))
				}
			}
			c.LEAQ(Mem{Base: dst, Index: width, Scale: 4}, dst)
		}
	}

	// All rows of a matrix may map to one set of the cache. So each cache line is used at once, 16 columns at a time.
	c.Label("loop16")
	c.branch(k, c.JLT, U8(16), "loop8")
	c.LEAQ(Mem{Base: src4, Index: ld, Scale: 4}, next)
	for i := range 8 {
		c.PREFETCHT1(stride(next, ld, ld3, i%4))
		if i == 3 {
			c.LEAQ(Mem{Base: next, Index: ld, Scale: 4}, next)
		}
	}
	for sub := range 2 {
		s.load(at(sub), nil)
		put("")
	}
	c.ADDQ(U8(64), src)
	c.ADDQ(U8(64), src4)
	c.subtract(k, U8(16), c.JNZ, "loop16")
	c.JMP(LabelRef("end"))

	c.Label("loop8")
	c.branch(k, c.JLT, U8(8), "tail")
	s.load(at(0), nil)
	put("")
	c.ADDQ(U8(32), src)
	c.ADDQ(U8(32), src4)
	c.subtract(k, U8(8), c.JZ, "end")

	c.Label("tail")
	c.MOVQ(k, next)
	s.load(at(0), c.mask(next))
	put("end")
	c.Label("end")
	c.end()
	c.maskTable()
}
