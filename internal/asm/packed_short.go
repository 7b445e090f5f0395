package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of words of two bfloat16, as in packed_short.go of package kernel.
const (
	shortSteps = 8         // words of a row in a block
	shortGroup = 4         // words in a group; the last is stored in spare bits of the others
	shortOnes  = 1<<16 | 1 // the lowest bit of each number of a word
	shortSpare = 15 << 11  // spare bits of a number
)

// short generates products of weights in the short form.
func (c vector) short() {
	c.shortFunction("shortBF16", "x[i·ldx + p]", "vecGemm")
	c.forRows(8, func(rows int) {
		p := c.shortCode(rows)
		low, high := c.vec(27), c.vec(28)
		p.low, p.word = low, func(int) reg.Register { return c.vec(26) }
		p.last = func(part int) reg.Register { return c.vec(29 + part) }
		p.hold(c.vec(24), keptBits)
		p.head = c.vec(25)
		p.VPBROADCASTD(c.word(0xffff0000), high)
		p.decoded = func(step, part int) { p.multiply(step, part, high) }
		p.product()
	})
	c.table()
}

// shortFunction begins a product of x with weights in the short form.
func (c asm) shortFunction(name, x, like string) {
	c.function(name,
		"func(m, blocks int, x *float32, ldx int, w, heads *uint32, y *float32, ldy int, bias *float32, add bool)",
		"sets y[i·ldy + j] = Σ_p "+x+"·W[j,p] for i < m, at most 8, j < 48 and p < 16·blocks, plus bias[j] "+
			"unless bias is nil, and adds it to what y holds if add is true. w is a panel of bfloat16 in the short "+
			"form, with the heads of its blocks. The sums are to the last bit those of "+like+".")
}

// keptBits selects the bits of a word that belong to its own numbers.
const keptBits = ^uint32(shortSpare * shortOnes)

// shortCode writes code that reads a panel in the short form.
type shortCode struct {
	packedCode
	vector     vector
	heads      reg.GPVirtual
	head       reg.Register // head of a block, or nil: then it is read from heads
	low        reg.Register // spare
	word, last func(part int) reg.Register
	held       map[uint32]reg.Register // constants, if there is a register for them
	xBytes     int                     // bytes of x that a word is multiplied by
	// begin is called before the words of a step, decoded when a part of them is in word, and done after all parts.
	// They may change word and low.
	begin   func(step int)
	decoded func(step, part int)
	done    func(step int)
	behind  func() // called after each block
}

// shortCode returns code for a number of rows, without registers.
func (c vector) shortCode(rows int) *shortCode {
	p := &shortCode{packedCode: packedCode{asm: c.asm, rows: rows}, vector: c, held: map[uint32]reg.Register{}, xBytes: 8}
	p.begin, p.done, p.behind = p.loadX, func(int) {}, func() {}
	return p
}

// hold loads a constant into a register and keeps it there.
func (p *shortCode) hold(v reg.Register, bits uint32) {
	p.held[bits] = v
	p.VPBROADCASTD(p.vector.word(bits), v)
}

// product writes the product of x with a panel.
func (p *shortCode) product() {
	p.operands(2)
	if p.rows <= 4 {
		for i, bits := range p.masks() {
			p.hold(p.vec(12+i), bits)
		}
	}
	for i := range p.rows {
		for part := range p.vecs() {
			p.zero(p.sum(i, part))
		}
	}
	label := p.label
	p.blocks()
	p.floatEnd(label)
}

func (p *shortCode) label(s string) string { return fmt.Sprintf("short_%d_%s", p.rows, s) }

// blocks writes the loop over the blocks.
func (p *shortCode) blocks() {
	blocks, t := p.GP64(), p.GP32()
	p.heads = p.arg("heads")
	p.Load(p.Param("blocks"), blocks)
	p.Label(p.label("block"))
	p.MOVL(Mem{Base: p.heads}, t)
	p.TESTL(t, t)
	p.JS(LabelRef(p.label("plain")))
	if p.head != nil {
		p.VPBROADCASTD(t, p.head)
	}
	p.MOVQ(U32(shortSteps/shortGroup), p.steps)
	p.loopOver(p.label("short"), shortGroup*p.xBytes, (shortGroup-1)*packedStep, p.words)
	p.JMP(LabelRef(p.label("next")))
	p.Label(p.label("plain"))
	p.MOVQ(U32(shortSteps), p.steps)
	p.loop(p.label("step"), p.xBytes, func() {
		p.begin(0)
		for part := range p.vecs() {
			p.VMOVDQU32(p.weights(part), p.word(part))
			p.decoded(0, part)
		}
		p.done(0)
	})
	p.Label(p.label("next"))
	p.behind()
	p.ADDQ(U8(4), p.heads)
	p.countDown(blocks, p.label("block"))
}

// masks returns the masks of the bits of the last word that the words before it store, and the mask of its signs.
func (p *shortCode) masks() []uint32 {
	var masks []uint32
	for i := range shortGroup - 2 {
		masks = append(masks, 15*shortOnes<<(4*i))
	}
	return append(masks, 7*shortOnes<<8, shortOnes<<15)
}

// words decodes the words of a group.
func (p *shortCode) words() {
	masks := p.masks()
	for step := range shortGroup - 1 {
		p.begin(step)
		for part := range p.vecs() {
			word := p.word(part)
			p.VMOVDQU32(p.weights(part).Offset(step*packedStep), word)
			if step < shortGroup-2 {
				p.VPSRLD(U8(11-4*step), word, p.low)
				p.merge(masks[step], step == 0, part)
			} else {
				p.VPSRLD(U8(3), word, p.low)
				p.merge(masks[step], false, part)
				p.VPSLLD(U8(1), word, p.low)
				p.merge(masks[step+1], false, part)
			}
			p.and(keptBits, word, word)
			p.addHead(word, word)
			p.decoded(step, part)
		}
		p.done(step)
	}
	p.begin(shortGroup - 1)
	for part := range p.vecs() {
		p.addHead(p.last(part), p.word(part))
		p.decoded(shortGroup-1, part)
	}
	p.done(shortGroup - 1)
}

// addHead adds the head of the block.
func (p *shortCode) addHead(from, to reg.Register) {
	if p.head != nil {
		p.VPADDD(p.head, from, to)
	} else {
		p.VPADDD_BCST(Mem{Base: p.heads}, from, to)
	}
}

// and sets to to the given bits of from.
func (p *shortCode) and(bits uint32, from, to reg.Register) {
	if v, ok := p.held[bits]; ok {
		p.VPANDD(v, from, to)
	} else {
		p.VPANDD_BCST(p.vector.word(bits), from, to)
	}
}

// merge adds the given bits of low to the last word. If first is true, the last word has no other bits yet.
func (p *shortCode) merge(bits uint32, first bool, part int) {
	const aOrBAndC = 0xf8
	mask, held := p.held[bits]
	switch {
	case first:
		p.and(bits, p.low, p.last(part))
	case held:
		p.VPTERNLOGD(U8(aOrBAndC), mask, p.low, p.last(part))
	default:
		p.VPTERNLOGD_BCST(U8(aOrBAndC), p.vector.word(bits), p.low, p.last(part))
	}
}

// loadX loads the terms of a single row that a step is multiplied by.
func (p *shortCode) loadX(step int) {
	if p.rows == 1 {
		p.VBROADCASTSS(p.term(0, 8*step), p.vec(10))
		p.VBROADCASTSS(p.term(0, 8*step+4), p.vec(11))
	}
}

// multiply multiplies the words of a step, whose first terms are in the upper halves, by the matching terms of x.
func (p *shortCode) multiply(step, part int, high reg.Register) {
	word := p.word(part)
	p.VPSLLD(U8(16), word, p.low)
	p.VPANDD(high, word, word)
	for i, w := range []reg.Register{word, p.low} {
		if p.rows == 1 {
			p.VFMADD231PS(p.vec(10+i), w, p.sum(0, part))
			continue
		}
		for row := range p.rows {
			p.VFMADD231PS_BCST(p.term(row, 8*step+4*i), w, p.sum(row, part))
		}
	}
}
