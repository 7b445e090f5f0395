package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowForm is the format of rows of keys and values: the size of their elements in bytes. Elements are converted to
// float32 when they are read.
type rowForm struct {
	name, element string
	shift         uint64 // log2 of the size in bytes
	what          string
}

var rowForms = []rowForm{
	{"", "float32", 2, ""},
	{"BF16", "uint16", 1, ", with bfloat16 w"},
	{"Int8", "int8", 0, ", with integers w"},
}

// attend generates what one query computes with the keys and values of many positions. It reads them row by row as they
// lie in memory, which is fastest: the tiles of a matrix product would read them in pieces of columns.
func attend(ctx *build.Context, s isa) {
	c := vector{asm: asm{ctx, s}}
	for _, f := range rowForms[:2] { // integers are multiplied without conversion: see rowtile.go
		c.rowDots(f)
		c.rowSums(f)
	}
	for _, f := range rowForms[1:] {
		c.widenRows(f)
	}
}

// arrayBytes loads an argument that counts elements of rows and converts it to bytes.
func (c vector) arrayBytes(name string, f rowForm) reg.GPVirtual {
	r := c.arg(name)
	if f.shift > 0 {
		c.SHLQ(U8(f.shift), r)
	}
	return r
}

// at returns the address of element i of the row at base.
func (f rowForm) at(base, i reg.Register) Mem { return Mem{Base: base, Index: i, Scale: 1 << f.shift} }

// load reads a vector of elements as float32.
func (f rowForm) load(c vector, m Mem, v reg.Register) {
	switch f.name {
	case "":
		c.VMOVUPS(m, v)
	case "BF16":
		c.VPMOVZXWD(m, v)
		c.VPSLLD(U8(16), v, v)
	default:
		c.VPMOVSXBD(m, v)
		c.VCVTDQ2PS(v, v)
	}
}

// rowDots computes four rows at a time.
func (c vector) rowDots(f rowForm) {
	c.function("rowDots"+f.name, "func(n, k int, w *"+f.element+", ldw int, x, y *float32)",
		"sets y[i] = Σ_p w[i·ldw + p]·x[p] for i < n, at least 4, and p < k, a positive multiple of 16"+
			f.what+". If n is",
		"no multiple of 4, the last rows are computed with some of those before them once more.")
	n, k, w, ldw, x, y := c.arg("n"), c.arg("k"), c.arg("w"), c.arrayBytes("ldw", f), c.arg("x"), c.arg("y")
	p, back := c.GP64(), c.GP64()
	c.Label("group")
	c.branch(n, c.JGE, U8(4), "whole")
	c.SUBQ(U8(4), n) // minus the number of rows to step back
	c.MOVQ(ldw, back)
	c.IMULQ(n, back)
	c.ADDQ(back, w)
	c.LEAQ(Mem{Base: y, Index: n, Scale: 4}, y)
	c.MOVQ(U32(4), n)
	c.Label("whole")
	for i := range 4 { // one after the other, so that memory is read strictly in sequence
		terms := fmt.Sprintf("terms%d", i)
		c.zero(c.vec(i))
		c.XORQ(p, p)
		c.Label(terms)
		f.load(c, f.at(w, p), c.vec(4))
		c.VFMADD231PS(float(x, p), c.vec(4), c.vec(i))
		c.countUp(p, U8(c.lanes), k, terms)
		c.ADDQ(ldw, w)
	}
	half := func(i int) reg.Register { return reg.Vector.Lookup(reg.Index(i), reg.S256) }
	if c.lanes == 16 {
		for i := range 4 {
			c.VEXTRACTF64X4(U8(1), c.vec(i), half(5+i))
			c.VADDPS(half(5+i), half(i), half(i))
		}
	}
	c.VHADDPS(half(1), half(0), half(0))
	c.VHADDPS(half(3), half(2), half(2))
	c.VHADDPS(half(2), half(0), half(0))
	low, high := reg.Vector.Lookup(0, reg.S128), reg.Vector.Lookup(1, reg.S128)
	c.VEXTRACTF128(U8(1), half(0), high)
	c.VADDPS(high, low, low)
	c.VMOVUPS(low, Mem{Base: y})
	c.ADDQ(U8(16), y)
	c.subtract(n, U8(4), c.JG, "group")
	c.end()
}

// rowSums keeps a row of sums in registers.
func (c vector) rowSums(f rowForm) {
	const widest = 8 // vectors
	c.function("rowSums"+f.name, "func(n, k int, w *"+f.element+", ldw int, x, y *float32, add bool)",
		"sets y[j] = Σ_i x[i]·w[i·ldw + j] for i < n, at least 1, and j < k, a positive multiple of 16"+f.what+",",
		fmt.Sprintf("at most %d vectors, and adds it to what y holds if add is true. The sums are to the last bit those "+
			"of vecGemm.", widest))
	n, k, w, ldw, x, y := c.arg("n"), c.arg("k"), c.arg("w"), c.arrayBytes("ldw", f), c.arg("x"), c.arg("y")
	var widths []int
	for v := 16 / c.lanes; v <= widest; v += 16 / c.lanes {
		widths = append(widths, v)
	}
	label := func(s string, v int) string { return fmt.Sprintf("%s%d", s, v) }
	for _, v := range widths[1:] {
		c.branch(k, c.JE, U8(v*c.lanes), label("width", v))
	}
	for _, v := range widths {
		c.Label(label("width", v))
		for i := range v {
			c.zero(c.vec(i))
		}
		c.Label(label("loop", v))
		c.VBROADCASTSS(Mem{Base: x}, c.vec(widest))
		for i := range v {
			at := Mem{Base: w, Disp: c.lanes << f.shift * i}
			if f.name == "" {
				c.VFMADD231PS(at, c.vec(widest), c.vec(i))
				continue
			}
			part := c.vec(widest + 1 + i%4)
			f.load(c, at, part)
			c.VFMADD231PS(part, c.vec(widest), c.vec(i))
		}
		c.ADDQ(U8(4), x)
		c.ADDQ(ldw, w)
		c.countDown(n, label("loop", v))
		c.CMPB(c.param("add"), U8(0))
		c.JE(LabelRef(label("store", v)))
		for i := range v {
			c.VADDPS(Mem{Base: y, Disp: 4 * c.lanes * i}, c.vec(i), c.vec(i))
		}
		c.Label(label("store", v))
		for i := range v {
			c.VMOVUPS(c.vec(i), Mem{Base: y, Disp: 4 * c.lanes * i})
		}
		c.end()
	}
}

// widenRows converts whole rows to float32.
func (c vector) widenRows(f rowForm) {
	signature, doc := "func(n, k int, w *"+f.element+", y *float32)", "sets y[i·k + p] = w[i·k + p]"
	if f.name == "Int8" {
		signature, doc = "func(n, k int, w *int8, scale, y *float32)", doc+"·scale[i]"
	}
	c.function("widen"+f.name, signature, doc+" for i < n, at least 1, and p < k, a positive multiple of 16"+f.what+".")
	n, k, w, y := c.arg("n"), c.arg("k"), c.arg("w"), c.arg("y")
	scale := c.GP64()
	if f.name == "Int8" {
		c.Load(c.Param("scale"), scale)
	}
	p := c.GP64()
	c.Label("row")
	if f.name == "Int8" {
		c.VBROADCASTSS(Mem{Base: scale}, c.vec(1))
		c.ADDQ(U8(4), scale)
	}
	c.XORQ(p, p)
	c.Label("terms")
	f.load(c, f.at(w, p), c.vec(0))
	if f.name == "Int8" {
		c.VMULPS(c.vec(1), c.vec(0), c.vec(0))
	}
	c.VMOVUPS(c.vec(0), float(y, p))
	c.countUp(p, U8(c.lanes), k, "terms")
	c.LEAQ(Mem{Base: y, Index: k, Scale: 4}, y)
	c.LEAQ(Mem{Base: w, Index: k, Scale: 1 << f.shift}, w)
	c.countDown(n, "row")
	c.end()
}
