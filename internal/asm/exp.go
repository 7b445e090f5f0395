package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exp first limits its argument to these bounds. Below expLow, e^x is taken as 0; above expHigh, it is too large.
const (
	expLow  = -87.33
	expHigh = 89
)

// exp replaces x by e^x with a relative error below 2e-7, by 0 where that is less than 2^-125, and by +Inf where it is
// too large; NaN stays NaN. With k = round(x·log2 e) it is 2^(k-1) times twice a polynomial of r = x - k·ln 2, |r| ≤ ½
// ln 2, the best of degree 6 that begins with 1 + r (relative error 3e-9). low and high are registers that hold the
// bounds; high is nil if x cannot exceed it. Four registers are scratch.
func (c vector) exp(x, low, high reg.Register, scratch []reg.Register) {
	for _, step := range c.expSteps(x, low, high, scratch) {
		step()
	}
}

// The constants of exp. Adding and subtracting the first part of expMagic rounds to an integer. The second part makes
// the low bits of the sum the exponent of 2^(k-1).
const expMagic = 1.5*(1<<23) + 126

var expTerms = [7]float64{1, 1, 0.499999934321202, 0.16666520399056875, 0.041668390785373155, 0.008368745107635633,
	0.001381454008676034}

// expConstants returns all constants of exp except its bounds.
func expConstants() []float64 {
	all := []float64{expMagic, math.Log2E, float64(float32(math.Ln2)), math.Ln2 - float64(float32(math.Ln2))}
	for _, k := range expTerms[1:] { // the first two are the same
		all = append(all, 2*k)
	}
	return all
}

// expSteps returns the instructions of exp, which may be interleaved with those of another exp.
func (c vector) expSteps(x, low, high reg.Register, scratch []reg.Register) []func() {
	f, t, p, q := scratch[0], scratch[1], scratch[2], scratch[3]
	ln2, k := float32(math.Ln2), expTerms
	steps := []func(){func() { c.VMAXPS(x, low, x) }} // with the operands in this order, a NaN stays
	if high != nil {
		steps = append(steps, func() { c.VMINPS(x, high, x) })
	}
	return append(steps,
		func() { c.set(expMagic, t) },
		func() { c.with(math.Log2E, c.VFMADD231PS, c.VFMADD231PS_BCST, x, t) },
		func() { c.with(expMagic, c.VSUBPS, c.VSUBPS_BCST, t, f) },
		func() { c.with(float64(ln2), c.VFNMADD231PS, c.VFNMADD231PS_BCST, f, x) },
		func() { c.with(math.Ln2-float64(ln2), c.VFNMADD231PS, c.VFNMADD231PS_BCST, f, x) },
		func() { c.VPSLLD(U8(23), t, t) },
		func() { c.VMULPS(x, x, f) },
		func() { c.set(2*k[5], p) },
		func() { c.set(2*k[3], q) },
		func() { c.with(2*k[4], c.VFMADD213PS, c.VFMADD213PS_BCST, x, p) },
		func() { c.with(2*k[2], c.VFMADD213PS, c.VFMADD213PS_BCST, x, q) },
		func() { c.with(2*k[6], c.VFMADD231PS, c.VFMADD231PS_BCST, f, p) },
		func() { c.VFMADD231PS(p, f, q) },
		func() { c.set(2*k[1], p) },
		func() { c.with(2*k[0], c.VFMADD213PS, c.VFMADD213PS_BCST, x, p) },
		func() { c.VFMADD213PS(p, f, q) },
		func() { c.VMULPS(t, q, x) })
}

// holdExp keeps as many constants of exp as fit in vectors from first on. Only AVX-512 has enough vectors for that.
// Reading the constants takes as long as computing with them.
func (c *vector) holdExp(first int) {
	if c.lanes < 16 {
		return
	}
	held, all := map[uint32]reg.Register{}, expConstants()
	for i, k := range all[:min(len(all), 32-first)] {
		v := c.vec(first + i)
		c.set(k, v)
		held[math.Float32bits(float32(k))] = v
	}
	c.held = held
}

// sigmoid replaces -x by 1/(1+e^-x). one holds ones.
func (c vector) sigmoid(x, one, low, high reg.Register, scratch []reg.Register) {
	c.exp(x, low, high, scratch)
	c.VADDPS(one, x, x)
	c.VDIVPS(x, one, x)
}

// negate changes the sign of x.
func (c vector) negate(x reg.Register) { c.withBits(1<<31, c.VXORPS, c.VXORPS_BCST, x, x) }
