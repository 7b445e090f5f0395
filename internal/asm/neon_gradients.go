package main

// gradientsNEON generates the gradients of functions of single elements, with the same bits as on amd64, and AdamW.
func gradientsNEON(file *armFile) {
	gradient := func(name string, slots int, body func(p *pointNeon, dy, x vreg)) {
		file.point(pointKernel{name: name, arrays: []string{"dy", "x"}, written: 1, slots: slots,
			body: func(p *pointNeon, v []vreg) { body(p, v[0], v[1]) }})
	}
	gradient("geluGradMul", 1, func(p *pointNeon, dy, x vreg) { // see activation.go
		e, slope, f, t := p.r(2), p.r(3), p.r(4), p.r(5)
		p.v(fmulV, f, x, x)
		p.plus(e, f, p.k(2*geluA*geluB), 2*geluA)
		p.plus(slope, f, p.k(3*2*geluA*geluB), 2*geluA)
		p.v(fmulV, e, e, x)
		p.v(orrV, e, e, p.word32(1<<31))
		p.exp(e, false, p.rest(4)...)
		p.v(faddV, f, e, p.k(1))
		p.v(fdivV, f, p.k(1), f)
		p.v(fmulV, e, e, f)
		p.v(fmulV, t, e, f)
		p.v(fmulV, slope, slope, t)
		p.v(fmulV, slope, slope, x)
		p.ifNegative(x, e, f, t)
		p.v(faddV, f, f, slope)
		p.v(fmulV, dy, dy, f)
	})
	gradient("geluErfGradMul", 1, func(p *pointNeon, dy, x vreg) {
		gauss := p.r(2)
		phi := p.cdf(x, gauss, p.rest(3)...)
		p.v(fmulV, gauss, gauss, x)
		p.v(fmlaV, phi, gauss, p.k(0.3989422804014327)) // 1/√(2π)
		p.v(fmulV, dy, dy, phi)
	})
	gradient("sigmoidGradMul", 1, func(p *pointNeon, dy, x vreg) {
		slope, _ := p.sigmoidSlope(x)
		p.v(fmulV, dy, dy, slope)
	})
	gradient("siluGradMul", 1, func(p *pointNeon, dy, x vreg) {
		slope, s := p.sigmoidSlope(x)
		p.v(fmlaV, s, x, slope)
		p.v(fmulV, dy, dy, s)
	})
	gradient("tanhGradMul", 1, func(p *pointNeon, dy, x vreg) {
		p.v(faddV, x, x, x)
		slope, _ := p.sigmoidSlope(x)
		p.v(fmulV, slope, slope, p.k(4)) // 1 - tanh² = 4σ'(2x)
		p.v(fmulV, dy, dy, slope)
	})
	gradient("softplusGradMul", 2, func(p *pointNeon, dy, x vreg) {
		p.v(fnegV, x, x)
		p.sigmoid(x, p.rest(2)...)
		p.v(fmulV, dy, dy, x)
	})
	gradient("elu1GradMul", 2, func(p *pointNeon, dy, x vreg) {
		zero := p.r(2)
		p.zero(zero)
		p.v(fminV, x, x, zero)
		p.exp(x, false, p.rest(2)...)
		p.v(fmulV, dy, dy, x)
	})
	gradient("relu2GradMul", 4, func(p *pointNeon, dy, x vreg) {
		zero := p.r(2)
		p.zero(zero)
		p.v(fmaxV, x, x, zero)
		p.v(faddV, x, x, x)
		p.v(fmulV, dy, dy, x)
	})
	file.point(pointKernel{name: "gluGrad", arrays: []string{"da", "dgate", "dy", "a", "gate"}, written: 2, slots: 1,
		body: func(p *pointNeon, v []vreg) {
			da, dgate, dy, a, g, rest := v[0], v[1], v[2], v[3], v[4], p.r(5)
			p.v(fnegV, g, g)
			p.sigmoid(g, p.rest(5)...)
			p.v(fmlaV, da, dy, g)
			p.v(fmulV, dy, dy, a)
			p.v(fsubV, rest, p.k(1), g)
			p.v(fmulV, dy, dy, g)
			p.v(fmlaV, dgate, dy, rest)
		}})
	var k [9]vreg
	file.point(pointKernel{name: "adamW", arrays: []string{"p", "m", "v", "grad"}, written: 4, slots: 2,
		prepare: func(p *pointNeon) {
			at := p.arg("k")
			for i := range k {
				k[i] = vreg(31 - len(p.fixed))
				p.fixed = append(p.fixed, k[i])
				p.broadcastNext(k[i], at)
			}
		},
		body: func(p *pointNeon, x []vreg) {
			beta1, rest1, beta2, rest2, scale, keep, step, root, eps := k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8]
			w, m, v, g, t, d := x[0], x[1], x[2], x[3], p.r(4), p.r(5)
			p.v(fmulV, g, g, scale)
			p.v(fmulV, m, m, beta1)
			p.v(fmlaV, m, g, rest1)
			p.v(fmulV, t, g, rest2)
			p.v(fmulV, v, v, beta2)
			p.v(fmlaV, v, t, g)
			p.v(fsqrtV, t, v)
			p.copyV(d, eps)
			p.v(fmlaV, d, t, root)
			p.v(fmulV, w, w, keep)
			p.v(fmulV, g, m, step)
			p.v(fdivV, g, g, d)
			p.v(fsubV, w, w, g)
			p.zero(g)
		}})
}

// sigmoidSlope returns σ'(x) and σ(x): see derivative of activation.go.
func (p *pointNeon) sigmoidSlope(x vreg) (slope, s vreg) {
	slope, s = p.r(2), p.r(3)
	e := p.r(4)
	p.v(orrV, e, x, p.word32(1<<31))
	p.exp(e, false, p.rest(5)...)
	p.v(faddV, s, e, p.k(1))
	p.v(fdivV, s, p.k(1), s)
	p.v(fmulV, e, e, s)
	p.v(fmulV, slope, e, s)
	p.ifNegative(x, e, s, p.r(5))
	return slope, s
}

// cdf returns Φ(x) in one of the registers of scratch, and leaves e^(-x²/2) in gauss: see activation.go.
func (p *pointNeon) cdf(x, gauss vreg, scratch ...vreg) vreg {
	t, a, b := scratch[0], scratch[1], scratch[2]
	p.v(fmulV, gauss, x, x)
	p.v(fmulV, gauss, gauss, p.k(-0.5))
	p.exp(gauss, false, scratch...)
	p.v(fabsV, a, x)
	p.plus(t, a, p.k(erfP), 1)
	p.v(fdivV, t, p.k(1), t)
	p.copyV(a, p.k(erfA[4]/2))
	for i := 3; i >= 0; i-- {
		p.plus(b, a, t, erfA[i]/2)
		a, b = b, a
	}
	p.v(fmulV, a, a, t)
	p.v(fmulV, a, a, gauss) // Φ(-|x|)
	p.v(fsubV, b, p.k(1), a)
	p.ifNegative(x, a, b, t)
	return b
}
