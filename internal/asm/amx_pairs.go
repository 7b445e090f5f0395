package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// amxPairs adds tiles of pairs of bfloat16 to AVX-512.
var amxPairs = isa{name: "AMXBF16", lanes: 16, rows: 32, vecs: 2, pairs: true}

// gemmTiles generates the product of words by tiles: two tiles of rows of A by two of columns of B. The four sums stay
// in registers while the words stream by. So each tile is used twice, and 4 KB are read in the time of four products,
// which is 64 cycles. The last tile of rows is multiplied by a panel of three tiles of columns.
func gemmTiles(ctx *build.Context) {
	c := asm{ctx, amxPairs}
	c.function("gemmTiles",
		"func(shape *uint8, down, across, steps int, a *float32, lda int, b *float32, ps int, start *float32, "+
			"lds int, c *float32, ldc int)",
		"sets C[i,j] = start[i·lds + j] + Σ_p A[i,p]·B[p,j] for all i, j and p of the tiles, where start may be C, or "+
			"nil for zero. A and B hold words, pairs of bfloat16. Of 16 words at a time, TDPBF16PS sums the products of the "+
			"first halves in ascending order, from zero, fused, and those of the second, and adds the sum of both to "+
			"C. Denormal numbers are 0.",
		"",
		"There are down tiles of rows, across of columns and steps of words, of the sizes in shape, which are 16 where "+
			"there are several. A[i,p] is a[i·lda + p], C[i,j] is c[i·ldc + j]. B is in panels of 48 columns, ps words "+
			"apart: B[p,j] is b[(j/48)·ps + 48p + j%48]. lds is 0 where start is nil.")
	g := tiles{asm: c, gap: c.AllocLocal(8)}
	t := reg.RAX
	c.Load(c.Param("shape"), t)
	c.shapeAs(t)
	c.loads("lda lds ldc", g.lda(), g.lds(), g.ldc())
	for _, r := range []reg.Register{g.lda(), g.lds(), g.ldc()} {
		c.SHLQ(U8(2), r)
	}
	c.Load(c.Param("ps"), t)
	c.SHLQ(U8(2), t)
	c.SUBQ(U32(packedStep), t)
	c.MOVQ(t, g.gap)
	c.MOVQ(U32(packedStep), g.step())
	c.Label("rows")
	c.branch(c.param("down"), c.JE, U8(1), "last")
	g.strip(2, 2)
	c.subtract(c.param("down"), U8(2), c.JNZ, "rows")
	c.JMP(LabelRef("end"))
	c.Label("last")
	g.strip(1, packedWidth/amxRows)
	c.Label("end")
	c.releaseTiles()
	c.end()
}

// tiles writes the code of gemmTiles. Its registers are chosen by hand.
type tiles struct {
	asm
	gap Mem // from the end of a row in one panel to its start in the next
}

func (g *tiles) lda() reg.Register     { return reg.RCX }
func (g *tiles) ldc() reg.Register     { return reg.R10 }
func (g *tiles) lds() reg.Register     { return reg.R12 }
func (g *tiles) step() reg.Register    { return reg.RDX } // from a row of B to the next
func (g *tiles) c() reg.Register       { return reg.R9 }
func (g *tiles) start() reg.Register   { return reg.R11 }
func (g *tiles) left() reg.Register    { return reg.R13 } // tiles of columns that are left
func (g *tiles) inPanel() reg.Register { return reg.R15 } // tiles of columns that are left in the panel
func (g *tiles) spare() reg.Register   { return reg.R14 }

// Pointers to the next tiles of A and B.
var tilesOfA, tilesOfB = []reg.Register{reg.RBX, reg.RAX}, []reg.Register{reg.RSI, reg.RDI, reg.R8}

// strip computes tall tiles of rows, wide tiles of columns at a time, and continues with the rows after them.
func (g *tiles) strip(tall, wide int) {
	label := func(s string, n int) string { return fmt.Sprintf("tall%d_%s%d", tall, s, n) }
	g.loads("across b c start", g.left(), tilesOfB[0], g.c(), g.start())
	g.MOVQ(U32(packedWidth/amxRows), g.inPanel())
	for n := wide; n > 0; n-- {
		g.Label(label("columns", n))
		if n > 1 {
			g.branch(g.left(), g.JLT, U8(n), label("columns", n-1))
		}
		g.block(tall, n)
		if n == wide {
			g.subtract(g.left(), U8(n), g.JNZ, label("columns", n))
		}
		if n > 1 {
			g.JMP(LabelRef(label("done", 0)))
		}
	}
	g.Label(label("done", 0))
	for i, name := range []string{"a", "c", "start"} {
		g.MOVQ([]reg.Register{g.lda(), g.ldc(), g.lds()}[i], g.spare())
		g.IMUL3Q(U8(tall*amxRows), g.spare(), g.spare())
		g.ADDQ(g.spare(), g.param(name))
	}
}

// rowsOn sets a register to the address 16 rows after another.
func (g *tiles) rowsOn(from, step, to reg.Register) {
	g.MOVQ(step, to)
	g.SHLQ(U8(4), to)
	g.ADDQ(from, to)
}

// next sets a register to the tile of B after another.
func (g *tiles) next(from, to reg.Register, label string) {
	g.LEAQ(Mem{Base: from, Disp: amxLine}, to)
	g.countDown(g.inPanel(), label)
	g.ADDQ(g.gap, to)
	g.MOVQ(U32(packedWidth/amxRows), g.inPanel())
	g.Label(label)
}

// block computes tall by wide tiles of C and continues with the columns after them.
func (g *tiles) block(tall, wide int) {
	label := func(s string, n int) string { return fmt.Sprintf("block%dx%d_%s%d", tall, wide, s, n) }
	sum := func(i, j int) int { return wide*i + j }
	sums := func(from, step reg.Register, do func(tile int, at Mem)) {
		for i := range tall {
			if i > 0 {
				g.rowsOn(from, step, g.spare())
				from = g.spare()
			}
			for j := range wide {
				do(sum(i, j), Mem{Base: from, Disp: amxLine * j})
			}
		}
	}
	for j := 1; j < wide; j++ {
		g.next(tilesOfB[j-1], tilesOfB[j], label("beside", j))
	}
	g.Load(g.Param("a"), tilesOfA[0])
	if tall > 1 {
		g.rowsOn(tilesOfA[0], g.lda(), tilesOfA[1])
	}
	g.ifZero(g.start(), label("zero", 0))
	sums(g.start(), g.lds(), func(tile int, at Mem) { g.loadTile(at, g.lds(), tile) })
	g.ADDQ(U32(amxLine*wide), g.start())
	g.JMP(LabelRef(label("begin", 0)))
	g.Label(label("zero", 0))
	for tile := range tall * wide {
		g.zeroTile(tile)
	}
	g.Label(label("begin", 0))

	g.Load(g.Param("steps"), g.spare())
	g.Label(label("step", 0))
	for j := range wide {
		g.loadTile(Mem{Base: tilesOfB[j]}, g.step(), firstW+j%2)
		for i := range tall {
			if j == 0 {
				g.loadTile(Mem{Base: tilesOfA[i]}, g.lda(), firstX+i)
			}
			g.multiplyPairs(firstX+i, firstW+j%2, sum(i, j))
		}
	}
	for _, at := range tilesOfA[:tall] {
		g.ADDQ(U8(amxLine), at)
	}
	for _, at := range tilesOfB[:wide] {
		g.ADDQ(U32(amxRows*packedStep), at)
	}
	g.countDown(g.spare(), label("step", 0))

	sums(g.c(), g.ldc(), func(tile int, at Mem) { g.storeTile(tile, at, g.ldc()) })
	g.ADDQ(U32(amxLine*wide), g.c())
	last := tilesOfB[wide-1]
	g.Load(g.Param("steps"), g.spare())
	g.IMUL3Q(U32(amxRows*packedStep), g.spare(), g.spare())
	g.SUBQ(g.spare(), last)
	g.next(last, tilesOfB[0], label("after", 0))
}
