package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packedWidth is the number of columns of a panel of weights. packedStep is the size in bytes of a step along it: a
// 32-bit word of each column, which is two terms in bfloat16 and four in int8.
const (
	packedWidth = 48
	packedStep  = 4 * packedWidth
)

// packedCode writes products of a few rows of x by a panel of weights. The sums stay in registers while the panel
// streams by.
type packedCode struct {
	asm
	rows                       int
	x, x4, ldx, ldx3, w, steps reg.GPVirtual
}

// packed generates the products with packed weights for one instruction set.
func packed(ctx *build.Context, s isa) {
	c := asm{ctx, s}
	c.packedBF16()
	if s.lanes == 16 { // gemmAVX512 uses panels of float32 as they are
		vector{c, &constants{at: map[uint32]int{}}, nil}.short()
	} else {
		c.packedFloat32()
	}
}

// vecs returns the number of vectors in a step.
func (p packedCode) vecs() int { return packedWidth / p.lanes }

// sum returns the register of part of the sums of row i.
func (p packedCode) sum(i, part int) reg.Register { return p.vec(i*p.vecs() + part) }

// term returns the address disp bytes after the current term of row i of x.
func (p packedCode) term(i, disp int) Mem {
	if i < 4 {
		return stride(p.x, p.ldx, p.ldx3, i).Offset(disp)
	}
	return stride(p.x4, p.ldx, p.ldx3, i-4).Offset(disp)
}

// weights returns the address of part of a step of the panel.
func (p packedCode) weights(part int) Mem { return Mem{Base: p.w, Disp: 4 * p.lanes * part} }

// load loads the arguments of the loop. ldx counts elements of 1<<shift bytes.
func (p *packedCode) load(shift uint64) {
	p.operands(shift)
	p.Load(p.Param("steps"), p.steps)
}

// operands loads the addresses of x and the weights.
func (p *packedCode) operands(shift uint64) {
	p.x, p.x4, p.ldx, p.ldx3, p.w, p.steps = p.arg("x"), p.GP64(), p.GP64(), p.GP64(), p.arg("w"), p.GP64()
	p.Load(p.Param("ldx"), p.ldx)
	if shift > 0 {
		p.SHLQ(U8(shift), p.ldx)
	}
	if p.rows > 3 {
		p.LEAQ(Mem{Base: p.ldx, Index: p.ldx, Scale: 2}, p.ldx3)
	}
	if p.rows > 4 {
		p.LEAQ(Mem{Base: p.x, Index: p.ldx, Scale: 4}, p.x4)
	}
}

// loop runs body for each step, which reads xBytes of x.
func (p *packedCode) loop(label string, xBytes int, body func()) {
	p.loopOver(label, xBytes, packedStep, body)
}

// loopOver does the same as loop for steps with the given number of bytes of weights.
func (p *packedCode) loopOver(label string, xBytes, wBytes int, body func()) {
	p.Label(label)
	body()
	p.ADDQ(I32(xBytes), p.x)
	if p.rows > 4 {
		p.ADDQ(I32(xBytes), p.x4)
	}
	p.ADDQ(I32(wBytes), p.w)
	p.countDown(p.steps, label)
}

// forRows emits body for the largest number of rows, one fewer and so on, and the choice between them by the argument
// m.
func (c asm) forRows(most int, body func(rows int)) {
	m := c.arg("m")
	for rows := most - 1; rows > 0; rows-- {
		c.branch(m, c.JE, U8(rows), fmt.Sprintf("rows%d", rows))
	}
	for rows := most; rows > 0; rows-- {
		c.Label(fmt.Sprintf("rows%d", rows))
		body(rows)
		c.end()
	}
}

// rowsDoc documents how many rows of x a function takes.
const rowsDoc = "i < m, which is at most 8, and 1 in the code for AVX2"

// packedBF16 converts the halves of a word to two vectors of float32 with a mask and a shift. The first term is in the
// upper half, see packedPairs.
func (c asm) packedBF16() {
	c.function("packedBF16",
		"func(m, steps int, x *float32, ldx int, w *uint16, y *float32, ldy int, bias *float32, add bool)",
		"sets y[i·ldy + j] = Σ_p x[i·ldx + p]·w[p/2·96 + 2j + 1-p%2] for "+rowsDoc+", j < 48 and p < 2·steps, "+
			"with bfloat16 w, plus bias[j] unless bias is nil, and adds it to what y holds if add is true. The sums are to "+
			"the last bit those of vecGemm.")
	if c.lanes == 16 {
		c.forRows(8, func(rows int) { c.packedBF16Rows(rows) })
		return
	}
	c.packedBF16Rows(1)
	c.end()
}

func (c asm) packedBF16Rows(rows int) {
	p := packedCode{asm: c, rows: rows}
	label := func(s string) string { return fmt.Sprintf("bf16_%d_%s", rows, s) }
	p.load(2)
	free := rows * p.vecs()
	even, odd, mask, x0, x1 := p.vec(free), p.vec(free+1), p.vec(free+2), p.vec(free+3), p.vec(free+4)
	if p.lanes == 16 {
		p.VPTERNLOGD(U8(0xff), mask, mask, mask) // ones
	} else {
		p.VPCMPEQD(mask, mask, mask)
	}
	p.VPSLLD(U8(16), mask, mask)
	for i := range rows {
		for part := range p.vecs() {
			p.zero(p.sum(i, part))
		}
	}
	p.loop(label("loop"), 8, func() {
		if p.lanes == 8 {
			p.VBROADCASTSS(p.term(0, 0), x0)
			p.VBROADCASTSS(p.term(0, 4), x1)
		}
		for part := range p.vecs() {
			if p.lanes == 8 {
				p.VMOVUPS(p.weights(part), even)
				p.VPSLLD(U8(16), even, odd)
				p.VPAND(mask, even, even)
				p.VFMADD231PS(x0, even, p.sum(0, part))
				p.VFMADD231PS(x1, odd, p.sum(0, part))
				continue
			}
			p.VPANDD(p.weights(part), mask, even)
			p.VPSLLD(U8(16), p.weights(part), odd)
			for i := range rows {
				p.VFMADD231PS_BCST(p.term(i, 0), even, p.sum(i, part))
			}
			for i := range rows {
				p.VFMADD231PS_BCST(p.term(i, 4), odd, p.sum(i, part))
			}
		}
	})
	p.floatEnd(label)
}

// packedFloat32 multiplies a row of x as packedBF16 does.
func (c asm) packedFloat32() {
	c.function("packedFloat32", "func(steps int, x, w, y, bias *float32, add bool)",
		"sets y[j] = Σ_p x[p]·w[48p + j] for j < 48 and p < steps, plus bias[j] unless bias is nil, and adds it to "+
			"what y holds if add is true. The sums are to the last bit those of vecGemm at level avx2.")
	p := packedCode{asm: c, rows: 1, x: c.GP64(), w: c.GP64(), steps: c.GP64()}
	p.Load(p.Param("x"), p.x)
	p.Load(p.Param("w"), p.w)
	p.Load(p.Param("steps"), p.steps)
	for part := range p.vecs() {
		p.zero(p.sum(0, part))
	}
	x := p.vec(p.vecs())
	p.loop("loop", 4, func() {
		p.VBROADCASTSS(Mem{Base: p.x}, x)
		for part := range p.vecs() {
			p.VFMADD231PS(p.weights(part), x, p.sum(0, part))
		}
	})
	p.floatEnd(func(s string) string { return s })
	c.end()
}

// floatEnd adds bias and y to the sums, depending on the arguments, and stores the results.
func (p *packedCode) floatEnd(label func(string) string) {
	bias, y, ldy := p.GP64(), p.GP64(), reg.GPVirtual(nil)
	if p.rows > 1 {
		ldy = p.bytes("ldy")
	}
	p.Load(p.Param("bias"), bias)
	p.Load(p.Param("y"), y)
	p.ifZero(bias, label("add"))
	for i := range p.rows {
		for part := range p.vecs() {
			p.VADDPS(Mem{Base: bias, Disp: 4 * p.lanes * part}, p.sum(i, part), p.sum(i, part))
		}
	}
	p.Label(label("add"))
	p.CMPB(p.param("add"), U8(0))
	p.JE(LabelRef(label("store")))
	p.eachSum(y, ldy, func(at Mem, sum reg.Register, _ int) {
		p.VADDPS(at, sum, sum)
		p.VMOVUPS(sum, at)
	})
	p.JMP(LabelRef(label("end")))
	p.Label(label("store"))
	p.eachSum(y, ldy, func(at Mem, sum reg.Register, _ int) { p.VMOVUPS(sum, at) })
	p.Label(label("end"))
}

// eachSum calls f for each sum with its address in y. It changes y.
func (p *packedCode) eachSum(y, ldy reg.GPVirtual, f func(at Mem, sum reg.Register, part int)) {
	for i := range p.rows {
		for part := range p.vecs() {
			f(Mem{Base: y, Disp: 4 * p.lanes * part}, p.sum(i, part), part)
		}
		if i < p.rows-1 {
			p.ADDQ(ldy, y)
		}
	}
}
