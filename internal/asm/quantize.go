package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantize generates the rounding of a row of floats to 8-bit integers. The caller combines the lanes of the results.
func quantize(ctx *build.Context, s isa) {
	c := vector{asm{ctx, s}, &constants{at: map[uint32]int{}}, nil}
	c.largestBits()
	c.roundInto()
	c.quantizeGroups()
	c.packInt8()
	c.packInt4()
	c.tileWeights()
	if c.lanes == 16 {
		c.quarters()
	} else {
		c.joinRows()
	}
	c.table()
}

// fitCode holds the registers of fit. Values for all numbers together are in the low lane.
type fitCode struct{ top, inverse, ok, factor, t reg.Register }

// fit computes the scale for numbers whose largest magnitude is in the low lane of most. It sets all lanes of inverse
// to the factor that scales this magnitude to largest, and factor to the one that scales back. If inverse or top is not
// finite, ok is zero, else ones; then factor is 0 or NaN.
func (c vector) fit(largest float32, most reg.Register, f fitCode) {
	const lessOrEqual = 2
	c.VMOVAPS(c.xmm(most), f.top)
	c.VMOVSS(c.word(math.Float32bits(largest)), f.t)
	c.VDIVSS(f.top, f.t, c.xmm(f.inverse))
	c.VDIVSS(f.t, f.top, f.factor)
	c.VMOVSS(c.word(math.Float32bits(math.MaxFloat32)), f.t)
	c.VCMPSS(U8(lessOrEqual), f.t, f.top, c.xmm(f.ok))
	c.VCMPSS(U8(lessOrEqual), f.t, c.xmm(f.inverse), f.t)
	c.VPAND(f.t, c.xmm(f.ok), c.xmm(f.ok))
	c.VPAND(f.factor, c.xmm(f.ok), f.factor)
	c.VSUBSS(f.top, f.top, f.t) // NaN unless top is finite
	c.VADDSS(f.t, f.factor, f.factor)
	c.VBROADCASTSS(c.xmm(f.inverse), f.inverse)
	c.VPBROADCASTD(c.xmm(f.ok), f.ok)
}

// each16 runs body for every 16 of n floats.
func (c vector) each16(n reg.GPVirtual, body func()) {
	c.Label("loop")
	body()
	c.subtract(n, U8(16), c.JNZ, "loop")
}

func (c vector) largestBits() {
	c.function("largestBits", "func(n int, x *float32, lanes *uint32)",
		"sets lanes[i], of 16, to the largest of the bits of |x[i + 16·j]| for all j. n is a positive multiple of 16.")
	n, x, lanes := c.arg("n"), c.arg("x"), c.arg("lanes")
	size := c.vec(0)
	c.VBROADCASTSS(c.word(1<<31-1), size)
	vecs := 16 / c.lanes
	for i := range vecs {
		c.zero(c.vec(1 + i))
	}
	c.each16(n, func() {
		for i := range vecs {
			at := Mem{Base: x, Disp: 4 * c.lanes * i}
			if c.lanes == 16 {
				c.VPANDD(at, size, c.vec(3))
			} else {
				c.VPAND(at, size, c.vec(3))
			}
			c.VPMAXUD(c.vec(3), c.vec(1+i), c.vec(1+i))
		}
		c.ADDQ(U8(64), x)
	})
	for i := range vecs {
		c.VMOVUPS(c.vec(1+i), Mem{Base: lanes, Disp: 4 * c.lanes * i})
	}
	c.end()
}

func (c vector) roundInto() {
	c.function("roundInto", "func(n int, x *float32, factor float32, q *int8, lanes *int32)",
		"sets q[i] to the integer nearest to x[i]·factor, rounded to float32, the even one of two, which must fit, "+
			"and lanes[i], of",
		"16, to Σ_j q[i + 16·j]. n is a positive multiple of 16.")
	n, x, q, lanes := c.arg("n"), c.arg("x"), c.arg("q"), c.arg("lanes")
	factor := c.vec(0)
	c.VBROADCASTSS(c.param("factor"), factor)
	vecs := 16 / c.lanes
	for i := range vecs {
		c.zero(c.vec(1 + i))
	}
	c.each16(n, func() {
		for i := range vecs {
			v := c.vec(3 + i)
			c.VMULPS(Mem{Base: x, Disp: 4 * c.lanes * i}, factor, v)
			c.VCVTPS2DQ(v, v)
			c.VPADDD(v, c.vec(1+i), c.vec(1+i))
		}
		if c.lanes == 16 {
			c.VPMOVDB(c.vec(3), Mem{Base: q})
		} else {
			low, high := reg.Vector.Lookup(3, reg.S128), reg.Vector.Lookup(4, reg.S128)
			c.VPACKSSDW(c.vec(4), c.vec(3), c.vec(3)) // 0 to 3, 8 to 11, 4 to 7, 12 to 15
			c.VPERMQ(U8(0xd8), c.vec(3), c.vec(3))
			c.VEXTRACTI128(U8(1), c.vec(3), high)
			c.VPACKSSWB(high, low, low)
			c.VMOVUPS(low, Mem{Base: q})
		}
		c.ADDQ(U8(64), x)
		c.ADDQ(U8(16), q)
	})
	for i := range vecs {
		c.VMOVUPS(c.vec(1+i), Mem{Base: lanes, Disp: 4 * c.lanes * i})
	}
	c.end()
}

// quantizeGroups works on registers of 16 floats, or two of 8. Values for a group as a whole are in their low lanes.
func (c vector) quantizeGroups() {
	c.function("quantizeGroups", "func(groups int, x *float32, zero int, to *int8)",
		"rounds groups, at least 1, of 32 floats to integers and writes a record of 48 bytes for each: x·(127/top) "+
			"rounded to the nearest, the even one of two, where top is the largest |x| of the group; the factor top/127; "+
			"as an integer, zero times the sum of the integers; that sum times the factor; and nothing in the last 4 "+
			"bytes. If 127/top is not finite, integers and factor are 0; if x is not, integers are 0 and the factor is "+
			"NaN.")
	groups, x, zero, to := c.arg("groups"), c.arg("x"), c.arg("zero"), c.arg("to")
	vecs := 32 / c.lanes
	size, sum := c.vec(8), c.xmm(c.vec(14))
	f := fitCode{c.xmm(c.vec(11)), c.vec(9), c.vec(10), c.xmm(c.vec(12)), c.xmm(c.vec(13))}
	and := func(a, b, to Op) { c.VPAND(a, b, to) }
	if c.lanes == 16 {
		and = func(a, b, to Op) { c.VPANDD(a, b, to) }
	}
	c.VBROADCASTSS(c.word(1<<31-1), size)
	c.Label("group")
	for i := range vecs {
		c.VMOVUPS(Mem{Base: x, Disp: 4 * c.lanes * i}, c.vec(i))
		and(c.vec(i), size, c.vec(4+i))
		if i > 0 {
			c.VPMAXUD(c.vec(4+i), c.vec(4), c.vec(4))
		}
	}
	c.across(c.vec(4), c.VPMAXUD)
	c.fit(127, c.vec(4), f)
	for i := range vecs {
		v := c.vec(i)
		c.VMULPS(v, f.inverse, v)
		c.VCVTPS2DQ(v, v)
		and(v, f.ok, v)
	}
	c.bytesOf(to)
	for i := 1; i < vecs; i++ {
		c.VPADDD(c.vec(4+i), c.vec(4), c.vec(4))
	}
	c.across(c.vec(4), c.VPADDD)
	c.VMOVSS(f.factor, Mem{Base: to, Disp: recordScale})
	c.VCVTDQ2PS(c.xmm(c.vec(4)), sum)
	c.VMULSS(f.factor, sum, sum)
	c.VMOVSS(sum, Mem{Base: to, Disp: recordSum})
	start := c.GP32()
	c.VMOVD(c.xmm(c.vec(4)), start)
	c.IMULL(zero.As32(), start)
	c.MOVL(start, Mem{Base: to, Disp: recordStart})
	c.ADDQ(U8(128), x)
	c.ADDQ(U8(recordBytes), to)
	c.countDown(groups, "group")
	c.end()
}

// joinRows generates the joined rows that products of bytes use without VNNI.
func (c vector) joinRows() {
	c.function("joinRows", "func(groups int, x, next *int8, base int, to *int16)",
		"sets to to x + base·next, of the integers of groups, at least 1, of two rows whose records of 48 bytes are x "+
			"and next: of a group, terms 0, 2, 4 and so on, then 1, 3, 5 and so on. The last 4 bytes of each record of x "+
			"become the same of the integers where sums begin.")
	groups, x, next, base, to, start, more := c.arg("groups"), c.arg("x"), c.arg("next"), c.arg("base"), c.arg("to"),
		c.GP32(), c.GP32()
	bases := c.vec(0)
	c.VMOVD(base.As32(), c.xmm(bases))
	c.VPBROADCASTW(c.xmm(bases), bases)
	c.Label("group")
	for odd := range 2 {
		for i, row := range []reg.Register{x, next} {
			v := c.vec(1 + i)
			c.VMOVUPS(Mem{Base: row}, v)
			if odd == 0 {
				c.VPSLLW(U8(8), v, v)
			}
			c.VPSRAW(U8(8), v, v)
		}
		c.VPMULLW(c.vec(2), bases, c.vec(2))
		c.VPADDW(c.vec(1), c.vec(2), c.vec(2))
		c.VMOVUPS(c.vec(2), Mem{Base: to, Disp: groupTerms * odd})
	}
	c.MOVL(Mem{Base: next, Disp: recordStart}, more)
	c.IMULL(base.As32(), more)
	c.MOVL(Mem{Base: x, Disp: recordStart}, start)
	c.ADDL(more, start)
	c.MOVL(start, Mem{Base: x, Disp: recordJoin})
	for _, row := range []reg.Register{x, next} {
		c.ADDQ(U8(recordBytes), row)
	}
	c.ADDQ(U8(joinedBytes), to)
	c.countDown(groups, "group")
	c.end()
}

// across sets every lane of the low part of v to op over all its lanes. It changes vector 15.
func (c vector) across(v reg.Register, op func(...Op)) {
	high := c.vec(15)
	if c.lanes == 16 {
		half, top := c.part(v, 1), c.part(high, 1)
		c.VEXTRACTI64X4(U8(1), v, top)
		op(top, half, half)
	}
	low, top := c.xmm(v), c.xmm(high)
	c.VEXTRACTI128(U8(1), c.part(v, 1-(16-c.lanes)/8), top)
	op(top, low, low)
	for _, order := range []uint8{0x4e, 0xb1} {
		c.VPSHUFD(U8(order), low, top)
		op(top, low, low)
	}
}

// bytesOf stores the integers in the vectors from 0 on as 32 bytes and copies them to the vectors from 4 on.
func (c vector) bytesOf(to reg.Register) {
	for i := range 32 / c.lanes {
		c.VMOVAPS(c.vec(i), c.vec(4+i))
	}
	if c.lanes == 16 {
		for i := range 2 {
			c.VPMOVDB(c.vec(i), Mem{Base: to, Disp: 16 * i})
		}
		return
	}
	for i := 0; i < 4; i += 2 {
		low, high := reg.Vector.Lookup(reg.Index(i), reg.S128), reg.Vector.Lookup(reg.Index(i+1), reg.S128)
		c.VPACKSSDW(c.vec(i+1), c.vec(i), c.vec(i)) // 0 to 3, 8 to 11, 4 to 7, 12 to 15
		c.VPERMQ(U8(0xd8), c.vec(i), c.vec(i))
		c.VEXTRACTI128(U8(1), c.vec(i), high)
		c.VPACKSSWB(high, low, low)
		c.VMOVUPS(low, Mem{Base: to, Disp: 8 * i})
	}
}
