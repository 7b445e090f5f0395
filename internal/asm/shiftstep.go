package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// shiftStep generates one step of shift registers, each from its last vector to its first, so that it can shift in
// place.
func shiftStep(ctx *build.Context, s isa) {
	c := vector{asm: asm{ctx, s}}
	c.function("shiftStep", "func(channels, n int, s, b, c, x, d, y *float32)",
		"moves s[i·n + j-1] to s[i·n + j], 0 to s[i·n], adds b[i·n + j]·x[i], and sets",
		"y[i] = Σ_j c[i·n + j]·s[i·n + j] + d[i]·x[i], for i < channels, at least 1, and j < n, a positive multiple "+
			"of 16.")
	channels, n := c.arg("channels"), c.arg("n")
	at := map[string]reg.GPVirtual{}
	for _, name := range []string{"s", "b", "c", "x", "d", "y"} {
		at[name] = c.arg(name)
	}
	j := c.GP64()
	x, v, sum := c.vec(0), c.vec(1), c.vec(2)
	upper := c.allButFirst()
	step := func(mask reg.Register) {
		c.load(Mem{Base: at["s"], Index: j, Scale: 4, Disp: -4}, v, mask)
		c.VFMADD231PS(float(at["b"], j), x, v)
		c.VMOVUPS(v, float(at["s"], j))
		c.VFMADD231PS(float(at["c"], j), v, sum)
	}
	c.Label("channel")
	c.VBROADCASTSS(Mem{Base: at["x"]}, x)
	c.zero(sum)
	c.MOVQ(n, j)
	c.Label("vectors")
	c.subtract(j, U8(c.lanes), c.JZ, "first")
	step(nil)
	c.JMP(LabelRef("vectors"))
	c.Label("first")
	step(upper)
	for halvings := 1; c.lanes>>halvings >= 4; halvings++ {
		from, to := c.part(sum, halvings-1), c.part(c.vec(3), halvings)
		if c.lanes>>(halvings-1) == 16 {
			c.VEXTRACTF64X4(U8(1), from, to)
		} else {
			c.VEXTRACTF128(U8(1), from, to)
		}
		c.VADDPS(to, c.part(sum, halvings), c.part(sum, halvings))
	}
	low := reg.Vector.Lookup(2, reg.S128)
	c.VHADDPS(low, low, low)
	c.VHADDPS(low, low, low)
	c.VMOVSS(Mem{Base: at["d"]}, reg.Vector.Lookup(3, reg.S128))
	c.VFMADD231SS(reg.Vector.Lookup(0, reg.S128), reg.Vector.Lookup(3, reg.S128), low)
	c.VMOVSS(low, Mem{Base: at["y"]})
	for _, name := range []string{"s", "b", "c"} {
		c.LEAQ(Mem{Base: at[name], Index: n, Scale: 4}, at[name])
	}
	for _, name := range []string{"x", "d", "y"} {
		c.ADDQ(U8(4), at[name])
	}
	c.countDown(channels, "channel")
	c.end()
}

// allButFirst returns a mask of all lanes but the first, for AVX2 in vector 15.
func (c vector) allButFirst() reg.Register {
	if c.lanes == 16 {
		k, bits := c.K(), c.GP32()
		c.MOVL(U32(0xfffe), bits)
		c.KMOVW(bits, k)
		return k
	}
	mask, zero := c.vec(15), c.vec(14)
	c.zero(zero)
	c.VPCMPEQD(mask, mask, mask)
	c.VPBLENDD(U8(1), zero, mask, mask)
	return mask
}
