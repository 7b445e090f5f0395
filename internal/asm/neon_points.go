package main

// vpoint is a vector of complex numbers.
type vpoint struct{ re, im vreg }

// pointsNeon allocates vector registers, as pool does for amd64, and transforms points. Functions with points as
// arguments free their registers, except those of the results.
type pointsNeon struct {
	*neon
	free []vreg
	held map[int]vreg // constants of points.go
}

// points returns a pointsNeon with all vector registers, some of which hold the constants of a radix. It uses an
// integer register.
func (c *neon) points(radix int) *pointsNeon {
	p := &pointsNeon{neon: c, held: map[int]vreg{}}
	for i := range vreg(32) {
		p.free = append(p.free, 31-i)
	}
	t := c.x()
	for _, i := range map[int][]int{8: {sqrtHalf}, 3: {half, sin3}, 5: {cos5a, cos5b, sin5a, sin5b}}[radix] {
		p.held[i] = p.take()
		c.float(p.held[i], pointConstants[i], t)
	}
	return p
}

func (p *pointsNeon) take() vreg {
	v := p.free[len(p.free)-1] // there are enough: registers are counted when code is generated
	p.free = p.free[:len(p.free)-1]
	return v
}

func (p *pointsNeon) give(v ...vreg) { p.free = append(p.free, v...) }

// addSub returns a+b and a-b.
func (p *pointsNeon) addSub(a, b vreg) (sum, diff vreg) {
	diff = p.take()
	p.v(fsubV, diff, a, b)
	p.v(faddV, a, a, b)
	p.give(b)
	return a, diff
}

// addSubScaled returns a+s·b and a-s·b.
func (p *pointsNeon) addSubScaled(a, b, s vreg) (sum, diff vreg) {
	diff = p.take()
	p.copyV(diff, a)
	p.v(fmlaV, a, b, s)
	p.v(fmlsV, diff, b, s)
	p.give(b)
	return a, diff
}

// sumDiff returns a+b and a-b, sumDiffTurned a-i·b and a+i·b. The scaled variants multiply b by s.
func (p *pointsNeon) sumDiff(a, b vpoint) (sum, diff vpoint) {
	sum.re, diff.re = p.addSub(a.re, b.re)
	sum.im, diff.im = p.addSub(a.im, b.im)
	return sum, diff
}
func (p *pointsNeon) sumDiffTurned(a, b vpoint) (sum, diff vpoint) {
	sum.re, diff.re = p.addSub(a.re, b.im)
	diff.im, sum.im = p.addSub(a.im, b.re)
	return sum, diff
}
func (p *pointsNeon) sumDiffScaled(a, b vpoint, s vreg) (sum, diff vpoint) {
	sum.re, diff.re = p.addSubScaled(a.re, b.re, s)
	sum.im, diff.im = p.addSubScaled(a.im, b.im, s)
	return sum, diff
}
func (p *pointsNeon) sumDiffTurnedScaled(a, b vpoint, s vreg) (sum, diff vpoint) {
	sum.re, diff.re = p.addSubScaled(a.re, b.im, s)
	diff.im, sum.im = p.addSubScaled(a.im, b.re, s)
	return sum, diff
}

// eighth returns √2·exp(-iπ/4)·a = (1-i)·a.
func (p *pointsNeon) eighth(a vpoint) vpoint {
	re, im := p.addSub(a.im, a.re)
	return vpoint{re, im}
}

// times returns x·k, and timesConj x·conj(k).
func (p *pointsNeon) times(x, k vpoint) vpoint {
	im := p.take()
	p.v(fmulV, im, x.re, k.im)
	p.v(fmulV, x.re, x.re, k.re)
	p.v(fmlsV, x.re, x.im, k.im)
	p.v(fmlaV, im, x.im, k.re)
	p.give(x.im, k.re, k.im)
	return vpoint{x.re, im}
}
func (p *pointsNeon) timesConj(x, k vpoint) vpoint {
	re, im := p.take(), p.take()
	p.v(fmulV, re, x.re, k.re)
	p.v(fmulV, im, x.im, k.re)
	p.v(fmlaV, re, x.im, k.im)
	p.v(fmlsV, im, x.re, k.im)
	p.give(x.re, x.im, k.re, k.im)
	return vpoint{re, im}
}

// transform4 and the functions below do the same as those of points.go.
func (p *pointsNeon) transform4(x []vpoint) []vpoint {
	s0, d0 := p.sumDiff(x[0], x[2])
	s1, d1 := p.sumDiff(x[1], x[3])
	return p.join4(s0, s1, d0, d1)
}

// join4 completes transform4, given sums and differences.
func (p *pointsNeon) join4(s0, s1, d0, d1 vpoint) []vpoint {
	y0, y2 := p.sumDiff(s0, s1)
	y1, y3 := p.sumDiffTurned(d0, d1)
	return []vpoint{y0, y1, y2, y3}
}

func (p *pointsNeon) odd4(d []vpoint) []vpoint {
	s0, d0 := p.sumDiffTurned(d[0], d[2])
	s1, d1 := p.sumDiffTurned(p.eighth(d[1]), p.eighth(d[3]))
	y0, y2 := p.sumDiffScaled(s0, s1, p.held[sqrtHalf])
	y1, y3 := p.sumDiffTurnedScaled(d0, d1, p.held[sqrtHalf])
	return []vpoint{y0, y1, y2, y3}
}

func (p *pointsNeon) join8(j int, even, odd vpoint) (a, b vpoint) {
	switch j {
	case 1:
		return p.sumDiffScaled(even, p.eighth(odd), p.held[sqrtHalf])
	case 2:
		return p.sumDiffTurned(even, odd)
	case 3:
		return p.sumDiffTurnedScaled(even, p.eighth(odd), p.held[sqrtHalf])
	}
	return p.sumDiff(even, odd)
}

func (p *pointsNeon) transform3(x []vpoint) []vpoint {
	s, d := p.sumDiff(x[1], x[2])
	m := vpoint{p.take(), p.take()}
	for _, v := range [][3]vreg{{x[0].re, s.re, m.re}, {x[0].im, s.im, m.im}} {
		p.copyV(v[2], v[0])
		p.v(fmlsV, v[2], v[1], p.held[half])
		p.v(faddV, v[0], v[0], v[1])
		p.give(v[1])
	}
	y1, y2 := p.sumDiffTurnedScaled(m, d, p.held[sin3])
	return []vpoint{x[0], y1, y2}
}

func (p *pointsNeon) transform5(x []vpoint) []vpoint {
	s, d := p.sumDiff(x[1], x[4])
	t, e := p.sumDiff(x[2], x[3])
	var m1, m2, n1, n2 vpoint
	m1.re, m2.re = p.cosines5(x[0].re, s.re, t.re)
	m1.im, m2.im = p.cosines5(x[0].im, s.im, t.im)
	n1.re, n2.re = p.sines5(d.re, e.re)
	n1.im, n2.im = p.sines5(d.im, e.im)
	y1, y4 := p.sumDiffTurned(m1, n1)
	y2, y3 := p.sumDiffTurned(m2, n2)
	return []vpoint{x[0], y1, y2, y3, y4}
}

func (p *pointsNeon) cosines5(x, s, t vreg) (m1, m2 vreg) {
	m1, m2 = p.take(), p.take()
	p.copyV(m1, x)
	p.copyV(m2, x)
	p.v(fmlaV, m1, s, p.held[cos5a])
	p.v(fmlaV, m2, s, p.held[cos5b])
	p.v(fmlaV, m1, t, p.held[cos5b])
	p.v(fmlaV, m2, t, p.held[cos5a])
	p.v(faddV, x, x, s)
	p.v(faddV, x, x, t)
	p.give(s, t)
	return m1, m2
}

func (p *pointsNeon) sines5(d, e vreg) (n1, n2 vreg) {
	n1 = p.take()
	p.v(fmulV, n1, d, p.held[sin5a])
	p.v(fmlaV, n1, e, p.held[sin5b])
	p.v(fmulV, d, d, p.held[sin5b])
	p.v(fmlsV, d, e, p.held[sin5a])
	p.give(e)
	return n1, d
}

// forward transforms radix points, which come from pair if radix is even and from get if not, and calls put with each
// result.
func (p *pointsNeon) forward(radix int, pair func(j int) (sum, diff vpoint), get func(j int) vpoint,
	put func(k int, y vpoint)) {
	var sum, diff, y []vpoint
	if radix%2 == 0 {
		for j := range radix / 2 {
			s, d := pair(j)
			sum, diff = append(sum, s), append(diff, d)
		}
	}
	switch radix {
	case 4:
		y = p.join4(sum[0], sum[1], diff[0], diff[1])
	case 8:
		y = append(p.transform4(sum), p.odd4(diff)...)
	default:
		y = p.odd(radix, get)
	}
	for k, y := range y {
		put(k, y)
	}
}

// odd returns the transform of an odd number of points.
func (p *pointsNeon) odd(radix int, get func(j int) vpoint) []vpoint {
	var x []vpoint
	for j := range radix {
		x = append(x, get(j))
	}
	if radix == 5 {
		return p.transform5(x)
	}
	return p.transform3(x)
}

// backward transforms radix points, which come from get, and calls put with the results.
func (p *pointsNeon) backward(radix int, get func(k int) vpoint, put func(j int, y vpoint)) {
	four := func(first int) []vpoint {
		return p.transform4([]vpoint{get(first), get(first + 1), get(first + 2), get(first + 3)})
	}
	switch radix {
	case 4:
		for j, y := range four(0) {
			put(j, y)
		}
	case 8:
		odd := four(4)
		for j, even := range four(0) {
			a, b := p.join8(j, even, odd[j])
			put(j, a)
			put(4+j, b)
		}
	default:
		for j, y := range p.odd(radix, get) {
			put(j, y)
		}
	}
}
