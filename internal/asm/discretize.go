package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// discretize generates the kernels of discretize.go: complex arithmetic in float64 with modes as lanes.
func (c vector) discretize() {
	c.negExp()
	c.bilinear()
	c.zoh()
	c.bilinearGrad()
	c.zohGrad()
}

// new returns a new register. The functions below compute in float64 and return their results in new registers.
func (c vector) new() reg.Register {
	if c.lanes == 16 {
		return c.ZMM()
	}
	return c.YMM()
}

// withDouble writes an instruction whose first operand is the constant k.
func (c vector) withDouble(k float64, plain, broadcast instruction, ops ...Op) {
	f := plain
	if c.lanes == 16 {
		f = broadcast
	}
	f(append([]Op{c.double(k)}, ops...)...)
}

// constant returns a vector of k.
func (c vector) constant(k float64) reg.Register {
	v := c.new()
	c.VBROADCASTSD(c.double(k), v)
	return v
}

// mul returns x·y; y may be in memory.
func (c vector) mul(x, y Op) reg.Register {
	v := c.new()
	c.VMULPD(y, x, v)
	return v
}

// cmul returns x·y.
func (c vector) cmul(x, y cplx) cplx {
	re, im := c.mul(x.re, y.re), c.mul(x.re, y.im)
	c.VFNMADD231PD(y.im, x.im, re)
	c.VFMADD231PD(y.re, x.im, im)
	return cplx{re, im}
}

// cmulConj returns x·conj(y).
func (c vector) cmulConj(x, y cplx) cplx {
	re, im := c.mul(x.re, y.re), c.mul(x.im, y.re)
	c.VFMADD231PD(y.im, x.im, re)
	c.VFNMADD231PD(y.im, x.re, im)
	return cplx{re, im}
}

// scaled returns x·k for real k.
func (c vector) scaled(x cplx, k Op) cplx { return cplx{c.mul(x.re, k), c.mul(x.im, k)} }

// inverse returns 1/x.
func (c vector) inverse(x cplx) cplx {
	size, minus, one := c.mul(x.re, x.re), c.constant(0), c.constant(1)
	c.VFMADD231PD(x.im, x.im, size)
	c.VDIVPD(size, one, size)
	c.VSUBPD(x.im, minus, minus)
	return c.scaled(cplx{x.re, minus}, size)
}

// minusOne returns x - 1.
func (c vector) minusOne(x cplx) cplx {
	re := c.constant(-1)
	c.VADDPD(x.re, re, re)
	return cplx{re, x.im}
}

// polynomial returns Σ_i k[i]·x^i by Horner's rule.
func (c vector) polynomial(x reg.Register, k ...float64) reg.Register {
	p := c.constant(k[len(k)-1])
	for i := len(k) - 2; i >= 0; i-- {
		c.withDouble(k[i], c.VFMADD213PD, c.VFMADD213PD_BCST, x, p)
	}
	return p
}

// taylor returns 1/i! for i = from, from+step, ..., with alternating signs if step is 2.
func taylor(from, step, terms int) (k []float64) {
	for i := range terms {
		n := from + i*step
		x := 1 / math.Gamma(float64(n+1))
		if step == 2 && i%2 == 1 {
			x = -x
		}
		k = append(k, x)
	}
	return k
}

// magicDouble rounds a float64 to an integer when it is added to it. The integer is then in the low bits.
const magicDouble = 1.5 * (1 << 52)

// exp64 returns e^x, with x first limited to the logarithms of the smallest and the largest normal number; NaN stays
// NaN. With k = round(x·log2 e) it is 2^k times the series for r = x - k·ln 2, |r| ≤ ½ ln 2 (relative error 4e-18 plus
// rounding).
func (c vector) exp64(x Op) reg.Register {
	r, k, f := c.new(), c.constant(magicDouble), c.new()
	low, high := c.constant(-708), c.constant(709)
	c.VMOVUPD(x, r)
	c.VMAXPD(r, low, r) // with the operands in this order, a NaN stays
	c.VMINPD(r, high, r)
	c.withDouble(math.Log2E, c.VFMADD231PD, c.VFMADD231PD_BCST, r, k)
	c.withDouble(magicDouble, c.VSUBPD, c.VSUBPD_BCST, k, f)
	const ln2Low = 2.3190468138462996e-17 // ln 2 minus its float64
	c.withDouble(math.Ln2, c.VFNMADD231PD, c.VFNMADD231PD_BCST, f, r)
	c.withDouble(ln2Low, c.VFNMADD231PD, c.VFNMADD231PD_BCST, f, r)
	p := c.polynomial(r, taylor(0, 1, 14)...)
	c.VPSLLQ(U8(52), k, k)
	c.VPADDQ(k, p, p)
	c.withDouble(0, c.VFMADD231PD, c.VFMADD231PD_BCST, f, p) // restores a NaN that the exponent was added to
	return p
}

// cis returns e^{ix} for |x| < 2^50. With k = round(x·2/π), the series for r = x - k·π/2, |r| ≤ π/4, give sine and
// cosine (error 5e-17 plus rounding), which are exchanged and negated according to the low bits of k.
func (c vector) cis(x reg.Register) cplx {
	k, f, r := c.constant(magicDouble), c.new(), c.new()
	c.withDouble(2/math.Pi, c.VFMADD231PD, c.VFMADD231PD_BCST, x, k)
	c.withDouble(magicDouble, c.VSUBPD, c.VSUBPD_BCST, k, f)
	const piHalfLow = 6.123233995736766e-17 // π/2 minus its float64
	c.VMOVAPD(x, r)
	c.withDouble(math.Pi/2, c.VFNMADD231PD, c.VFNMADD231PD_BCST, f, r)
	c.withDouble(piHalfLow, c.VFNMADD231PD, c.VFNMADD231PD_BCST, f, r)
	square := c.mul(r, r)
	cos := c.polynomial(square, taylor(0, 2, 9)...)
	sin := c.polynomial(square, taylor(1, 2, 8)...)
	c.VMULPD(r, sin, sin)
	// If k is odd, the cosine is ∓ the sine of r and the sine is ± its cosine. Bit 1 of k flips the sign of the sine,
	// bit 1 of k+1 that of the cosine.
	odd, next, re, im := c.new(), c.new(), c.new(), c.new()
	c.VPSLLQ(U8(63), k, odd)
	c.VPSLLQ(U8(62), k, next)
	if c.lanes == 16 {
		mask := c.K()
		c.VPMOVQ2M(odd, mask)
		c.VBLENDMPD(sin, cos, mask, re)
		c.VBLENDMPD(cos, sin, mask, im)
	} else {
		c.VBLENDVPD(odd, sin, cos, re)
		c.VBLENDVPD(odd, cos, sin, im)
	}
	sign := c.constant(math.Copysign(0, -1))
	c.VANDPD(sign, next, next)
	c.VXORPD(next, im, im)
	c.VXORPD(odd, next, next)
	c.VXORPD(next, re, re)
	return cplx{re, im}
}

// modes runs body for the vectors of n modes; at returns the current vector of the array with that name.
func (c vector) modes(body func(at func(name string) cplx), names ...string) {
	n, re, im := c.arg("n"), c.GP64(), c.GP64()
	args := map[string]reg.Register{}
	for _, name := range names {
		args[name] = c.arg(name)
	}
	c.XORQ(re, re)
	c.MOVQ(n, im)
	c.Label("modes")
	body(func(name string) cplx {
		return cplx{Mem{Base: args[name], Index: re, Scale: 8}, Mem{Base: args[name], Index: im, Scale: 8}}
	})
	c.ADDQ(U8(c.lanes/2), im)
	c.countUp(re, U8(c.lanes/2), n, "modes")
	c.end()
}

func (c vector) load64(m cplx) cplx {
	v := cplx{c.new(), c.new()}
	c.VMOVUPD(m.re, v.re)
	c.VMOVUPD(m.im, v.im)
	return v
}

func (c vector) store64(x, m cplx) {
	c.VMOVUPD(x.re, m.re)
	c.VMOVUPD(x.im, m.im)
}

// step returns dt in all lanes.
func (c vector) step() reg.Register { return c.real("dt") }

// real returns an argument in all lanes.
func (c vector) real(name string) reg.Register {
	x := c.new()
	c.VBROADCASTSD(c.param(name), x)
	return x
}

// add returns x + y.
func (c vector) add(x, y cplx) cplx {
	z := cplx{c.new(), c.new()}
	c.VADDPD(y.re, x.re, z.re)
	c.VADDPD(y.im, x.im, z.im)
	return z
}

// realConj returns Re(x·conj(y)) + s, or without s if that is nil.
func (c vector) realConj(x, y cplx, s reg.Register) reg.Register {
	if s == nil {
		s = c.mul(x.re, y.re)
	} else {
		c.VFMADD231PD(y.re, x.re, s)
	}
	c.VFMADD231PD(y.im, x.im, s)
	return s
}

func (c vector) negExp() {
	c.function("negExp", "func(n int, x *float64)", "replaces n floats by -e^x, n a multiple of 16.")
	x, n, i := c.arg("x"), c.arg("n"), c.GP64()
	c.XORQ(i, i)
	c.Label("modes")
	m := Mem{Base: x, Index: i, Scale: 8}
	y := c.exp64(m)
	c.VXORPD(c.constant(math.Copysign(0, -1)), y, y)
	c.VMOVUPD(y, m)
	c.countUp(i, U8(c.lanes/2), n, "modes")
	c.end()
}

func (c vector) bilinear() {
	c.function("bilinear", "func(n int, abar, bbar, a, b *float64, dt float64)", "is Discretization.Bilinear.")
	dt := c.step()
	half := c.mul(c.constant(0.5), dt)
	c.modes(func(at func(string) cplx) {
		z := c.scaled(c.load64(at("a")), half)
		one, zero := c.constant(1), c.constant(0)
		above := cplx{c.new(), z.im}
		c.VADDPD(z.re, one, above.re)
		c.VSUBPD(z.re, one, one)
		c.VSUBPD(z.im, zero, zero)
		inv := c.inverse(cplx{one, zero})
		c.store64(c.cmul(above, inv), at("abar"))
		c.store64(c.scaled(c.cmul(inv, at("b")), dt), at("bbar"))
	}, "abar", "bbar", "a", "b")
}

func (c vector) zoh() {
	c.function("zoh", "func(n int, abar, bbar, a, b *float64, dt float64)", "is Discretization.ZOH.")
	dt := c.step()
	c.modes(func(at func(string) cplx) {
		size := c.exp64(c.mul(dt, at("a").re))
		e := c.scaled(c.cis(c.mul(dt, at("a").im)), size)
		c.store64(e, at("abar"))
		c.store64(c.cmul(c.cmul(c.minusOne(e), c.inverse(c.load64(at("a")))), at("b")), at("bbar"))
	}, "abar", "bbar", "a", "b")
}

func (c vector) bilinearGrad() {
	c.function("bilinearGrad", "func(n int, da, db, ddt, dabar, dbbar, a, b *float64, dt float64)", "is Discretization.BilinearGrad.")
	dt := c.step()
	half := c.mul(c.constant(0.5), dt)
	c.modes(func(at func(string) cplx) {
		z := c.scaled(c.load64(at("a")), half)
		one, zero := c.constant(1), c.constant(0)
		c.VSUBPD(z.re, one, one)
		c.VSUBPD(z.im, zero, zero)
		inv := c.inverse(cplx{one, zero})
		d := c.load64(at("dbbar"))
		ddt := c.realConj(d, c.cmul(inv, at("b")), nil)
		dz := c.add(c.scaled(c.cmulConj(d, at("b")), half), at("dabar"))
		c.store64(c.scaled(c.cmulConj(d, inv), dt), at("db"))
		dz = c.cmulConj(dz, c.cmul(inv, inv))
		c.VMOVUPD(c.realConj(dz, at("a"), ddt), at("ddt").re)
		c.store64(c.scaled(dz, dt), at("da"))
	}, "da", "db", "ddt", "dabar", "dbbar", "a", "b")
}

func (c vector) zohGrad() {
	c.function("zohGrad", "func(n int, da, db, ddt, dabar, dbbar, a, b, abar, bbar *float64, dt float64)",
		"is Discretization.ZOHGrad.")
	dt := c.step()
	c.modes(func(at func(string) cplx) {
		inv := c.inverse(c.load64(at("a")))
		d := c.load64(at("dbbar"))
		dz := c.cmulConj(c.add(c.cmulConj(d, c.cmul(inv, at("b"))), at("dabar")), at("abar"))
		c.VMOVUPD(c.realConj(dz, at("a"), nil), at("ddt").re)
		da, less := c.scaled(dz, dt), c.cmulConj(d, c.cmul(inv, at("bbar")))
		c.VSUBPD(less.re, da.re, da.re)
		c.VSUBPD(less.im, da.im, da.im)
		c.store64(c.cmulConj(d, c.cmul(c.minusOne(c.load64(at("abar"))), inv)), at("db"))
		c.store64(da, at("da"))
	}, "da", "db", "ddt", "dabar", "dbbar", "a", "b", "abar", "bbar")
}
