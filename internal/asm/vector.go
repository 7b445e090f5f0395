package main

import (
	"math"
	"slices"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vector writes kernels over slices: a loop over whole vectors, then the rest with the same instructions under a mask,
// so that the result for an element does not depend on its index.
type vector struct {
	asm
	constants *constants
	held      map[uint32]reg.Register // constants that are in registers, see holdExp
}

// vectors generates the kernels over slices other than products.
func vectors(ctx *build.Context, s isa) {
	c := vector{asm{ctx, s}, &constants{at: map[uint32]int{}}, nil}
	c.elementwise()
	c.activations()
	c.softmax()
	c.norm()
	c.fir()
	c.sums()
	c.optimizer()
	c.powers()
	c.halfband()
	c.modeProducts()
	c.discretize()
	c.recurrence()
	c.scan()
	c.ssd()
	c.delta()
	c.deltaRows()
	c.dropout()
	c.maskTable()
	c.table()
}

// result returns the address of the result on the stack.
func (c vector) result() Mem {
	p, err := c.ReturnIndex(0).Resolve()
	if err != nil {
		panic(err) // the signature has none
	}
	return p.Addr
}

// part returns the low half of a vector register for 1 halving, the low quarter for 2 and so on.
func (c vector) part(v reg.Register, halvings int) reg.Register {
	specs := []reg.Spec{reg.S128, reg.S256, reg.S512}
	at := 1 - halvings
	if c.lanes == 16 {
		at++
	}
	return reg.Vector.Lookup(v.(reg.Physical).PhysicalIndex(), specs[max(at, 0)])
}

// xmm returns the low 128 bits of a vector register.
func (c vector) xmm(v reg.Register) reg.Register { return c.part(v, 2) }

// span is a number of floats: whole vectors, then tail floats that mask selects, perhaps none.
type span struct {
	whole, tail reg.GPVirtual
	mask        reg.Register
}

// span splits n floats. For AVX2, vector 15 holds the mask from here on.
func (c vector) span(n reg.GPVirtual) span {
	s := span{whole: c.GP64(), tail: c.GP64()}
	t := c.GP64()
	c.MOVQ(n, s.tail)
	c.ANDQ(U8(c.lanes-1), s.tail)
	c.MOVQ(n, s.whole)
	c.SUBQ(s.tail, s.whole)
	c.MOVQ(s.tail, t)
	s.mask = c.mask(t)
	return s
}

// each runs body for the first float i of every vector of a span. mask is nil except for the last one. Labels begin
// with name.
func (c vector) each(name string, s span, body func(i reg.GPVirtual, mask reg.Register)) {
	i := c.GP64()
	c.XORQ(i, i)
	c.ifZero(s.whole, name+"_tail")
	c.Label(name + "_loop")
	body(i, nil)
	c.countUp(i, U8(c.lanes), s.whole, name+"_loop")
	c.Label(name + "_tail")
	c.ifZero(s.tail, name+"_done")
	body(i, s.mask)
	c.Label(name + "_done")
}

// float returns the address of float i of the array at base.
func float(base, i reg.Register) Mem { return Mem{Base: base, Index: i, Scale: 4} }

// only clears the lanes that mask does not select. A nil mask selects all.
func (c vector) only(mask, v reg.Register) {
	switch {
	case mask == nil:
	case c.lanes == 16:
		c.VMOVAPS_Z(v, mask, v)
	default:
		c.VANDPS(mask, v, v)
	}
}

// constants holds float32 constants in memory, for AVX2 a vector of each.
type constants struct {
	bits []uint32
	at   map[uint32]int // byte offset

	doubles []uint64 // constants of float64
}

// word returns the address of a 32-bit constant.
func (c vector) word(bits uint32) Mem {
	size := 4
	if c.lanes == 8 {
		size = 32
	}
	at, ok := c.constants.at[bits]
	if !ok {
		at = size * len(c.constants.bits)
		c.constants.bits = append(c.constants.bits, bits)
		c.constants.at[bits] = at
	}
	return NewDataAddr(NewStaticSymbol("constants"), at)
}

// table writes the constants that were used.
func (c vector) table() {
	c.data("constants")
	for _, bits := range c.constants.bits {
		at := c.constants.at[bits]
		c.AddDatum(at, U32(bits))
		for i := 1; c.lanes == 8 && i < 8; i++ {
			c.AddDatum(at+4*i, U32(bits))
		}
	}
	c.data("doubles")
	for i, bits := range c.constants.doubles {
		for at := i * c.doubleSize(); at < (i+1)*c.doubleSize(); at += 8 {
			c.AddDatum(at, U64(bits))
		}
	}
}

// double returns the address of a float64 constant, for AVX2 of a vector of it.
func (c vector) double(k float64) Mem {
	bits := math.Float64bits(k)
	at := slices.Index(c.constants.doubles, bits)
	if at < 0 {
		at = len(c.constants.doubles)
		c.constants.doubles = append(c.constants.doubles, bits)
	}
	return NewDataAddr(NewStaticSymbol("doubles"), at*c.doubleSize())
}

func (c vector) doubleSize() int {
	if c.lanes == 8 {
		return 32
	}
	return 8
}

// instruction is an instruction that avo has.
type instruction func(...Op)

// with writes an instruction whose first operand is the constant k: plain for AVX2, with a broadcast for AVX-512.
func (c vector) with(k float64, plain, broadcast instruction, ops ...Op) {
	c.withBits(math.Float32bits(float32(k)), plain, broadcast, ops...)
}

// withBits does the same as with for a constant given by its bits.
func (c vector) withBits(bits uint32, plain, broadcast instruction, ops ...Op) {
	if v, ok := c.held[bits]; ok {
		plain(append([]Op{v}, ops...)...)
		return
	}
	f := plain
	if c.lanes == 16 {
		f = broadcast
	}
	f(append([]Op{c.word(bits)}, ops...)...)
}

// set fills a vector with a constant.
func (c vector) set(k float64, v reg.Register) {
	bits := math.Float32bits(float32(k))
	if from, ok := c.held[bits]; ok {
		c.VMOVAPS(from, v)
		return
	}
	c.VBROADCASTSS(c.word(bits), v)
}
