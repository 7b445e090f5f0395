package main

import (
	"fmt"
	"math"
)

// pointNeon writes a loop over slices for arm64. It processes several vectors at a time, in slots with registers of
// their own, then one at a time, then the last 1 to 3 elements with the same instructions, so that the result for an
// element does not depend on its index. Constants are in registers, from the last one down.
type pointNeon struct {
	*neon
	n, t  xreg
	at    []xreg           // the slices
	order []uint32         // constants as bits
	held  map[uint32]vreg  // their registers
	known map[float64]vreg // registers of constants loaded by other code
	fixed []vreg           // registers for a kernel's other constants
	slot  int
	per   int // registers of a slot
	few   bool
	sums  int // registers of a slot's sums, before its other registers
}

// pointKernel is a kernel over slices.
type pointKernel struct {
	name    string
	arrays  []string
	written int // the first of them are written
	slots   int
	sums    int // registers of sums of a slot, which begin with start
	start   float64
	prepare func(p *pointNeon) // loads arguments into p.keep registers
	body    func(p *pointNeon, v []vreg)
	finish  func(p *pointNeon) // runs after the loop
}

// point writes the kernel. Its body gets registers for the elements of the arrays, and allocates others with p.r.
func (file *armFile) point(k pointKernel) {
	c := file.function(k.name, neonISA)
	p := &pointNeon{neon: c, held: map[uint32]vreg{}, sums: k.sums}
	p.n = c.arg("n")
	for _, a := range k.arrays {
		p.at = append(p.at, c.arg(a))
	}
	p.t = c.x()
	first := len(c.f.lines) // once without a trace, to find the constants
	p.per = 32
	if k.start != 0 {
		p.k(k.start)
	}
	if k.prepare != nil {
		k.prepare(p)
	}
	p.vector(k, 0)
	c.f.lines, c.used = c.f.lines[:first], 0
	p.per = (32 - len(p.order) - len(p.fixed)) / k.slots
	p.fixed = nil
	for _, bits := range p.order {
		c.bits(p.held[bits], bits, p.t)
	}
	if k.prepare != nil {
		k.prepare(p)
	}
	for slot := range k.slots {
		for i := range k.sums {
			if k.start != 0 {
				c.copyV(vreg(slot*p.per+i), p.k(k.start))
			} else {
				c.zero(vreg(slot*p.per + i))
			}
		}
	}
	if k.slots > 1 {
		c.ifLess(p.n, 4*k.slots, "vectors")
		l := armLoop{name: k.name, work: 4 * k.slots, unit: "elements",
			bytes: 16 * k.slots * (len(k.arrays) + k.written), instructions: vectorWork}
		p.loop("slots", l, func() {
			c.interleave(k.slots, func(slot int) { p.vector(k, slot) })
			p.advance(16 * k.slots)
			c.whileLeast(p.n, 4*k.slots, "slots")
		})
	}
	c.label("vectors")
	c.ifLess(p.n, 4, "rest")
	body := func() {
		p.vector(k, 0)
		p.advance(16)
		c.addImm(p.n, p.n, -4)
		c.jump("vectors")
	}
	if k.slots > 1 {
		body()
	} else {
		p.loop("one", armLoop{name: k.name, work: 4, unit: "elements", bytes: 16 * (len(k.arrays) + k.written),
			instructions: vectorWork}, body)
	}
	c.label("rest")
	c.ifZero(p.n, "done")
	p.few = true
	p.vector(k, 0)
	c.label("done")
	if k.finish != nil {
		k.finish(p)
	}
	c.end()
}

// vectorWork lists the instructions that bound a loop over slices: those on vectors of floats.
var vectorWork = []string{"fmla", "fmls", "fmul", "fadd", "fsub", "fdiv", "fmax", "fmin", "and", "orr", "eor", "shl",
	"ushr", "fneg", "fcvtl", "fcvtl2", "bit", "bic", "sshr", "mov"}

// vector writes the body for a vector of a slot.
func (p *pointNeon) vector(k pointKernel, slot int) {
	p.slot = slot
	var v []vreg
	for i := range k.arrays {
		v = append(v, p.r(i))
		if p.few {
			p.loadFew(v[i], p.n, p.at[i], p.t)
		} else {
			p.load(whole, v[i], p.at[i], 16*slot)
		}
	}
	k.body(p, v)
	for i := range k.written {
		if p.few {
			p.storeFew(v[i], p.n, p.at[i], p.t)
		} else {
			p.store(whole, v[i], p.at[i], 16*slot)
		}
	}
}

// advance moves the pointers to the slices.
func (p *pointNeon) advance(bytes int) {
	for _, at := range p.at {
		p.addImm(at, at, bytes)
	}
}

// r returns register i of the slot, and sum register i of its sums.
func (p *pointNeon) r(i int) vreg {
	if p.sums+i >= p.per {
		panic("a slot of " + p.f.kernel.name + " has too few registers")
	}
	return vreg(p.slot*p.per + p.sums + i)
}
func (p *pointNeon) sum(i int) vreg { return vreg(p.slot*p.per + i) }

// k returns a register that holds a constant, and word32 one that holds the given bits.
func (p *pointNeon) k(v float64) vreg {
	if p.known != nil {
		at, ok := p.known[v]
		if !ok {
			panic(fmt.Sprintf("no register holds %v", v))
		}
		return at
	}
	return p.word32(math.Float32bits(float32(v)))
}
func (p *pointNeon) word32(bits uint32) vreg {
	v, ok := p.held[bits]
	if !ok {
		v = vreg(31 - len(p.order) - len(p.fixed))
		p.held[bits], p.order = v, append(p.order, bits)
	}
	return v
}

// keep loads an argument into a register that the loop does not change. Arguments must be kept in the same order each
// time, and before constants.
func (p *pointNeon) keep(name string) vreg {
	v := vreg(31 - len(p.fixed))
	p.fixed = append(p.fixed, v)
	p.floatArg(name, v)
	return v
}

// plus sets d to n·m + k rounded once, for a constant k.
func (p *pointNeon) plus(d, n, m vreg, k float64) {
	p.copyV(d, p.k(k))
	p.v(fmlaV, d, n, m)
}

// exp replaces x by e^x as exp of amd64 does, with the same bits. x may exceed expHigh if large is true. Four registers
// are scratch.
func (p *pointNeon) exp(x vreg, large bool, scratch ...vreg) {
	f, t, a, b := scratch[0], scratch[1], scratch[2], scratch[3]
	ln2, k := float32(math.Ln2), expTerms
	p.v(fmaxV, x, x, p.k(expLow))
	if large {
		p.v(fminV, x, x, p.k(expHigh))
	}
	p.plus(t, x, p.k(math.Log2E), expMagic)
	p.v(fsubV, f, t, p.k(expMagic))
	p.v(fmlsV, x, f, p.k(float64(ln2)))
	p.v(fmlsV, x, f, p.k(math.Ln2-float64(ln2)))
	p.shl(t, t, 23)
	p.v(fmulV, f, x, x)
	p.plus(a, x, p.k(2*k[5]), 2*k[4])
	p.plus(b, x, p.k(2*k[3]), 2*k[2])
	p.v(fmlaV, a, f, p.k(2*k[6]))
	p.v(fmlaV, b, f, a)
	p.plus(a, x, p.k(2*k[1]), 2*k[0])
	p.v(fmlaV, a, b, f)
	p.v(fmulV, x, t, a)
}

// sigmoid replaces -x by 1/(1+e^-x).
func (p *pointNeon) sigmoid(x vreg, scratch ...vreg) {
	p.exp(x, true, scratch...)
	p.v(faddV, x, x, p.k(1))
	p.v(fdivV, x, p.k(1), x)
}

// rest returns four registers of the slot, from the i-th on, for scratch.
func (p *pointNeon) rest(i int) []vreg { return []vreg{p.r(i), p.r(i + 1), p.r(i + 2), p.r(i + 3)} }
