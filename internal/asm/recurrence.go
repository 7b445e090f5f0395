package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// recurrence generates DiagSteps.
func (c vector) recurrence() {
	c.function("diagSteps", "func(systems, per, n int, z, u, skip, x, a, b, c *float32)",
		"computes DiagSteps for n floats, an even number, of each channel's state; no count is zero. A sum has one "+
			"strand",
		"for each lane; then halves are added onto one another.")
	z, us, skip := c.arg("z"), c.arg("u"), c.arg("skip")
	x, a, b, out := c.arg("x"), c.arg("a"), c.arg("b"), c.arg("c")
	modes := c.span(c.arg("n"))
	per := c.GP64()
	u, d, sum := c.vec(0), c.vec(6), c.vec(1)
	c.Label("system")
	c.VMOVSS(Mem{Base: skip}, c.xmm(d))
	c.Load(c.Param("per"), per)
	c.Label("channel")
	c.VBROADCASTSS(Mem{Base: us}, u)
	c.zero(sum)
	c.each("vectors", modes, func(i reg.GPVirtual, mask reg.Register) {
		state, pole, t := c.vec(2), c.vec(3), c.vec(4)
		c.load(float(x, i), state, mask)
		c.load(float(a, i), pole, mask)
		c.VPERMILPS(U8(0b10110001), state, t) // im, re
		c.VMOVSHDUP(pole, c.vec(5))
		c.VMOVSLDUP(pole, pole)
		c.VMULPS(c.vec(5), t, t)
		c.load(float(b, i), c.vec(5), mask)
		c.VFMADDSUB231PS(pole, state, t) // re·re - im·im, re·im + im·re
		c.VFMADD231PS(u, c.vec(5), t)
		c.store(t, mask, float(x, i))
		c.load(float(out, i), c.vec(5), mask)
		c.VFMADD231PS(c.vec(5), t, sum)
	})
	t := c.vec(2)
	for width, halvings := c.lanes, 0; width > 4; width /= 2 {
		c.highHalf(sum, t, halvings)
		halvings++
		c.VADDPS(c.part(t, halvings), c.part(sum, halvings), c.part(sum, halvings))
	}
	c.VUNPCKHPD(c.xmm(sum), c.xmm(sum), c.xmm(t))
	c.VADDPS(c.xmm(t), c.xmm(sum), c.xmm(sum))
	c.VMOVSHDUP(c.xmm(sum), c.xmm(t))
	c.VSUBSS(c.xmm(t), c.xmm(sum), c.xmm(sum))
	c.VADDSS(c.xmm(sum), c.xmm(sum), c.xmm(sum))
	c.VFMADD231SS(c.xmm(u), c.xmm(d), c.xmm(sum))
	c.VMOVSS(c.xmm(sum), Mem{Base: z})
	c.ADDQ(U8(4), z)
	c.ADDQ(U8(4), us)
	n := c.arg("n")
	c.LEAQ(float(x, n), x)
	c.countDown(per, "channel")
	c.ADDQ(U8(4), skip)
	for _, p := range []reg.Register{a, b, out} {
		c.LEAQ(float(p, n), p)
	}
	c.countDown(c.param("systems"), "system")
	c.end()
}
