package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// powers generates what the products of package kernel with Vandermonde matrices need: their elements, and polynomials.
func powers(ctx *build.Context) {
	c := asm{ctx, avx2} // with AVX-512 it takes the same time
	c.powers()
	c.polynomials()
	c.StaticGlobal("bits")
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, x := range []uint32{math.MaxInt32, 0x00800000} { // all but the sign; the least normal number
		for v := range 4 {
			c.AddDatum(16*i+4*v, U32(x))
		}
	}
}

// cplx is a vector of complex numbers in float64.
type cplx struct{ re, im reg.Register }

// times sets z to x·y. z may be neither.
func (c asm) times(z, x, y cplx) {
	c.VMULPD(x.re, y.re, z.re)
	c.VMULPD(x.re, y.im, z.im)
	c.VFNMADD231PD(x.im, y.im, z.re)
	c.VFMADD231PD(x.im, y.re, z.im)
}

// powers fills two vectors with c·z^j for their lanes j, and goes on by multiplying them.
func (c asm) powers() {
	c.Function("powersAVX2")
	c.Attributes(nosplit)
	c.SignatureExpr("func(re, im *float32, n int, cr, ci, zr, zi float64)")
	c.Pragma("noescape")
	c.Doc(
		"powersAVX2 sets re[j] + i·im[j] = c·z^j for j < n, a positive multiple of 8, computed in float64 and rounded. What",
		"would be denormal is zero.",
	)
	vec := func(i int) cplx { return cplx{c.vec(2 * i), c.vec(2*i + 1)} }
	z, a, b, t := vec(0), vec(1), vec(2), vec(3)
	for _, l := range []struct {
		arg string
		v   reg.Register
	}{{"zr", z.re}, {"zi", z.im}, {"cr", a.re}, {"ci", a.im}} {
		c.VBROADCASTSD(c.param(l.arg), l.v)
	}
	const lanes = 4
	for bit := 1; bit < lanes; bit *= 2 { // a by z^bit in the lanes that have this bit; then z^(2·bit)
		mask := 0
		for j := range lanes {
			if j&bit != 0 {
				mask |= 1 << j
			}
		}
		c.times(b, a, z)
		for _, v := range [][2]reg.Register{{a.re, b.re}, {a.im, b.im}} {
			c.VBLENDPD(U8(mask), v[1], v[0], v[0])
		}
		c.times(t, z, z)
		z, t = t, z
	}
	c.times(b, a, z)
	c.times(t, z, z)
	z, t = t, z

	abs, least, x, keep := reg.X8, reg.X9, reg.X10, reg.X11
	c.VMOVUPS(NewDataAddr(NewStaticSymbol("bits"), 0), abs)
	c.VMOVUPS(NewDataAddr(NewStaticSymbol("bits"), 16), least)
	re, im, n := c.GP64(), c.GP64(), c.GP64()
	c.Load(c.Param("re"), re)
	c.Load(c.Param("im"), im)
	c.Load(c.Param("n"), n)
	c.Label("loop")
	for i, v := range []cplx{a, b} {
		for _, part := range []struct {
			v  reg.Register
			at reg.Register
		}{{v.re, re}, {v.im, im}} {
			c.VCVTPD2PSY(part.v, x)
			c.VANDPS(abs, x, keep)
			c.VCMPPS(U8(0x15), least, keep, keep) // not less, so that a NaN stays
			c.VANDPS(keep, x, x)
			c.VMOVUPS(x, Mem{Base: part.at, Disp: 4 * lanes * i})
		}
	}
	for _, v := range []cplx{a, b} {
		c.times(t, v, z)
		c.VMOVAPD(t.re, v.re)
		c.VMOVAPD(t.im, v.im)
	}
	c.ADDQ(U8(8*lanes), re)
	c.ADDQ(U8(8*lanes), im)
	c.SUBQ(U8(2*lanes), n)
	c.JNZ(LabelRef("loop"))
	c.VZEROUPPER()
	c.RET()
}

// polynomials evaluates by Horner's rule, eight polynomials at a time.
func (c asm) polynomials() {
	c.Function("polynomialsAVX2")
	c.Attributes(nosplit)
	c.SignatureExpr("func(s *float64, u, v *float32, ld, im, n int, y *float64)")
	c.Pragma("noescape")
	c.Doc(
		"polynomialsAVX2 computes s = Σ_i (u[i·ld] + i·u[i·ld+im])·y^i, i < n, n ≥ 1, and the same with v, for 8 numbers side by",
		"side. y and s hold 8 real parts, 8 imaginary parts; then in s come those for v.",
	)
	const lanes = 4
	vec := func(i int) cplx { return cplx{c.vec(2 * i), c.vec(2*i + 1)} }
	y, p, q, t := vec(0), vec(1), vec(2), vec(3)
	ld, im := c.bytes("ld"), c.bytes("im")
	s, yy, u, v, n := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.Load(c.Param("s"), s)
	c.Load(c.Param("y"), yy)
	for at := 0; at < 8; at += lanes {
		label := "loop0"
		if at > 0 {
			label = "loop1"
		}
		c.Load(c.Param("n"), n)
		for arg, r := range []reg.GPVirtual{u, v} {
			c.Load(c.Param([]string{"u", "v"}[arg]), r)
			last := c.GP64() // the last coefficients come first
			c.LEAQ(Mem{Base: n, Disp: -1}, last)
			c.IMULQ(ld, last)
			c.ADDQ(last, r)
		}
		c.VMOVUPD(Mem{Base: yy, Disp: 8 * at}, y.re)
		c.VMOVUPD(Mem{Base: yy, Disp: 64 + 8*at}, y.im)
		for _, r := range []reg.Register{p.re, p.im, q.re, q.im} {
			c.zero(r)
		}
		c.Label(label)
		for _, poly := range []struct {
			at reg.Register
			p  cplx
		}{{u, p}, {v, q}} {
			c.VCVTPS2PD(Mem{Base: poly.at, Disp: 4 * at}, t.re)
			c.VCVTPS2PD(Mem{Base: poly.at, Index: im, Scale: 1, Disp: 4 * at}, t.im)
			c.VFMADD231PD(poly.p.re, y.re, t.re)
			c.VFMADD231PD(poly.p.re, y.im, t.im)
			c.VFNMADD231PD(poly.p.im, y.im, t.re)
			c.VFMADD231PD(poly.p.im, y.re, t.im)
			c.VMOVAPD(t.re, poly.p.re)
			c.VMOVAPD(t.im, poly.p.im)
			c.SUBQ(ld, poly.at)
		}
		c.DECQ(n)
		c.JNZ(LabelRef(label))
		for i, r := range []reg.Register{p.re, p.im, q.re, q.im} {
			c.VMOVUPD(r, Mem{Base: s, Disp: 64*i + 8*at})
		}
	}
	c.VZEROUPPER()
	c.RET()
}
