package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Neither avo nor Go's assembler has the instructions of AVX512_BF16, so they are written byte by byte. Both
// instructions here have opcodes of map 0F38 and take three 512-bit registers; prefix is 2 for F3 and 3 for F2.

// dotPairs adds to each float of acc the products of the two pairs of bfloat16 in the same lane of x and y.
func (c asm) dotPairs(x, y, acc reg.Register) { c.evex(2, 0x52, x, y, acc) }

// roundPairs rounds 32 floats to bfloat16: those in lo fill the lower half of to, those in hi the upper half.
func (c asm) roundPairs(lo, hi, to reg.Register) { c.evex(3, 0x72, lo, hi, to) }

// evex writes an instruction to = op(first, second), where second is the operand that is encoded in ModRM.rm.
func (c asm) evex(prefix, opcode uint8, second, first, to reg.Register) {
	index := func(r reg.Register) uint8 { return uint8(r.(reg.Physical).PhysicalIndex()) }
	// Bit b of a register number goes to bit at, inverted.
	bit := func(r reg.Register, b, at uint8) uint8 { return (^index(r) >> b & 1) << at }
	for _, b := range []uint8{
		0x62,
		bit(to, 3, 7) | bit(second, 4, 6) | bit(second, 3, 5) | bit(to, 4, 4) | 2, // R X B R', map 0F38
		(^index(first)&15)<<3 | 1<<2 | prefix,                                     // W = 0, vvvv
		2<<5 | bit(first, 4, 3),                                                   // 512 bits, V', no mask
		opcode,
		3<<6 | index(to)&7<<3 | index(second)&7,
	} {
		c.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(b)}})
	}
}

// roundings generates the two kernels that convert float32 to words. A word is a pair of bfloat16, the first one in its
// lower half.
func roundings(ctx *build.Context) {
	c := asm{ctx, pairs}
	c.roundRows()
	c.roundColumns()
}

// roundRows generates the rounding of a matrix whose rows run along the terms of a product.
func (c asm) roundRows() {
	c.function("roundRows", roundSignature, roundDoc+".")
	c.roundedRows(func(reg.Register) {})
}

const (
	roundSignature = "func(m, k int, src *float32, ld int, dst *float32, width int)"
	roundDoc       = "rounds m rows of k floats, both at least 1, to bfloat16: word p of row i, dst[i·width + p], becomes the " +
		"pair of src[i·ld + 2p] and src[i·ld + 2p+1], or 0 where that is past the row, for p < k/2 rounded up to a " +
		"multiple of 16"
)

// roundedRows writes the code that rounds rows. finish may change the words in a vector.
func (c asm) roundedRows(finish func(words reg.Register)) {
	ld, width := c.bytes("ld"), c.bytes("width")
	m, src, dst := c.arg("m"), c.arg("src"), c.arg("dst")
	whole, tail, high := c.arg("k"), c.GP64(), c.GP64()
	c.MOVQ(whole, tail)
	c.ANDQ(U8(31), tail)
	c.SUBQ(tail, whole)
	c.SHLQ(U8(2), whole)
	// At most 16 floats of the tail lie in the first vector: BZHI keeps all bits for any number above 31.
	c.MOVQ(tail, high)
	lowMask := c.mask(high)
	c.XORQ(high, high)
	c.branch(tail, c.JLE, U8(16), "short")
	c.LEAQ(Mem{Base: tail, Disp: -16}, high)
	c.Label("short")
	highMask := c.mask(high)

	i, to := c.GP64(), c.GP64()
	lo, hi, words := c.vec(0), c.vec(1), c.vec(2)
	c.Label("rows")
	c.XORQ(i, i)
	c.MOVQ(dst, to)
	c.branch(i, c.JE, whole, "tail")
	c.Label("loop")
	c.VMOVUPS(Mem{Base: src, Index: i, Scale: 1}, lo)
	c.VMOVUPS(Mem{Base: src, Index: i, Scale: 1, Disp: 64}, hi)
	c.roundPairs(lo, hi, words)
	finish(words)
	c.VMOVUPS(words, Mem{Base: to})
	c.ADDQ(I32(128), i)
	c.ADDQ(U8(64), to)
	c.branch(i, c.JL, whole, "loop")
	c.Label("tail")
	c.ifZero(tail, "next")
	c.load(Mem{Base: src, Index: i, Scale: 1}, lo, lowMask)
	c.load(Mem{Base: src, Index: i, Scale: 1, Disp: 64}, hi, highMask)
	c.roundPairs(lo, hi, words)
	finish(words)
	c.VMOVUPS(words, Mem{Base: to})
	c.Label("next")
	c.ADDQ(ld, src)
	c.ADDQ(width, dst)
	c.countDown(m, "rows")
	c.end()
}

// roundColumns generates the rounding of a matrix whose columns run along the terms of a product, so that the numbers
// of a pair come from two rows.
func (c asm) roundColumns() {
	c.function("roundColumns", "func(k, n int, src *float32, ld int, dst *float32, width, panel int)",
		"rounds k rows of n floats, both at least 1, to bfloat16, and puts them into panels of width columns, a "+
			"multiple of 16, panel words apart: dst[j/width·panel + p·width + j%width] becomes the pair of "+
			"src[2p·ld + j] and src[(2p+1)·ld + j], or 0 where that is past the last row, for p < k/2 rounded up, "+
			"j < n rounded up to a multiple of 16.")
	ld, width, panel := c.bytes("ld"), c.bytes("width"), c.bytes("panel")
	k, src, dst := c.arg("k"), c.arg("src"), c.arg("dst")
	from, to, left, inPanel, ahead := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.SUBQ(width, panel) // from the end of a row in one panel to its start in the next
	c.MOVQ(ld, ahead)
	c.SHLQ(U8(3), ahead)
	c.Load(c.Param("n"), left)
	c.ANDQ(U8(15), left)
	mask := c.mask(left)
	first, second, words, order := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.VMOVDQU16(NewDataAddr(NewStaticSymbol("interleave"), 0), order)

	c.Label("rows")
	c.MOVQ(src, from)
	c.MOVQ(dst, to)
	c.MOVQ(width, inPanel)
	c.Load(c.Param("n"), left)
	c.branch(k, c.JE, U8(1), "last")
	// pairsOf writes the loop over the columns of a pair of rows, or of the last row with zeros.
	pairsOf := func(label string, two bool) {
		step := func(mask reg.Register) {
			c.load(Mem{Base: from}, first, mask)
			if two {
				c.load(Mem{Base: from, Index: ld, Scale: 1}, second, mask)
			}
			c.roundPairs(first, second, words)
			c.VPERMW(words, order, words)
			c.VMOVUPS(words, Mem{Base: to})
		}
		c.Label(label)
		c.branch(left, c.JLT, U8(16), label+"_tail")
		if two {
			next := c.GP64()
			c.LEAQ(Mem{Base: from, Index: ld, Scale: 1}, next)
			c.PREFETCHT0(Mem{Base: from, Index: ahead, Scale: 1})
			c.PREFETCHT0(Mem{Base: next, Index: ahead, Scale: 1})
		}
		step(nil)
		c.ADDQ(U8(64), from)
		c.ADDQ(U8(64), to)
		c.SUBQ(U8(16), left)
		c.subtract(inPanel, U8(64), c.JNZ, label)
		c.ADDQ(panel, to)
		c.MOVQ(width, inPanel)
		c.JMP(LabelRef(label))
		c.Label(label + "_tail")
		c.ifZero(left, label+"_end")
		step(mask)
		c.Label(label + "_end")
	}
	pairsOf("columns", true)
	c.LEAQ(Mem{Base: src, Index: ld, Scale: 2}, src)
	c.ADDQ(width, dst)
	c.subtract(k, U8(2), c.JNZ, "rows")
	c.JMP(LabelRef("end"))
	c.Label("last")
	c.zero(second)
	pairsOf("lastColumns", false)
	c.Label("end")
	c.end()

	c.data("interleave")
	for i := range 16 {
		c.AddDatum(4*i, U32(i|(16+i)<<16))
	}
}
