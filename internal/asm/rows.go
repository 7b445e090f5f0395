package main

import (
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rows generates arithmetic on separate rows of 16 channels.
func rows(ctx *build.Context) {
	c := asm{ctx, avx2} // it mostly reads and writes
	for _, f := range []struct {
		name, args, doc string
		add             bool
	}{
		{"mulRows", "z *float32, zs int, x *float32, xs int, y *float32, ys, n int",
			"sets z[t·zs+v] = x[t·xs+v]·y[t·ys+v]", false},
		{"mulAddRows", "z *float32, zs int, a *float32, as int, x *float32, xs int, y *float32, ys, n int",
			"sets z[t·zs+v] = a[t·as+v] + x[t·xs+v]·y[t·ys+v], fused,", true},
	} {
		c.function(f.name, "func("+f.args+")",
			f.doc+" for t < n, at least 1, and v < 16. z may be any of the others.")
		operands := []string{"z", "x", "y"}
		if f.add {
			operands = append(operands, "a")
		}
		r := c.rows(operands...)
		c.Label("loop")
		for half := 0; half < 64; half += 32 {
			x, z := c.vec(half/16), c.vec(half/16+1)
			c.VMOVUPS(Mem{Base: r.at[1], Disp: half}, x)
			if f.add {
				c.VMOVUPS(Mem{Base: r.at[3], Disp: half}, z)
				c.VFMADD231PS(Mem{Base: r.at[2], Disp: half}, x, z)
			} else {
				c.VMULPS(Mem{Base: r.at[2], Disp: half}, x, z)
			}
			c.VMOVUPS(z, Mem{Base: r.at[0], Disp: half})
		}
		r.next("loop")
		c.end()
	}
	c.prefetchRows()
	c.gather()
	c.scatter()
}

func (c asm) prefetchRows() {
	c.function("prefetchRows", "func(x *float32, xs, n int)", "asks for the lines of x[t·xs] for t < n, n ≥ 1.")
	r := c.rows("x")
	c.Label("loop")
	c.PREFETCHT1(Mem{Base: r.at[0]})
	r.next("loop")
	c.RET()
}

// gather reads float by float: the gather instruction takes as long, and is slow on some machines.
func (c asm) gather() {
	c.function("gather", "func(z *float32, zs int, x *float32, xs int, at *int, n int)",
		"sets z[t·zs+v] = x[t·xs+at[v]] for t < n, at least 1, and v < 16.")
	r, at, offset := c.columns("z", "x")
	c.Label("loop")
	for v := range 16 {
		x := reg.Vector.Lookup(reg.Index(v/4), reg.S128)
		c.MOVQ(Mem{Base: at, Disp: 8 * v}, offset)
		m := Mem{Base: r.at[1], Index: offset, Scale: 4}
		if v%4 == 0 {
			c.VMOVSS(m, x)
		} else {
			c.VINSERTPS(U8(v%4<<4), m, x, x)
		}
		if v%4 == 3 {
			c.VMOVUPS(x, Mem{Base: r.at[0], Disp: 4 * (v - 3)})
		}
	}
	r.next("loop")
	c.end()
}

func (c asm) scatter() {
	c.function("scatter", "func(z *float32, zs int, at *int, x *float32, xs, n int)",
		"adds x[t·xs+v] to z[t·zs+at[v]] for t < n, at least 1, and v < 16, one after the other.")
	r, at, offset := c.columns("z", "x")
	c.Label("loop")
	for v := range 16 {
		x := reg.Vector.Lookup(reg.Index(v%8), reg.S128)
		c.MOVQ(Mem{Base: at, Disp: 8 * v}, offset)
		m := Mem{Base: r.at[0], Index: offset, Scale: 4}
		c.VMOVSS(m, x)
		c.VADDSS(Mem{Base: r.at[1], Disp: 4 * v}, x, x)
		c.VMOVSS(x, m)
	}
	r.next("loop")
	c.end()
}

// columns loads operands as rows does, and the indices of their channels. offset is a register for one of these.
func (c asm) columns(args ...string) (r *rowCode, at, offset reg.GPVirtual) {
	r, at, offset = c.rows(args...), c.GP64(), c.GP64()
	c.Load(c.Param("at"), at)
	return r, at, offset
}

// rowCode iterates over the rows of its operands.
type rowCode struct {
	asm
	at, step []reg.GPVirtual
	n        reg.GPVirtual
}

// rows loads the operands args, each with a step named after it with an s appended, and the number of rows n.
func (c asm) rows(args ...string) *rowCode {
	r := &rowCode{asm: c, n: c.GP64()}
	c.Load(c.Param("n"), r.n)
	for _, arg := range args {
		at, step := c.GP64(), c.bytes(arg+"s")
		c.Load(c.Param(arg), at)
		r.at, r.step = append(r.at, at), append(r.step, step)
	}
	return r
}

// next ends a loop.
func (r *rowCode) next(loop string) {
	for i, at := range r.at {
		r.ADDQ(r.step[i], at)
	}
	r.countDown(r.n, loop)
}
