package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// powers generates the kernels of vandermonde.go, with modes as lanes. A row of n modes, a multiple of 16, is n real
// parts, then n imaginary parts.
func (c vector) powers() {
	c.powerRows()
	c.modeSums()
}

// cplx is a vector of complex numbers. Each part is a register or, if it is only read, memory.
type cplx struct{ re, im Op }

// times sets z to x·y in float64. z must be neither x nor y.
func (c vector) times(z, x, y cplx) {
	c.VMULPD(y.re, x.re, z.re)
	c.VMULPD(y.im, x.re, z.im)
	c.VFNMADD231PD(y.im, x.im, z.re)
	c.VFMADD231PD(y.re, x.im, z.im)
}

// timesSingle does the same as times in float32.
func (c vector) timesSingle(z, x, y cplx) {
	c.VMULPS(y.re, x.re, z.re)
	c.VMULPS(y.im, x.re, z.im)
	c.VFNMADD231PS(y.im, x.im, z.re)
	c.VFMADD231PS(y.re, x.im, z.im)
}

// leastPower is the size below which parts of powers are rounded to zero: products with them could be denormal.
const leastPower = 0x1p-100

// narrow rounds the float64 in lo and hi to the float32 in v. t is scratch.
func (c vector) narrow(lo, hi, v, t reg.Register) {
	if c.lanes == 16 {
		c.VCVTPD2PS(lo, c.part(v, 1))
		c.VCVTPD2PS(hi, c.part(t, 1))
		c.VINSERTF64X4(U8(1), c.part(t, 1), v, v)
		c.VANDPS_BCST(c.word(math.MaxInt32), v, t)
		k := c.K()
		c.VCMPPS_BCST(U8(0x15), c.word(math.Float32bits(leastPower)), t, k) // not less, so that a NaN stays
		c.only(k, v)
		return
	}
	c.VCVTPD2PSY(lo, c.part(v, 1))
	c.VCVTPD2PSY(hi, c.part(t, 1))
	c.VINSERTF128(U8(1), c.part(t, 1), v, v)
	c.VANDPS(c.word(math.MaxInt32), v, t)
	c.VCMPPS(U8(0x15), c.word(math.Float32bits(leastPower)), t, t)
	c.only(t, v)
}

func (c vector) powerRows() {
	c.function("powerRows", "func(n, rows int, out *float32, z, start, last *float64)",
		"sets row j of out to start·z^j for j < rows, a positive multiple of 4, and last, which may be z or start, to",
		"start·z^rows; a nil start is 1. Powers of z⁴ are computed in",
		fmt.Sprintf("float64 and rounded, what is below 2^%d to zero; the rows between are these times z, z² and z³.",
			int(math.Log2(leastPower))))
	n, out, z, start, last := c.arg("n"), c.arg("out"), c.arg("z"), c.arg("start"), c.arg("last")
	wide := 8 * c.lanes / 2 // bytes of a vector
	// Operands that only the loop reads: in registers if there are enough of them.
	first := 14
	hold := func(i int) Op { return c.vec(first + i) }
	if c.lanes == 8 {
		room := c.AllocLocal(10 * wide)
		hold = func(i int) Op { return room.Offset(i * wide) }
	}
	pair := func(i int) cplx { return cplx{c.vec(i), c.vec(i + 1)} }
	held := func(i int) cplx { return cplx{hold(i), hold(i + 1)} }
	lo, hi, t, u, s, o := pair(0), pair(2), pair(4), pair(6), pair(8), pair(10)
	scratch := c.vec(12)
	single := func(z cplx) {
		c.narrow(lo.re.(reg.Register), hi.re.(reg.Register), z.re.(reg.Register), scratch)
		c.narrow(lo.im.(reg.Register), hi.im.(reg.Register), z.im.(reg.Register), scratch)
	}
	move := func(to, from cplx) {
		c.VMOVUPD(from.re, to.re)
		c.VMOVUPD(from.im, to.im)
	}
	single64, row, row3, re, im, rows, left, base := c.GP64(), c.GP64(), c.GP64(), c.GP64(),
		c.GP64(), c.GP64(), c.GP64(), c.GP64()
	c.MOVQ(n, left)
	c.MOVQ(n, row)
	c.SHLQ(U8(3), row)
	c.MOVQ(row, single64) // n float64 are as long as a row of 2n float32
	c.LEAQ(Mem{Base: row, Index: row, Scale: 2}, row3)
	c.MOVQ(out, base)
	at := func(p reg.Register, half int) cplx {
		return cplx{Mem{Base: p, Disp: half * wide}, Mem{Base: p, Index: single64, Scale: 1, Disp: half * wide}}
	}
	c.Label("modes")
	move(lo, at(z, 0))
	move(hi, at(z, 1))
	for b := range 3 {
		single(s)
		move(held(4+2*b), s)
		c.times(t, lo, at(z, 0))
		c.times(u, hi, at(z, 1))
		move(lo, t)
		move(hi, u)
	}
	move(held(0), lo)
	move(held(2), hi)
	c.ifZero(start, "one")
	move(lo, at(start, 0))
	move(hi, at(start, 1))
	c.ADDQ(U32(8*c.lanes), start)
	c.JMP(LabelRef("begin"))
	c.Label("one")
	for _, p := range []cplx{lo, hi} {
		c.VBROADCASTSD(c.double(1), p.re)
		c.zero(p.im.(reg.Register))
	}
	c.Label("begin")
	c.MOVQ(base, re)
	c.LEAQ(Mem{Base: re, Index: n, Scale: 4}, im)
	c.Load(c.Param("rows"), rows)
	c.Label("powers")
	single(s)
	c.times(t, lo, held(0))
	c.times(u, hi, held(2))
	move(lo, t)
	move(hi, u)
	for b := range 4 {
		x := s
		if b > 0 {
			x = o
			c.timesSingle(o, s, held(2+2*b))
		}
		c.VMOVUPS(x.re, stride(re, row, row3, b))
		c.VMOVUPS(x.im, stride(im, row, row3, b))
	}
	c.LEAQ(Mem{Base: re, Index: row, Scale: 4}, re)
	c.LEAQ(Mem{Base: im, Index: row, Scale: 4}, im)
	c.subtract(rows, U8(4), c.JNZ, "powers")
	move(at(last, 0), lo)
	move(at(last, 1), hi)
	c.ADDQ(U8(4*c.lanes), base)
	for _, p := range []reg.Register{z, last} {
		c.ADDQ(U32(8*c.lanes), p)
	}
	c.subtract(left, U8(c.lanes), c.JNZ, "modes")
	c.end()
}

func (c vector) modeSums() {
	c.function("modeSums", "func(n, rows int, s, u, w *float32)",
		"sets s to Σ_i u[i]·w[i], i < rows, rows ≥ 1, and the row after to Σ_i i·u[i]·w[i-1]; u[i] and w[i] are rows.")
	n, s, u, w := c.arg("n"), c.arg("s"), c.arg("u"), c.arg("w")
	i, rows, from, with := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	// The products with the real and the imaginary part of each factor have separate sums, which do not wait for one
	// another.
	plain, weighted := [4]reg.Register{}, [4]reg.Register{}
	for v := range 4 {
		plain[v], weighted[v] = c.vec(v), c.vec(4+v)
	}
	x, y, last := cplx{c.vec(8), c.vec(9)}, cplx{c.vec(10), c.vec(11)}, cplx{c.vec(12), c.vec(13)}
	count, one := c.vec(14), c.vec(15)
	load := func(z cplx, p reg.Register) {
		c.VMOVUPS(Mem{Base: p}, z.re)
		c.VMOVUPS(Mem{Base: p, Index: n, Scale: 4}, z.im)
	}
	add := func(sums [4]reg.Register, x, y cplx) {
		c.VFMADD231PS(x.re, y.re, sums[0])
		c.VFMADD231PS(x.im, y.im, sums[1])
		c.VFMADD231PS(x.re, y.im, sums[2])
		c.VFMADD231PS(x.im, y.re, sums[3])
	}
	c.set(1, one)
	c.XORQ(i, i)
	c.Label("modes")
	for v := range 8 {
		c.zero(c.vec(v))
	}
	c.zero(count)
	for _, v := range []Op{last.re, last.im} {
		c.zero(v.(reg.Register))
	}
	c.LEAQ(float(u, i), from)
	c.LEAQ(float(w, i), with)
	c.Load(c.Param("rows"), rows)
	c.Label("rows")
	load(x, from)
	load(y, with)
	add(plain, x, y)
	c.VMULPS(count, x.re, x.re)
	c.VMULPS(count, x.im, x.im)
	c.VADDPS(one, count, count)
	add(weighted, x, last)
	c.VMOVAPS(y.re, last.re)
	c.VMOVAPS(y.im, last.im)
	c.LEAQ(Mem{Base: from, Index: n, Scale: 8}, from)
	c.LEAQ(Mem{Base: with, Index: n, Scale: 8}, with)
	c.countDown(rows, "rows")
	c.LEAQ(float(s, i), from)
	for _, sums := range [][4]reg.Register{plain, weighted} {
		c.VSUBPS(sums[1], sums[0], sums[0])
		c.VADDPS(sums[3], sums[2], sums[2])
		c.VMOVUPS(sums[0], Mem{Base: from})
		c.VMOVUPS(sums[2], Mem{Base: from, Index: n, Scale: 4})
		c.LEAQ(Mem{Base: from, Index: n, Scale: 8}, from)
	}
	c.countUp(i, U8(c.lanes), n, "modes")
	c.end()
}
