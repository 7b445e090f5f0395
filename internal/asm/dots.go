package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// group is the number of columns that dots computes at a time.
const group = 16

// dots generates A·Bᵀ for few rows of A, where packing B costs more than the product. 16 floats of each of 16 rows of B
// are transposed in registers, so that the sums of 16 columns grow side by side in the order of k, as in gemm.
// Meanwhile the next 16 rows are fetched; otherwise dots would wait for memory.
func dots(ctx *build.Context, s isa) {
	c := asm{ctx, s}
	c.function("dots",
		"func(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, bias *float32, add bool)",
		"sets c[i·ldc + j] = Σ_p a[i·lda + p]·b[j·ldb + p] for i < m, j < n, p < k, all at least 1, plus bias[j] "+
			"unless bias is nil, and adds it to what c holds if add is true. The sums are to the last bit those of "+
			"vecGemm.",
		"",
		"Columns are computed 16 at a time: when n is no multiple of 16, the columns before them, 16 with the last "+
			"ones, must exist in b, c and bias. They are read, and keep their values.")
	d := dotsCode{asm: c, lda: c.bytes("lda"), lda3: c.GP64(), ldb: c.bytes("ldb"),
		ldb3: c.GP64(), a: c.GP64(), k: c.GP64(),
		c: c.GP64(), t: c.GP64(), b: [4]reg.GPVirtual{c.GP64(), c.GP64(), c.GP64(), c.GP64()}, skip: c.AllocLocal(8)}
	c.LEAQ(Mem{Base: d.lda, Index: d.lda, Scale: 2}, d.lda3)
	c.LEAQ(Mem{Base: d.ldb, Index: d.ldb, Scale: 2}, d.ldb3)

	c.Label("groups")
	skip, back := c.GP64(), c.GP64()
	c.XORQ(skip, skip)
	c.branch(c.param("n"), c.JGE, U8(group), "whole")
	c.Comment("Step back so that the group ends with the last column.")
	c.MOVQ(U32(group), skip)
	c.SUBQ(c.param("n"), skip)
	c.MOVQ(skip, back)
	c.IMULQ(d.ldb, back)
	c.SUBQ(back, c.param("b"))
	c.MOVQ(skip, back)
	c.SHLQ(U8(2), back)
	c.SUBQ(back, c.param("c"))
	c.branch(c.param("bias"), c.JE, U8(0), "whole")
	c.SUBQ(back, c.param("bias"))
	c.Label("whole")
	c.MOVQ(skip, d.skip)

	left, cRow, aRow := c.AllocLocal(8), c.AllocLocal(8), c.AllocLocal(8)
	move := func(from, to Mem) {
		r := c.GP64()
		c.MOVQ(from, r)
		c.MOVQ(r, to)
	}
	move(c.param("m"), left)
	move(c.param("c"), cRow)
	move(c.param("a"), aRow)
	c.Label("strips")
	for r := maxRows; r > 0; r-- {
		c.Label(fmt.Sprintf("rows%d", r))
		if r > 1 {
			c.branch(left, c.JLT, U8(r), fmt.Sprintf("rows%d", r-1))
		}
		c.MOVQ(aRow, d.a)
		c.MOVQ(cRow, d.c)
		d.strip(r)
		if r < maxRows {
			c.JMP(LabelRef("next"))
			continue
		}
		t := c.GP64()
		c.IMUL3Q(U8(r), d.lda, t)
		c.ADDQ(t, aRow)
		t = c.bytes("ldc")
		c.IMUL3Q(U8(r), t, t)
		c.ADDQ(t, cRow)
		c.subtract(left, U8(r), c.JNZ, "strips")
		c.JMP(LabelRef("next"))
	}
	c.Label("next")
	t := c.GP64()
	c.MOVQ(d.ldb, t)
	c.SHLQ(U8(4), t) // times group
	c.ADDQ(t, c.param("b"))
	c.ADDQ(U8(4*group), c.param("c"))
	c.branch(c.param("bias"), c.JE, U8(0), "advanced")
	c.ADDQ(U8(4*group), c.param("bias"))
	c.Label("advanced")
	c.subtract(c.param("n"), U8(group), c.JG, "groups")
	c.end()
	c.maskTable()
}

// dotsCode holds the registers of dots. Strides are in bytes.
type dotsCode struct {
	asm
	lda, lda3, ldb, ldb3 reg.GPVirtual
	a                    reg.GPVirtual    // rest of the first row of the strip
	b                    [4]reg.GPVirtual // rest of rows 0, 4, 8 and 12 of the group
	c                    reg.GPVirtual    // first row of the strip in C
	k                    reg.GPVirtual    // terms that are left
	t                    reg.GPVirtual
	skip                 Mem // columns at the start of the group that must not be stored
}

// maxRows is the number of rows of A that are computed at a time: their sums and a square, or a strip of it, fill the
// registers.
const maxRows = 4

// strip computes rows of one group.
func (d dotsCode) strip(rows int) {
	label := func(s string) string { return fmt.Sprintf("rows%d_%s", rows, s) }
	parts := group / d.lanes // vectors in a row of the group
	acc := func(i, part int) reg.Register { return d.vec(i*parts + part) }
	// 8 registers must be left for sums, which depend on each other
	s := square{asm: d.asm, rows: rows * parts, strip: d.lanes == 8}
	cols := 4 * s.quarters()
	s.spare = s.rows + cols
	x := d.vec(14) // AVX2 only

	d.Load(d.Param("b"), d.b[0])
	for i := 1; i < 4; i++ {
		d.LEAQ(Mem{Base: d.b[i-1], Index: d.ldb, Scale: 4}, d.b[i])
	}
	d.Load(d.Param("k"), d.k)
	for i := range rows * parts {
		d.zero(d.vec(i))
	}
	// add adds the terms of a square: cols columns of part, from column at on. If done is not empty, only k of them
	// exist, and the code jumps to done after them.
	add := func(part, at int, done string) {
		var mask reg.Register
		var left reg.GPVirtual
		if done != "" {
			left = d.GP64()
			d.MOVQ(d.k, left)
			mask = d.mask(left)
			d.MOVQ(d.k, left)
		}
		s.load(func(i int) Mem { return stride(d.b[part*d.lanes/4+i/4], d.ldb, d.ldb3, i%4).Offset(4 * at) }, mask)
		for q := range s.quarters() {
			for e, col := range s.columns(q) {
				if done != "" && 4*q+e == cols-1 {
					return // fewer than cols
				}
				for i := range rows {
					m := stride(d.a, d.lda, d.lda3, i).Offset(4 * (at + 4*q + e))
					if d.lanes == 16 {
						d.VFMADD231PS_BCST(m, col, acc(i, part))
					} else {
						d.VBROADCASTSS(m, x)
						d.VFMADD231PS(x, col, acc(i, part))
					}
				}
				if done != "" && 4*q+e < cols-2 {
					d.DECQ(left)
					d.JZ(LabelRef(done))
				}
			}
		}
	}
	advance := func(n int) {
		for _, p := range d.b {
			d.ADDQ(U8(4*n), p)
		}
		d.ADDQ(U8(4*n), d.a)
		d.SUBQ(U8(n), d.k)
	}

	d.Commentf("%d rows", rows)
	d.Label(label("loop16"))
	d.branch(d.k, d.JLT, U8(16), label("few"))
	d.LEAQ(Mem{Base: d.b[3], Index: d.ldb, Scale: 4}, d.t)
	for i := range group {
		d.PREFETCHT1(stride(d.t, d.ldb, d.ldb3, i%4))
		if i%4 == 3 && i < group-1 {
			d.LEAQ(Mem{Base: d.t, Index: d.ldb, Scale: 4}, d.t)
		}
	}
	for at := 0; at < 16; at += cols {
		for part := range parts {
			add(part, at, "")
		}
	}
	advance(16)
	d.JNZ(LabelRef(label("loop16")))
	d.JMP(LabelRef(label("sums")))

	d.Label(label("few"))
	if cols < 16 {
		d.branch(d.k, d.JLT, U8(cols), label("tail"))
		for part := range parts {
			add(part, 0, "")
		}
		advance(cols)
		d.JZ(LabelRef(label("sums")))
		d.JMP(LabelRef(label("few")))
		d.Label(label("tail"))
	}
	for part := range parts {
		done := label(fmt.Sprintf("tail_done%d", part))
		add(part, 0, done)
		d.Label(done)
	}

	d.Label(label("sums"))
	d.branch(d.param("bias"), d.JE, U8(0), label("add"))
	d.Load(d.Param("bias"), d.t)
	for part := range parts {
		for i := range rows {
			d.VADDPS(Mem{Base: d.t, Disp: 4 * part * d.lanes}, acc(i, part), acc(i, part))
		}
	}
	ldc := d.bytes("ldc")
	each := func(f func(at Mem, i, part int)) {
		d.MOVQ(d.c, d.t)
		for i := range rows {
			for part := range parts {
				f(Mem{Base: d.t, Disp: 4 * part * d.lanes}, i, part)
			}
			if i < rows-1 {
				d.ADDQ(ldc, d.t)
			}
		}
	}
	d.Label(label("add"))
	ldc = d.bytes("ldc")
	d.CMPB(d.param("add"), U8(0))
	d.JE(LabelRef(label("store")))
	each(func(at Mem, i, part int) { d.VADDPS(at, acc(i, part), acc(i, part)) })
	d.Label(label("store"))
	skip := d.GP64()
	d.MOVQ(d.skip, skip)
	d.TESTQ(skip, skip)
	d.JNZ(LabelRef(label("masked")))
	each(func(at Mem, i, part int) { d.store(acc(i, part), nil, at) })
	d.JMP(LabelRef(label("end")))
	d.Label(label("masked"))
	masks := d.lastLanes(skip, rows*parts)
	each(func(at Mem, i, part int) { d.store(acc(i, part), masks[part], at) })
	d.Label(label("end"))
}
