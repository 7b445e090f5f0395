package main

import "fmt"

// convNEON generates the passes of the transform that package kernel uses for convolutions, as conv does for amd64. A
// row of 16 channels is 4 vectors, which are computed one after the other.
func convNEON(file *armFile) {
	file.pass("dif", []int{8, 5, 4, 3}, (*passNeon).dif)
	file.pass("dit", []int{8, 5, 4, 3}, (*passNeon).dit)
	file.pass("first", []int{8, 4}, (*passNeon).first)
	file.pass("last", []int{8, 4}, func(p *passNeon) { p.lastInto(false) })
	file.pass("lastAdd", []int{8, 4}, func(p *passNeon) { p.lastInto(true) })
	c := file.function("lastStream", neonISA) // these rows are written to the caches
	c.both("JMP ·last"+neonISA.name+"(SB)", "")
	file.pass("middle", []int{8, 5, 4, 3}, (*passNeon).middle)
	file.pass("middleGrad", []int{8, 5, 4, 3}, func(p *passNeon) { p.middleGradInto(true) })
	file.pass("middleGradFirst", []int{8, 5, 4, 3}, func(p *passNeon) { p.middleGradInto(false) })
	file.spectra("complexMul", false, false)
	file.spectra("complexMulConj", true, false)
	file.spectra("complexMulConjAdd", true, true)
}

// passNeon writes one pass for a radix.
type passNeon struct {
	*pointsNeon
	name       string
	radix      int
	re, im     xreg
	step       []xreg // from row 0 to row j of the points; none if rows are adjacent
	w, q, left xreg   // left counts the vectors of a row
	x          xreg
	xstep      []xreg
	inOut      xreg
	rows       xreg
	labels     int
}

// pass generates the code for all radices.
func (file *armFile) pass(name string, radices []int, emit func(*passNeon)) {
	c := file.function(name, neonISA)
	radix := c.arg("radix")
	for i, r := range radices {
		other := fmt.Sprintf("not%d", r)
		if i < len(radices)-1 {
			c.ifLess(radix, r, other)
		}
		c.next = 0
		emit(&passNeon{pointsNeon: c.points(r), name: name, radix: r, q: c.arg("count"), left: c.x()})
		c.end()
		if i < len(radices)-1 {
			c.label(other)
		}
	}
}

// start loads the arguments that passes over blocks and ends share.
func (p *passNeon) start() {
	p.re, p.im, p.w = p.arg("re"), p.arg("im"), p.arg("w")
	p.step = p.steps("step")
}

// steps returns the distances of rows 1 and up from row 0, by row number.
func (p *passNeon) steps(arg string) []xreg {
	steps := []xreg{0, p.bytes(arg)}
	for j := 2; j < p.radix; j++ {
		steps = append(steps, p.neon.x())
		p.add(steps[j], steps[j-1], steps[1])
	}
	return steps
}

// row reads or writes row j of the rows that begin at at.
func (p *passNeon) row(access func(v vreg, at, offset xreg), direct func(part, vreg, xreg, int), v vreg, at xreg,
	steps []xreg, j int) {
	switch {
	case steps == nil:
		direct(whole, v, at, rowBytes*j)
	case j == 0:
		direct(whole, v, at, 0)
	default:
		access(v, at, steps[j])
	}
}
func (p *passNeon) read(v vreg, at xreg, steps []xreg, j int) {
	p.row(p.loadAt, p.neon.load, v, at, steps, j)
}
func (p *passNeon) write(v vreg, at xreg, steps []xreg, j int) {
	p.row(p.storeAt, p.neon.store, v, at, steps, j)
}

func (p *passNeon) get(j int) vpoint {
	x := vpoint{p.take(), p.take()}
	p.read(x.re, p.re, p.step, j)
	p.read(x.im, p.im, p.step, j)
	return x
}

func (p *passNeon) put(j int, x vpoint) {
	p.write(x.re, p.re, p.step, j)
	p.write(x.im, p.im, p.step, j)
	p.give(x.re, x.im)
}

// vectors emits the loop over the vectors of count rows. It moves the pointers along each row, and next moves them from
// its end to the next row.
func (p *passNeon) vectors(pointers []xreg, bytes int, body, next func()) {
	loop := fmt.Sprintf("loop%d", p.radix)
	p.set(p.left, rowBytes/16)
	l := armLoop{name: fmt.Sprintf("%s, radix %d", p.name, p.radix), work: 4 * p.radix, unit: "points", bytes: bytes,
		instructions: vectorWork}
	if p.radix < 8 {
		l.name = ""
	}
	p.loop(loop, l, func() {
		body()
		for _, at := range pointers {
			p.addImm(at, at, 16)
		}
		p.subtract(p.left, 1, loop)
	})
	p.set(p.left, rowBytes/16)
	next()
	p.subtract(p.q, 1, loop)
}

// blocks emits the loops of dif and dit around body.
func (p *passNeon) blocks(body func()) {
	p.start()
	skip, blocks, t := p.neon.x(), p.arg("blocks"), p.neon.x() // from the end of a block to the next block
	p.add(skip, p.step[p.radix-1], p.step[1])
	p.lsl(t, p.q, 6)
	p.sub(skip, skip, t)
	loop := fmt.Sprintf("block%d", p.radix)
	p.label(loop)
	p.vectors([]xreg{p.re, p.im}, 64*p.radix, body, func() { p.addImm(p.w, p.w, 8*p.radix) })
	p.add(p.re, p.re, skip)
	p.add(p.im, p.im, skip)
	p.argInto("w", p.w)
	p.argInto("count", p.q)
	p.subtract(blocks, 1, loop)
}

// rotate multiplies by w[k].
func (p *passNeon) rotate(x vpoint, k int) vpoint {
	w, im := p.take(), p.take()
	p.load(twoFs, w, p.w, 8*k)
	p.e(fmulE, im, x.re, w, 1)
	p.e(fmulE, x.re, x.re, w, 0)
	p.e(fmlsE, x.re, x.im, w, 1)
	p.e(fmlaE, im, x.im, w, 0)
	p.give(w, x.im)
	return vpoint{x.re, im}
}

func (p *passNeon) dif() {
	p.blocks(func() {
		p.forward(p.radix, p.pair, p.get, func(k int, y vpoint) {
			if k > 0 {
				y = p.rotate(y, k)
			}
			p.put(k, y)
		})
	})
}

func (p *passNeon) dit() {
	p.blocks(func() {
		p.backward(p.radix, func(k int) vpoint {
			x := p.get(k)
			if k > 0 {
				x = p.rotate(x, k)
			}
			return x
		}, p.put)
	})
}

// pair returns the sum and the difference of points j and j + radix/2.
func (p *passNeon) pair(j int) (sum, diff vpoint) { return p.sumDiff(p.get(j), p.get(j+p.radix/2)) }

// ends emits the loop of first and last around body. table is the argument with the factors of the real sequence.
func (p *passNeon) ends(table string, body func()) {
	p.start()
	p.x, p.inOut, p.rows = p.arg("x"), p.arg(table), p.arg("rows")
	next := p.bytes("xnext")
	p.xstep = p.steps("xstep")
	p.addImm(next, next, -rowBytes)
	p.vectors([]xreg{p.re, p.im, p.x}, 96*p.radix, body, func() {
		p.addImm(p.w, p.w, 8*p.radix)
		p.add(p.x, p.x, next)
	})
}

// ifRow emits f so that it runs only if row j of the real sequence exists.
func (p *passNeon) ifRow(j int, f func()) {
	p.labels++
	after := fmt.Sprintf("radix%d_%d", p.radix, p.labels)
	p.ifLess(p.rows, j+1, after)
	f()
	p.label(after)
}

func (p *passNeon) first() {
	p.ends("in", func() {
		p.forward(p.radix, p.realPair, nil, func(k int, y vpoint) { p.put(k, p.rotate(y, k)) })
	})
}

// realPair does the same as pair for points x[j]·in[j].
func (p *passNeon) realPair(j int) (sum, diff vpoint) {
	k := j + p.radix/2
	rows, in := [2]vreg{}, [2]vreg{}
	for i, j := range []int{j, k} {
		rows[i], in[i] = p.take(), p.take()
		p.zero(rows[i])
		p.ifRow(j, func() { p.read(rows[i], p.x, p.xstep, j) })
		p.load(twoFs, in[i], p.inOut, 8*j)
	}
	scaled := func(part int) (sum, diff vreg) {
		sum, diff = p.take(), p.take()
		p.e(fmulE, sum, rows[0], in[0], part)
		p.copyV(diff, sum)
		p.e(fmlaE, sum, rows[1], in[1], part)
		p.e(fmlsE, diff, rows[1], in[1], part)
		return sum, diff
	}
	sum.re, diff.re = scaled(0)
	sum.im, diff.im = scaled(1)
	p.give(rows[0], rows[1], in[0], in[1])
	return sum, diff
}

// lastInto emits last, and lastAdd if add is true.
func (p *passNeon) lastInto(add bool) {
	p.ends("out", func() {
		p.backward(p.radix, func(k int) vpoint { return p.rotate(p.get(k), k) }, func(j int, z vpoint) {
			p.ifRow(j, func() {
				out := p.take()
				p.load(twoFs, out, p.inOut, 8*j)
				p.e(fmulE, z.im, z.im, out, 0)
				p.e(fmlaE, z.im, z.re, out, 1)
				if add {
					p.read(out, p.x, p.xstep, j)
					p.v(faddV, z.im, z.im, out)
				}
				p.write(z.im, p.x, p.xstep, j)
				p.give(out)
			})
			p.give(z.re, z.im)
		})
	})
}

// operandsNeon holds pointers to adjacent rows of points.
type operandsNeon struct{ re, im xreg }

func (p *passNeon) operands(name string) operandsNeon {
	return operandsNeon{p.arg(name + "re"), p.arg(name + "im")}
}

// values returns point j of an operand.
func (p *passNeon) values(o operandsNeon, j int) vpoint {
	x := vpoint{p.take(), p.take()}
	p.load(whole, x.re, o.re, rowBytes*j)
	p.load(whole, x.im, o.im, rowBytes*j)
	return x
}

func (p *passNeon) middle() {
	k := p.operands("k")
	p.groups([]operandsNeon{k}, func(j int, x vpoint) vpoint {
		k := p.values(k, j)
		return p.times(x, k)
	})
}

// middleGradInto emits middleGrad, or middleGradFirst, which does not add to s.
func (p *passNeon) middleGradInto(add bool) {
	k, u, s := p.operands("k"), p.operands("u"), p.operands("s")
	p.groups([]operandsNeon{k, u, s}, func(j int, x vpoint) vpoint {
		y, sum := p.values(u, j), vpoint{}
		if add {
			sum = p.values(s, j)
			p.v(fmlaV, sum.re, x.re, y.re)
			p.v(fmlaV, sum.im, x.im, y.re)
		} else {
			sum = vpoint{p.take(), p.take()}
			p.v(fmulV, sum.re, x.re, y.re)
			p.v(fmulV, sum.im, x.im, y.re)
		}
		p.v(fmlaV, sum.re, x.im, y.im)
		p.v(fmlsV, sum.im, x.re, y.im)
		p.store(whole, sum.re, s.re, rowBytes*j)
		p.store(whole, sum.im, s.im, rowBytes*j)
		p.give(sum.re, sum.im, y.re, y.im)
		return p.timesConj(x, p.values(k, j))
	})
}

// groups emits the loop of middle and middleGrad around product. product computes, from point j of a spectrum and those
// of the operands, the point that is transformed back.
func (p *passNeon) groups(with []operandsNeon, product func(j int, x vpoint) vpoint) {
	p.re, p.im = p.arg("re"), p.arg("im")
	with = append(with, operandsNeon{p.re, p.im})
	var pointers []xreg
	for _, o := range with {
		pointers = append(pointers, o.re, o.im)
	}
	// The transform of points with their parts exchanged is the inverse transform.
	p.vectors(pointers, 32*p.radix*(len(with)+1), func() {
		spectrum := make([]vpoint, p.radix)
		p.forward(p.radix, p.pair, p.get, func(k int, y vpoint) {
			y = product(k, y)
			spectrum[k] = vpoint{y.im, y.re}
		})
		p.backward(p.radix, func(k int) vpoint { return spectrum[k] }, func(j int, x vpoint) {
			p.put(j, vpoint{x.im, x.re})
		})
	}, func() {
		for _, at := range pointers {
			p.addImm(at, at, rowBytes*(p.radix-1))
		}
	})
}

// spectra generates the products of spectra.
func (file *armFile) spectra(name string, conj, add bool) {
	c := file.function(name, neonISA)
	left := c.arg("n")
	z := [2]xreg{c.arg("zre"), c.arg("zim")}
	from := []xreg{c.arg("xre"), c.arg("xim"), c.arg("kre"), c.arg("kim")}
	const xr, xi, kr, ki, re, im = 0, 1, 2, 3, 4, 5
	l := armLoop{name: name, work: 4, unit: "products", bytes: 6 * 16, instructions: vectorWork}
	c.loop("vectors", l, func() {
		for i, p := range from {
			c.loadNext(whole, vreg(i), p)
		}
		if add {
			c.load(whole, re, z[0], 0)
			c.load(whole, im, z[1], 0)
			c.v(fmlaV, re, xr, kr)
			c.v(fmlaV, im, xi, kr)
		} else {
			c.v(fmulV, re, xr, kr)
			c.v(fmulV, im, xi, kr)
		}
		if conj {
			c.v(fmlaV, re, xi, ki)
			c.v(fmlsV, im, xr, ki)
		} else {
			c.v(fmlsV, re, xi, ki)
			c.v(fmlaV, im, xr, ki)
		}
		for i, p := range z {
			c.store(whole, re+vreg(i), p, 0)
			c.addImm(p, p, 16)
		}
		c.subtract(left, 4, "vectors")
	})
	c.end()
}
