package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Predicates of VCMPPS that are false for NaN.
const (
	lessThan    = 0x11
	atMost      = 0x12
	unequal     = 0x0c
	greaterThan = 0x1e
)

// when compares a with b and returns a mask, which is scratch for AVX2.
func (c vector) when(a reg.Register, predicate int, b, scratch reg.Register) reg.Register {
	if c.lanes == 16 {
		k := c.K()
		c.VCMPPS(U8(predicate), b, a, k)
		return k
	}
	c.VCMPPS(U8(predicate), b, a, scratch)
	return scratch
}

// take sets to to v where mask is set.
func (c vector) take(mask, v, to reg.Register) {
	if c.lanes == 16 {
		c.VMOVAPS(v, mask, to)
	} else {
		c.VBLENDVPS(mask, v, to, to)
	}
}

func (c asm) and(a Op, b, to reg.Register) {
	if c.lanes == 16 {
		c.VPANDD(a, b, to)
	} else {
		c.VPAND(a, b, to)
	}
}

func (c vector) or(a, b, to reg.Register) {
	if c.lanes == 16 {
		c.VPORD(a, b, to)
	} else {
		c.VPOR(a, b, to)
	}
}

// groupOfRows holds the arguments of packInt8 and packInt4, with one piece of the 16 rows. Rows are lanes.
type groupOfRows struct {
	vector
	x, scale, factors, ints reg.GPVirtual
	piece                   int
}

// term returns the address of term p of the rows, and step that of the words that a step of them is packed to.
func (c groupOfRows) term(p int) Mem { return Mem{Base: c.x, Disp: 64*p + 4*c.lanes*c.piece} }
func (c groupOfRows) step(step int) Mem {
	return Mem{Base: c.ints, Disp: groupStep*step + 4*c.lanes*c.piece}
}

// scales returns the address of the rows' powers of two, and factor that of their packed factors.
func (c groupOfRows) scales() Mem { return Mem{Base: c.scale, Disp: 4 * c.lanes * c.piece} }
func (c groupOfRows) factor() Mem { return Mem{Base: c.factors, Disp: 2 * c.lanes * c.piece} }

// packGroup generates a function that rounds a group of 16 rows.
func (c vector) packGroup(name, doc string, body func(c groupOfRows)) {
	c.function(name, "func(x, scale *float32, factors *uint16, ints *uint8)", doc)
	g := groupOfRows{c, c.arg("x"), c.arg("scale"), c.arg("factors"), c.arg("ints"), 0}
	for g.piece = range 16 / c.lanes {
		body(g)
	}
	c.end()
}

// float16 rounds the floats in v to float16 and back.
func (c vector) float16(v, half, to reg.Register) {
	c.VCVTPS2PH(U8(0), v, c.part(half, 1))
	c.VCVTPH2PS(c.part(half, 1), to)
}

func (c vector) packInt8() {
	c.packGroup("packInt8", "rounds 32 terms of 16 rows, x[16p + r], to integers of 8 bits as setGroups does with rows "+
		"whose powers of two are in scale. It writes the factors, as float16, and the words of a group of a panel.",
		groupOfRows.packInt8)
}

func (c groupOfRows) packInt8() {
	scale, top, factor, half, more := c.vec(0), c.vec(1), c.vec(2), c.vec(3), c.vec(4)
	inverse, t, mask, size := c.vec(5), c.vec(6), c.vec(7), c.vec(8)
	c.VMOVUPS(c.scales(), scale)
	c.VBROADCASTSS(c.word(math.MaxInt32), size)
	c.zero(top)
	for p := range groupTerms {
		c.and(c.term(p), size, t)
		c.VPMAXUD(t, top, top)
	}
	c.set(127, t)
	c.VDIVPS(t, top, factor)
	c.VDIVPS(scale, factor, factor)
	c.float16(factor, half, factor)
	c.Comment("Where that is too small, the next number.")
	low, one := c.part(half, 1), c.part(t, 1)
	c.VPCMPEQW(one, one, one)
	c.VPSUBW(one, low, low)
	c.VCVTPH2PS(low, more)
	c.set(127.4, t)
	c.VMULPS(factor, t, t)
	c.VMULPS(scale, t, t)
	c.take(c.when(t, lessThan, top, mask), more, factor)
	c.VMULPS(scale, factor, t)
	c.set(1, inverse)
	c.VDIVPS(t, inverse, inverse)
	c.set(math.MaxFloat32, t)
	finite := c.when(inverse, atMost, t, mask)
	c.only(finite, inverse)
	c.only(finite, factor)
	c.VCVTPS2PH(U8(0), factor, c.factor())
	word, q, flip := c.vec(1), c.vec(2), c.vec(3)
	c.VBROADCASTSS(c.word(0x80808080), flip)
	for step := range groupSteps {
		for b := range 4 {
			to := q
			if b == 0 {
				to = word
			}
			c.VMULPS(c.term(4*step+b), inverse, to)
			c.VCVTPS2DQ(to, to)
			c.VPSLLD(U8(24), to, to)
			if b < 3 {
				c.VPSRLD(U8(24-8*b), to, to)
			}
			if b > 0 {
				c.or(q, word, word)
			}
		}
		c.xor(flip, word, word)
		c.VMOVUPS(word, c.step(step))
	}
}

func (c vector) packInt4() {
	c.packGroup("packInt4", "rounds 32 terms of 16 rows, x[16p + r], to integers from -8 to 7 as setInt4 does: scale are "+
		"the inverses of the powers of two of the rows, by which it multiplies x in place. It writes the factors, as "+
		"float16, and the words of a group of a panel.", groupOfRows.packInt4)
}

// int4Wants is int4Tries of package kernel.
var int4Wants = []float64{-8.5, -8, -7.5, -7, -6.5}

func (c groupOfRows) packInt4() {
	round, least, most, top, best, factor := c.vec(0), c.vec(1), c.vec(2), c.vec(3), c.vec(4), c.vec(5)
	n := 2 // tries at a time: as many as there are registers for
	if c.lanes == 16 {
		n = len(int4Wants)
	}
	inverse := func(i int) reg.Register { return c.vec(6 + i) }
	xq := func(i int) reg.Register { return c.vec(6 + n + i) }
	qq := func(i int) reg.Register { return c.vec(6 + 2*n + i) }
	v, q, t, mask := c.vec(6+3*n), c.vec(7+3*n), c.vec(8+3*n), c.vec(9+3*n)
	size := most
	c.VMOVUPS(c.scales(), least)
	c.VBROADCASTSS(c.word(math.MaxInt32), size)
	c.zero(top)
	c.zero(t)
	for p := range groupTerms {
		c.VMULPS(c.term(p), least, v)
		c.VMOVUPS(v, c.term(p))
		c.and(v, size, q)
		c.take(c.when(q, greaterThan, t, mask), v, top)
		c.VMAXPS(q, t, t)
	}
	c.set(3<<22, round)
	c.set(-8, least)
	c.set(7, most)
	c.set(-1, best)
	c.zero(factor)
	nearest := func(q reg.Register) {
		c.VADDPS(round, q, q)
		c.VSUBPS(round, q, q)
		c.VMAXPS(least, q, q)
		c.VMINPS(most, q, q)
	}
	for first := 0; first < len(int4Wants); first += n {
		tries := int4Wants[first:min(first+n, len(int4Wants))]
		for i, want := range tries {
			c.set(want, inverse(i))
			c.VDIVPS(top, inverse(i), inverse(i))
			c.VBROADCASTSS(c.word(math.MaxInt32), t)
			c.and(inverse(i), t, q)
			c.set(math.MaxFloat32, t)
			c.only(c.when(q, atMost, t, mask), inverse(i))
			c.zero(xq(i))
			c.zero(qq(i))
		}
		for p := range groupTerms {
			c.VMOVUPS(c.term(p), v)
			for i := range tries {
				c.VMULPS(inverse(i), v, q)
				nearest(q)
				c.VMULPS(q, v, t)
				c.VADDPS(t, xq(i), xq(i))
				c.VMULPS(q, q, q)
				c.VADDPS(q, qq(i), qq(i))
			}
		}
		for i := range tries {
			c.VMULPS(xq(i), xq(i), t)
			c.VDIVPS(qq(i), t, t)
			better := c.when(t, greaterThan, best, mask)
			c.take(better, t, best)
			c.VDIVPS(qq(i), xq(i), t)
			c.take(better, t, factor)
		}
	}
	c.float16(factor, t, factor)
	c.zero(t)
	some := c.when(factor, unequal, t, mask)
	inv := inverse(0)
	c.set(1, inv)
	c.VDIVPS(factor, inv, inv)
	c.only(some, inv)
	c.only(some, factor)
	c.VCVTPS2PH(U8(0), factor, c.factor())
	eight, word := best, top
	c.set(8, eight)
	integer := func(p int, to reg.Register) {
		c.VMULPS(c.term(p), inv, to)
		nearest(to)
		c.VADDPS(eight, to, to)
		c.VCVTPS2DQ(to, to)
	}
	for step := range groupSteps / 2 {
		c.zero(word)
		for b := range 4 {
			integer(8*step+b, q)
			integer(8*step+b+4, t)
			c.VPSLLD(U8(4), t, t)
			c.or(t, q, q)
			c.VPSLLD(U8(8*b), q, q)
			c.or(q, word, word)
		}
		c.VMOVUPS(word, c.step(step))
	}
}
