package main

import (
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products of integers in vectors of 256 bits: 4 rows of x by the two vectors of a step, whose weights are unpacked
// once for all rows. Their 8 vectors of sums of a group leave no registers for the sums over groups, which are in y.
// And those in vectors of 512 bits without VNNI: 8 rows of x by the vector of a step.

// groupTile is the most rows of x that products of integers take.
func (s isa) groupTile() int {
	if s.lanes == 16 {
		return 8
	}
	return 4
}

// inMemory tells whether the sums over groups are in y, for want of registers.
func (p *groupCode) inMemory() bool { return p.lanes == 8 && p.rows > 2 }

// widens tells whether bytes are multiplied as integers of 16 bits: sums of two products of bytes do not fit into
// those, and VPMADDWD has sums of 32 bits.
func (s isa) widens(form groupForm) bool { return form.bits == 8 && s.lanes == 8 && !s.vnni }

// inHalves tells whether bytes are multiplied nibble by nibble: sums of a group of either nibble fit into 16 bits. That
// takes as many multiplications as widening, but twice the registers.
func (p *groupCode) inHalves() bool { return p.form.bits == 8 && p.lanes == 16 && !p.vnni }

// highs is the register of the sums of a group of the high nibbles of bytes.
func (p *groupCode) highs(i int) reg.Register { return p.vec(16 + i) }

// wideBytes are those of a group of a row of x as integers of 16 bits.
const wideBytes = 2 * groupTerms

// zeroSums clears the sums over groups.
func (p *groupCode) zeroSums() {
	if !p.inMemory() {
		p.each(func(i, part int) { p.zero(p.y(i, part)) })
		return
	}
	p.out, p.ldy, p.ldy3 = p.arg("y"), p.bytes("ldy"), p.GP64()
	p.LEAQ(Mem{Base: p.ldy, Index: p.ldy, Scale: 2}, p.ldy3)
	p.zero(p.vec(0))
	p.each(func(i, part int) { p.VMOVUPS(p.vec(0), p.place(i, part)) })
}

// place is where part of row i is in y.
func (p *groupCode) place(i, part int) Mem {
	return stride(p.out, p.ldy, p.ldy3, i).Offset(4 * p.lanes * part)
}

// tile multiplies a group and adds its sums.
func (p *groupCode) tile() {
	p.begin()
	p.fetch(p.half)
	switch {
	case p.vnni:
		p.tileVNNI()
	case p.widens(p.form):
		p.tileInt8()
	default:
		p.tileNibbles()
	}
	for part := range p.parts() {
		p.loadFactors(part)
		for i := range p.rows {
			p.VCVTDQ2PS(p.sum(i, part), p.sum(i, part))
			p.add(i, part, p.sum(i, part))
		}
	}
}

// begin sets the sums of a group to what they begin with, unless the first product does.
func (p *groupCode) begin() {
	if !p.vnni && !p.widens(p.form) {
		return
	}
	p.each(func(i, part int) {
		switch {
		case p.form.least:
			p.zero(p.sum(i, part))
		case part == 0:
			p.VPBROADCASTD(p.term(i, recordStart), p.sum(i, 0))
		default:
			p.VMOVAPS(p.sum(i, 0), p.sum(i, part))
		}
	})
}

// nibbles sets spare registers 2·part and 2·part+1 to the low and high nibbles of words.
func (p *groupCode) nibbles(words int) {
	mask := p.spare(maskAt)
	and := func(x, y, z Op) { p.VPAND(x, y, z) }
	if p.lanes == 16 {
		and = func(x, y, z Op) { p.VPANDD(x, y, z) }
	}
	for part := range p.parts() {
		low, high := p.spare(2*part), p.spare(2*part+1)
		p.VMOVUPS(p.words(words, part), high)
		and(high, mask, low)
		p.VPSRLD(U8(4), high, high)
		and(high, mask, high)
	}
}

// tileVNNI multiplies unsigned weights by signed x.
func (p *groupCode) tileVNNI() {
	x := p.spare(otherAt)
	dots := func(step int, w func(part int) reg.Register) {
		for i := range p.rows {
			p.VPBROADCASTD(p.term(i, 4*step), x)
			for part := range p.parts() {
				p.dot(x, w(part), p.sum(i, part))
			}
		}
	}
	for step := range groupSteps {
		if p.form.bits == 8 {
			for part := range p.parts() {
				p.VMOVUPS(p.words(step, part), p.spare(part))
			}
			dots(step, p.spare)
			continue
		}
		if step%2 == 0 {
			p.nibbles(step / 2)
		}
		dots(step, func(part int) reg.Register { return p.spare(2*part + step%2) })
	}
}

// dot adds to each integer of 32 bits of sum the products of the four signed bytes of x and unsigned ones of w there.
func (c asm) dot(x, w, sum reg.Register) {
	if c.vex {
		c.vexVPDPBUSD(x, w, sum)
	} else {
		c.VPDPBUSD(x, w, sum)
	}
}

// vexVPDPBUSD writes VPDPBUSD of vectors of 256 bits byte by byte: Go's assembler has it in the encoding of AVX-512
// alone.
func (c asm) vexVPDPBUSD(x, w, sum reg.Register) {
	index := func(r reg.Register) uint8 { return uint8(r.(reg.Physical).PhysicalIndex()) }
	for _, b := range []uint8{
		0xc4,
		(^index(sum)>>3&1)<<7 | 1<<6 | (^index(x)>>3&1)<<5 | 2, // R X B, map 0F38
		(^index(w)&15)<<3 | 1<<2 | 1,                           // W = 0, vvvv, 256 bits, prefix 66
		0x50,
		3<<6 | index(sum)&7<<3 | index(x)&7,
	} {
		c.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(b)}})
	}
}

// tileInt8 multiplies bytes as integers of 16 bits, the even ones of a word and the odd ones.
func (p *groupCode) tileInt8() {
	mask, t := p.spare(maskAt), p.spare(otherAt)
	wide := func(i, odd, step int) Mem { return p.wide.Offset(i*wideBytes + odd*groupTerms + 4*step) }
	x := []reg.Register{p.spare(4), p.spare(5)}
	for i := range p.rows {
		p.VMOVUPS(p.term(i, 0), t)
		p.VPSLLW(U8(8), t, x[0])
		p.VPSRAW(U8(8), x[0], x[0])
		p.VPSRAW(U8(8), t, x[1])
		for odd := range 2 {
			p.VMOVUPS(x[odd], wide(i, odd, 0))
		}
	}
	for step := range groupSteps {
		for part := range p.parts() {
			even, odd := p.spare(2*part), p.spare(2*part+1)
			p.VMOVUPS(p.words(step, part), odd)
			p.VPAND(odd, mask, even)
			p.VPSRLW(U8(8), odd, odd)
		}
		for i := range p.rows {
			for odd := range 2 {
				p.VPBROADCASTD(wide(i, odd, step), x[odd])
				for part := range p.parts() {
					p.VPMADDWD(x[odd], p.spare(2*part+odd), t)
					p.VPADDD(t, p.sum(i, part), p.sum(i, part))
				}
			}
		}
	}
}

// tileNibbles multiplies nibbles by x: sums of a whole group fit into 16 bits, two to a column.
func (p *groupCode) tileNibbles() {
	x, t := p.spare(4), p.spare(otherAt)
	for step := range groupSteps {
		add := func(w, sum reg.Register) {
			if step == 0 {
				p.VPMADDUBSW(x, w, sum)
				return
			}
			p.VPMADDUBSW(x, w, t)
			p.VPADDW(t, sum, sum)
		}
		switch {
		case p.inHalves():
			p.nibbles(step)
		case step%2 == 0:
			p.nibbles(step / 2)
		}
		for i := range p.rows {
			p.VPBROADCASTD(p.term(i, 4*step), x)
			if p.inHalves() {
				add(p.spare(0), p.sum(i, 0))
				add(p.spare(1), p.highs(i))
				continue
			}
			for part := range p.parts() {
				add(p.spare(2*part+step%2), p.sum(i, part))
			}
		}
	}
	ones := p.ones()
	for i := range p.rows {
		if !p.form.least {
			p.VPBROADCASTD(p.term(i, recordStart), x)
		}
		for part := range p.parts() {
			sum := p.sum(i, part)
			p.VPMADDWD(ones, sum, sum)
			if p.inHalves() {
				p.VPMADDWD(p.spare(sixteensAt), p.highs(i), p.highs(i))
				p.VPADDD(p.highs(i), sum, sum)
			}
			if !p.form.least {
				p.VPADDD(x, sum, sum)
			}
		}
	}
}

// Spare registers of integers of 16 bits that are 1, and 16, in vectors of 512 bits.
const (
	onesAt     = 2
	sixteensAt = 3
)

// ones is a register of integers of 16 bits that are 1.
func (p *groupCode) ones() reg.Register {
	if p.lanes == 16 {
		return p.spare(onesAt)
	}
	ones := p.spare(0)
	p.VPCMPEQW(ones, ones, ones)
	p.VPSRLW(U8(15), ones, ones)
	return ones
}
