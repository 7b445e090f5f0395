package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ends emits the loop of first and last around body. seq and table are the arguments for the real sequence and its factors.
func (p *passCode) ends(seq, table string, body func()) {
	p.start(true)
	p.Load(p.Param(seq), p.x)
	p.Load(p.Param(table), p.inOut)
	p.fourth(p.x, &p.x4)
	loop := fmt.Sprintf("loop%d", p.radix)
	p.Label(loop)
	p.halves(body)
	p.advance(p.re, p.re4, p.im, p.im4, p.x, p.x4)
	p.DECQ(p.q)
	p.JNZ(LabelRef(loop))
}

// factor is the real or the imaginary part of in[j] or out[j] in all lanes.
func (p *passCode) factor(j, part int) reg.Register {
	v := p.take()
	p.VBROADCASTSS(Mem{Base: p.inOut, Disp: 8*j + 4*part}, v)
	return v
}

// ifRow emits f so that it runs if row j of the real sequence exists.
func (p *passCode) ifRow(j int, f func()) {
	p.label++
	after := fmt.Sprintf("radix%d_%d", p.radix, p.label)
	p.CMPQ(p.rows, U8(j))
	p.JLE(LabelRef(after))
	f()
	p.Label(after)
}

func (p *passCode) first() {
	p.ends("x", "in", func() {
		p.forward(p.realPair, func(k int, y point) { p.store(k, p.rotate(y, k)) })
	})
}

// realPair is pair for points x[j]·in[j].
func (p *passCode) realPair(j int) (sum, diff point) {
	row := func(j int) reg.Register {
		v := p.take()
		p.zero(v)
		p.ifRow(j, func() { p.VMOVUPS(p.rowAt(p.x, p.x4, j), v) })
		return v
	}
	k := j + p.radix/2
	a, b := row(j), row(k)
	scaled := func(part int) (sum, diff reg.Register) {
		sum, diff = p.factor(j, part), p.take()
		p.VMULPS(sum, a, sum)
		p.VMOVAPS(sum, diff)
		f := p.factor(k, part)
		p.VFMADD231PS(f, b, sum)
		p.VFNMADD231PS(f, b, diff)
		p.give(f)
		return sum, diff
	}
	sum.re, diff.re = scaled(0)
	sum.im, diff.im = scaled(1)
	p.give(a, b)
	return sum, diff
}

func (p *passCode) last() {
	p.ends("y", "out", func() {
		p.backward(func(k int) point { return p.rotate(p.load(k), k) }, func(j int, z point) {
			p.ifRow(j, func() {
				cos, sin := p.factor(j, 0), p.factor(j, 1)
				p.VMULPS(cos, z.im, z.im)
				p.VFMADD231PS(sin, z.re, z.im)
				p.VMOVUPS(z.im, p.rowAt(p.x, p.x4, j))
				p.give(cos, sin)
			})
			p.give(z.re, z.im)
		})
	})
}

func (p *passCode) middle() {
	p.re, p.im, p.q = p.GP64(), p.GP64(), p.GP64()
	kre, kim := p.GP64(), p.GP64()
	p.Load(p.Param("re"), p.re)
	p.Load(p.Param("im"), p.im)
	p.Load(p.Param("kre"), kre)
	p.Load(p.Param("kim"), kim)
	p.Load(p.Param("count"), p.q)
	// times returns x·k[j] with its parts exchanged: the transform of such points is the transform back.
	times := func(j int, x point) point {
		kr, ki, im := p.take(), p.take(), p.take()
		p.VMOVUPS(p.rowAt(kre, nil, j), kr)
		p.VMOVUPS(p.rowAt(kim, nil, j), ki)
		p.VMULPS(ki, x.re, im)
		p.VMULPS(kr, x.re, x.re)
		p.VFNMADD231PS(ki, x.im, x.re)
		p.VFMADD231PS(kr, x.im, im)
		p.give(kr, ki, x.im)
		return point{im, x.re}
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
		// Aside go first the four differences, which become the odd points, then also what becomes of the even ones.
		p.forward(p.pair, func(k int, y point) {
			spectrum[k] = times(k, y)
			if k == 3 {
				for j, x := range p.transform4(spectrum[:4]) {
					p.spill(4+j, x)
				}
			}
		})
		for j, odd := range p.transform4(spectrum[4:]) {
			a, b := p.join8(j, p.unspill(4+j, point{}), odd)
			put(j, a)
			put(4+j, b)
		}
	})
	for _, r := range []reg.GPVirtual{p.re, p.im, kre, kim} {
		p.ADDQ(U32(rowBytes*p.radix), r)
	}
	p.DECQ(p.q)
	p.JNZ(LabelRef(loop))
}

// products generates the products of spectra.
func (c asm) products() {
	for _, f := range []struct {
		name      string
		conj, add bool
		doc       string
	}{
		{"mul", false, false, "computes z = x·k"},
		{"mulConj", true, false, "computes z = x·conj(k)"},
		{"mulConjAdd", true, true, "adds x·conj(k) to z"},
	} {
		name := f.name + c.name
		c.Function(name)
		c.Attributes(nosplit)
		c.SignatureExpr("func(zre, zim, xre, xim, kre, kim *float32, n int)")
		c.Pragma("noescape")
		c.Doc(name + " " + f.doc + " for n complex numbers, a positive multiple of 16. z may be x or k.")
		at := map[string]Mem{}
		i, n := c.GP64(), c.bytes("n")
		c.XORQ(i, i)
		for _, arg := range []string{"zre", "zim", "xre", "xim", "kre", "kim"} {
			r := c.GP64()
			c.Load(c.Param(arg), r)
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
		c.ADDQ(U8(rowBytes), i)
		c.CMPQ(i, n)
		c.JLT(LabelRef("loop"))
		c.VZEROUPPER()
		c.RET()
	}
}
