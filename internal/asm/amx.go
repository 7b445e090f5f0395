package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// AMX multiplies tiles: 8 registers of 16 rows of 64 bytes. One instruction multiplies 16 rows of 64 bytes by 64 rows
// of 16, which are stored as words of 4 rows, and adds the products to 16 rows of 16 integers of 32 bits. Neither avo
// nor Go's assembler has these instructions, so they are written byte by byte, and their register operands are chosen
// by hand.

// amxInt8 adds AMX to AVX-512 VNNI.
var amxInt8 = isa{name: "AMXINT8", lanes: 16, rows: 8, vecs: 3, vnni: true}

const (
	amxTiles = 8
	amxRows  = 16 // rows of a tile
	amxLine  = 64 // bytes of a row
	amxTile  = amxRows * amxLine
)

// amx generates integer products by tiles.
func amx(ctx *build.Context) {
	c := asm{ctx, amxInt8}
	c.manyDots()
	c.manySums()
	c.tileShapes()
}

// loads loads arguments into registers.
func (c asm) loads(names string, to ...reg.Register) {
	for i, name := range strings.Fields(names) {
		c.Load(c.Param(name), to[i])
	}
}

// Instruction prefixes.
const (
	noPrefix = iota
	prefix66
	prefixF3
	prefixF2
)

// amxBytes writes an instruction of map 0F38. b is the register in vvvv, and base and index are the registers of the
// memory operand.
func (c asm) amxBytes(prefix, opcode, b, base, index uint8, rest ...uint8) {
	head := []uint8{
		0xc4,
		1<<7 | (^index>>3&1)<<6 | (^base>>3&1)<<5 | 2, // R X B
		(^b&15)<<3 | prefix,                           // W = 0, vvvv, 128 bits
		opcode,
	}
	for _, v := range append(head, rest...) {
		c.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(v)}})
	}
}

// amxMemory writes an instruction that loads or stores a tile. Its rows are step bytes apart in memory.
func (c asm) amxMemory(prefix uint8, tile int, at Mem, step reg.Register) {
	base, index := number(at.Base), number(step)
	c.amxBytes(prefix, 0x4b, 0, base, index, 2<<6|uint8(tile)<<3|4, index&7<<3|base&7,
		uint8(at.Disp), uint8(at.Disp>>8), uint8(at.Disp>>16), uint8(at.Disp>>24))
}

// number returns the number of a register.
func number(r reg.Register) uint8 { return uint8(r.(reg.Physical).PhysicalIndex()) }

func (c asm) loadTile(at Mem, step reg.Register, tile int)  { c.amxMemory(prefixF2, tile, at, step) }
func (c asm) storeTile(tile int, at Mem, step reg.Register) { c.amxMemory(prefixF3, tile, at, step) }
func (c asm) zeroTile(tile int)                             { c.amxBytes(prefixF2, 0x49, 0, 0, 0, 3<<6|uint8(tile)<<3) }

// releaseTiles ends the use of tiles, so that the system has less of a thread's state to save.
func (c asm) releaseTiles() { c.amxBytes(noPrefix, 0x49, 0, 0, 0, 3<<6) }

// multiplyTiles adds the products of the integers in a and b to tile sum. The prefix selects the signed operand: F3 for
// a, 66 for b. multiplyPairs does the same for pairs of bfloat16.
func (c asm) multiplyTiles(prefix uint8, a, b, sum int) {
	c.amxBytes(prefix, 0x5e, uint8(b), 0, 0, 3<<6|uint8(sum)<<3|uint8(a))
}

func (c asm) multiplyPairs(a, b, sum int) {
	c.amxBytes(prefixF3, 0x5c, uint8(b), 0, 0, 3<<6|uint8(sum)<<3|uint8(a))
}

// shapeAs sets the shapes of tiles from the 64 bytes that a register points to.
func (c asm) shapeAs(at reg.Register) { c.amxBytes(noPrefix, 0x49, 0, 0, 0, number(at)) }

// The tiles of x begin with firstX. The tiles that x is multiplied by begin with firstW and have 16 rows. The other
// tiles hold sums and have as many rows as those of x.
const (
	firstX = 4
	firstW = 6
)

// tileShapes writes the shapes for 1 to 16 rows of x. Each holds the palette, the row lengths of the tiles in bytes,
// and from word 6 on their numbers of rows.
func (c asm) tileShapes() {
	c.data("tileShapes")
	for rows := 1; rows <= amxRows; rows++ {
		words := [8]uint64{0: 1}
		for tile := range amxTiles {
			n := rows
			if tile >= firstW {
				n = amxRows
			}
			words[2+tile/4] |= uint64(amxLine) << (16 * (tile % 4))
			words[6] |= uint64(n) << (8 * tile)
		}
		for i, w := range words {
			c.AddDatum((rows-1)*amxLine+8*i, U64(w))
		}
	}
}

// shapeTiles sets rows to the number of rows of the next tile, given the rows left, and sets the shapes of tiles for
// them. It changes AX and DX.
func (c asm) shapeTiles(left, rows reg.Register) {
	c.MOVQ(U32(amxRows), rows)
	c.CMPQ(left, rows)
	c.CMOVQLT(left, rows)
	c.LEAQ(NewDataAddr(NewStaticSymbol("tileShapes"), 0), reg.RAX)
	c.MOVQ(rows, reg.RDX)
	c.SHLQ(U8(6), reg.RDX)
	c.LEAQ(Mem{Base: reg.RAX, Index: reg.RDX, Scale: 1, Disp: -amxLine}, reg.RAX)
	c.shapeAs(reg.RAX)
}

// nextTile continues with the next tile if any rows are left. Setting the shapes of tiles takes a processor some
// hundred cycles, so it is left out while the tiles are full.
func (c asm) nextTile(left reg.Register) {
	c.subtract(left, U8(amxRows), c.JLE, "done")
	c.branch(left, c.JGE, U8(amxRows), "shaped")
	c.JMP(LabelRef("tile"))
	c.Label("done")
}

// manyDots computes the products of any number of vectors and 64 rows. The products of 16 vectors are on their way to
// memory while those of the 16 before are converted to floats.
func (c asm) manyDots() {
	c.function("manyDots", "func(m, k int, x *int8, ldx int, w *uint8, start *int32, factor, scale, y *float32, ldy int, "+
		"work *int32, ahead *int8, lines int)",
		"is vecTileDots for any number of vectors of k terms, a multiple of 64. work is 2048 numbers to use. For each 16 "+
			"vectors and 64 terms it fetches so many lines from ahead on.")
	m, x, ldx, w, step, next, before := reg.R8, reg.RBX, reg.RCX, reg.RSI, reg.RDX, reg.R14, reg.R15
	y, ldy, start, factor, rows, work, left := reg.RDI, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13, reg.RAX
	c.Load(c.Param("scale"), left)
	for v := range 4 {
		c.VMOVUPS(Mem{Base: left, Disp: amxLine * v}, c.vec(16+v))
	}
	c.loads("m x ldx y ldy start factor", m, x, ldx, y, ldy, start, factor)
	c.SHLQ(U8(2), ldy)
	c.Load(c.Param("work"), work)
	c.LEAQ(Mem{Base: work, Disp: 4 * amxTile}, next)
	c.XORQ(before, before)
	add := func(label string) {
		c.ifZero(before, label+"none")
		c.MOVQ(work, left)
		c.Label(label)
		c.VPBROADCASTD(Mem{Base: start}, c.vec(20))
		c.VBROADCASTSS(Mem{Base: factor}, c.vec(21))
		for v := range 4 {
			sum, scale := c.vec(v), c.vec(4+v)
			c.VPADDD(Mem{Base: left, Disp: amxTile * v}, c.vec(20), sum)
			c.VCVTDQ2PS(sum, sum)
			c.VMULPS(c.vec(16+v), c.vec(21), scale)
			c.VMULPS(scale, sum, sum)
			c.VMOVUPS(sum, Mem{Base: y, Disp: amxLine * v})
		}
		c.ADDQ(U8(4), start)
		c.ADDQ(U8(4), factor)
		c.ADDQ(U8(amxLine), left)
		c.ADDQ(ldy, y)
		c.countDown(before, label)
		c.Label(label + "none")
	}
	c.Label("tile")
	c.shapeTiles(m, rows)
	c.Label("shaped")
	for v := range 4 {
		c.zeroTile(v)
	}
	c.Load(c.Param("w"), w)
	c.Load(c.Param("k"), left)
	c.Label("terms")
	c.fetchAhead(step, rows, "dots")
	c.MOVQ(U32(tileStep), step)
	c.loadTile(Mem{Base: x}, ldx, firstX)
	for v := range 4 {
		b := firstW + v%2
		c.loadTile(Mem{Base: w, Disp: amxLine * v}, step, b)
		c.multiplyTiles(prefixF3, firstX, b, v)
	}
	c.ADDQ(U8(amxLine), x)
	c.ADDQ(U32(tileStep*amxLine/4), w)
	c.subtract(left, U8(amxLine), c.JNZ, "terms")
	c.Load(c.Param("k"), left)
	c.SUBQ(left, x)
	c.MOVQ(ldx, left)
	c.SHLQ(U8(4), left)
	c.ADDQ(left, x)
	c.MOVQ(U32(amxLine), step)
	for v := range 4 {
		c.storeTile(v, Mem{Base: next, Disp: amxTile * v}, step)
	}
	add("row")
	c.MOVQ(U32(amxRows), before)
	c.CMPQ(m, before)
	c.CMOVQLT(m, before)
	c.XCHGQ(work, next)
	c.nextTile(m)
	c.releaseTiles()
	add("last")
	c.end()
}

// fetchAhead prefetches some lines of the data that is read next into the second-level cache, so that memory delivers
// them while tiles are multiplied. The argument ahead is the address of the next line. fetchAhead changes at and n.
func (c asm) fetchAhead(at, n reg.Register, label string) {
	c.Load(c.Param("lines"), n)
	c.ifZero(n, label+"fetched")
	c.Load(c.Param("ahead"), at)
	c.Label(label + "fetch")
	c.PREFETCHT1(Mem{Base: at})
	c.ADDQ(U8(amxLine), at)
	c.countDown(n, label+"fetch")
	c.MOVQ(at, c.param("ahead"))
	c.Label(label + "fetched")
}

// manySums computes sums of 16 columns of a tile at a time, weighted by any number of rows of x. While 16 columns are
// multiplied, the products of the 16 columns before are on their way to memory, and those before them are added.
func (c asm) manySums() {
	c.function("manySums", "func(m, k int, x, w *uint8, factor, y *float32, ldy int, add bool, work *int32, ahead *int8, "+
		"lines int)",
		"is vecTileSums for 64 rows of k columns, a multiple of 64, and any number of rows of x, but for the order of each "+
			"64 columns of y: column 16v + 4l + e there is 16l + 4v + e, for v, l and e below 4. work is 1024 numbers to "+
			"use. For each 16 rows of x and 16 columns it fetches so many lines from ahead on.")
	m, x, step, w, y, ldy := reg.R8, reg.RBX, reg.RDX, reg.RSI, reg.RDI, reg.R9
	factor, at, rows, work, left, to := reg.R10, reg.R11, reg.R12, reg.R13, reg.RAX, reg.RCX
	from := reg.R15
	shift := c.vec(16)
	c.MOVL(U32(0x43000000), left.As32()) // 128 as float32
	c.VPBROADCASTD(left.As32(), shift)
	c.MOVBLZX(c.param("add"), left.As32())
	c.NEGL(left.As32())
	c.KMOVW(left.As32(), reg.K1)
	c.loads("m x y ldy factor work", m, x, y, ldy, factor, work)
	c.SHLQ(U8(2), ldy)
	label := 0
	// multiply sets sums 2·half and 2·half+1 to those of the upper and the lower digits for columns v of w.
	multiply := func(v int) {
		half := v % 2
		label++
		c.fetchAhead(to, step, fmt.Sprintf("sums%d", label))
		c.MOVQ(U32(16*c.lanes), step)
		c.loadTile(Mem{Base: w, Disp: amxLine * v}, step, firstW+half)
		for digit := range 2 {
			c.zeroTile(2*half + digit)
			c.multiplyTiles(prefix66, firstX+digit, firstW+half, 2*half+digit)
		}
	}
	store := func(half int) {
		c.MOVQ(U32(amxLine), step)
		for digit := range 2 {
			c.storeTile(2*half+digit, Mem{Base: work, Disp: amxTile * (2*half + digit)}, step)
		}
	}
	// add adds stored sums to y, from disp bytes after at.
	add := func(half, disp int) {
		label++
		row := fmt.Sprintf("row%d", label)
		c.XORQ(step, step)
		c.MOVQ(at, to)
		c.MOVQ(work, from)
		c.Label(row)
		c.VCVTDQ2PS(Mem{Base: from, Disp: amxTile * 2 * half}, c.vec(1))
		c.VCVTDQ2PS(Mem{Base: from, Disp: amxTile * (2*half + 1)}, c.vec(0))
		c.VFMADD231PS(shift, c.vec(1), c.vec(0)) // exact before rounding, like the sum of integers
		c.VMULPS_BCST(Mem{Base: factor, Index: step, Scale: 4}, c.vec(0), c.vec(0))
		c.VADDPS(Mem{Base: to, Disp: disp}, c.vec(0), reg.K1, c.vec(0))
		c.VMOVUPS(c.vec(0), Mem{Base: to, Disp: disp})
		c.ADDQ(U8(amxLine), from)
		c.ADDQ(ldy, to)
		c.countUp(step, U8(1), rows, row)
	}
	c.Label("tile")
	c.shapeTiles(m, rows)
	c.Label("shaped")
	c.MOVQ(U32(tileWeight), step)
	c.loadTile(Mem{Base: x}, step, firstX)
	c.loadTile(Mem{Base: x, Disp: tileKeys}, step, firstX+1)
	c.loads("w k", w, left)
	c.MOVQ(y, at)
	multiply(0)
	multiply(1)
	store(0)
	c.Label("columns")
	multiply(2)
	store(1)
	add(0, 0)
	multiply(3)
	store(0)
	add(1, amxLine)
	c.subtract(left, U8(tileKeys), c.JZ, "last")
	c.ADDQ(U32(tileSteps*16*c.lanes), w)
	multiply(0)
	store(1)
	add(0, 2*amxLine)
	multiply(1)
	store(0)
	add(1, 3*amxLine)
	c.ADDQ(U32(4*tileKeys), at)
	c.JMP(LabelRef("columns"))
	c.Label("last")
	store(1)
	add(0, 2*amxLine)
	add(1, 3*amxLine)
	c.LEAQ(Mem{Base: factor, Index: rows, Scale: 4}, factor)
	c.MOVQ(ldy, left)
	c.SHLQ(U8(4), left)
	c.ADDQ(left, y)
	c.ADDQ(U32(amxRows*tileWeight), x)
	c.nextTile(m)
	c.releaseTiles()
	c.end()
}
