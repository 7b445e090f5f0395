package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halfbandWeights holds the weights of kernel/halfband.go.
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

// fifteen returns a mask of all lanes of an AVX-512 vector but the last.
func (c vector) fifteen() reg.Register {
	if c.lanes == 8 {
		return nil
	}
	n := c.GP64()
	c.MOVQ(U32(15), n)
	return c.mask(n)
}

// halfbandSum sets v to the result of the filter on the 16 shifted vectors that at returns, in two partial sums; t is
// scratch.
func (c vector) halfbandSum(at func(shift int, scratch reg.Register) Op, w []Op, v, t reg.Register) {
	u, other := c.vec(4), c.vec(5)
	for p, k := range w {
		c.VADDPS(at(len(w)+p, t), at(len(w)-1-p, other), t)
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

// shifted returns a function that returns the vectors of floats from x[i+first] to x[i+first+15] on. For AVX-512 each
// is assembled from vectors 6 and 7, since reading across cache lines takes twice as long. Then no float is read that
// belongs to none of the vectors.
func (c vector) shifted(x, i reg.Register, first int, mask, fifteen reg.Register) func(shift int,
	scratch reg.Register) Op {
	at := func(k int) Mem { return Mem{Base: x, Index: i, Scale: 4, Disp: 4 * (first + k)} }
	if c.lanes == 16 && mask == nil {
		low, high := c.vec(6), c.vec(7)
		c.VMOVUPS(at(0), low)
		c.VMOVUPS_Z(at(16), fifteen, high)
		return func(shift int, scratch reg.Register) Op {
			if shift == 0 {
				return low
			}
			c.VALIGND(U8(shift), low, high, scratch)
			return scratch
		}
	}
	return func(shift int, scratch reg.Register) Op {
		c.load(at(shift), scratch, mask)
		return scratch
	}
}

func (c vector) upsampleRow() {
	c.function("upsampleRow", "func(n int, y, x *float32)",
		"sets y[2i] = x[i+8] and y[2i+1] to what the filter makes of x[i+1] to x[i+16], for i < n, at least 16. The "+
			"last",
		"vector covers some of those before.")
	n, y, x := c.arg("n"), c.arg("y"), c.arg("x")
	w, fifteen := c.weights(), c.fifteen()
	i, next := c.overlapping(n)
	even, odd, t, u := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.halfbandSum(c.shifted(x, i, 1, nil, fifteen), w, odd, t)
	c.VMOVUPS(Mem{Base: x, Index: i, Scale: 4, Disp: 4 * 8}, even)
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
	next()
	c.end()
}

// overlapping begins a loop over the vectors of n floats, at least one. next advances to the next vector and ends the
// loop after the last. If n is not a multiple of the vector size, the last vector overlaps the one before.
func (c vector) overlapping(n reg.Register) (i reg.Register, next func()) {
	at, last := c.GP64(), c.GP64()
	c.MOVQ(n, last)
	c.SUBQ(U8(c.lanes), last)
	c.XORQ(at, at)
	c.Label("loop")
	return at, func() {
		c.branch(at, c.JGE, last, "loop_done")
		c.ADDQ(U8(c.lanes), at)
		c.CMPQ(at, last)
		c.CMOVQGT(last, at)
		c.JMP(LabelRef("loop"))
		c.Label("loop_done")
	}
}

func (c vector) halfbandAdd() {
	c.function("halfbandAdd", "func(n int, y, x *float32)",
		"adds to y[i] what the filter makes of x[i] to x[i+15], for i < n.")
	s, y, x := c.span(c.arg("n")), c.arg("y"), c.arg("x")
	w, fifteen := c.weights(), c.fifteen()
	c.each("sums", s, func(i reg.GPVirtual, mask reg.Register) {
		sum, t := c.vec(0), c.vec(1)
		c.halfbandSum(c.shifted(x, i, 0, mask, fifteen), w, sum, t)
		c.load(float(y, i), t, mask)
		c.VADDPS(t, sum, sum)
		c.store(sum, mask, float(y, i))
	})
	c.end()
}

func (c vector) deinterleave() {
	c.function("deinterleave", "func(n int, even, odd, x *float32)",
		"sets even[i] = x[2i] and odd[i] = x[2i+1] for i < n, at least 16. The last vector covers some of those "+
			"before.")
	n, even, odd, x := c.arg("n"), c.arg("even"), c.arg("odd"), c.arg("x")
	i, next := c.overlapping(n)
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
	next()
	c.end()
}
