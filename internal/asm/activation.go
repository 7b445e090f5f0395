package main

import "github.com/mmcloughlin/avo/reg"

// activations generates the activation functions, y = f(x), and their gradients, dy *= f'(x).
func (c vector) activations() {
	one, low, high := c.vec(fixed), c.vec(fixed+1), c.vec(fixed+2)
	bounds := func() {
		c.set(1, one)
		c.set(expLow, low)
		c.set(expHigh, high)
	}
	value := func(name, doc string, body func(y, x reg.Register, rest []reg.Register)) {
		c.pointwise(name, "func(n int, y, x *float32)", "computes y = "+doc+".", []string{"y", "x"}, 1, bounds,
			func(v, rest []reg.Register) { body(v[0], v[1], rest) })
	}
	gradient := func(name, function string, body func(dy, x reg.Register, rest []reg.Register)) {
		c.pointwise(name, "func(n int, dy, x *float32)", "computes dy *= "+function+"'(x).",
			[]string{"dy", "x"}, 1, bounds,
			func(v, rest []reg.Register) { body(v[0], v[1], rest) })
	}

	value("gelu", "x·σ(2√(2/π)(x+0.044715x³)), which is Gelu", func(e, x reg.Register, rest []reg.Register) {
		f := rest[0]
		c.VMULPS(x, x, f)
		c.set(-2*geluA, e)
		c.with(-2*geluA*geluB, c.VFMADD231PS, c.VFMADD231PS_BCST, f, e)
		c.VMULPS(x, e, e)
		c.exp(e, low, high, rest)
		c.VADDPS(one, e, e)
		c.VDIVPS(e, x, e)
	})
	// With e = e^-|z| and q = 1/(1+e), where z = 2√(2/π)(x+0.044715x³), σ(z) is q for z ≥ 0 and eq below, and its
	// derivative e·q²: nothing cancels and nothing overflows.
	gradient("geluGradMul", "Gelu", func(dy, x reg.Register, rest []reg.Register) {
		e, slope, f, p := rest[0], rest[1], rest[2], rest[3]
		c.VMULPS(x, x, f)
		c.set(2*geluA, e)
		c.set(2*geluA, slope)
		c.with(2*geluA*geluB, c.VFMADD231PS, c.VFMADD231PS_BCST, f, e)
		c.with(3*2*geluA*geluB, c.VFMADD231PS, c.VFMADD231PS_BCST, f, slope)
		c.VMULPS(x, e, e)
		c.withBits(1<<31, c.VORPS, c.VORPS_BCST, e, e)
		c.exp(e, low, nil, rest[2:])
		c.VADDPS(one, e, f)
		c.VDIVPS(f, one, f) // q
		c.VMULPS(f, e, e)   // eq
		c.VMULPS(f, e, p)
		c.VMULPS(p, slope, slope)
		c.VMULPS(x, slope, slope) // x·z'·σ'(z), multiplied in an order that does not overflow
		c.ifNegative(x, e, f)
		c.VADDPS(slope, f, f)
		c.VMULPS(f, dy, dy)
	})

	// Φ(x) = (1+erf(x/√2))/2 is computed from its complement, erfc(z)/2 = t·P(t)·e^-z² with t = 1/(1+pz), z = |x|/√2:
	// Abramowitz and Stegun, 7.1.26, with an error of at most 1.5e-7.
	cdf := func(x, phi, gauss reg.Register, rest []reg.Register) {
		t, p := rest[0], rest[1]
		c.VMULPS(x, x, gauss)
		c.with(-0.5, c.VMULPS, c.VMULPS_BCST, gauss, gauss)
		c.exp(gauss, low, nil, rest)
		c.withBits(1<<31-1, c.VANDPS, c.VANDPS_BCST, x, t)
		c.set(erfP, p)
		c.VFMADD213PS(one, p, t)
		c.VDIVPS(t, one, t)
		c.set(erfA[4]/2, p)
		for i := 3; i >= 0; i-- {
			c.with(erfA[i]/2, c.VFMADD213PS, c.VFMADD213PS_BCST, t, p)
		}
		c.VMULPS(t, p, p)
		c.VMULPS(gauss, p, p) // Φ(-|x|)
		c.VSUBPS(p, one, phi)
		c.ifNegative(x, p, phi)
	}
	value("geluErf", "x·Φ(x), which is GeluErf", func(y, x reg.Register, rest []reg.Register) {
		cdf(x, rest[0], y, rest[1:])
		c.VMULPS(rest[0], x, y)
	})
	gradient("geluErfGradMul", "GeluErf", func(dy, x reg.Register, rest []reg.Register) {
		phi, gauss := rest[0], rest[1]
		cdf(x, phi, gauss, rest[2:])
		c.VMULPS(x, gauss, gauss)
		c.with(0.3989422804014327, c.VFMADD231PS, c.VFMADD231PS_BCST, gauss, phi) // 1/√(2π)
		c.VMULPS(phi, dy, dy)
	})

	sigmoid := func(x, s reg.Register, rest []reg.Register) {
		c.VMOVAPS(x, s)
		c.negate(s)
		c.sigmoid(s, one, low, high, rest)
	}
	value("sigmoid", "1/(1+e^-x)", func(y, x reg.Register, rest []reg.Register) { sigmoid(x, y, rest) })
	// With e = e^-|x| and q = 1/(1+e), σ(x) is q for x ≥ 0 and eq below, and its derivative eq²: nothing cancels.
	derivative := func(x, slope, s reg.Register, rest []reg.Register) {
		e := rest[0]
		c.VMOVAPS(x, e)
		c.withBits(1<<31, c.VORPS, c.VORPS_BCST, e, e)
		c.exp(e, low, nil, rest[1:])
		c.VADDPS(one, e, s)
		c.VDIVPS(s, one, s)
		c.VMULPS(s, e, e)
		c.VMULPS(s, e, slope)
		c.ifNegative(x, e, s)
	}
	gradient("sigmoidGradMul", "σ", func(dy, x reg.Register, rest []reg.Register) {
		slope := rest[0]
		derivative(x, slope, rest[1], rest[2:])
		c.VMULPS(slope, dy, dy)
	})
	value("silu", "x·σ(x)", func(y, x reg.Register, rest []reg.Register) {
		sigmoid(x, y, rest)
		c.VMULPS(y, x, y)
	})
	gradient("siluGradMul", "SiLU", func(dy, x reg.Register, rest []reg.Register) {
		slope, s := rest[0], rest[1]
		derivative(x, slope, s, rest[2:])
		c.VFMADD231PS(slope, x, s)
		c.VMULPS(s, dy, dy)
	})
	// tanh x = 2σ(2x) - 1. Near 0, where that cancels, it is x(1 - x²/3 + 2x⁴/15).
	value("tanh", "tanh(x)", func(y, x reg.Register, rest []reg.Register) {
		small, square := rest[0], rest[1]
		c.VADDPS(x, x, y)
		c.negate(y)
		c.sigmoid(y, one, low, high, rest)
		c.VADDPS(y, y, y)
		c.VSUBPS(one, y, y)
		c.VMULPS(x, x, square)
		c.set(-17.0/315, small)
		c.with(2.0/15, c.VFMADD213PS, c.VFMADD213PS_BCST, square, small)
		c.with(-1.0/3, c.VFMADD213PS, c.VFMADD213PS_BCST, square, small)
		c.VFMADD213PS(one, square, small)
		c.VMULPS(x, small, small)
		c.with(-0.04, c.VADDPS, c.VADDPS_BCST, square, square)
		c.ifNegative(square, small, y)
	})
	gradient("tanhGradMul", "tanh", func(dy, x reg.Register, rest []reg.Register) {
		slope := rest[0]
		c.VADDPS(x, x, x)
		derivative(x, slope, rest[1], rest[2:])
		c.with(4, c.VMULPS, c.VMULPS_BCST, slope, slope) // 1 - tanh² = 4σ'(2x)
		c.VMULPS(slope, dy, dy)
	})
	// log(1+e^x) = max(x, 0) + log(1+u), u = e^-|x|, and log(1+u) = 2 artanh(s), s = u/(2+u) ≤ 1/3: a polynomial of s².
	value("softplus", "log(1+e^x)", func(y, x reg.Register, rest []reg.Register) {
		u, s, f := rest[0], rest[1], rest[2]
		c.VMOVAPS(x, u)
		c.withBits(1<<31, c.VORPS, c.VORPS_BCST, u, u)
		c.exp(u, low, nil, rest[1:])
		c.with(2, c.VADDPS, c.VADDPS_BCST, u, s)
		c.VDIVPS(s, u, s)
		c.VMULPS(s, s, f)
		c.set(2.0/13, y)
		for _, k := range []float64{2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2} {
			c.with(k, c.VFMADD213PS, c.VFMADD213PS_BCST, f, y)
		}
		c.VMULPS(s, y, y)
		c.zero(f)
		c.VMAXPS(x, f, f) // with the operands in this order, a NaN stays
		c.VADDPS(f, y, y)
	})
	gradient("softplusGradMul", "softplus", func(dy, x reg.Register, rest []reg.Register) {
		s := rest[0]
		sigmoid(x, s, rest[1:])
		c.VMULPS(s, dy, dy)
	})
	decay := func(x, e reg.Register, rest []reg.Register) { // e^min(x, 0)
		c.zero(e)
		c.VMINPS(x, e, e) // with the operands in this order, a NaN stays
		c.exp(e, low, nil, rest)
	}
	value("elu1", "max(x, 0) + e^min(x, 0)", func(y, x reg.Register, rest []reg.Register) {
		decay(x, y, rest)
		positive := rest[0]
		c.zero(positive)
		c.VMAXPS(x, positive, positive)
		c.VADDPS(positive, y, y)
	})
	gradient("elu1GradMul", "elu", func(dy, x reg.Register, rest []reg.Register) {
		decay(x, rest[0], rest[1:])
		c.VMULPS(rest[0], dy, dy)
	})
	value("relu2", "max(x, 0)²", func(y, x reg.Register, _ []reg.Register) {
		c.zero(y)
		c.VMAXPS(x, y, y) // with the operands in this order, a NaN stays
		c.VMULPS(y, y, y)
	})
	gradient("relu2GradMul", "max(x, 0)²", func(dy, x reg.Register, rest []reg.Register) {
		slope := rest[0]
		c.zero(slope)
		c.VMAXPS(x, slope, slope)
		c.VADDPS(slope, slope, slope)
		c.VMULPS(slope, dy, dy)
	})
	value("sin", "sin(x)", func(y, x reg.Register, rest []reg.Register) { c.sin(x, y, rest) })
	gradient("sinGradMul", "sin", func(dy, x reg.Register, rest []reg.Register) {
		c.cos(x, rest[0], rest[1:])
		c.VMULPS(rest[0], dy, dy)
	})
}

// Abramowitz and Stegun, 7.1.26.
const erfP = 0.3275911 * 0.7071067811865476 // for |x| = √2·z

var erfA = [5]float64{0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429}

// ifNegative replaces the elements of y by the elements of a where x has its sign bit set.
func (c vector) ifNegative(x, a, y reg.Register) {
	if c.lanes == 16 {
		k := c.K()
		c.VPMOVD2M(x, k)
		c.VMOVAPS(a, k, y)
	} else {
		c.VBLENDVPS(x, a, y, y)
	}
}
