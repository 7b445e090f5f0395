package main

// elementwiseNEON generates the functions that compute each element alone, with the same bits as on amd64.
func elementwiseNEON(file *armFile) {
	binary := func(name string, op armOp) {
		file.point(pointKernel{name: name, arrays: []string{"y", "x"}, written: 1, slots: 4,
			body: func(p *pointNeon, v []vreg) { p.v(op, v[0], v[0], v[1]) }})
	}
	binary("add", faddV)
	binary("multiply", fmulV)
	file.point(pointKernel{name: "addInto", arrays: []string{"y", "a", "b"}, written: 1, slots: 4,
		body: func(p *pointNeon, v []vreg) { p.v(faddV, v[0], v[1], v[2]) }})
	file.point(pointKernel{name: "mulInto", arrays: []string{"y", "a", "b"}, written: 1, slots: 4,
		body: func(p *pointNeon, v []vreg) { p.v(fmulV, v[0], v[1], v[2]) }})
	file.point(pointKernel{name: "mulAdd", arrays: []string{"y", "a", "b"}, written: 1, slots: 4,
		body: func(p *pointNeon, v []vreg) { p.v(fmlaV, v[0], v[1], v[2]) }})
	var a, b vreg
	file.point(pointKernel{name: "scale", arrays: []string{"x"}, written: 1, slots: 4,
		prepare: func(p *pointNeon) { a = p.keep("a") },
		body:    func(p *pointNeon, v []vreg) { p.v(fmulV, v[0], v[0], a) }})
	file.point(pointKernel{name: "axpy", arrays: []string{"y", "x"}, written: 1, slots: 4,
		prepare: func(p *pointNeon) { a = p.keep("a") },
		body:    func(p *pointNeon, v []vreg) { p.v(fmlaV, v[0], v[1], a) }})
	file.point(pointKernel{name: "softmaxGrad", arrays: []string{"dp", "p"}, written: 1, slots: 4,
		prepare: func(p *pointNeon) { a, b = p.keep("delta"), p.keep("scale") },
		body: func(p *pointNeon, v []vreg) {
			p.v(fsubV, v[0], v[0], a)
			p.v(fmulV, v[0], v[0], v[1])
			p.v(fmulV, v[0], v[0], b)
		}})
	file.point(pointKernel{name: "expShift", arrays: []string{"x"}, written: 1, slots: 3,
		prepare: func(p *pointNeon) { a, b = p.keep("shift"), p.keep("scale") },
		body: func(p *pointNeon, v []vreg) {
			p.v(fsubV, v[0], v[0], a)
			p.exp(v[0], true, p.rest(1)...)
			p.v(fmulV, v[0], v[0], b)
		}})
	file.point(pointKernel{name: "expScaled", arrays: []string{"x"}, written: 1, slots: 2,
		prepare: func(p *pointNeon) { a, b = p.keep("shift"), p.keep("scale") },
		body: func(p *pointNeon, v []vreg) {
			p.scaledLess(v[0], b, a, p.r(1))
			p.exp(v[0], true, p.rest(1)...)
		}})
	file.point(pointKernel{name: "glu", arrays: []string{"y", "a", "gate"}, written: 1, slots: 2,
		body: func(p *pointNeon, v []vreg) {
			p.v(fnegV, v[2], v[2])
			p.sigmoid(v[2], p.rest(3)...)
			p.v(fmulV, v[0], v[1], v[2])
		}})
	file.roundings()
	file.activations()
}

// scaledLess sets x to scale·x - shift, rounded once. t is scratch.
func (p *pointNeon) scaledLess(x, scale, shift, t vreg) {
	p.v(fnegV, t, shift)
	p.v(fmlaV, t, x, scale)
	p.copyV(x, t)
}

// roundings generates the rounding to bfloat16, as on amd64.
func (file *armFile) roundings() {
	round := func(p *pointNeon, y, x vreg) {
		t := p.r(2)
		p.v(fmulV, x, x, p.k(1)) // makes a NaN quiet, so that it stays NaN without its lower half
		p.v(andV, y, x, p.word32(1<<31-1))
		p.v(eorV, x, x, y) // the sign
		p.ushr(t, y, 16)
		p.v(andV, t, t, p.word32(1))
		p.v(addV, y, y, t)
		p.v(addV, y, y, p.word32(0x7fff))
		p.v(uminV, y, y, p.word32(1<<31-1)) // keeps a NaN from becoming negative
		p.v(andV, y, y, p.word32(0x7fff0000))
		p.v(orrV, y, y, x)
	}
	file.point(pointKernel{name: "roundBF16", arrays: []string{"y", "x"}, written: 1, slots: 4,
		body: func(p *pointNeon, v []vreg) { round(p, v[0], v[1]) }})
	file.point(pointKernel{name: "roundTerms", arrays: []string{"y", "x"}, written: 1, slots: 4,
		body: func(p *pointNeon, v []vreg) {
			round(p, v[0], v[1])
			t := p.r(2)
			p.v(andV, t, v[0], p.word32(1<<31-1))
			p.v(cmhsV, t, t, p.word32(tinyHalf<<16)) // all bits set where it is large enough
			p.v(andV, v[0], v[0], t)
		}})
}

// activations generates y = f(x).
func (file *armFile) activations() {
	value := func(name string, slots int, body func(p *pointNeon, y, x vreg)) {
		file.point(pointKernel{name: name, arrays: []string{"y", "x"}, written: 1, slots: slots,
			body: func(p *pointNeon, v []vreg) { body(p, v[0], v[1]) }})
	}
	value("gelu", 2, func(p *pointNeon, e, x vreg) {
		f := p.r(2)
		p.v(fmulV, f, x, x)
		p.plus(e, f, p.k(-2*geluA*geluB), -2*geluA)
		p.v(fmulV, e, e, x)
		p.exp(e, true, p.rest(2)...)
		p.v(faddV, e, e, p.k(1))
		p.v(fdivV, e, x, e)
	})
	value("geluErf", 1, func(p *pointNeon, y, x vreg) {
		p.v(fmulV, y, x, p.cdf(x, y, p.rest(2)...))
	})
	value("sigmoid", 3, func(p *pointNeon, y, x vreg) {
		p.v(fnegV, y, x)
		p.sigmoid(y, p.rest(2)...)
	})
	value("silu", 3, func(p *pointNeon, y, x vreg) {
		p.v(fnegV, y, x)
		p.sigmoid(y, p.rest(2)...)
		p.v(fmulV, y, y, x)
	})
	value("tanh", 1, func(p *pointNeon, y, x vreg) { // see activation.go
		small, square, t := p.r(2), p.r(3), p.r(4)
		p.v(faddV, y, x, x)
		p.v(fnegV, y, y)
		p.sigmoid(y, p.rest(2)...)
		p.v(faddV, y, y, y)
		p.v(fsubV, y, y, p.k(1))
		p.v(fmulV, square, x, x)
		p.plus(small, square, p.k(-17.0/315), 2.0/15)
		p.plus(t, small, square, -1.0/3)
		p.plus(small, t, square, 1)
		p.v(fmulV, small, small, x)
		p.v(faddV, square, square, p.k(-0.04))
		p.ifNegative(square, small, y, t)
	})
	value("softplus", 1, func(p *pointNeon, y, x vreg) { // see activation.go
		u, s, f, t := p.r(2), p.r(3), p.r(4), p.r(5)
		p.v(orrV, u, x, p.word32(1<<31))
		p.exp(u, false, p.rest(3)...)
		p.v(faddV, s, u, p.k(2))
		p.v(fdivV, s, u, s)
		p.v(fmulV, f, s, s)
		p.copyV(y, p.k(2.0/13))
		for _, k := range []float64{2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2} {
			p.plus(t, y, f, k)
			p.copyV(y, t)
		}
		p.v(fmulV, y, y, s)
		p.zero(f)
		p.v(fmaxV, f, f, x)
		p.v(faddV, y, y, f)
	})
	value("elu1", 2, func(p *pointNeon, y, x vreg) {
		zero := p.r(2)
		p.zero(zero)
		p.v(fminV, y, x, zero)
		p.exp(y, false, p.rest(2)...)
		p.zero(zero)
		p.v(fmaxV, x, x, zero)
		p.v(faddV, y, y, x)
	})
	value("relu2", 4, func(p *pointNeon, y, x vreg) {
		p.zero(y)
		p.v(fmaxV, y, y, x)
		p.v(fmulV, y, y, y)
	})
}
