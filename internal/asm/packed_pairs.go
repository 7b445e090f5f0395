package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packedPairs generates the products of weights in bfloat16 with x in bfloat16. VDPBF16PS adds the product of the upper
// halves of two words first, rounds, and then adds that of the lower ones. So the first term of a word is in its upper
// half, and sums run in the order of terms.
func packedPairs(ctx *build.Context) {
	c := vector{asm{ctx, pairs}, &constants{at: map[uint32]int{}}, nil}
	c.roundPacked()
	c.packedPairs()
	c.shortPairs()
	c.shortRow()
	c.expandShort()
	c.expandPairs()
	c.table()
}

// roundPacked generates the rounding of x.
func (c vector) roundPacked() {
	c.function("roundPacked", roundSignature, roundDoc+", the first in its upper half. What is smaller than 2^-56 is 0.")
	sizes, least := c.vec(3), c.vec(4)
	c.VPBROADCASTD(c.word(0x7fff*shortOnes), sizes)
	c.VPBROADCASTD(c.word(tinyHalf*shortOnes), least)
	notBelow := c.K()
	c.roundedRows(func(words reg.Register) {
		size := c.vec(5)
		c.VPANDD(sizes, words, size)
		c.VPCMPUW(U8(5), least, size, notBelow)
		c.VMOVDQU16_Z(words, notBelow, words)
		c.VPROLD(U8(16), words, words)
	})
}

// tinyHalf is 2^-56 in bfloat16.
const tinyHalf = 0x2380

// dotRows adds the products of a step of weights, in vectors from w on, with the words of x that are disp bytes ahead.
func (p *packedCode) dotRows(disp int, w func(part int) reg.Register, x reg.Register) {
	for i := range p.rows {
		p.VPBROADCASTD(p.term(i, disp), x)
		for part := range p.vecs() {
			p.dotPairs(x, w(part), p.sum(i, part))
		}
	}
}

// packedPairs generates the product with unpacked words.
func (c vector) packedPairs() {
	c.function("packedPairs",
		"func(m, steps int, x *float32, ldx int, w *uint16, y *float32, ldy int, bias *float32, add bool)",
		"sets y[i·ldy + j] = Σ_p x[i·ldx + p]·W[j,p] for i < m, at most 8, j < 48 and p < steps, plus bias[j] unless "+
			"bias is nil, and adds it to what y holds if add is true. x[i·ldx + p] and W[j,p], 32 bits from w[96p + 2j] "+
			"on, are pairs of bfloat16. The sums are to the last bit those of vecGemmPairs.")
	c.forRows(8, func(rows int) {
		p := packedCode{asm: c.asm, rows: rows}
		label := func(s string) string { return fmt.Sprintf("pairs_%d_%s", rows, s) }
		p.load(2)
		for i := range rows * p.vecs() {
			p.zero(p.vec(i))
		}
		w := func(part int) reg.Register { return p.vec(24 + part) }
		p.loop(label("loop"), 4, func() {
			for part := range p.vecs() {
				p.VMOVUPS(p.weights(part), w(part))
			}
			p.dotRows(0, w, p.vec(27))
		})
		p.floatEnd(label)
	})
}

// shortPairs generates the product with the short form.
func (c vector) shortPairs() {
	c.shortFunction("shortPairs", "x[i·ldx + p/2]", "vecGemmPairs, with pairs of bfloat16 in x")
	c.forRows(8, func(rows int) {
		p := c.pairWords(rows)
		p.xBytes, p.begin = 4, func(int) {}
		if rows <= 4 {
			p.hold(c.vec(17), keptBits)
			p.head = c.vec(16)
		}
		p.done = func(step int) { p.dotRows(4*step, p.word, c.vec(31)) }
		p.product()
	})
}

// shortRow generates the product of a single row by the short form, with the same sums as the tiles. VDPBF16PS adds
// only first halves where the second halves of x are zero, and only second halves where the first are zero.
func (c vector) shortRow() {
	c.function("shortRow", "func(blocks int, x *float32, w, heads *uint32, start, y *float32)",
		"sets y[j] = start[j] + Σ_p x[p/2]·W[j,p] for j < 48 and p < 16·blocks, where start may be y, or nil for zero. x "+
			"holds pairs of bfloat16, and w is a panel of bfloat16 in the short form, with the heads of its blocks. The "+
			"sums are to the last bit those of vecGemmTiles.")
	p := c.pairWords(1)
	p.w, p.steps, p.x = p.arg("w"), p.GP64(), p.arg("x")
	start, y, odd := p.arg("start"), p.arg("y"), p.GP64()
	p.xBytes, p.begin, p.head = 4, func(int) {}, c.vec(16)
	for i, bits := range append(p.masks(), keptBits) {
		p.hold(c.vec(17+i), bits)
	}
	pair := c.vec(12)
	halves := []reg.Register{c.vec(13), c.vec(14)}
	p.VPBROADCASTD(c.word(0xffff), halves[0])
	p.VPBROADCASTD(c.word(0xffff0000), halves[1])
	of := func(half, part int) reg.Register { return c.vec((1+half)*p.vecs() + part) }
	for i := range 3 * p.vecs() {
		p.zero(c.vec(i))
	}
	p.ifZero(start, "begin")
	for part := range p.vecs() {
		p.VMOVUPS(Mem{Base: start, Disp: 4 * p.lanes * part}, p.sum(0, part))
	}
	p.Label("begin")
	p.done = func(step int) {
		p.VPBROADCASTD(Mem{Base: p.x, Disp: 4 * step}, pair)
		for half, mask := range halves {
			p.VPANDD(mask, pair, c.vec(15))
			for part := range p.vecs() {
				p.dotPairs(c.vec(15), p.word(part), of(half, part))
			}
		}
	}
	flush := func() {
		for part := range p.vecs() {
			p.VADDPS(of(0, part), of(1, part), of(0, part))
			p.VADDPS(of(0, part), p.sum(0, part), p.sum(0, part))
			p.zero(of(0, part))
			p.zero(of(1, part))
		}
	}
	p.XORQ(odd, odd)
	p.behind = func() { // a tile has the words of two blocks
		p.XORQ(U8(1), odd)
		p.JNZ(LabelRef("tile"))
		flush()
		p.Label("tile")
	}
	p.blocks()
	flush()
	for part := range p.vecs() {
		p.VMOVUPS(p.sum(0, part), Mem{Base: y, Disp: 4 * p.lanes * part})
	}
	p.end()
}

// pairWords returns code that decodes the three vectors of a step before it uses them.
func (c vector) pairWords(rows int) *shortCode {
	p := c.shortCode(rows)
	p.word = func(part int) reg.Register { return c.vec(24 + part) }
	p.last = func(part int) reg.Register { return c.vec(27 + part) }
	p.low, p.decoded = c.vec(30), func(int, int) {}
	return p
}

// expandShort generates the conversion back from the short form.
func (c vector) expandShort() {
	c.function("expandShort", "func(blocks int, w, heads, dst *uint32)",
		"sets dst to the words of a number of blocks of a panel of bfloat16 in the short form, w with their heads, step "+
			"by step.")
	p := c.pairWords(1)
	p.w, p.steps, p.x = p.arg("w"), p.GP64(), p.arg("dst")
	p.xBytes, p.begin = packedStep, func(int) {}
	p.head = c.vec(0)
	for i, bits := range append(p.masks(), keptBits) {
		p.hold(c.vec(1+i), bits)
	}
	p.decoded = func(step, part int) {
		p.VMOVUPS(p.word(part), Mem{Base: p.x, Disp: step*packedStep + 4*p.lanes*part})
	}
	p.blocks()
	p.end()
}

// expandPairs generates the product and the conversion back in one kernel: where the weights come from memory, reading
// them takes as long as the products.
func (c vector) expandPairs() {
	const rows = 8
	c.function("expandPairs",
		"func(blocks int, x *float32, ldx int, w, heads *uint32, y *float32, ldy int, bias *float32, add bool, dst *uint32)",
		"does what vecShortPairs does for 8 rows, and what vecExpandShort does.")
	p := c.pairWords(rows)
	dst := p.arg("dst")
	p.xBytes, p.begin = 4, func(int) {}
	p.done = func(step int) {
		for part := range p.vecs() {
			p.VMOVUPS(p.word(part), Mem{Base: dst, Disp: 4 * p.lanes * part})
		}
		p.ADDQ(I32(packedStep), dst)
		p.dotRows(4*step, p.word, c.vec(31))
	}
	p.product()
	p.end()
}
