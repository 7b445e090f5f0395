package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// widen converts the two halves of v to float64.
func (c vector) widen(v, lo, hi reg.Register) {
	c.highHalf(v, hi, 0)
	c.VCVTPS2PD(c.part(v, 1), lo)
	c.VCVTPS2PD(c.part(hi, 1), hi)
}

// highHalf copies the upper half of the low part of v to the low part of to. The low part of v is v halved the given
// number of times.
func (c vector) highHalf(v, to reg.Register, halvings int) {
	if c.lanes == 16 && halvings == 0 {
		c.VEXTRACTF64X4(U8(1), v, c.part(to, 1))
		return
	}
	c.VEXTRACTF128(U8(1), c.part(v, halvings), c.xmm(to))
}

// fold64 adds the lanes of the sums lo and hi into lane 0 of lo: halves onto halves, the upper onto the lower.
func (c vector) fold64(lo, hi reg.Register) {
	c.VADDPD(hi, lo, lo)
	halvings := 0
	for width := c.lanes / 2; width > 2; width /= 2 {
		c.highHalf(lo, hi, halvings)
		halvings++
		c.VADDPD(c.part(hi, halvings), c.part(lo, halvings), c.part(lo, halvings))
	}
	c.VUNPCKHPD(c.xmm(lo), c.xmm(lo), c.xmm(hi))
	c.VADDSD(c.xmm(hi), c.xmm(lo), c.xmm(lo))
}

// fold combines the lanes of v into lane 0, halves onto halves, with an instruction of three operands. t is scratch.
func (c vector) fold(join instruction, v, t reg.Register) {
	halvings := 0
	for width := c.lanes; width > 4; width /= 2 {
		c.highHalf(v, t, halvings)
		halvings++
		join(c.part(t, halvings), c.part(v, halvings), c.part(v, halvings))
	}
	for _, order := range []uint64{0b1110, 0b01} {
		c.VPERMILPS(U8(order), c.xmm(v), c.xmm(t))
		join(c.xmm(t), c.xmm(v), c.xmm(v))
	}
}

// sums generates sums over slices.
func (c vector) sums() {
	c.function("dot", "func(n int, x, y *float32) float32",
		"returns Σ x·y. Vectors are added up in four strands, strand v mod 4 for vector v as long as there are four "+
			"of them and",
		"strand 0 for the others; then strands and the halves of what is left onto one another.")
	x, y, n := c.arg("x"), c.arg("y"), c.arg("n")
	for i := range 4 {
		c.zero(c.vec(i))
	}
	i, wide := c.GP64(), c.GP64()
	c.XORQ(i, i)
	c.MOVQ(n, wide)
	c.ANDQ(I8(-4*c.lanes), wide)
	c.JZ(LabelRef("rest"))
	c.Label("four")
	for j := range 4 {
		c.VMOVUPS(float(x, i).Offset(4*c.lanes*j), c.vec(4+j))
		c.VFMADD231PS(float(y, i).Offset(4*c.lanes*j), c.vec(4+j), c.vec(j))
	}
	c.countUp(i, U8(4*c.lanes), wide, "four")
	c.Label("rest")
	c.LEAQ(float(x, i), x)
	c.LEAQ(float(y, i), y)
	c.SUBQ(i, n)
	c.each("vectors", c.span(n), func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(x, i), c.vec(4), mask)
		c.load(float(y, i), c.vec(5), mask)
		c.VFMADD231PS(c.vec(5), c.vec(4), c.vec(0))
	})
	c.VADDPS(c.vec(1), c.vec(0), c.vec(0))
	c.VADDPS(c.vec(3), c.vec(2), c.vec(2))
	c.VADDPS(c.vec(2), c.vec(0), c.vec(0))
	c.fold(c.VADDPS, c.vec(0), c.vec(1))
	c.VMOVSS(c.xmm(c.vec(0)), c.result())
	c.end()

	c.function("sumSquares", "func(n int, x *float32) float64",
		"returns Σ x² in float64: one sum for each lane, then halves onto one another.")
	x = c.arg("x")
	sum := [2]reg.Register{c.vec(0), c.vec(1)}
	c.zero(sum[0])
	c.zero(sum[1])
	c.each("vectors", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		v := c.vec(2)
		c.load(float(x, i), v, mask)
		c.addSquares(sum, v, c.vec(3), c.vec(4))
	})
	c.fold64(sum[0], sum[1])
	c.VMOVSD(c.xmm(sum[0]), c.result())
	c.end()

	c.function("zeros", "func(n int, x *float32) float32", "returns Σ 0·x: 0 if all are finite, else NaN.")
	x = c.arg("x")
	zero, total := c.vec(0), c.vec(1)
	c.zero(zero)
	c.zero(total)
	c.each("vectors", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(x, i), c.vec(2), mask)
		c.VFMADD231PS(c.vec(2), zero, total)
	})
	c.fold(c.VADDPS, total, zero)
	c.VMOVSS(c.xmm(total), c.result())
	c.end()
}

// addSquares adds the squares of v to two float64 sums.
func (c vector) addSquares(sum [2]reg.Register, v, lo, hi reg.Register) {
	c.widen(v, lo, hi)
	c.VFMADD231PD(lo, lo, sum[0])
	c.VFMADD231PD(hi, hi, sum[1])
}

// addWide adds v to two float64 sums.
func (c vector) addWide(sum [2]reg.Register, v, lo, hi reg.Register) {
	c.widen(v, lo, hi)
	c.VADDPD(lo, sum[0], sum[0])
	c.VADDPD(hi, sum[1], sum[1])
}

// softmax generates the passes of LogSumExp and Softmax.
func (c vector) softmax() {
	c.function("largest", "func(n int, x *float32) float32",
		"returns the largest element, -Inf if there is none. It passes over NaN.")
	x := c.arg("x")
	hi, v := c.vec(0), c.vec(1)
	c.set(math.Inf(-1), hi)
	c.each("vectors", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		switch {
		case mask == nil:
			c.VMOVUPS(float(x, i), v)
		case c.lanes == 16:
			c.set(math.Inf(-1), v)
			c.VMOVUPS(float(x, i), mask, v)
		default:
			c.load(float(x, i), c.vec(2), mask)
			c.set(math.Inf(-1), v)
			c.VBLENDVPS(mask, c.vec(2), v, v)
		}
		c.VMAXPS(hi, v, hi) // returns hi if v is NaN
	})
	c.fold(c.VMAXPS, hi, v)
	c.VMOVSS(c.xmm(hi), c.result())
	c.end()

	c.sumExp("sumExp",
		"returns Σ e^(x-shift), added up in float64: one sum for each lane, then halves onto one another.",
		"func(n int, x *float32, shift float32) float64", false)
	c.sumExp("softmaxExp",
		"computes x = e^(scale·x-shift), where the product is not rounded, and returns the sum, as sumExp does.",
		"func(n int, x *float32, scale, shift float32) float64", true)
}

// sumExp generates a sum of exponentials. If keep is true, x, which is scaled first, is overwritten by them.
func (c vector) sumExp(name, doc, signature string, keep bool) {
	c.function(name, signature, doc)
	x := c.arg("x")
	sum, shift, low, high, scale := [2]reg.Register{c.vec(0), c.vec(1)}, c.vec(2), c.vec(3), c.vec(4), c.vec(5)
	c.zero(sum[0])
	c.zero(sum[1])
	c.VBROADCASTSS(c.param("shift"), shift)
	if keep {
		c.VBROADCASTSS(c.param("scale"), scale)
	}
	c.set(expLow, low)
	c.set(expHigh, high)
	c.each("vectors", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		e := c.vec(6)
		c.load(float(x, i), e, mask)
		if keep {
			c.VFMSUB213PS(shift, scale, e)
		} else {
			c.VSUBPS(shift, e, e)
		}
		c.exp(e, low, high, []reg.Register{c.vec(7), c.vec(8), c.vec(9), c.vec(10)})
		if keep {
			c.store(e, mask, float(x, i))
		}
		c.only(mask, e)
		c.addWide(sum, e, c.vec(7), c.vec(8))
	})
	c.fold64(sum[0], sum[1])
	c.VMOVSD(c.xmm(sum[0]), c.result())
	c.end()
}
