package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halfbandWeights are those of kernel/halfband.go.
var halfbandWeights = []float64{
	0.6217591166496277, -0.17134001851081848, 0.0697440430521965, -0.027280863374471664,
	0.00910338293761015, -0.0023728490341454744, 0.00042718020267784595, -4.000289845862426e-05,
}

// halfband generates the filters of halfband.go.
func (c vector) halfband() {
	c.upsampleRow()
	c.halfbandAdd()
	c.deinterleave()
}

// weights returns the weights, in registers if there are enough of them.
func (c vector) weights() (w []Op) {
	for p, k := range halfbandWeights {
		if c.lanes == 16 {
			c.set(k, c.vec(16+p))
			w = append(w, c.vec(16+p))
		} else {
			w = append(w, c.word(math.Float32bits(float32(k))))
		}
	}
	return w
}

// halfbandSum sets v to what the filter makes of the floats from x[i] on, in two strands; t and u are scratch.
func (c vector) halfbandSum(x, i reg.Register, w []Op, v, t, u, mask reg.Register) {
	at := func(k int) Mem { return Mem{Base: x, Index: i, Scale: 4, Disp: 4 * k} }
	for p, k := range w {
		c.load(at(len(w)-1-p), t, mask)
		if mask == nil {
			c.VADDPS(at(len(w)+p), t, t)
		} else {
			c.load(at(len(w)+p), c.vec(4), mask)
			c.VADDPS(c.vec(4), t, t)
		}
		switch p {
		case 0:
			c.VMULPS(k, t, v)
		case 1:
			c.VMULPS(k, t, u)
		default:
			c.VFMADD231PS(k, t, []reg.Register{v, u}[p%2])
		}
	}
	c.VADDPS(u, v, v)
}

func (c vector) upsampleRow() {
	c.function("upsampleRow", "func(n int, y, x *float32)",
		"sets y[2i] = x[i+8] and y[2i+1] to what the filter makes of x[i+1] to x[i+16], for i < n, at least 16. The last",
		"vector covers some of those before.")
	n, y, x := c.arg("n"), c.arg("y"), c.arg("x")
	i, last := c.GP64(), c.GP64()
	w := c.weights()
	c.MOVQ(n, last)
	c.SUBQ(U8(c.lanes), last)
	c.ADDQ(U8(4), x)
	c.XORQ(i, i)
	c.Label("loop")
	even, odd, t, u := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.halfbandSum(x, i, w, odd, t, u, nil)
	c.VMOVUPS(Mem{Base: x, Index: i, Scale: 4, Disp: 4 * 7}, even)
	c.VUNPCKLPS(odd, even, t)
	c.VUNPCKHPS(odd, even, u)
	if c.lanes == 16 {
		for half, imm := range []U8{0x44, 0xEE} {
			c.VSHUFF32X4(imm, u, t, even)
			c.VSHUFF32X4(U8(0xD8), even, even, even)
			c.VMOVUPS(even, Mem{Base: y, Index: i, Scale: 8, Disp: 64 * half})
		}
	} else {
		for half, imm := range []U8{0x20, 0x31} {
			c.VPERM2F128(imm, u, t, even)
			c.VMOVUPS(even, Mem{Base: y, Index: i, Scale: 8, Disp: 32 * half})
		}
	}
	c.stepTo(i, last, "loop")
	c.end()
}

// stepTo goes on to the next vector, which is the last one if there is no whole one, or leaves the loop after the last.
func (c vector) stepTo(i, last reg.Register, loop string) {
	c.CMPQ(i, last)
	c.JGE(LabelRef(loop + "_done"))
	c.ADDQ(U8(c.lanes), i)
	c.CMPQ(i, last)
	c.CMOVQGT(last, i)
	c.JMP(LabelRef(loop))
	c.Label(loop + "_done")
}

func (c vector) halfbandAdd() {
	c.function("halfbandAdd", "func(n int, y, x *float32)",
		"adds to y[i] what the filter makes of x[i] to x[i+15], for i < n.")
	s, y, x := c.span(c.arg("n")), c.arg("y"), c.arg("x")
	w := c.weights()
	c.each("sums", s, func(i reg.GPVirtual, mask reg.Register) {
		sum, t, u := c.vec(0), c.vec(1), c.vec(2)
		c.halfbandSum(x, i, w, sum, t, u, mask)
		c.load(float(y, i), t, mask)
		c.VADDPS(t, sum, sum)
		c.store(sum, mask, float(y, i))
	})
	c.end()
}

func (c vector) deinterleave() {
	c.function("deinterleave", "func(n int, even, odd, x *float32)",
		"sets even[i] = x[2i] and odd[i] = x[2i+1] for i < n, at least 16. The last vector covers some of those before.")
	n, even, odd, x := c.arg("n"), c.arg("even"), c.arg("odd"), c.arg("x")
	i, last := c.GP64(), c.GP64()
	c.MOVQ(n, last)
	c.SUBQ(U8(c.lanes), last)
	c.XORQ(i, i)
	c.Label("loop")
	a, b, t, u := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.VMOVUPS(Mem{Base: x, Index: i, Scale: 8}, a)
	c.VMOVUPS(Mem{Base: x, Index: i, Scale: 8, Disp: 4 * c.lanes}, b)
	if c.lanes == 16 {
		c.VSHUFF32X4(U8(0x88), b, a, t)
		c.VSHUFF32X4(U8(0xDD), b, a, u)
	} else {
		c.VPERM2F128(U8(0x20), b, a, t)
		c.VPERM2F128(U8(0x31), b, a, u)
	}
	for _, half := range []struct {
		to  reg.Register
		imm U8
	}{{even, 0x88}, {odd, 0xDD}} {
		c.VSHUFPS(half.imm, u, t, a)
		c.VMOVUPS(a, float(half.to, i))
	}
	c.stepTo(i, last, "loop")
	c.end()
}
