package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemm generates the product of a block. Tiles of C stay in registers while the terms are added to them one by one, so
// every element is summed in the order of k whichever tile it is in.
func gemm(ctx *build.Context, s isa) {
	c := asm{ctx, s}
	name, doc := "gemm", []string{
		"sets C[i,j] = Σ_p A[i,p]·B[p,j] for i < m, j < n, p < k, all at least 1, plus bias[j] unless bias is nil, and " +
			"adds it to what C holds if add is true. Each sum runs over p in ascending order, from zero, fused.",
		"",
		"A[i,p] is a[i·rs + p·cs]. B is in panels of w columns, as wide as a tile (see level.panel), ps floats apart: " +
			"B[p,j] is b[(j/w)·ps + p·bs + j%w]. C[i,j] is c[i·ldc + j].",
	}
	if s.pairs {
		name, doc = "gemmPairs", []string{
			"is vecGemm, but that A and B hold words, pairs of bfloat16: A[i,p]·B[p,j] stands for the sum of two " +
				"products, and is added to the sum with the rounding of VDPBF16PS, for which denormal numbers are 0.",
		}
	}
	c.function(name, "func(m, n, k int, a *float32, rs, cs int, b *float32, bs, ps int, c *float32, ldc int, "+
		"bias *float32, add bool)", doc...)
	g := gemmCode{asm: c, rs: c.bytes("rs"), cs: c.bytes("cs"), bs: c.bytes("bs"), ldc: c.bytes("ldc"), rs3: c.GP64(),
		bPanel: c.GP64(), cTile: c.GP64(), bias: c.GP64(), n: c.GP64(), aRow: c.GP64(), cRow: c.AllocLocal(8)}
	c.LEAQ(Mem{Base: g.rs, Index: g.rs, Scale: 2}, g.rs3)
	c.Load(c.Param("a"), g.aRow)
	t := c.arg("c")
	c.MOVQ(t, g.cRow)

	c.Label("strips")
	c.branch(c.param("m"), c.JLT, U8(s.rows), fmt.Sprintf("rows%d", s.rows-1))
	g.strip(s.rows)
	t = c.GP64()
	c.IMUL3Q(U8(s.rows), g.rs, t)
	c.ADDQ(t, g.aRow)
	t = c.GP64()
	c.IMUL3Q(U8(s.rows), g.ldc, t)
	c.ADDQ(t, g.cRow)
	c.subtract(c.param("m"), U8(s.rows), c.JNZ, "strips")
	c.JMP(LabelRef("end"))
	for rows := s.rows - 1; rows > 0; rows-- {
		c.Label(fmt.Sprintf("rows%d", rows))
		if rows > 1 {
			c.branch(c.param("m"), c.JLT, U8(rows), fmt.Sprintf("rows%d", rows-1))
		}
		g.strip(rows)
		c.JMP(LabelRef("end"))
	}
	c.Label("end")
	c.end()
	c.maskTable()
}

// gemmCode holds the registers that gemm uses throughout. Strides and offsets are in bytes.
type gemmCode struct {
	asm
	rs, rs3, cs   reg.GPVirtual // strides of A, and 3·rs
	bs, ldc       reg.GPVirtual
	aRow          reg.GPVirtual // first row of the strip
	bPanel, cTile reg.GPVirtual // start in the tile
	bias          reg.GPVirtual
	n             reg.GPVirtual // columns that are left
	cRow          Mem           // first row of the strip
}

// strip computes rows of C from aRow and cRow: full tiles, then one at the border.
func (g *gemmCode) strip(rows int) {
	label := func(s string) string { return fmt.Sprintf("rows%d_%s", rows, s) }
	g.Load(g.Param("b"), g.bPanel)
	g.Load(g.Param("bias"), g.bias)
	g.Load(g.Param("n"), g.n)
	g.MOVQ(g.cRow, g.cTile)

	g.Label(label("tiles"))
	g.branch(g.n, g.JLT, U8(g.width()), label("border"))
	g.tile(rows, g.vecs, false)
	t := g.bytes("ps")
	g.ADDQ(t, g.bPanel)
	g.ADDQ(U32(4*g.width()), g.cTile)
	g.ADDQ(U32(4*g.width()), g.bias)
	g.subtract(g.n, U8(g.width()), g.JNZ, label("tiles"))
	g.JMP(LabelRef(label("end")))

	g.Label(label("border"))
	for vecs := g.vecs; vecs > 0; vecs-- {
		next := label(fmt.Sprintf("border%d", vecs-1))
		if vecs > 1 {
			g.branch(g.n, g.JLE, U8((vecs-1)*g.lanes), next)
			g.SUBQ(U8((vecs-1)*g.lanes), g.n)
		}
		g.tile(rows, vecs, true)
		if vecs > 1 {
			g.JMP(LabelRef(label("end")))
			g.Label(next)
		}
	}
	g.Label(label("end"))
}

// tile computes rows x vecs vectors of C. If masked, n lanes of the last vector exist.
func (g *gemmCode) tile(rows, vecs int, masked bool) {
	prefix := fmt.Sprintf("tile%dx%d", rows, vecs)
	if masked {
		prefix += "_border"
	}
	masks := make([]reg.Register, vecs)
	if masked {
		masks[vecs-1] = g.mask(g.n)
	}
	g.Commentf("%d rows, %d vectors", rows, vecs)
	at := g.GP64()
	g.MOVQ(g.cTile, at)
	for i := range rows {
		for v := 0; v < 4*vecs*g.lanes; v += 64 {
			g.PREFETCHT0(Mem{Base: at, Disp: v})
		}
		if i < rows-1 {
			g.ADDQ(g.ldc, at)
		}
	}
	acc := func(i, v int) reg.Register { return g.vec(i*vecs + v) }
	bv := func(v int) reg.Register { return g.vec(rows*vecs + v) }
	x := g.vec(rows*vecs + vecs)
	for i := range rows * vecs {
		g.zero(g.vec(i))
	}
	a0, a4, b, k := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(g.aRow, a0)
	if rows > 4 {
		g.LEAQ(Mem{Base: g.aRow, Index: g.rs, Scale: 4}, a4)
	}
	g.MOVQ(g.bPanel, b)
	g.Load(g.Param("k"), k)

	g.Label(prefix + "_loop")
	for v := range vecs {
		g.load(Mem{Base: b, Disp: 4 * v * g.lanes}, bv(v), masks[v])
	}
	for i := range rows {
		m := stride(a0, g.rs, g.rs3, i%4)
		if i >= 4 {
			m.Base = a4
		}
		switch {
		case g.pairs:
			g.VBROADCASTSS(m, x)
			for v := range vecs {
				g.dotPairs(x, bv(v), acc(i, v))
			}
		case g.lanes == 16 && vecs == 1:
			for v := range vecs {
				g.VFMADD231PS_BCST(m, bv(v), acc(i, v))
			}
		default:
			g.VBROADCASTSS(m, x)
			for v := range vecs {
				g.VFMADD231PS(x, bv(v), acc(i, v))
			}
		}
	}
	g.ADDQ(g.bs, b)
	g.ADDQ(g.cs, a0)
	if rows > 4 {
		g.ADDQ(g.cs, a4)
	}
	g.countDown(k, prefix+"_loop")

	g.branch(g.param("bias"), g.JE, U8(0), prefix+"_add")
	for v := range vecs {
		g.load(Mem{Base: g.bias, Disp: 4 * v * g.lanes}, x, masks[v])
		for i := range rows {
			g.VADDPS(x, acc(i, v), acc(i, v))
		}
	}
	g.Label(prefix + "_add")
	g.CMPB(g.param("add"), U8(0))
	at = g.GP64()
	g.MOVQ(g.cTile, at)
	g.JE(LabelRef(prefix + "_store"))
	for i := range rows {
		for v := range vecs {
			m := Mem{Base: at, Disp: 4 * v * g.lanes}
			if masks[v] == nil {
				g.VADDPS(m, acc(i, v), acc(i, v))
			} else {
				g.load(m, x, masks[v])
				g.VADDPS(x, acc(i, v), acc(i, v))
			}
		}
		if i < rows-1 {
			g.ADDQ(g.ldc, at)
		}
	}
	g.MOVQ(g.cTile, at)
	g.Label(prefix + "_store")
	for i := range rows {
		for v := range vecs {
			g.store(acc(i, v), masks[v], Mem{Base: at, Disp: 4 * v * g.lanes})
		}
		if i < rows-1 {
			g.ADDQ(g.ldc, at)
		}
	}
}
