package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The factors of counter.Mix64 and the step of counter.Keep from one element to the next.
const (
	mixAdd   uint64 = 0x9e3779b97f4a7c15
	mixMul1  uint64 = 0xbf58476d1ce4e5b9
	mixMul2  uint64 = 0x94d049bb133111eb
	keepStep uint64 = 0xd1342543de82ef95
)

// dropout generates the functions that apply a mask made by counter.Keep.
func (c vector) dropout() {
	c.dropKernel("drop", "func(n int, x *float32, state uint64, threshold uint32, scale float32)",
		"replaces x[i] by scale·x[i], by 0 where the upper half of Mix64(state + i·step) is below threshold.", "x")
	c.dropKernel("dropAdd", "func(n int, y, x *float32, state uint64, threshold uint32, scale float32)",
		"adds to y[i] what drop makes of x[i].", "y")
	c.data("counters")
	for i, e := range c.order() {
		c.AddDatum(8*i, U64(mixAdd+uint64(e)*keepStep))
	}
}

// order lists the elements whose counters the two vectors hold. Each 128 bits hold two of every four elements, so that
// taking the upper halves of both vectors with VSHUFPS puts them in order.
func (c vector) order() []int {
	var order []int
	for half := range 2 {
		for e := 2 * half; e < c.lanes; e += 4 {
			order = append(order, e, e+1)
		}
	}
	return order
}

func (c vector) dropKernel(name, signature, doc, to string) {
	c.function(name, signature, doc)
	x, y := c.arg("x"), c.arg(to)
	word := c.GP64()
	all := func(k uint64, v reg.Register) {
		c.MOVQ(U64(k), word)
		c.VMOVQ(word, c.xmm(v))
		c.VPBROADCASTQ(c.xmm(v), v)
	}
	counter, step, factor, threshold, scale := [2]reg.Register{c.vec(0), c.vec(1)}, c.vec(2),
		[2]reg.Register{c.vec(3), c.vec(4)},
		c.vec(5), c.vec(6)
	high := [2]reg.Register{c.vec(7), c.vec(8)} // upper halves of the factors, for AVX2
	all(mixMul1, factor[0])
	all(mixMul2, factor[1])
	if c.lanes == 8 {
		all(mixMul1>>32, high[0])
		all(mixMul2>>32, high[1])
	}
	all(uint64(c.lanes)*keepStep, step)
	c.VPBROADCASTQ(c.param("state"), counter[0])
	for i := 1; i >= 0; i-- {
		c.VPADDQ(NewDataAddr(NewStaticSymbol("counters"), 4*c.lanes*i), counter[0], counter[i])
	}
	c.VBROADCASTSS(c.param("threshold"), threshold)
	c.VBROADCASTSS(c.param("scale"), scale)
	c.each("vectors", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		random, t, u := [2]reg.Register{c.vec(9), c.vec(10)}, c.vec(11), c.vec(12)
		for j, z := range random {
			from := counter[j]
			for k, shift := range []uint64{30, 27} {
				c.VPSRLQ(U8(shift), from, t)
				c.xor(from, t, z)
				c.multiply64(z, factor[k], high[k], t, u)
				from = z
			}
			c.VPSRLQ(U8(31), z, t)
			c.xor(z, t, z)
			c.VPADDQ(step, counter[j], counter[j])
		}
		c.VSHUFPS(U8(0b11011101), random[1], random[0], t)
		c.load(float(x, i), u, mask)
		c.VMULPS(scale, u, u)
		if c.lanes == 16 {
			k := c.K()
			const atLeast = 5
			c.VPCMPUD(U8(atLeast), threshold, t, k)
			c.VMOVAPS_Z(u, k, u)
		} else {
			c.VPMAXUD(threshold, t, c.vec(9))
			c.VPCMPEQD(c.vec(9), t, t)
			c.VANDPS(t, u, u)
		}
		if to != "x" {
			c.load(float(y, i), t, mask)
			c.VADDPS(t, u, u)
		}
		c.store(u, mask, float(y, i))
	})
	c.end()
}

func (c vector) xor(a, b, to reg.Register) {
	if c.lanes == 16 {
		c.VPXORQ(a, b, to)
	} else {
		c.VPXOR(a, b, to)
	}
}

// multiply64 multiplies 64-bit integers by a factor. AVX2 also needs the factor's upper half.
func (c vector) multiply64(z, factor, high, t, u reg.Register) {
	if c.lanes == 16 {
		c.VPMULLQ(factor, z, z)
		return
	}
	c.VPSRLQ(U8(32), z, t)
	c.VPMULUDQ(factor, t, t)
	c.VPMULUDQ(high, z, u)
	c.VPADDQ(u, t, t)
	c.VPSLLQ(U8(32), t, t)
	c.VPMULUDQ(factor, z, z)
	c.VPADDQ(t, z, z)
}
