package main

import (
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// In vectors of 256 bits, integer products multiply 4 rows of x, or 8 joined ones, by the two vectors of a step, whose
// weights are unpacked once for all rows. The 8 or 12 vectors of a group's sums leave no registers for the sums over
// groups, which are in y. In vectors of 512 bits without VNNI, they multiply 8 rows of x by the vector of a step.
//
// Without VNNI, two products of bytes and their sum take one operation each for 16 bits: VPMADDWD, which adds two
// products of 16-bit integers, and VPADDD. A row of x fills half of the 16 bits. So 4 rows are joined to 3:
//
//	z0 = x0 + 256·x1, z1 = x1 + 256·x2, z2 = x2 + 256·x3
//
// Three sums T of products with the joined rows yield the four sums S of the rows: in T0 - 256·T1 + 65536·T2 = S0 +
// 2^24·S3 the low 24 bits are S0, since |S| ≤ 32·127·128 < 2^23, and the others follow one from the other. |T| is below
// 2^27. Rows that are left over are not joined with others.

// groupTile returns the largest number of rows of x that integer products can take.
func (s isa) groupTile(form groupForm) int {
	if s.lanes == 16 || s.joins(form) {
		return 8
	}
	return 4
}

// inMemory reports whether the sums over groups are in y, for want of registers.
func (p *groupCode) inMemory() bool { return p.lanes == 8 && p.rows > 2 }

// joins reports whether rows of x are joined.
func (s isa) joins(form groupForm) bool { return form.bits == 8 && !s.vnni }

// joinedBytes is the size of a group of a joined row, in 16-bit integers: first the even terms of every word of x, then
// the odd ones.
const joinedBytes = 2 * groupTerms

// sumRows returns the number of rows of sums of a group: one for each row of x or for each joined row.
func (p *groupCode) sumRows() int {
	if p.joins(p.form) {
		return p.rows - p.rows/4
	}
	return p.rows
}

// joinedRow returns the index of joined row j. It is stored with the first of the rows of x that it consists of.
func (p *groupCode) joinedRow(j int) int {
	if p.joins(p.form) {
		return j + j/3
	}
	return j
}

// findJoined loads the addresses of the joined rows.
func (p *groupCode) findJoined() {
	if !p.joins(p.form) {
		return
	}
	p.joined = p.GP64()
	p.IMUL3Q(U8(2*recordBytes), p.steps, p.joined)
	if p.rows > 4 {
		p.joined4 = p.GP64()
		p.LEAQ(Mem{Base: p.joined, Index: p.x4, Scale: 1}, p.joined4)
	}
	p.ADDQ(p.x, p.joined)
}

// zeroSums clears the sums over groups.
func (p *groupCode) zeroSums() {
	if !p.inMemory() {
		p.each(func(i, part int) { p.zero(p.y(i, part)) })
		return
	}
	p.out, p.ldy, p.ldy3 = p.arg("y"), p.bytes("ldy"), p.GP64()
	p.LEAQ(Mem{Base: p.ldy, Index: p.ldy, Scale: 2}, p.ldy3)
	if p.rows > 4 {
		p.out4 = p.GP64()
		p.LEAQ(Mem{Base: p.out, Index: p.ldy, Scale: 4}, p.out4)
	}
	p.zero(p.vec(0))
	p.each(func(i, part int) { p.VMOVUPS(p.vec(0), p.place(i, part)) })
}

// place returns the address of part of row i in y.
func (p *groupCode) place(i, part int) Mem {
	if i < 4 {
		return stride(p.out, p.ldy, p.ldy3, i).Offset(4 * p.lanes * part)
	}
	return stride(p.out4, p.ldy, p.ldy3, i-4).Offset(4 * p.lanes * part)
}

// tile multiplies a group and adds its sums.
func (p *groupCode) tile() {
	p.begin()
	p.fetch(p.half)
	switch {
	case p.vnni:
		p.tileVNNI()
	case p.joins(p.form):
		p.tileJoined()
	default:
		p.tileNibbles()
	}
	for part := range p.parts() {
		p.loadFactors(part)
		for i := 0; i < p.rows; {
			for _, sum := range p.separate(i, part) {
				p.VCVTDQ2PS(sum, sum)
				p.add(i, part, sum)
				i++
			}
		}
	}
}

// begin sets the sums of a group to their start values, unless the first product does.
func (p *groupCode) begin() {
	if !p.vnni && !p.joins(p.form) {
		return
	}
	start := recordStart
	if p.joins(p.form) {
		start = recordJoin
	}
	for j := range p.sumRows() {
		for part := range p.parts() {
			switch {
			case p.form.least:
				p.zero(p.sum(j, part))
			case part == 0:
				p.VPBROADCASTD(p.term(p.joinedRow(j), start), p.sum(j, 0))
			default:
				p.VMOVAPS(p.sum(j, 0), p.sum(j, part))
			}
		}
	}
}

// nibbles sets spare registers 2·part and 2·part+1 to the low and high nibbles of words.
func (p *groupCode) nibbles(words int) {
	mask := p.spare(maskAt)
	for part := range p.parts() {
		low, high := p.spare(2*part), p.spare(2*part+1)
		p.VMOVUPS(p.words(words, part), high)
		p.and(high, mask, low)
		p.VPSRLD(U8(4), high, high)
		p.and(high, mask, high)
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

// dot adds to each 32-bit integer of sum the products of the four signed bytes of x and the unsigned bytes of w in that
// lane.
func (c asm) dot(x, w, sum reg.Register) {
	if c.vex {
		c.vexVPDPBUSD(x, w, sum)
	} else {
		c.VPDPBUSD(x, w, sum)
	}
}

// vexVPDPBUSD writes VPDPBUSD on 256-bit vectors byte by byte: Go's assembler has only its AVX-512 encoding.
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

// tileJoined multiplies bytes as 16-bit integers, first the even ones of a word, then the odd ones.
func (p *groupCode) tileJoined() {
	w := func(part int) reg.Register { return p.spare(4 + part) }
	x, t, mask := p.spare(6), p.spare(7), NewDataAddr(NewStaticSymbol("evenBytes"), 0)
	for step := range groupSteps {
		for odd := range 2 {
			for part := range p.parts() {
				if odd == 0 {
					p.VPBROADCASTD(mask, w(part))
					p.and(p.words(step, part), w(part), w(part))
				} else {
					p.VMOVUPS(p.words(step, part), w(part))
					p.VPSRLW(U8(8), w(part), w(part))
				}
			}
			for j := range p.sumRows() {
				base, row := p.joined, p.joinedRow(j)
				if row >= 4 {
					base, row = p.joined4, row-4
				}
				p.VPBROADCASTD(stride(base, p.ldx, p.ldx3, row).Offset(p.half*joinedBytes+odd*groupTerms+4*step), x)
				for part := range p.parts() {
					p.VPMADDWD(x, w(part), t)
					p.VPADDD(t, p.sum(j, part), p.sum(j, part))
				}
			}
		}
	}
}

// separate returns the registers of a group's sums for row i, or for the 4 rows from i on, after separating them.
func (p *groupCode) separate(i, part int) []reg.Register {
	if !p.joins(p.form) {
		return []reg.Register{p.sum(i, part)}
	}
	j := i - i/4
	if i >= p.rows&^3 {
		return []reg.Register{p.sum(j, part)}
	}
	s, t := []reg.Register{p.spare(5), p.sum(j, part), p.sum(j+1, part), p.sum(j+2, part)}, p.spare(6)
	p.VPSLLD(U8(8), s[3], t)
	p.VPSUBD(t, s[2], t)
	p.VPSLLD(U8(16), t, t)
	p.VPSLLD(U8(8), s[1], s[0])
	p.VPSUBD(t, s[0], s[0])
	p.VPSRAD(U8(8), s[0], s[0])
	for n := range 3 {
		p.VPSUBD(s[n], s[n+1], s[n+1])
		p.VPSRAD(U8(8), s[n+1], s[n+1])
	}
	return s
}

// tileNibbles multiplies nibbles by x: the sums of a whole group fit into 16 bits, two to a column.
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
		if step%2 == 0 {
			p.nibbles(step / 2)
		}
		for i := range p.rows {
			p.VPBROADCASTD(p.term(i, 4*step), x)
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
			if !p.form.least {
				p.VPADDD(x, sum, sum)
			}
		}
	}
}

// onesAt is the spare register of 16-bit ones, in vectors of 512 bits.
const onesAt = 2

// ones returns a register of 16-bit ones.
func (p *groupCode) ones() reg.Register {
	if p.lanes == 16 {
		return p.spare(onesAt)
	}
	ones := p.spare(0)
	p.VPCMPEQW(ones, ones, ones)
	p.VPSRLW(U8(15), ones, ones)
	return ones
}
