package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halves generates the packing of bfloat16 matrices into panels, see packed_halves.go and packed_short.go of package
// kernel.
func halves(ctx *build.Context, s isa) {
	c := vector{asm{ctx, s}, &constants{at: map[uint32]int{}}, nil}
	if s.lanes == 16 { // only AVX-512 reads the short form
		c.narrowHalves()
		c.halfRanges()
		c.shorten()
	} else {
		c.turnHalves()
		c.maskTable()
	}
	c.table()
}

// sizes selects the magnitude bits of both halves of a word.
const sizes = 0x7fff * shortOnes

// narrowHalves generates the rounding of floats to two bytes.
func (c vector) narrowHalves() {
	c.function("narrowHalves", "func(n int, y *uint16, x *float32)", "rounds x to bfloat16. n is a positive multiple of 16.")
	n, y, x := c.arg("n"), c.arg("y"), c.arg("x")
	v, to, nan := c.vec(0), c.vec(1), c.K()
	const unordered = 3
	c.each16(n, func() {
		c.VMOVUPS(Mem{Base: x}, v)
		c.VPSRLD(U8(16), v, to)
		c.VPANDD_BCST(c.word(1), to, to)
		c.VPADDD(v, to, to)
		c.VPADDD_BCST(c.word(0x7fff), to, to) // ties to even
		c.VCMPPS(U8(unordered), v, v, nan)
		c.VPORD_BCST(c.word(1<<22), v, nan, to) // a quiet NaN, whose mantissa does not become zero
		c.VPSRLD(U8(16), to, to)
		c.VPMOVDW(to, Mem{Base: y})
		c.ADDQ(U8(64), x)
		c.ADDQ(U8(32), y)
	})
	c.end()
}

// turnHalves exists for AVX2 only: it mostly reads and writes.
func (c vector) turnHalves() {
	size, least := c.vec(fixed), c.vec(fixed+1)
	c.pointwise("turnHalves", "func(n int, w *float32, least uint32)",
		"exchanges the halves of words, which are bfloat16 numbers. Those become 0 whose magnitude, as bits, is less "+
			"than the half of least in their place.",
		[]string{"w"}, 1,
		func() {
			c.VBROADCASTSS(c.word(sizes), size)
			c.VBROADCASTSS(c.param("least"), least)
		},
		func(v, rest []reg.Register) {
			below := rest[0]
			c.VPAND(v[0], size, below)
			c.VPCMPGTW(below, least, below)
			c.VPANDN(v[0], below, v[0])
			c.VPSHUFLW(U8(0xb1), v[0], v[0])
			c.VPSHUFHW(U8(0xb1), v[0], v[0])
		})
}

// halfRanges reads the rows of several blocks at a time, so that each cache line is used at once.
func (c vector) halfRanges() {
	c.function("halfRanges", "func(rows, blocks int, x *uint16, ld int, ranges *uint32)",
		"sets the lower half of ranges[b] to the smallest magnitude, as bits, of the bfloat16 numbers x[r·ld + 16b + i] "+
			"for r < rows, at least 1, and i < 16, and the upper half to the largest one, for b < blocks.")
	const several = 8 // blocks
	rows, blocks, x, ld, ranges := c.arg("rows"), c.arg("blocks"), c.arg("x"), c.arg("ld"), c.arg("ranges")
	c.SHLQ(U8(1), ld)
	at, r := c.GP64(), c.GP64()
	// halvings selects the part of a register: 64 bytes hold two blocks, 32 bytes hold one.
	low := func(i, halvings int) reg.Register { return c.part(c.vec(i), halvings) }
	high := func(i, halvings int) reg.Register { return c.part(c.vec(several/2+i), halvings) }
	size, t, other := c.vec(several), c.vec(several+1), c.vec(several+2)
	c.VPBROADCASTD(c.word(sizes), size)
	extremes := func(label string, vecs, halvings int) {
		size, t := c.part(size, halvings), c.part(t, halvings)
		for i := range vecs {
			c.VMOVDQU64(size, low(i, halvings))
			c.zero(c.vec(several/2 + i))
		}
		c.MOVQ(x, at)
		c.MOVQ(rows, r)
		c.Label(label)
		for i := range vecs {
			c.VPANDD(Mem{Base: at, Disp: 64 * i}, size, t)
			c.VPMINUW(t, low(i, halvings), low(i, halvings))
			c.VPMAXUW(t, high(i, halvings), high(i, halvings))
		}
		c.ADDQ(ld, at)
		c.countDown(r, label)
	}
	c.Label("several")
	c.branch(blocks, c.JLT, U8(several), "one")
	extremes("rows", several/2, 0)
	for i := range several / 2 {
		for half := range 2 {
			if half == 1 {
				for _, v := range []reg.Register{low(i, 0), high(i, 0)} {
					c.VEXTRACTI64X4(U8(1), v, c.part(v, 1))
				}
			}
			c.blockRange(low(i, 1), high(i, 1), t, other, Mem{Base: ranges, Disp: 4 * (2*i + half)})
		}
	}
	c.ADDQ(I32(32*several), x)
	c.ADDQ(U8(4*several), ranges)
	c.SUBQ(U8(several), blocks)
	c.JMP(LabelRef("several"))
	c.Label("one")
	c.ifZero(blocks, "end")
	extremes("rowsOfOne", 1, 1)
	c.blockRange(low(0, 1), high(0, 1), t, other, Mem{Base: ranges})
	c.ADDQ(U8(32), x)
	c.ADDQ(U8(4), ranges)
	c.DECQ(blocks)
	c.JMP(LabelRef("one"))
	c.Label("end")
	c.end()
}

// blockRange stores the smallest of the 16 numbers in low and the largest of those in high. It changes t and other.
func (c vector) blockRange(low, high, t, other reg.Register, to Mem) {
	least := func(v reg.Register) reg.GPVirtual {
		x := c.xmm(t)
		c.VEXTRACTI128(U8(1), v, x)
		c.VPMINUW(c.xmm(v), x, x)
		c.VPHMINPOSUW(x, x)
		word := c.GP32()
		c.VMOVD(x, word)
		return word
	}
	smallest := least(low)
	c.MOVWLZX(smallest.As16(), smallest)
	y := c.part(other, 1) // the largest is the complement of the smallest complement
	c.VPCMPEQD(y, y, y)
	c.VPXOR(high, y, y)
	largest := least(y)
	c.NOTL(largest)
	c.SHLL(U8(16), largest)
	c.ORL(largest, smallest)
	c.MOVL(smallest, to)
}

// shorten generates the conversion to the short form. It takes the last word of a group without its signs and the last
// bits of the exponents, and stores four bits of each number in each of the other words.
func (c vector) shorten() {
	c.function("shorten", "func(blocks int, w, heads *uint32, least uint32, dst *uint32)",
		"writes blocks of a panel of bfloat16 in the short form to dst. heads are those of the blocks. w has their words "+
			"step by step, 48 in each, the first number in the lower half. Numbers become 0 whose magnitude, as bits, is "+
			"less than the half of least in their place.")
	blocks, w, heads, dst := c.arg("blocks"), c.arg("w"), c.arg("heads"), c.arg("dst")
	size, least, head := c.vec(8), c.vec(9), c.vec(10)
	spare, third, sign := c.vec(11), c.vec(12), c.vec(13)
	c.VPBROADCASTD(c.word(sizes), size)
	bound := c.GP32()
	c.Load(c.Param("least"), bound)
	c.VPBROADCASTD(bound, least)
	c.VPBROADCASTD(c.word(shortSpare*shortOnes), spare)
	c.VPBROADCASTD(c.word(7<<11*shortOnes), third)
	c.VPBROADCASTD(c.word(1<<14*shortOnes), sign)
	notBelow, t := c.K(), c.GP32()
	vecs := packedWidth / c.lanes
	load := func(step, part int, to reg.Register) {
		c.VPROLD(U8(16), Mem{Base: w, Disp: step*packedStep + 64*part}, to)
		c.VPANDD(size, to, c.vec(7))
		c.VPCMPUW(U8(5), least, c.vec(7), notBelow)
		c.VMOVDQU16_Z(to, notBelow, to)
	}
	const aOrBAndC = 0xf8
	c.Label("block")
	c.MOVL(Mem{Base: heads}, t)
	c.TESTL(t, t)
	c.JS(LabelRef("plain"))
	c.VPBROADCASTD(t, head)
	for group := 0; group < shortSteps; group += shortGroup {
		for part := range vecs {
			last, moved := c.vec(shortGroup-1), c.vec(shortGroup)
			for i := shortGroup - 1; i >= 0; i-- {
				word := c.vec(i)
				load(group+i, part, word)
				c.VPSUBD(head, word, word)
				if i == shortGroup-1 {
					continue
				}
				// For the bits of its own number that it replaces, see hiddenPart of package kernel.
				mask, shift := spare, uint8(11-4*i)
				if i == shortGroup-2 {
					mask = third
				}
				c.VPSLLD(U8(shift), last, moved)
				c.VPTERNLOGD(U8(aOrBAndC), mask, moved, word)
				if i == shortGroup-2 {
					c.VPSRLD(U8(1), last, moved)
					c.VPTERNLOGD(U8(aOrBAndC), sign, moved, word)
				}
				step := group/shortGroup*(shortGroup-1) + i
				c.VMOVDQU32(word, Mem{Base: dst, Disp: step*packedStep + 64*part})
			}
		}
	}
	c.ADDQ(I32((shortSteps-shortSteps/shortGroup)*packedStep), dst)
	c.JMP(LabelRef("next"))
	c.Label("plain")
	for step := range shortSteps {
		for part := range vecs {
			load(step, part, c.vec(0))
			c.VMOVDQU32(c.vec(0), Mem{Base: dst, Disp: step*packedStep + 64*part})
		}
	}
	c.ADDQ(I32(shortSteps*packedStep), dst)
	c.Label("next")
	c.ADDQ(I32(shortSteps*packedStep), w)
	c.ADDQ(U8(4), heads)
	c.countDown(blocks, "block")
	c.end()
}
