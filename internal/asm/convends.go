package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ends emits the loop of first and last around body. table is the argument with the factors of the real sequence.
func (p *passCode) ends(table string, body func()) {
	p.start()
	p.x, p.inOut = p.arg("x"), p.arg(table)
	p.xstep, p.xstep3 = p.steps("xstep")
	p.x4 = p.fourth(p.x, p.xstep)
	bytes := p.GP64()
	for _, arg := range []string{"xnext", "ahead"} { // there are too few registers
		p.Load(p.Param(arg), bytes)
		p.SHLQ(U8(2), bytes)
		p.MOVQ(bytes, p.param(arg))
	}
	loop := fmt.Sprintf("loop%d", p.radix)
	p.Label(loop)
	if !p.unread {
		p.askAhead()
	}
	p.halves(body)
	p.advance(p.re, p.re4, p.im, p.im4)
	p.ADDQ(p.param("xnext"), p.x)
	if p.x4 != nil {
		p.ADDQ(p.param("xnext"), p.x4)
	}
	p.countDown(p.q, loop)
}

// askAhead prefetches the rows that a later call reads, a few at a time so that it does not wait for memory.
func (p *passCode) askAhead() {
	at := p.GP64()
	p.MOVQ(p.x, at)
	p.ADDQ(p.param("ahead"), at)
	for j := range p.radix {
		if j == 4 {
			p.LEAQ(Mem{Base: at, Index: p.xstep, Scale: 4}, at)
		}
		p.PREFETCHT1(stride(at, p.xstep, p.xstep3, j%4))
	}
}

// factor returns the real or the imaginary part of in[j] or out[j].
func (p *passCode) factor(j, part int) Mem { return Mem{Base: p.inOut, Disp: 8*j + 4*part} }

// mulFactor sets z to x times a factor.
func (p *passCode) mulFactor(j, part int, x, z reg.Register) {
	if p.lanes == 16 {
		p.VMULPS_BCST(p.factor(j, part), x, z)
		return
	}
	v := p.take()
	p.VBROADCASTSS(p.factor(j, part), v)
	p.VMULPS(v, x, z)
	p.give(v)
}

// addFactor adds x times a factor to sum, and subtracts it from diff unless that is nil.
func (p *passCode) addFactor(j, part int, x, sum, diff reg.Register) {
	if p.lanes == 16 {
		p.VFMADD231PS_BCST(p.factor(j, part), x, sum)
		if diff != nil {
			p.VFNMADD231PS_BCST(p.factor(j, part), x, diff)
		}
		return
	}
	v := p.take()
	p.VBROADCASTSS(p.factor(j, part), v)
	p.VFMADD231PS(v, x, sum)
	if diff != nil {
		p.VFNMADD231PS(v, x, diff)
	}
	p.give(v)
}

// ifRow emits f so that it runs only if row j of the real sequence exists.
func (p *passCode) ifRow(j int, f func()) {
	p.label++
	after := fmt.Sprintf("radix%d_%d", p.radix, p.label)
	p.branch(p.param("rows"), p.JLE, U8(j), after)
	f()
	p.Label(after)
}

func (p *passCode) first() {
	p.room = 1
	p.ends("in", func() {
		p.forward(p.realPair, func(k int, y point) { p.store(k, p.rotate(y, k)) })
	})
}

// realPair does the same as pair for points x[j]·in[j].
func (p *passCode) realPair(j int) (sum, diff point) {
	row := func(j int) reg.Register {
		v := p.take()
		p.zero(v)
		p.ifRow(j, func() { p.VMOVUPS(p.realRow(j), v) })
		return v
	}
	k := j + p.radix/2
	a, b := row(j), row(k)
	scaled := func(part int) (sum, diff reg.Register) {
		sum, diff = p.take(), p.take()
		p.mulFactor(j, part, a, sum)
		p.VMOVAPS(sum, diff)
		p.addFactor(k, part, b, sum, diff)
		return sum, diff
	}
	sum.re, diff.re = scaled(0)
	sum.im, diff.im = scaled(1)
	p.give(a, b)
	return sum, diff
}

func (p *passCode) last() { p.lastInto(func(z reg.Register, row Mem) { p.VMOVUPS(z, row) }) }

func (p *passCode) lastStream() {
	p.unread = true
	p.lastInto(func(z reg.Register, row Mem) { p.VMOVNTPS(z, row) })
}

func (p *passCode) lastAdd() {
	p.lastInto(func(z reg.Register, row Mem) {
		p.VADDPS(row, z, z)
		p.VMOVUPS(z, row)
	})
}

// lastInto emits last; put emits the code that stores a result.
func (p *passCode) lastInto(put func(z reg.Register, row Mem)) {
	p.ends("out", func() {
		p.backward(func(k int) point { return p.rotate(p.load(k), k) }, func(j int, z point) {
			p.ifRow(j, func() {
				p.mulFactor(j, 0, z.im, z.im)
				p.addFactor(j, 1, z.re, z.im, nil)
				put(z.im, p.realRow(j))
			})
			p.give(z.re, z.im)
		})
	})
}

// operands holds pointers to adjacent rows of points.
type operands struct{ re, im reg.GPVirtual }

func (p *passCode) operands(name string) operands {
	o := operands{p.GP64(), p.GP64()}
	p.Load(p.Param(name+"re"), o.re)
	p.Load(p.Param(name+"im"), o.im)
	return o
}

func (p *passCode) middle() {
	k := p.operands("k")
	p.groups([]operands{k}, func(j int, x point) point {
		kr, ki, im := p.rowAt(k.re, nil, j), p.rowAt(k.im, nil, j), p.take()
		p.VMULPS(ki, x.re, im)
		p.VMULPS(kr, x.re, x.re)
		p.VFNMADD231PS(ki, x.im, x.re)
		p.VFMADD231PS(kr, x.im, im)
		p.give(x.im)
		return point{x.re, im}
	})
}

func (p *passCode) middleGrad() { p.middleGradInto(true) }

func (p *passCode) middleGradFirst() { p.middleGradInto(false) }

// middleGradInto emits middleGrad, or middleGradFirst, which does not add to s.
func (p *passCode) middleGradInto(add bool) {
	k, u, s := p.operands("k"), p.operands("u"), p.operands("s")
	p.groups([]operands{k, u, s}, func(j int, x point) point {
		re, im := p.take(), p.take()
		ur, ui, kr, ki := p.rowAt(u.re, nil, j), p.rowAt(u.im, nil, j), p.rowAt(k.re, nil, j), p.rowAt(k.im, nil, j)
		if add {
			p.VMOVUPS(p.rowAt(s.re, nil, j), re)
			p.VMOVUPS(p.rowAt(s.im, nil, j), im)
			p.VFMADD231PS(ur, x.re, re)
			p.VFMADD231PS(ur, x.im, im)
		} else {
			p.VMULPS(ur, x.re, re)
			p.VMULPS(ur, x.im, im)
		}
		p.VFMADD231PS(ui, x.im, re)
		p.VFNMADD231PS(ui, x.re, im)
		p.VMOVUPS(re, p.rowAt(s.re, nil, j))
		p.VMOVUPS(im, p.rowAt(s.im, nil, j))
		p.VMULPS(kr, x.re, re)
		p.VMULPS(kr, x.im, im)
		p.VFMADD231PS(ki, x.im, re)
		p.VFNMADD231PS(ki, x.re, im)
		p.give(x.re, x.im)
		return point{re, im}
	})
}

// groups emits the loop of middle and middleGrad around product. product computes, from point j of a spectrum and those
// of the operands, the point that is transformed back.
func (p *passCode) groups(with []operands, product func(j int, x point) point) {
	p.re, p.im, p.q = p.arg("re"), p.arg("im"), p.arg("count")
	// times is product with the parts of its result exchanged: the transform of such points is the inverse transform.
	times := func(j int, x point) point {
		x = product(j, x)
		return point{x.im, x.re}
	}
	put := func(j int, x point) { p.store(j, point{x.im, x.re}) }
	loop := fmt.Sprintf("loop%d", p.radix)
	p.Label(loop)
	p.halves(func() {
		spectrum := make([]point, p.radix)
		if !p.spills() {
			p.forward(p.pair, func(k int, y point) { spectrum[k] = times(k, y) })
			p.backward(func(k int) point { return spectrum[k] }, put)
			return
		}
		// The four differences are spilled first, which become the odd points, then also the results for the even ones.
		var even [4]point
		p.forward(p.pair, func(k int, y point) {
			spectrum[k] = times(k, y)
			if k == 3 {
				for j, x := range p.transform4(spectrum[:4]) {
					even[j] = p.spill(4+j, x)
				}
			}
		})
		for j, odd := range p.transform4(spectrum[4:]) {
			a, b := p.join8(j, p.unspill(4+j, even[j]), odd)
			put(j, a)
			put(4+j, b)
		}
	})
	for _, o := range append(with, operands{p.re, p.im}) {
		p.ADDQ(U32(rowBytes*p.radix), o.re)
		p.ADDQ(U32(rowBytes*p.radix), o.im)
	}
	p.countDown(p.q, loop)
}

// fence generates the memory fence between lastStream and the readers of its output.
func (c asm) fence() {
	c.function("fence", "func()", "lets no later write be seen before what has been written past the caches.")
	c.SFENCE()
	c.RET()
}

// products generates the products of spectra.
func (c asm) products() {
	for _, f := range []struct {
		name      string
		conj, add bool
		doc       string
	}{
		{"complexMul", false, false, "computes z = x·k"},
		{"complexMulConj", true, false, "computes z = x·conj(k)"},
		{"complexMulConjAdd", true, true, "adds x·conj(k) to z"},
	} {
		c.function(f.name, "func(zre, zim, xre, xim, kre, kim *float32, n int)",
			f.doc+" for n complex numbers, a positive multiple of 16. z may be x or k.")
		at := map[string]Mem{}
		i, n := c.GP64(), c.bytes("n")
		c.XORQ(i, i)
		for _, arg := range []string{"zre", "zim", "xre", "xim", "kre", "kim"} {
			r := c.arg(arg)
			at[arg] = Mem{Base: r, Index: i, Scale: 1}
		}
		c.Label("loop")
		for disp := 0; disp < rowBytes; disp += 4 * c.lanes {
			xr, xi, kr, ki, re, im := c.vec(0), c.vec(1), c.vec(2), c.vec(3), c.vec(4), c.vec(5)
			c.VMOVUPS(at["xre"].Offset(disp), xr)
			c.VMOVUPS(at["xim"].Offset(disp), xi)
			c.VMOVUPS(at["kre"].Offset(disp), kr)
			c.VMOVUPS(at["kim"].Offset(disp), ki)
			if f.add {
				c.VMOVUPS(at["zre"].Offset(disp), re)
				c.VMOVUPS(at["zim"].Offset(disp), im)
				c.VFMADD231PS(xr, kr, re)
				c.VFMADD231PS(xi, kr, im)
			} else {
				c.VMULPS(xr, kr, re)
				c.VMULPS(xi, kr, im)
			}
			if f.conj {
				c.VFMADD231PS(xi, ki, re)
				c.VFNMADD231PS(xr, ki, im)
			} else {
				c.VFNMADD231PS(xi, ki, re)
				c.VFMADD231PS(xr, ki, im)
			}
			c.VMOVUPS(re, at["zre"].Offset(disp))
			c.VMOVUPS(im, at["zim"].Offset(disp))
		}
		c.countUp(i, U8(rowBytes), n, "loop")
		c.end()
	}
}
