package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sineLimit is the largest argument of sine and cosine for which float32 can hold the number of half turns. Larger
// arguments are replaced by 0.
const sineLimit = 1 << 22

// sin sets y to sin x, and changes x. With n = round(x/π) and r = x - nπ it is (-1)ⁿ sin r, |r| ≤ π/2. The error is
// below 2e-7 up to |x| = 10⁵. NaN and infinities give NaN.
func (c vector) sin(x, y reg.Register, rest []reg.Register) {
	n, sign := rest[0], rest[1]
	c.limitTurns(x, n, sign)
	c.set(roundMagic, sign)
	c.with(1/math.Pi, c.VFMADD231PS, c.VFMADD231PS_BCST, x, sign)
	c.with(roundMagic, c.VSUBPS, c.VSUBPS_BCST, sign, n)
	c.halfTurns(x, n, sign, y, rest[2:])
}

// cos sets y to cos x = -(-1)^m sin(x - nπ) with n = m + ½, m = round(x/π - ½). It changes x and has the same error as
// sin.
func (c vector) cos(x, y reg.Register, rest []reg.Register) {
	n, sign := rest[0], rest[1]
	c.limitTurns(x, n, sign)
	c.set(-0.5, sign)
	c.with(1/math.Pi, c.VFMADD231PS, c.VFMADD231PS_BCST, x, sign)
	c.with(roundMagic, c.VADDPS, c.VADDPS_BCST, sign, sign)
	c.with(roundMagic, c.VSUBPS, c.VSUBPS_BCST, sign, n)
	c.with(0.5, c.VADDPS, c.VADDPS_BCST, n, n)
	c.halfTurns(x, n, sign, y, rest[2:])
	c.negate(y)
}

// limitTurns replaces an x beyond sineLimit by 0, an infinity by NaN.
func (c vector) limitTurns(x, zero, rest reg.Register) {
	c.withBits(1<<31-1, c.VANDPS, c.VANDPS_BCST, x, rest)
	c.set(sineLimit, zero)
	c.VSUBPS(rest, zero, rest)
	c.zero(zero)
	c.VMULPS(x, zero, zero)
	c.ifNegative(rest, zero, x)
}

// roundMagic rounds a number below 2²² to an integer when it is added to it. The lowest bits of integer and sum are
// equal.
const roundMagic = 1.5 * (1 << 23)

// halfTurns sets y to ±sin(x - nπ), minus if the lowest bit of sign is set. π is the sum of three float32, and the sine
// is the best odd polynomial of degree 9 that begins with r (error 5e-9).
func (c vector) halfTurns(x, n, sign, y reg.Register, rest []reg.Register) {
	square, p := rest[0], rest[1]
	c.VMOVAPS(x, y)
	left := math.Pi // the rest of π; float64 holds its third float32 to some digits, which is enough
	for _, part := range []float64{float64(float32(math.Pi)), float64(float32(math.Pi - float64(float32(math.Pi))))} {
		c.with(part, c.VFNMADD231PS, c.VFNMADD231PS_BCST, n, y)
		left -= part
	}
	c.with(left+1.2246467991473532e-16, c.VFNMADD231PS, c.VFNMADD231PS_BCST, n, y) // π - float64(π)
	c.VPSLLD(U8(31), sign, sign)
	c.VXORPS(sign, y, y)
	c.VMULPS(y, y, square)
	c.set(2.599903223252698e-06, p)
	for _, k := range []float64{-0.00019806547087055003, 0.00833301635509123, -0.16666657058571965} {
		c.with(k, c.VFMADD213PS, c.VFMADD213PS_BCST, square, p)
	}
	c.VMULPS(y, p, p)
	c.VFMADD231PS(p, square, y)
}
