package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// norm generates LayerNorm and its gradients.
func (c vector) norm() {
	c.layerNorm()
	c.layerNormGrad()
	c.layerNormParamGrad()
}

// convert converts the integer n to a float64 in lane 0 of v.
func (c vector) convert(n, v reg.Register) {
	c.VXORPS(c.xmm(v), c.xmm(v), c.xmm(v))
	c.VCVTSI2SDQ(n, c.xmm(v), c.xmm(v))
}

// single rounds lane 0 of v, a float64, to a float32 in every lane of to.
func (c vector) single(v, to reg.Register) {
	c.VCVTSD2SS(c.xmm(v), c.xmm(v), c.xmm(to))
	c.VBROADCASTSS(c.xmm(to), to)
}

func (c vector) layerNorm() {
	c.function("layerNorm", "func(rows, d int, y, mean, rstd, x, w, b *float32, eps float64)",
		"computes LayerNorm for rows ≥ 1 rows of d ≥ 1. Sums are in float64, one for each lane, then halves",
		"onto one another. The variance is that of x less the mean as a float32, put right by what rounding the mean "+
			"changed.")
	rows, d := c.arg("rows"), c.arg("d")
	x, y, mean, rstd, w, b := c.arg("x"), c.arg("y"), c.arg("mean"), c.arg("rstd"), c.arg("w"), c.arg("b")
	s := c.span(d)
	sum := [2]reg.Register{c.vec(0), c.vec(1)}
	v, lo, hi, m, n, mu, scale := c.vec(2), c.vec(3), c.vec(4), c.vec(5), c.vec(6), c.vec(7), c.vec(8)
	c.convert(d, n)

	c.Label("row")
	c.zero(sum[0])
	c.zero(sum[1])
	c.each("mean", s, func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(x, i), v, mask)
		c.addWide(sum, v, lo, hi)
	})
	c.fold64(sum[0], sum[1])
	c.VDIVSD(c.xmm(n), c.xmm(sum[0]), c.xmm(mu))
	c.single(mu, m)
	c.VMOVSS(c.xmm(m), Mem{Base: mean})

	c.zero(sum[0])
	c.zero(sum[1])
	c.each("variance", s, func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(x, i), v, mask)
		c.VSUBPS(m, v, v)
		c.only(mask, v)
		c.addSquares(sum, v, lo, hi)
	})
	c.fold64(sum[0], sum[1])
	variance, t := c.xmm(sum[0]), c.xmm(lo)
	c.VDIVSD(c.xmm(n), variance, variance)
	c.VCVTSS2SD(c.xmm(m), c.xmm(m), t)
	c.VSUBSD(t, c.xmm(mu), t)
	c.VFNMADD231SD(t, t, variance)
	c.VADDSD(c.param("eps"), variance, variance)
	c.VSQRTSD(variance, variance, variance)
	one := c.GP64()
	c.MOVQ(U64(0x3ff0000000000000), one)
	c.VMOVQ(one, t)
	c.VDIVSD(variance, t, variance)
	c.single(sum[0], scale)
	c.VMOVSS(c.xmm(scale), Mem{Base: rstd})

	c.each("out", s, func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(x, i), v, mask)
		c.load(float(w, i), lo, mask)
		c.load(float(b, i), hi, mask)
		c.VSUBPS(m, v, v)
		c.VMULPS(scale, v, v)
		c.VFMADD213PS(hi, lo, v)
		c.store(v, mask, float(y, i))
	})
	c.LEAQ(float(x, d), x)
	c.LEAQ(float(y, d), y)
	c.ADDQ(U8(4), mean)
	c.ADDQ(U8(4), rstd)
	c.countDown(rows, "row")
	c.end()
}

func (c vector) layerNormGrad() {
	c.function("layerNormGrad", "func(rows, d int, dx, dy, x, w, mean, rstd *float32)",
		"computes LayerNormGrad for rows ≥ 1 rows of d ≥ 1. Sums are in float64, one for each lane, then",
		"halves onto one another.")
	rows, d := c.arg("rows"), c.arg("d")
	dx, dy, x, w, mean, rstd := c.arg("dx"), c.arg("dy"), c.arg("x"), c.arg("w"), c.arg("mean"), c.arg("rstd")
	s := c.span(d)
	sumG, sumGX := [2]reg.Register{c.vec(0), c.vec(1)}, [2]reg.Register{c.vec(2), c.vec(3)}
	g, hat, lo, hi, m, scale, n := c.vec(4), c.vec(5), c.vec(6), c.vec(7), c.vec(8), c.vec(9), c.vec(10)
	c.convert(d, n)
	// element sets g to dy·w and hat to x̂.
	element := func(i reg.GPVirtual, mask reg.Register) {
		c.load(float(dy, i), g, mask)
		c.load(float(w, i), lo, mask)
		c.load(float(x, i), hat, mask)
		c.VMULPS(lo, g, g)
		c.VSUBPS(m, hat, hat)
		c.VMULPS(scale, hat, hat)
	}

	c.Label("row")
	c.VBROADCASTSS(Mem{Base: mean}, m)
	c.VBROADCASTSS(Mem{Base: rstd}, scale)
	for i := range 4 {
		c.zero(c.vec(i))
	}
	c.each("sums", s, func(i reg.GPVirtual, mask reg.Register) {
		element(i, mask)
		c.VMULPS(g, hat, hat)
		c.only(mask, hat) // 0·x̂ may be NaN outside
		c.addWide(sumG, g, lo, hi)
		c.addWide(sumGX, hat, lo, hi)
	})
	meanG, meanGX := c.vec(11), c.vec(12)
	for _, t := range []struct {
		sum [2]reg.Register
		to  reg.Register
	}{{sumG, meanG}, {sumGX, meanGX}} {
		c.fold64(t.sum[0], t.sum[1])
		c.VDIVSD(c.xmm(n), c.xmm(t.sum[0]), c.xmm(t.sum[0]))
		c.single(t.sum[0], t.to)
	}
	c.each("out", s, func(i reg.GPVirtual, mask reg.Register) {
		element(i, mask)
		c.load(float(dx, i), lo, mask)
		c.VSUBPS(meanG, g, g)
		c.VFNMADD231PS(meanGX, hat, g)
		c.VFMADD231PS(scale, g, lo)
		c.store(lo, mask, float(dx, i))
	})
	c.LEAQ(float(dx, d), dx)
	c.LEAQ(float(dy, d), dy)
	c.LEAQ(float(x, d), x)
	c.ADDQ(U8(4), mean)
	c.ADDQ(U8(4), rstd)
	c.countDown(rows, "row")
	c.end()
}

func (c vector) layerNormParamGrad() {
	c.function("layerNormParamGrad", "func(rows, d int, dw, db, dy, x, mean, rstd *float32)",
		"computes LayerNormParamGrad for rows ≥ 1 rows of d ≥ 1. Each element of dw and db is added up in the",
		"order of the rows.")
	d := c.arg("d")
	dw, db, dy, x, mean, rstd := c.arg("dw"), c.arg("db"), c.arg("dy"), c.arg("x"), c.arg("mean"), c.arg("rstd")
	s := c.span(d)
	r, at := c.GP64(), c.GP64()
	sumW, sumB, g, hat := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.each("columns", s, func(i reg.GPVirtual, mask reg.Register) {
		rows := "rows"
		if mask != nil {
			rows = "rows_tail"
		}
		c.load(float(dw, i), sumW, mask)
		c.load(float(db, i), sumB, mask)
		c.MOVQ(i, at)
		c.XORQ(r, r)
		c.Label(rows)
		c.load(float(dy, at), g, mask)
		c.load(float(x, at), hat, mask)
		c.VBROADCASTSS(float(mean, r), c.vec(4))
		c.VBROADCASTSS(float(rstd, r), c.vec(5))
		c.VSUBPS(c.vec(4), hat, hat)
		c.VMULPS(c.vec(5), hat, hat)
		c.VFMADD231PS(hat, g, sumW)
		c.VADDPS(g, sumB, sumB)
		c.ADDQ(d, at)
		c.INCQ(r)
		c.branch(r, c.JLT, c.param("rows"), rows)
		c.store(sumW, mask, float(dw, i))
		c.store(sumB, mask, float(db, i))
	})
	c.end()
}
