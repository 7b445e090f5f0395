package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of integer rows of x and weights, as in packed_groups.go of package kernel.
const (
	groupWidth  = 16 // rows of a panel of weights
	groupSteps  = 8  // steps of a group: 32 terms
	groupTerms  = 4 * groupSteps
	groupStep   = 4 * groupWidth
	recordBytes = 48 // a record of a group of a row of x: its integers,
	recordScale = 32 // their factor,
	recordStart = 36 // the start of sums of products,
	recordSum   = 40 // the sum of the numbers,
	recordJoin  = 44 // and the start of sums for the row that joinRows makes of it
	fetchRows   = 3  // from this many rows of x on, products take so long that weights are prefetched
)

// groupForm is a format of weights in groups of 32 terms with a factor each.
type groupForm struct {
	name  string
	bits  int
	least bool // a group has a minimum besides its factor
}

var groupForms = []groupForm{{"packedInt8", 8, false}, {"packedInt4", 4, false}, {"packedInt4Min", 4, true}}

// factorBytes returns the size of a group's data in a panel besides its integers.
func (f groupForm) factorBytes() int {
	if f.least {
		return 4 * groupWidth
	}
	return 2 * groupWidth
}

// weightBytes returns the size of the integers of a group in a panel.
func (f groupForm) weightBytes() int { return groupSteps * groupStep * f.bits / 8 }

// blockBytes returns the size of a block of a panel.
func (f groupForm) blockBytes() int { return 2 * (f.factorBytes() + f.weightBytes()) }

// groupCode writes products of a few rows of x by a panel of integers. The sums of a group stay in registers, and so do
// the sums over groups if there are enough registers.
type groupCode struct {
	packedCode
	form  groupForm
	half  int // index of the group within its block of two
	ahead reg.GPVirtual

	out, out4, ldy, ldy3 reg.GPVirtual // y, if sums over groups are there for want of registers
	joined, joined4      reg.GPVirtual // joined rows of x, if the products use them
}

// groups generates the integer products.
func (c asm) groups() {
	for _, form := range groupForms {
		c.groupFunction(form)
		c.forRows(c.groupTile(form), func(rows int) {
			p := groupCode{packedCode: packedCode{asm: c, rows: rows}, form: form}
			p.code()
		})
	}
	if !c.vnni {
		c.data("evenBytes")
		c.AddDatum(0, U32(0x00ff00ff))
	}
}

func (c asm) groupFunction(form groupForm) {
	integers, least := "bytes less 128: word j, s is its word 16·s + j", "nothing"
	if form.bits == 4 {
		integers = "nibbles less 8: of word j, s/2, its word 16·(s/2) + j, the low ones if s is even"
	}
	if form.least {
		integers = strings.Replace(integers, "nibbles less 8", "nibbles", 1)
		least = "the sum of the group of x times its number 16 + j of 16 bits"
	}
	c.function(form.name,
		"func(m, blocks int, x *int8, ldx int, w *uint8, y *float32, ldy int, rowFactor, bias *float32, ahead *uint8, fetch int)",
		"sets y[i·ldy + j] = rowFactor[j]·Σ_g (xFactor[i,g]·factor[j,g])·Σ_p x[i,g,p]·W[j,g,p] for "+
			"i < m, at most 8, but 4 in vectors of 256 bits unless rows are joined, j < 16, g < 2·blocks and p < 32, "+
			"plus bias[j] unless bias is nil. To each g-th term is added: "+least+
			". The inner sum is exact; the product of factors is rounded to float32, and each term once when it is "+
			"multiplied and added, in the order of g, from zero.",
		"",
		fmt.Sprintf("A block of w is two groups: the numbers of 16 bits of both, %d each, of which number j is factor[j,g], "+
			"then the integers of both, %d bytes each. The 4 terms of step s = p/4 are ",
			form.factorBytes()/2, form.weightBytes())+integers+". A group of x is a record of 48 bytes: the integers, "+
			"their factor, the integer where the inner sum begins, which takes away what W has less, the sum of the "+
			"numbers, and the same as the integer for what joinRows makes of the row. That follows the records of a "+
			"row, for products of bytes without VNNI, which join rows. ldx counts bytes. With 3 and more rows each block "+
			"fetches "+
			"as many bytes as it has from ahead on, fetch bytes further for each block, into the cache of the second "+
			"level, unless ahead is nil.")
}

func (p *groupCode) code() {
	label := func(s string) string { return fmt.Sprintf("%s_%d", s, p.rows) }
	p.operands(0)
	p.Load(p.Param("blocks"), p.steps)
	fetch := reg.GPVirtual(nil)
	if p.fetches() {
		p.ahead, fetch = p.arg("ahead"), p.arg("fetch")
	}
	p.zeroSums()
	p.constants()
	p.findJoined()
	p.Label(label("block"))
	if p.lanes == 16 && p.vnni {
		p.products()
	} else {
		for p.half = range 2 {
			p.tile()
		}
	}
	p.ADDQ(U8(2*recordBytes), p.x)
	if p.rows > 4 {
		p.ADDQ(U8(2*recordBytes), p.x4)
	}
	if p.joins(p.form) {
		p.ADDQ(I32(2*joinedBytes), p.joined)
		if p.rows > 4 {
			p.ADDQ(I32(2*joinedBytes), p.joined4)
		}
	}
	p.ADDQ(I32(p.form.blockBytes()), p.w)
	if p.fetches() {
		p.ADDQ(fetch, p.ahead)
	}
	p.countDown(p.steps, label("block"))
	p.finish(label)
}

// parts returns the number of vectors that hold 16 numbers.
func (p *groupCode) parts() int { return groupWidth / p.lanes }

// each calls f for each part of each row.
func (p *groupCode) each(f func(i, part int)) {
	for i := range p.rows {
		for part := range p.parts() {
			f(i, part)
		}
	}
}

// sum returns the register of a group's sums for part of row i, and y that of the sums over groups.
func (p *groupCode) sum(i, part int) reg.Register { return p.vec(i*p.parts() + part) }
func (p *groupCode) y(i, part int) reg.Register   { return p.vec((p.rows+i)*p.parts() + part) }

// spare returns spare register i.
func (p *groupCode) spare(i int) reg.Register {
	if p.lanes == 16 {
		return p.vec(24 + i)
	}
	return p.vec(8 + i)
}

// maskAt is the spare register that selects the low nibbles.
const maskAt = 7

// words returns the address of part of the words of a step.
func (p *groupCode) words(step, part int) Mem {
	return Mem{Base: p.w, Disp: 2*p.form.factorBytes() + p.half*p.form.weightBytes() + step*groupStep +
		4*p.lanes*part}
}

// factors returns the address of part of the factors of a group or, with disp, of its minima.
func (p *groupCode) factors(part, disp int) Mem {
	return Mem{Base: p.w, Disp: p.half*p.form.factorBytes() + 2*p.lanes*part + disp}
}

// term returns the address disp bytes into the record of row i.
func (p *groupCode) term(i, disp int) Mem { return p.packedCode.term(i, disp+p.half*recordBytes) }

// constants loads the constants of the loop.
func (p *groupCode) constants() {
	set := func(word uint32, at int) {
		v, t := p.spare(at), p.GP32()
		p.MOVL(U32(word), t)
		if p.lanes == 16 {
			p.VPBROADCASTD(t, v)
			return
		}
		low := reg.Vector.Lookup(v.(reg.Physical).PhysicalIndex(), reg.S128)
		p.VMOVD(t, low)
		p.VPBROADCASTD(low, v)
	}
	if p.form.bits == 8 {
		return
	}
	set(0x0f0f0f0f, maskAt)
	if p.lanes == 16 && !p.vnni {
		set(0x00010001, onesAt)
	}
}

// products multiplies both groups of a block with VNNI, unsigned weights by signed x. The second group follows the
// first by two steps. So there are enough independent products: each waits 4 or 5 cycles for the one before it in its
// sum, and some processors start two in a cycle. Also, while the sums of one group are added, the products of the other
// continue.
func (p *groupCode) products() {
	const behind = 2
	for at := range groupSteps + behind {
		if at < groupSteps {
			p.half = 0
			p.step(at)
		}
		if at >= behind {
			p.half = 1
			p.step(at - behind)
		}
		if at >= groupSteps {
			p.half = 0
			p.sums((at-groupSteps)*p.rows/behind, (at-groupSteps+1)*p.rows/behind)
		}
	}
	p.half = 1
	p.sums(0, p.rows)
}

// step adds the products of a step.
func (p *groupCode) step(step int) {
	if step == 0 {
		for i := range p.rows {
			if p.form.least {
				p.zero(p.halfSum(i))
			} else {
				p.VPBROADCASTD(p.term(i, recordStart), p.halfSum(i))
			}
		}
	}
	w := p.spare(2*p.half + step%2)
	switch low, mask := p.spare(2*p.half), p.spare(maskAt); {
	case p.form.bits == 8:
		p.VMOVDQU32(p.words(step, 0), w)
	case step%2 == 0:
		high := p.spare(2*p.half + 1)
		p.VMOVDQU32(p.words(step/2, 0), high)
		p.VPANDD(high, mask, low)
		p.VPSRLD(U8(4), high, high)
		p.VPANDD(high, mask, high)
	}
	for i := range p.rows {
		p.VPDPBUSD_BCST(p.term(i, 4*step), w, p.halfSum(i))
	}
	if step == 0 {
		p.fetch(p.half)
	}
}

// sums adds a group's sums of rows lo to hi to the sums over groups.
func (p *groupCode) sums(lo, hi int) {
	if lo == 0 {
		p.loadFactors(0)
	}
	for i := lo; i < hi; i++ {
		p.VCVTDQ2PS(p.halfSum(i), p.halfSum(i))
		p.add(i, 0, p.halfSum(i))
	}
}

// halfSum returns the register of a group's sums for row i. Each group of a block has its own.
func (p *groupCode) halfSum(i int) reg.Register { return p.vec(16*p.half + i) }

// fetches reports whether the code prefetches weights.
func (p *groupCode) fetches() bool { return p.lanes == 16 && p.rows >= fetchRows }

// fetch prefetches the lines that belong to one half of a block.
func (p *groupCode) fetch(half int) {
	if !p.fetches() {
		return
	}
	const line = 64
	lines := p.form.blockBytes() / line
	skip := LabelRef(fmt.Sprintf("%s_%d_%d", "fetched", p.rows, half))
	p.TESTQ(p.ahead, p.ahead)
	p.JZ(skip)
	for i := lines * half / 2; i < lines*(half+1)/2; i++ {
		p.PREFETCHT1(Mem{Base: p.ahead, Disp: i * line})
	}
	p.Label(string(skip))
}

// The spare registers of factors and minima, and one more spare register.
const (
	scaleAt = 4
	leastAt = 5
	otherAt = 6
)

func (p *groupCode) loadFactors(part int) {
	p.VCVTPH2PS(p.factors(part, 0), p.spare(scaleAt))
	if p.form.least {
		p.VCVTPH2PS(p.factors(part, 2*groupWidth), p.spare(leastAt))
	}
}

// add adds the sums of a group, times their factors, to y. It may change sum.
func (p *groupCode) add(i, part int, sum reg.Register) {
	t, y := p.spare(otherAt), sum
	if p.lanes == 16 {
		p.VMULPS_BCST(p.term(i, recordScale), p.spare(scaleAt), t)
	} else {
		p.VBROADCASTSS(p.term(i, recordScale), t)
		p.VMULPS(p.spare(scaleAt), t, t)
	}
	if p.inMemory() {
		p.VFMADD213PS(p.place(i, part), t, y)
	} else {
		y = p.y(i, part)
		p.VFMADD231PS(t, sum, y)
	}
	switch {
	case p.form.least && p.lanes == 16:
		p.VFMADD231PS_BCST(p.term(i, recordSum), p.spare(leastAt), y)
	case p.form.least:
		p.VBROADCASTSS(p.term(i, recordSum), t)
		p.VFMADD231PS(p.spare(leastAt), t, y)
	}
	if p.inMemory() {
		p.VMOVUPS(y, p.place(i, part))
	}
}

// finish multiplies the sums by the factors of the weight rows, adds the bias and stores the results.
func (p *groupCode) finish(label func(string) string) {
	factor, bias := p.arg("rowFactor"), p.arg("bias")
	sum := p.y
	if p.inMemory() {
		sum = p.sum
		p.each(func(i, part int) { p.VMOVUPS(p.place(i, part), sum(i, part)) })
	}
	p.each(func(i, part int) { p.VMULPS(Mem{Base: factor, Disp: 4 * p.lanes * part}, sum(i, part), sum(i, part)) })
	p.ifZero(bias, label("store"))
	p.each(func(i, part int) { p.VADDPS(Mem{Base: bias, Disp: 4 * p.lanes * part}, sum(i, part), sum(i, part)) })
	p.Label(label("store"))
	if p.inMemory() {
		p.each(func(i, part int) { p.VMOVUPS(sum(i, part), p.place(i, part)) })
		return
	}
	y, ldy := p.arg("y"), reg.GPVirtual(nil)
	if p.rows > 1 {
		ldy = p.bytes("ldy")
	}
	p.each(func(i, part int) {
		p.VMOVUPS(sum(i, part), Mem{Base: y, Disp: 4 * p.lanes * part})
		if part == p.parts()-1 && i < p.rows-1 {
			p.ADDQ(ldy, y)
		}
	})
}
