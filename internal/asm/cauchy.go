package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// cauchy generates the sums with Cauchy matrices of package kernel and their gradients, in float64 with points as
// lanes.
func cauchy(ctx *build.Context, s isa) {
	c := vector{asm{ctx, s}, nil, nil}
	groups := []int{2} // rows of sums at a time, two accumulators each
	if c.lanes == 16 {
		groups = []int{8, 2}
	}
	for _, m := range groups {
		c.cauchySums(m)
		c.cauchyGrad(m)
	}
	c.data("one")
	c.AddDatum(0, U64(0x3ff0000000000000))
}

// cauchyTerm sets u = 1/((norm - t)² + damp·t).
func (c vector) cauchyTerm(t, u, one, tmp reg.Register, norm, damp Mem) {
	c.VBROADCASTSD(norm, tmp)
	c.VSUBPD(t, tmp, tmp)
	c.VBROADCASTSD(damp, u)
	c.VMULPD(t, u, u)
	c.VFMADD231PD(tmp, tmp, u)
	c.VDIVPD(u, one, u)
}

// addBroadcast adds x times the number at m to sum. tmp is scratch.
func (c vector) addBroadcast(m Mem, x, sum, tmp reg.Register) {
	if c.lanes == 16 {
		c.VFMADD231PD_BCST(m, x, sum)
		return
	}
	c.VBROADCASTSD(m, tmp)
	c.VFMADD231PD(tmp, x, sum)
}

// couples returns n pairs of vectors from number first on: for each row the coefficients of 1 and of T.
func (c vector) couples(first, n int) (v [][2]reg.Register) {
	for j := range n {
		v = append(v, [2]reg.Register{c.vec(first + 2*j), c.vec(first + 2*j + 1)})
	}
	return v
}

// cauchySums computes m rows side by side.
func (c vector) cauchySums(m int) {
	name := fmt.Sprintf("cauchySums%d", m)
	c.function(name, "func(s, t *float64, n, ld int, norm, damp, coef *float64, modes, stride int)",
		fmt.Sprintf("computes %d rows of CauchySums at n points, a multiple of the lanes of cauchyShape: rows in s that "+
			"lie ld numbers apart. The coefficients of a mode lie stride numbers after those of the one before.", m))
	acc := c.couples(0, m)
	T, u, one, tmp := c.vec(2*m), c.vec(2*m+1), c.vec(2*m+2), c.vec(2*m+3)
	s, t, n := c.arg("s"), c.arg("t"), c.arg("n")
	ld, stride := c.arg("ld"), c.arg("stride")
	c.SHLQ(U8(3), ld)
	c.SHLQ(U8(3), stride)
	norm, damp, coef, modes := c.arg("norm"), c.arg("damp"), c.arg("coef"), c.arg("modes")
	c.VBROADCASTSD(NewDataAddr(NewStaticSymbol("one"), 0), one)
	c.Label(name + "_points")
	c.VMOVUPD(Mem{Base: t}, T)
	for _, a := range acc {
		c.zero(a[0])
		c.zero(a[1])
	}
	i, at := c.GP64(), c.GP64()
	c.XORQ(i, i)
	c.MOVQ(coef, at)
	c.Label(name + "_modes")
	c.cauchyTerm(T, u, one, tmp, Mem{Base: norm, Index: i, Scale: 8}, Mem{Base: damp, Index: i, Scale: 8})
	for j, sum := range acc {
		c.addBroadcast(Mem{Base: at, Disp: 16 * j}, u, sum[0], tmp)
		c.addBroadcast(Mem{Base: at, Disp: 16*j + 8}, u, sum[1], tmp)
	}
	c.ADDQ(stride, at)
	c.INCQ(i)
	c.branch(i, c.JLT, modes, name+"_modes")
	row := c.GP64()
	c.MOVQ(s, row)
	for _, sum := range acc {
		c.VFMADD231PD(T, sum[1], sum[0])
		c.VMOVUPD(sum[0], Mem{Base: row})
		c.ADDQ(ld, row)
	}
	c.ADDQ(U8(4*c.lanes), s)
	c.ADDQ(U8(4*c.lanes), t)
	c.subtract(n, U8(c.lanes/2), c.JNZ, name+"_points")
	c.end()
}

// cauchyGrad computes m rows side by side.
func (c vector) cauchyGrad(m int) {
	name := fmt.Sprintf("cauchyGrad%d", m)
	c.function(name, "func(grad, t *float64, n, ld int, norm, damp, coef, dNorm, dDamp, dCoef *float64)",
		fmt.Sprintf("adds what %d rows of CauchySumsGrad give for one mode over n points, a multiple of the lanes of "+
			"cauchyShape. Rows of grad lie ld numbers apart.", m))
	tmp, u := c.vec(0), c.vec(1) // registers that every instruction can use, for addFolded
	all := c.couples(2, m+1)
	acc, dn, dd := all[:m], all[m][0], all[m][1]
	at := 2*m + 4
	next := func() reg.Register { at++; return c.vec(at - 1) }
	T, v, p, q, row := next(), next(), next(), next(), next()
	g, t, n := c.arg("grad"), c.arg("t"), c.arg("n") // g is a register to the assembler
	ld := c.arg("ld")
	c.SHLQ(U8(3), ld)
	norm, damp, coef := c.arg("norm"), c.arg("damp"), c.arg("coef")
	for _, a := range all {
		c.zero(a[0])
		c.zero(a[1])
	}
	from := c.GP64()
	c.Label(name + "_points")
	c.VMOVUPD(Mem{Base: t}, T)
	c.VBROADCASTSD(NewDataAddr(NewStaticSymbol("one"), 0), v)
	c.cauchyTerm(T, u, v, tmp, Mem{Base: norm}, Mem{Base: damp})
	c.VMULPD(T, u, v)
	c.zero(p) // the derivative by u is p + T·q
	c.zero(q)
	c.MOVQ(g, from)
	for j, a := range acc {
		c.VMOVUPD(Mem{Base: from}, row)
		if j < m-1 {
			c.ADDQ(ld, from)
		}
		c.VFMADD231PD(row, u, a[0])
		c.VFMADD231PD(row, v, a[1])
		c.addBroadcast(Mem{Base: coef, Disp: 16 * j}, row, p, tmp)
		c.addBroadcast(Mem{Base: coef, Disp: 16*j + 8}, row, q, tmp)
	}
	c.VFMADD231PD(T, q, p)
	c.VMULPD(u, u, u)
	c.VMULPD(u, p, p)
	c.VBROADCASTSD(Mem{Base: norm}, tmp)
	c.VSUBPD(T, tmp, tmp)
	c.VADDPD(tmp, tmp, tmp)
	c.VFNMADD231PD(tmp, p, dn)
	c.VFNMADD231PD(T, p, dd)
	c.ADDQ(U8(4*c.lanes), g)
	c.ADDQ(U8(4*c.lanes), t)
	c.subtract(n, U8(c.lanes/2), c.JNZ, name+"_points")
	to := c.arg("dCoef")
	for j, a := range acc {
		c.addFolded(a[0], u, tmp, Mem{Base: to, Disp: 16 * j})
		c.addFolded(a[1], u, tmp, Mem{Base: to, Disp: 16*j + 8})
	}
	c.addFolded(dn, u, tmp, Mem{Base: c.arg("dNorm")})
	c.addFolded(dd, u, tmp, Mem{Base: c.arg("dDamp")})
	c.end()
}

// addFolded adds the sum of the lanes of v to the number at m. low and tmp are scratch and must be among the first 16
// registers.
func (c vector) addFolded(v, low, tmp reg.Register, m Mem) {
	c.VMOVUPD(v, low)
	c.zero(tmp)
	c.fold64(low, tmp)
	c.VADDSD(m, c.xmm(low), c.xmm(low))
	c.VMOVSD(c.xmm(low), m)
}
