package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// optimizer generates AdamW.
func (c vector) optimizer() {
	c.function("adamW", "func(n int, p, m, v, grad, k *float32)",
		"computes AdamW with the factors k: β1, 1-β1, β2, 1-β2, the scale of the gradient, 1-lr·decay,",
		"lr/(1-β1^t), 1/√(1-β2^t), ε.")
	base := []reg.GPVirtual{c.arg("p"), c.arg("m"), c.arg("v"), c.arg("grad")}
	factor := make([]reg.Register, 9)
	k := c.arg("k")
	for i := range factor {
		factor[i] = c.vec(6 + i)
		c.VBROADCASTSS(Mem{Base: k, Disp: 4 * i}, factor[i])
	}
	beta1, rest1, beta2, rest2, scale, keep, step, root, eps :=
		factor[0], factor[1], factor[2], factor[3], factor[4], factor[5], factor[6], factor[7], factor[8]
	c.each("vectors", c.span(c.arg("n")), func(i reg.GPVirtual, mask reg.Register) {
		p, m, v, g, t := c.vec(0), c.vec(1), c.vec(2), c.vec(3), c.vec(4)
		for j, r := range []reg.Register{p, m, v, g} {
			c.load(float(base[j], i), r, mask)
		}
		c.VMULPS(scale, g, g)
		c.VMULPS(beta1, m, m)
		c.VFMADD231PS(rest1, g, m)
		c.VMULPS(rest2, g, t)
		c.VMULPS(beta2, v, v)
		c.VFMADD231PS(g, t, v)
		c.VSQRTPS(v, t)
		c.VFMADD213PS(eps, root, t)
		c.VMULPS(keep, p, p)
		c.VMULPS(step, m, g)
		c.VDIVPS(t, g, g)
		c.VSUBPS(g, p, p)
		c.zero(g)
		for j, r := range []reg.Register{p, m, v, g} {
			c.store(r, mask, float(base[j], i))
		}
	})
	c.end()
}
