package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// copyPanels generates the copy of matrix rows into panels. It reads along the rows, since its input may come from
// memory, while its output stays in the cache.
func copyPanels(ctx *build.Context) {
	c := asm{ctx, avx2}
	c.function("copy", "func(k, n int, src *float32, ld int, dst *float32, width, panel int)",
		"copies k rows of n floats, both at least 1, into panels of width columns, a multiple of 16, panel floats "+
			"apart: dst[j/width·panel + p·width + j%width] = src[p·ld + j] for p < k, j < n. Up to 7 floats after the "+
			"last one of a row are set to zero.")
	ld, width, panel := c.bytes("ld"), c.bytes("width"), c.bytes("panel")
	k, n, src, dst := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	from, to, left, inPanel, ahead := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.Load(c.Param("k"), k)
	c.Load(c.Param("n"), n)
	c.Load(c.Param("src"), src)
	c.Load(c.Param("dst"), dst)
	c.SUBQ(width, panel) // from the end of a row in one panel to its start in the next
	c.MOVQ(ld, ahead)
	c.SHLQ(U8(3), ahead)
	c.MOVQ(n, left)
	c.ANDQ(U8(7), left)
	c.JZ(LabelRef("rows"))
	mask := c.mask(left)

	c.Label("rows")
	c.MOVQ(src, from)
	c.MOVQ(dst, to)
	c.MOVQ(n, left)
	c.SHLQ(U8(2), left)

	c.Label("panels")
	c.branch(left, c.JLT, width, "border")
	c.MOVQ(width, inPanel)
	c.Label("wide")
	c.PREFETCHT0(Mem{Base: from, Index: ahead, Scale: 1})
	c.VMOVUPS(Mem{Base: from}, c.vec(0))
	c.VMOVUPS(Mem{Base: from, Disp: 32}, c.vec(1))
	c.VMOVUPS(c.vec(0), Mem{Base: to})
	c.VMOVUPS(c.vec(1), Mem{Base: to, Disp: 32})
	c.ADDQ(U8(64), from)
	c.ADDQ(U8(64), to)
	c.subtract(inPanel, U8(64), c.JNZ, "wide")
	c.ADDQ(panel, to)
	c.subtract(left, width, c.JNZ, "panels")
	c.JMP(LabelRef("next"))

	c.Label("border")
	c.branch(left, c.JLT, U8(32), "tail")
	c.PREFETCHT0(Mem{Base: from, Index: ahead, Scale: 1})
	c.VMOVUPS(Mem{Base: from}, c.vec(0))
	c.VMOVUPS(c.vec(0), Mem{Base: to})
	c.ADDQ(U8(32), from)
	c.ADDQ(U8(32), to)
	c.subtract(left, U8(32), c.JNZ, "border")
	c.JMP(LabelRef("next"))
	c.Label("tail")
	c.VMASKMOVPS(Mem{Base: from}, mask, c.vec(0))
	c.VMOVUPS(c.vec(0), Mem{Base: to})

	c.Label("next")
	c.ADDQ(ld, src)
	c.ADDQ(width, dst)
	c.countDown(k, "rows")
	c.end()
	c.maskTable()
}
