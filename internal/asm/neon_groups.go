package main

import (
	"fmt"
	"strings"
)

// groupsNEON generates the integer products for arm64. A vector holds the words of a step for 4 rows of weights, and
// SDOT multiplies its bytes by those of an element of x. Weights become signed by flipping their highest bit, or are
// multiplied as they are by USDOT, which comes with FEAT_I8MM.
func groupsNEON(file *armFile) {
	for _, form := range groupForms {
		for _, s := range []isa{dotISA, i8mmISA} {
			if s == i8mmISA && form.bits == 4 {
				continue // nibbles are signed bytes
			}
			c := file.function(form.name, s)
			m := c.arg("m")
			own := c.next
			for rows := 1; rows < groupNeonRows; rows++ {
				next := fmt.Sprintf("more%d", rows)
				c.ifGreater(m, rows, next)
				p := groupNeon{neon: c, form: form, rows: rows, own: own}
				p.code()
				c.label(next)
			}
			p := groupNeon{neon: c, form: form, rows: groupNeonRows, own: own}
			p.code()
		}
	}
}

// groupNeonRows is the largest number of rows of x in a call.
const groupNeonRows = 4

// groupNeon writes the products of some rows of x by a panel of integers. The sums of a group stay in registers, and so
// do the sums over groups of 1 or 2 rows; those of more rows are in y.
type groupNeon struct {
	*neon
	form            groupForm
	rows            int
	own             xreg // first register of its own: code for other rows uses the same
	half            int  // index of the group within its block of two
	x, y            []xreg
	w, blocks, t    xreg
	bias, rowFactor xreg
}

const groupParts = groupWidth / 4 // vectors that hold the numbers of a panel

// Vector registers: the sums of a group, then the sums over groups or, for 3 and 4 rows, x; spare ones; a constant.
func (p *groupNeon) sum(i, part int) vreg   { return vreg(i*groupParts + part) }
func (p *groupNeon) total(i, part int) vreg { return vreg(16 + i*groupParts + part) }
func (p *groupNeon) inMemory() bool         { return p.rows > 2 }
func (p *groupNeon) term(i int) vreg {
	if p.inMemory() {
		return vreg(16 + i)
	}
	return vreg(24 + i)
}
func (p *groupNeon) spare(i int) vreg {
	if p.inMemory() {
		return vreg(20 + i)
	}
	return vreg(26 + i)
}

const groupConstant = vreg(31)

func (p *groupNeon) code() {
	label := func(s string) string { return fmt.Sprintf("%s_%d", s, p.rows) }
	c := p.neon
	c.next = p.own
	p.w, p.blocks, p.t = c.arg("w"), c.arg("blocks"), c.x()
	ldx, ldy := c.arg("ldx"), c.bytes("ldy")
	p.x, p.y = []xreg{c.arg("x")}, []xreg{c.arg("y")}
	for i := 1; i < p.rows; i++ {
		p.x, p.y = append(p.x, c.x()), append(p.y, c.x())
		c.add(p.x[i], p.x[i-1], ldx)
		c.add(p.y[i], p.y[i-1], ldy)
	}
	switch {
	case p.form.bits == 4:
		c.bytesOf(groupConstant, 15)
	case p.isa == dotISA:
		c.bytesOf(groupConstant, 128)
	}
	if p.inMemory() {
		c.zero(0)
		p.each(func(i, part int) { c.store(whole, 0, p.y[i], 16*part) })
	} else {
		p.each(func(i, part int) { c.zero(p.total(i, part)) })
	}
	c.loop(label("block"), armLoop{name: fmt.Sprintf("%s, %d rows", p.form.name, p.rows),
		work: p.rows * groupWidth * 2 * groupTerms, unit: "multiply-adds",
		bytes: p.form.blockBytes() + p.rows*2*recordBytes, instructions: []string{"sdot", "usdot"}}, func() {
		for p.half = range 2 {
			p.products()
			p.scale()
		}
		for _, x := range p.x {
			c.addImm(x, x, 2*recordBytes)
		}
		c.addImm(p.w, p.w, p.form.blockBytes())
		c.subtract(p.blocks, 1, label("block"))
	})
	p.finish(label("store"))
}

// each calls f for each part of each row.
func (p *groupNeon) each(f func(i, part int)) {
	for i := range p.rows {
		for part := range groupParts {
			f(i, part)
		}
	}
}

// record reads the part of the record of row i after its integers: element 0 is the factor, 1 the start of sums, 2 the
// sum of the numbers.
func (p *groupNeon) record(i int) {
	p.load(whole, p.term(i), p.x[i], p.half*recordBytes+recordScale)
}

// products sets the sums to those of a group.
func (p *groupNeon) products() {
	begins := !p.form.least && !(p.form.bits == 8 && p.isa == dotISA)
	for i := range p.rows {
		if begins {
			p.record(i)
		}
		for part := range groupParts {
			if begins {
				p.dup(p.sum(i, part), p.term(i), 1)
			} else {
				p.zero(p.sum(i, part))
			}
		}
	}
	dot := sdotE
	if p.form.bits == 8 && p.isa == i8mmISA {
		dot = usdotE
	}
	words := 2*p.form.factorBytes() + p.half*p.form.weightBytes()
	for step := range groupSteps {
		if step%4 == 0 {
			for i := range p.rows {
				p.load(whole, p.term(i), p.x[i], p.half*recordBytes+4*step)
			}
		}
		if p.form.bits == 4 {
			p.nibbles(words, step)
			continue
		}
		for part := range groupParts {
			w := p.spare(part)
			p.load(whole, w, p.w, words+step*groupStep+16*part)
			if dot.name == "sdot" {
				p.v(eorV, w, w, groupConstant)
			}
			for i := range p.rows {
				p.e(dot, p.sum(i, part), w, p.term(i), step%4)
			}
		}
	}
}

// nibbles adds the products of an even step and the step after it, which share their words. It ignores odd steps.
func (p *groupNeon) nibbles(words, step int) {
	if step%2 == 1 {
		return
	}
	for part := range groupParts {
		low, high := p.spare(part%2*2), p.spare(part%2*2+1)
		p.load(whole, high, p.w, words+step/2*groupStep+16*part)
		p.v(andV, low, high, groupConstant)
		p.ushrBytes(high, high, 4)
		for i := range p.rows {
			p.e(sdotE, p.sum(i, part), low, p.term(i), step%4)
			p.e(sdotE, p.sum(i, part), high, p.term(i), step%4+1)
		}
	}
}

// scale multiplies the sums of a group by their factors and adds them to the sums over groups.
func (p *groupNeon) scale() {
	for i := range p.rows {
		p.record(i)
	}
	factor, least, t, y := p.spare(0), p.spare(1), p.spare(2), p.spare(3)
	factors := p.half * p.form.factorBytes()
	for part := range groupParts {
		p.load(twoFs, factor, p.w, factors+8*part)
		p.v(fcvtlV, factor, factor)
		if p.form.least {
			p.load(twoFs, least, p.w, factors+2*groupWidth+8*part)
			p.v(fcvtlV, least, least)
		}
		for i := range p.rows {
			sum, total := p.sum(i, part), p.total(i, part)
			p.v(scvtfV, sum, sum)
			p.e(fmulE, t, factor, p.term(i), 0)
			if p.inMemory() {
				total = y
				p.load(whole, y, p.y[i], 16*part)
			}
			p.v(fmlaV, total, sum, t)
			if p.form.least {
				p.e(fmlaE, total, least, p.term(i), 2)
			}
			if p.inMemory() {
				p.store(whole, y, p.y[i], 16*part)
			}
		}
	}
}

// finish multiplies the sums by the factors of the weight rows, adds the bias and stores the results.
func (p *groupNeon) finish(label string) {
	factor, bias, y := p.spare(0), p.spare(1), p.spare(2)
	p.rowFactor, p.bias = p.w, p.blocks
	p.argInto("rowFactor", p.rowFactor)
	p.argInto("bias", p.bias)
	for part := range groupParts {
		p.load(whole, factor, p.rowFactor, 16*part)
		for i := range p.rows {
			total := p.total(i, part)
			if p.inMemory() {
				total = y
				p.load(whole, y, p.y[i], 16*part)
			}
			p.v(fmulV, total, total, factor)
			p.store(whole, total, p.y[i], 16*part)
		}
	}
	p.ifZero(p.bias, label)
	for part := range groupParts {
		p.load(whole, bias, p.bias, 16*part)
		for i := range p.rows {
			p.load(whole, y, p.y[i], 16*part)
			p.v(faddV, y, y, bias)
			p.store(whole, y, p.y[i], 16*part)
		}
	}
	p.label(label)
	p.end()
}

// armText returns a loop in Arm's syntax, for llvm-mca.
func (f *armFunction) armText(l armLoop) string {
	var w strings.Builder
	for _, line := range f.lines[l.first-1 : l.last] {
		if line.arm != "" {
			w.WriteString(line.arm + "\n")
		}
	}
	return w.String()
}
