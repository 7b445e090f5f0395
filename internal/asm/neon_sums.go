package main

import "math"

// sumsNEON generates sums over slices. Each slot has its own sums, which are added in slot order at the end.
func sumsNEON(file *armFile) {
	var shift, scale vreg
	file.point(pointKernel{name: "dot", arrays: []string{"x", "y"}, slots: 4, sums: 1,
		body:   func(p *pointNeon, v []vreg) { p.v(fmlaV, p.sum(0), v[0], v[1]) },
		finish: func(p *pointNeon) { p.joinSums(4, faddV); p.fold(faddV, 0, 1); p.result(0) }})
	file.point(pointKernel{name: "sumSquares", arrays: []string{"x"}, slots: 2, sums: 2,
		body: func(p *pointNeon, v []vreg) {
			lo, hi := p.widen(v[0])
			p.v(fmlaD, p.sum(0), lo, lo)
			p.v(fmlaD, p.sum(1), hi, hi)
		},
		finish: func(p *pointNeon) { p.resultD(2) }})
	file.point(pointKernel{name: "zeros", arrays: []string{"x"}, slots: 4, sums: 1,
		body:   func(p *pointNeon, v []vreg) { p.v(fmlaV, p.sum(0), v[0], p.k(0)) },
		finish: func(p *pointNeon) { p.joinSums(4, faddV); p.fold(faddV, 0, 1); p.result(0) }})
	file.point(pointKernel{name: "sumExp", arrays: []string{"x"}, slots: 2, sums: 2,
		prepare: func(p *pointNeon) { shift = p.keep("shift") },
		body: func(p *pointNeon, v []vreg) {
			p.v(fsubV, v[0], v[0], shift)
			p.exp(v[0], true, p.rest(1)...)
			p.addWide(v[0])
		},
		finish: func(p *pointNeon) { p.resultD(2) }})
	file.point(pointKernel{name: "softmaxExp", arrays: []string{"x"}, written: 1, slots: 2, sums: 2,
		prepare: func(p *pointNeon) { shift, scale = p.keep("shift"), p.keep("scale") },
		body: func(p *pointNeon, v []vreg) {
			p.scaledLess(v[0], scale, shift, p.r(1))
			p.exp(v[0], true, p.rest(1)...)
			e := p.r(4)
			p.copyV(e, v[0])
			p.addWide(e)
		},
		finish: func(p *pointNeon) { p.resultD(2) }})
	file.largest()
}

// widen converts the halves of v to float64, in registers 2 and 3 of the slot.
func (p *pointNeon) widen(v vreg) (lo, hi vreg) {
	lo, hi = p.r(2), p.r(3)
	p.v(fcvtlD, lo, v)
	p.v(fcvtl2D, hi, v)
	return lo, hi
}

// addWide adds the existing elements of v to two float64 sums.
func (p *pointNeon) addWide(v vreg) {
	if p.few {
		p.keepFew(v, p.n, p.r(1))
	}
	lo, hi := p.widen(v)
	p.v(faddD, p.sum(0), p.sum(0), lo)
	p.v(faddD, p.sum(1), p.sum(1), hi)
}

// joinSums combines the sums of all slots into those of the first, in order.
func (p *pointNeon) joinSums(slots int, join armOp) {
	for slot := 1; slot < slots; slot++ {
		for i := range p.sums {
			p.v(join, vreg(i), vreg(i), vreg(slot*p.per+i))
		}
	}
}

// resultD returns the sum of the two float64 sums of all slots.
func (p *pointNeon) resultD(slots int) {
	p.joinSums(slots, faddD)
	p.v(faddD, 0, 0, 1)
	p.foldD(0, 0)
	p.result(0)
}

// largest replaces the maximum by an element that is greater, which NaN never is.
func (file *armFile) largest() {
	file.point(pointKernel{name: "largest", arrays: []string{"x"}, slots: 4, sums: 1, start: math.Inf(-1),
		body: func(p *pointNeon, v []vreg) {
			greater := p.r(1)
			p.v(fcmgtV, greater, v[0], p.sum(0))
			if p.few {
				p.keepFew(greater, p.n, p.r(2))
			}
			p.v(bitV, p.sum(0), v[0], greater)
		},
		finish: func(p *pointNeon) { p.joinSums(4, fmaxV); p.fold(fmaxV, 0, 1); p.result(0) }})
}
