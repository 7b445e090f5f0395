package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How packed_short.go of package kernel keeps words of two bfloat16.
const (
	shortSteps = 8         // words of a row in a block
	shortGroup = 4         // words in a group; the last is stored in spare bits of the others
	shortOnes  = 1<<16 | 1 // the lowest bit of each number of a word
	shortSpare = 15 << 11  // of a number
	xBytes     = 8         // of x that a word is multiplied by
)

// short generates products of weights in the short form.
func (c vector) short() {
	c.function("shortBF16",
		"func(m, blocks int, x *float32, ldx int, w, heads *uint32, y *float32, ldy int, bias *float32, add bool)",
		"sets y[i·ldy + j] = Σ_p x[i·ldx + p]·W[j,p] for i < m, at most 8, j < 48 and p < 16·blocks, plus bias[j] "+
			"unless bias is nil, and adds it to what y holds if add is true. w is a panel of bfloat16 in the short "+
			"form, with the heads of its blocks. The sums are to the last bit those of vecGemm.")
	c.forRows(func(rows int) { c.shortRows(rows) })
	c.table()
}

// shortCode writes the product of a number of rows.
type shortCode struct {
	packedCode
	vector                      vector
	keep, head, word, low, high reg.Register
	held                        map[uint32]reg.Register // constants, where there is a register for them
	x0, x1                      reg.Register            // and elements of x, with one row
}

func (c vector) shortRows(rows int) {
	p := shortCode{
		packedCode: packedCode{asm: c.asm, rows: rows}, vector: c,
		keep: c.vec(24), head: c.vec(25), word: c.vec(26), low: c.vec(27), high: c.vec(28),
		held: map[uint32]reg.Register{},
	}
	label := func(s string) string { return fmt.Sprintf("short_%d_%s", rows, s) }
	p.operands(2)
	blocks, heads, t := p.GP64(), p.GP64(), p.GP32()
	p.Load(p.Param("heads"), heads)
	p.Load(p.Param("blocks"), blocks)
	p.VPBROADCASTD(c.word(^uint32(shortSpare*shortOnes)), p.keep)
	p.VPBROADCASTD(c.word(0xffff0000), p.high)
	if rows <= 4 {
		for i, bits := range p.masks() {
			p.held[bits] = p.vec(12 + i)
			p.VPBROADCASTD(c.word(bits), p.held[bits])
		}
	}
	for i := range rows {
		for part := range p.vecs() {
			p.zero(p.sum(i, part))
		}
	}
	p.Label(label("block"))
	p.MOVL(Mem{Base: heads}, t)
	p.ADDQ(U8(4), heads)
	p.TESTL(t, t)
	p.JS(LabelRef(label("plain")))
	p.VPBROADCASTD(t, p.head)
	p.MOVQ(U32(shortSteps/shortGroup), p.steps)
	p.loopOver(label("short"), shortGroup*xBytes, (shortGroup-1)*packedStep, p.words)
	p.JMP(LabelRef(label("next")))
	p.Label(label("plain"))
	p.MOVQ(U32(shortSteps), p.steps)
	p.loop(label("step"), xBytes, func() {
		p.loadX(0)
		for part := range p.vecs() {
			p.VMOVDQU32(p.weights(part), p.word)
			p.multiply(0, part)
		}
	})
	p.Label(label("next"))
	p.DECQ(blocks)
	p.JNZ(LabelRef(label("block")))
	p.floatEnd(label)
}

// masks are what words before the last take in of it, and its signs.
func (p *shortCode) masks() []uint32 {
	var masks []uint32
	for i := range shortGroup - 2 {
		masks = append(masks, 15*shortOnes<<(4*i))
	}
	return append(masks, 7*shortOnes<<8, shortOnes<<15)
}

// words multiplies the words of a group.
func (p *shortCode) words() {
	masks := p.masks()
	for step := range shortGroup - 1 {
		p.loadX(step)
		for part := range p.vecs() {
			p.VMOVDQU32(p.weights(part).Offset(step*packedStep), p.word)
			if step < shortGroup-2 {
				p.VPSRLD(U8(11-4*step), p.word, p.low)
				p.merge(masks[step], step == 0, part)
			} else {
				p.VPSRLD(U8(3), p.word, p.low)
				p.merge(masks[step], false, part)
				p.VPSLLD(U8(1), p.word, p.low)
				p.merge(masks[step+1], false, part)
			}
			p.VPANDD(p.keep, p.word, p.word)
			p.VPADDD(p.head, p.word, p.word)
			p.multiply(step, part)
		}
	}
	p.loadX(shortGroup - 1)
	for part := range p.vecs() {
		p.VPADDD(p.head, p.last(part), p.word)
		p.multiply(shortGroup-1, part)
	}
}

// last is the last word of a group, less the head.
func (p *shortCode) last(part int) reg.Register { return p.vec(29 + part) }

// merge adds the given bits of low to the last word, which begins with the first of them.
func (p *shortCode) merge(bits uint32, first bool, part int) {
	const aOrBAndC = 0xf8
	mask, held := p.held[bits]
	switch {
	case first && held:
		p.VPANDD(mask, p.low, p.last(part))
	case first:
		p.VPANDD_BCST(p.vector.word(bits), p.low, p.last(part))
	case held:
		p.VPTERNLOGD(U8(aOrBAndC), mask, p.low, p.last(part))
	default:
		p.VPTERNLOGD_BCST(U8(aOrBAndC), p.vector.word(bits), p.low, p.last(part))
	}
}

// loadX loads what a step is multiplied by of a single row.
func (p *shortCode) loadX(step int) {
	if p.rows > 1 {
		return
	}
	p.x0, p.x1 = p.vec(10), p.vec(11)
	p.VBROADCASTSS(p.term(0, step*xBytes), p.x0)
	p.VBROADCASTSS(p.term(0, step*xBytes+4), p.x1)
}

// multiply multiplies the words of a step by what belongs to them of x. It changes them and low.
func (p *shortCode) multiply(step, part int) {
	p.VPSLLD(U8(16), p.word, p.low)
	p.VPANDD(p.high, p.word, p.word)
	p.product(8*step, p.x0, p.low, part)
	p.product(8*step+4, p.x1, p.word, part)
}

// product adds the product of floats by element disp bytes after where x is.
func (p *shortCode) product(disp int, x, w reg.Register, part int) {
	if p.rows == 1 {
		p.VFMADD231PS(x, w, p.sum(0, part))
		return
	}
	for i := range p.rows {
		p.VFMADD231PS_BCST(p.term(i, disp), w, p.sum(i, part))
	}
}
