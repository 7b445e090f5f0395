package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	geluA = 0.7978845608028654 // √(2/π)
	geluB = 0.044715
)

// elementwise generates the functions that compute each element alone.
func (c vector) elementwise() {
	one, low, high := c.vec(fixed), c.vec(fixed+1), c.vec(fixed+2)
	bounds := func() {
		c.set(1, one)
		c.set(expLow, low)
		c.set(expHigh, high)
	}

	c.pointwise("add", "func(n int, y, x *float32)", "computes y += x.", []string{"y", "x"}, 1, nil,
		func(v, _ []reg.Register) { c.VADDPS(v[1], v[0], v[0]) })
	c.pointwise("multiply", "func(n int, y, x *float32)", "computes y *= x.", []string{"y", "x"}, 1, nil,
		func(v, _ []reg.Register) { c.VMULPS(v[1], v[0], v[0]) })
	c.pointwise("addInto", "func(n int, y, a, b *float32)", "computes y = a+b.", []string{"y", "a", "b"}, 1, nil,
		func(v, _ []reg.Register) { c.VADDPS(v[2], v[1], v[0]) })
	c.pointwise("mulInto", "func(n int, y, a, b *float32)", "computes y = a·b.", []string{"y", "a", "b"}, 1, nil,
		func(v, _ []reg.Register) { c.VMULPS(v[2], v[1], v[0]) })
	c.pointwise("mulAdd", "func(n int, y, a, b *float32)", "computes y += a·b, rounded once.",
		[]string{"y", "a", "b"}, 1, nil,
		func(v, _ []reg.Register) { c.VFMADD231PS(v[2], v[1], v[0]) })
	c.pointwise("roundBF16", "func(n int, y, x *float32)", "rounds x to bfloat16.", []string{"y", "x"}, 1, nil,
		func(v, rest []reg.Register) { c.roundBF16(v[1], v[0], rest) })
	c.pointwise("roundTerms", "func(n int, y, x *float32)", "rounds x to bfloat16. What is smaller than 2^-56 is 0.",
		[]string{"y", "x"}, 1, nil,
		func(v, rest []reg.Register) {
			c.roundBF16(v[1], v[0], rest)
			below := rest[0]
			c.withBits(0x7fffffff, c.VANDPS, c.VANDPS_BCST, v[0], below)
			c.withBits(1<<32-tinyHalf<<16, c.VPADDD, c.VPADDD_BCST, below, below)
			c.VPSRAD(U8(31), below, below)
			c.VANDNPS(v[0], below, v[0])
		})
	c.pointwise("scale", "func(n int, x *float32, a float32)", "computes x *= a.", []string{"x"}, 1,
		func() { c.VBROADCASTSS(c.param("a"), one) },
		func(v, _ []reg.Register) { c.VMULPS(one, v[0], v[0]) })
	c.pointwise("axpy", "func(n int, a float32, x, y *float32)", "computes y += a·x, rounded once.",
		[]string{"y", "x"}, 1,
		func() { c.VBROADCASTSS(c.param("a"), one) },
		func(v, _ []reg.Register) { c.VFMADD231PS(one, v[1], v[0]) })
	c.pointwise("expShift", "func(n int, x *float32, shift, scale float32)",
		"computes x = e^(x-shift)·scale.", []string{"x"}, 1,
		func() {
			bounds()
			c.VBROADCASTSS(c.param("shift"), one)
			c.VBROADCASTSS(c.param("scale"), c.vec(fixed-1))
		},
		func(v, rest []reg.Register) {
			c.VSUBPS(one, v[0], v[0])
			c.exp(v[0], low, high, rest)
			c.VMULPS(c.vec(fixed-1), v[0], v[0])
		})
	c.pointwise("expScaled", "func(n int, x *float32, scale, shift float32)",
		"computes x = e^(scale·x-shift), where the product is not rounded.", []string{"x"}, 1,
		func() {
			bounds()
			c.VBROADCASTSS(c.param("shift"), one)
			c.VBROADCASTSS(c.param("scale"), c.vec(fixed-1))
		},
		func(v, rest []reg.Register) {
			c.VFMSUB213PS(one, c.vec(fixed-1), v[0])
			c.exp(v[0], low, high, rest)
		})
	c.pointwise("softmaxGrad", "func(n int, dp, p *float32, delta, scale float32)", "computes dp = p·(dp-delta)·scale.",
		[]string{"dp", "p"}, 1,
		func() {
			c.VBROADCASTSS(c.param("delta"), one)
			c.VBROADCASTSS(c.param("scale"), low)
		},
		func(v, _ []reg.Register) {
			c.VSUBPS(one, v[0], v[0])
			c.VMULPS(v[1], v[0], v[0])
			c.VMULPS(low, v[0], v[0])
		})
	c.pointwise("glu", "func(n int, y, a, gate *float32)", "computes y = a·sigmoid(gate).",
		[]string{"y", "a", "gate"}, 1, bounds,
		func(v, rest []reg.Register) {
			y, a, g := v[0], v[1], v[2]
			c.negate(g)
			c.sigmoid(g, one, low, high, rest)
			c.VMULPS(a, g, y)
		})
	c.pointwise("gluGrad", "func(n int, da, dgate, dy, a, gate *float32)",
		"adds dy·σ(gate) to da and dy·a·σ(gate)(1-σ(gate)) to dgate.",
		[]string{"da", "dgate", "dy", "a", "gate"}, 2, bounds,
		func(v, rest []reg.Register) {
			da, dg, dy, a, g := v[0], v[1], v[2], v[3], v[4]
			c.negate(g)
			c.sigmoid(g, one, low, high, rest)
			c.VFMADD231PS(g, dy, da)
			c.VMULPS(a, dy, dy)
			c.VSUBPS(g, one, rest[0])
			c.VMULPS(g, dy, dy)
			c.VFMADD231PS(rest[0], dy, dg)
		})
}

// pointwise writes a kernel over the named arrays. v holds the registers of their elements, of which the first written
// are stored back, and rest holds free registers.
func (c vector) pointwise(name, signature, doc string, arrays []string, written int, prepare func(),
	body func(v, rest []reg.Register)) {
	c.function(name, signature, doc)
	var base []reg.GPVirtual
	for _, a := range arrays {
		base = append(base, c.arg(a))
	}
	if prepare != nil {
		prepare()
	}
	c.each("vectors", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		v, rest := c.registers(len(arrays)), c.registers(fixed)[len(arrays):]
		for j := range arrays {
			c.load(float(base[j], i), v[j], mask)
		}
		body(v, rest)
		for j := range written {
			c.store(v[j], mask, float(base[j], i))
		}
	})
	c.end()
}

// Vectors from fixed on hold values that a kernel needs for every element. Vector 15 is the mask for AVX2.
const fixed = 12

// registers returns vectors 0 to n-1.
func (c vector) registers(n int) []reg.Register {
	v := make([]reg.Register, n)
	for i := range v {
		v[i] = c.vec(i)
	}
	return v
}

// roundBF16 rounds x to bfloat16, ties to even. It changes x.
func (c vector) roundBF16(x, to reg.Register, rest []reg.Register) {
	t := rest[0]
	c.with(1, c.VMULPS, c.VMULPS_BCST, x, x) // makes a NaN quiet, so that it stays NaN without its lower half
	c.withBits(0x7fffffff, c.VANDPS, c.VANDPS_BCST, x, to)
	c.VXORPS(to, x, x) // the sign
	c.VPSRLD(U8(16), to, t)
	c.withBits(1, c.VANDPS, c.VANDPS_BCST, t, t)
	c.VPADDD(t, to, to)
	c.withBits(0x7fff, c.VPADDD, c.VPADDD_BCST, to, to)
	c.withBits(0x7fffffff, c.VPMINUD, c.VPMINUD_BCST, to, to) // keeps a NaN from becoming negative
	c.withBits(0x7fff0000, c.VANDPS, c.VANDPS_BCST, to, to)
	c.VORPS(x, to, to)
}
