package main

import (
	"strings"
	"unicode/utf8"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set with the shape of its matrix product tile, which has as many accumulators as fit in its
// registers.
type isa struct {
	name  string // suffix of function names; in lower case it is the feature of package kernel
	lanes int    // floats in a vector
	rows  int    // height of a tile
	vecs  int    // width of a tile in vectors
	pairs bool   // products multiply pairs of bfloat16, which have the size of a float
	vnni  bool   // has VPDPBUSD,
	vex   bool   // in the encoding of AVX-VNNI
}

var (
	// 24 accumulators, 3 vectors of B: of 32 registers
	avx512 = isa{name: "AVX512", lanes: 16, rows: 8, vecs: 3}
	// 12 accumulators, 2 vectors of B, an element of A, a mask: 16 registers
	avx2  = isa{name: "AVX2", lanes: 8, rows: 6, vecs: 2}
	pairs = isa{name: "AVX512BF16", lanes: 16, rows: 8, vecs: 3, pairs: true} // as AVX-512, and a pair of A
	// VNNI adds only integer products to AVX-512 or AVX2. On 256-bit vectors it uses the encoding of AVX-512 or, on
	// processors without AVX-512, that of AVX.
	vnni     = isa{name: "AVX512VNNI", lanes: 16, rows: 8, vecs: 3, vnni: true}
	vnniVL   = isa{name: "AVX512VNNIVL", lanes: 8, rows: 6, vecs: 2, vnni: true}
	vnniAVX2 = isa{name: "AVXVNNI", lanes: 8, rows: 6, vecs: 2, vnni: true, vex: true}
)

// width returns the width of a tile in floats.
func (s isa) width() int { return s.vecs * s.lanes }

// nosplit marks kernels, which use little stack.
const nosplit = attr.NOSPLIT

// asm writes code for one instruction set.
type asm struct {
	*build.Context
	isa
}

// vec returns vector register i. Vector registers are chosen by hand: avo's allocator treats zeroing a register as
// reading it, and does not find enough registers for a tile.
func (c asm) vec(i int) reg.Register {
	spec := reg.S256
	if c.lanes == 16 {
		spec = reg.S512
	}
	return reg.Vector.Lookup(reg.Index(i), spec)
}

// zero clears a vector.
func (c asm) zero(v reg.Register) {
	if c.lanes == 16 {
		c.VPXORD(v, v, v)
	} else {
		c.VXORPS(v, v, v)
	}
}

// mask returns a register, new or vector 15, that selects the first n lanes of a vector, 1 ≤ n ≤ lanes. It changes n.
func (c asm) mask(n reg.GPVirtual) reg.Register {
	if c.lanes == 16 {
		k, ones := c.K(), c.GP32()
		c.MOVL(I32(-1), ones)
		c.BZHIL(n.As32(), ones, ones)
		c.KMOVW(ones, k)
		return k
	}
	table := c.GP64()
	c.LEAQ(NewDataAddr(NewStaticSymbol("masks"), 4*8), table)
	c.NEGQ(n)
	c.VMOVUPS(Mem{Base: table, Index: n, Scale: 4}, c.vec(15))
	return c.vec(15)
}

// lastLanes returns registers, new or vectors from first on, that select all of 16 floats but the first n, 1 ≤ n < 16.
// It changes n.
func (c asm) lastLanes(n reg.GPVirtual, first int) []reg.Register {
	if c.lanes == 16 {
		k, ones := c.K(), c.GP32()
		c.MOVL(U32(0xffff), ones)
		c.SHLXL(n.As32(), ones, ones)
		c.KMOVW(ones, k)
		return []reg.Register{k}
	}
	table := c.GP64()
	c.LEAQ(NewDataAddr(NewStaticSymbol("masks"), 4*(8+16)), table)
	c.NEGQ(n)
	c.VMOVUPS(Mem{Base: table, Index: n, Scale: 4}, c.vec(first))
	c.VMOVUPS(Mem{Base: table, Index: n, Scale: 4, Disp: 32}, c.vec(first+1))
	return []reg.Register{c.vec(first), c.vec(first + 1)}
}

// maskTable writes the data that mask and lastLanes read for AVX2: 8 ones, 16 zeros, 16 ones.
func (c asm) maskTable() {
	if c.lanes == 16 {
		return
	}
	c.data("masks")
	for i := range 40 {
		word := ^uint32(0)
		if i >= 8 && i < 24 {
			word = 0
		}
		c.AddDatum(4*i, U32(word))
	}
}

// load reads a vector. mask, unless nil, selects the lanes that may be read; the others become zero.
func (c asm) load(m Mem, v, mask reg.Register) {
	switch {
	case mask == nil:
		c.VMOVUPS(m, v)
	case c.lanes == 16:
		c.VMOVUPS_Z(m, mask, v)
	default:
		c.VMASKMOVPS(m, mask, v)
	}
}

// store writes the lanes of a vector that mask selects, or all if mask is nil.
func (c asm) store(v, mask reg.Register, m Mem) {
	switch {
	case mask == nil:
		c.VMOVUPS(v, m)
	case c.lanes == 16:
		c.VMOVUPS(v, mask, m)
	default:
		c.VMASKMOVPS(v, mask, m)
	}
}

// param returns the address of an argument on the stack.
func (c asm) param(name string) Mem {
	p, err := c.Param(name).Resolve()
	if err != nil {
		panic(err) // no such argument in the signature
	}
	return p.Addr
}

// bytes loads an argument that counts floats and converts it to bytes.
func (c asm) bytes(name string) reg.GPVirtual {
	r := c.GP64()
	c.Load(c.Param(name), r)
	c.SHLQ(U8(2), r)
	return r
}

// stride returns base + i·step for i < 4, where step3 is 3·step.
func stride(base, step, step3 reg.Register, i int) Mem {
	switch i {
	case 1:
		return Mem{Base: base, Index: step, Scale: 1}
	case 2:
		return Mem{Base: base, Index: step, Scale: 2}
	case 3:
		return Mem{Base: base, Index: step3, Scale: 1}
	}
	return Mem{Base: base}
}

// function begins the code of a kernel for the instruction set, in a Go function called nameISA. doc is the kernel's
// contract: a sentence without its subject, then paragraphs separated by empty strings. The contract is the same for
// every instruction set and is written to the function vecName, which chooses between them: see dispatch.go.
func (c asm) function(name, signature string, doc ...string) {
	c.Function(name + c.name)
	c.Attributes(nosplit)
	c.SignatureExpr(signature)
	c.Pragma("noescape")
	c.Doc(wrap(chooser(name) + " " + strings.Join(doc, " "))...)
}

// A vector operation on denormal numbers takes a processor some 150 cycles. A kernel that multiplies many decays, which
// become denormal before they are 0, may treat denormal operands and results as 0.
const (
	roundNearest = 0x1f80 // Go's setting: no exceptions
	flushToZero  = 0x8040 // for results and operands
)

// rounding sets the rounding mode. A kernel that changes it must restore roundNearest.
func (c asm) rounding(how uint32) {
	word := c.AllocLocal(8)
	c.MOVL(U32(how), word)
	c.LDMXCSR(word)
}

// wrap breaks a comment into lines. Two spaces, which come from an empty string between two others, begin a paragraph.
func wrap(text string) (lines []string) {
	for i, paragraph := range strings.Split(text, "  ") {
		if i > 0 {
			lines = append(lines, "")
		}
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && utf8.RuneCountInString(line+" "+word) > docColumns {
				lines, line = append(lines, line), ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// docColumns is the length of a comment line after its slashes.
const docColumns = 116

// data begins the read-only data of that name.
func (c asm) data(name string) {
	c.StaticGlobal(name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
}

// branch jumps to a label depending on a comparison of x and y: branch(n, c.JLT, U8(4), "few") jumps if n < 4.
func (c asm) branch(x Op, jump func(Op), y Op, label string) {
	c.CMPQ(x, y)
	jump(LabelRef(label))
}

// countUp adds step to i and jumps to a label while i < n.
func (c asm) countUp(i, step, n Op, label string) {
	c.ADDQ(step, i)
	c.branch(i, c.JLT, n, label)
}

// countDown subtracts 1 from n and jumps to a label unless the result is 0.
func (c asm) countDown(n Op, label string) {
	c.DECQ(n)
	c.JNZ(LabelRef(label))
}

// subtract subtracts x from n and jumps to a label depending on the result: subtract(n, U8(16), c.JNZ, "loop") jumps if
// it is not 0.
func (c asm) subtract(n, x Op, jump func(Op), label string) {
	c.SUBQ(x, n)
	jump(LabelRef(label))
}

// ifZero jumps to a label if x is 0.
func (c asm) ifZero(x Op, label string) {
	c.TESTQ(x, x)
	c.JZ(LabelRef(label))
}

// end returns from the function.
func (c asm) end() {
	c.VZEROUPPER()
	c.RET()
}

// arg loads an integer or a pointer.
func (c asm) arg(name string) reg.GPVirtual {
	r := c.GP64()
	c.Load(c.Param(name), r)
	return r
}
