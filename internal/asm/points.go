package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// point is a vector of complex numbers.
type point struct{ re, im reg.Register }

// pool allocates vector registers. Functions with points as arguments free their registers, except those of the
// results.
type pool struct {
	asm
	free []reg.Register
	half Op // √½ in all lanes
}

// newPool returns a pool of all vector registers.
func newPool(c asm) *pool {
	n := 16
	if c.lanes == 16 {
		n = 32
	}
	p := &pool{asm: c}
	for i := range n {
		p.free = append(p.free, c.vec(n-1-i))
	}
	if p.half = constant(sqrtHalf); n == 32 {
		half := p.take()
		c.VMOVUPS(constant(sqrtHalf), half)
		p.half = half
	}
	return p
}

func (p *pool) take() reg.Register {
	v := p.free[len(p.free)-1] // there are enough: registers are counted when code is generated
	p.free = p.free[:len(p.free)-1]
	return v
}

func (p *pool) give(v ...reg.Register) { p.free = append(p.free, v...) }

// addSub returns a+b and a-b.
func (p *pool) addSub(a, b reg.Register) (sum, diff reg.Register) {
	diff = p.take()
	p.VSUBPS(b, a, diff)
	p.VADDPS(b, a, a)
	p.give(b)
	return a, diff
}

// addSubScaled returns a+s·b and a-s·b.
func (p *pool) addSubScaled(a, b reg.Register, s Op) (sum, diff reg.Register) {
	diff = p.take()
	p.VMOVAPS(a, diff)
	p.VFMADD231PS(s, b, a)
	p.VFNMADD231PS(s, b, diff)
	p.give(b)
	return a, diff
}

// sumDiff returns a+b and a-b.
func (p *pool) sumDiff(a, b point) (sum, diff point) {
	sum.re, diff.re = p.addSub(a.re, b.re)
	sum.im, diff.im = p.addSub(a.im, b.im)
	return sum, diff
}

// sumDiffTurned returns a-i·b and a+i·b.
func (p *pool) sumDiffTurned(a, b point) (sum, diff point) {
	sum.re, diff.re = p.addSub(a.re, b.im)
	diff.im, sum.im = p.addSub(a.im, b.re)
	return sum, diff
}

// sumDiffScaled returns a+s·b and a-s·b.
func (p *pool) sumDiffScaled(a, b point, s Op) (sum, diff point) {
	sum.re, diff.re = p.addSubScaled(a.re, b.re, s)
	sum.im, diff.im = p.addSubScaled(a.im, b.im, s)
	return sum, diff
}

// sumDiffTurnedScaled returns a-i·s·b and a+i·s·b.
func (p *pool) sumDiffTurnedScaled(a, b point, s Op) (sum, diff point) {
	sum.re, diff.re = p.addSubScaled(a.re, b.im, s)
	diff.im, sum.im = p.addSubScaled(a.im, b.re, s)
	return sum, diff
}

// eighth returns √2·exp(-iπ/4)·a = (1-i)·a.
func (p *pool) eighth(a point) point {
	re, im := p.addSub(a.im, a.re)
	return point{re, im}
}

// transform4 returns the transform of 4 points, in natural order.
func (p *pool) transform4(x []point) []point {
	s0, d0 := p.sumDiff(x[0], x[2])
	s1, d1 := p.sumDiff(x[1], x[3])
	y0, y2 := p.sumDiff(s0, s1)
	y1, y3 := p.sumDiffTurned(d0, d1)
	return []point{y0, y1, y2, y3}
}

// odd4 transforms the differences d[j] of points j and j+4 of 8 into the odd points of their transform: it computes
// transform4 of d[j]·exp(-iπj/4).
func (p *pool) odd4(d []point) []point {
	s0, d0 := p.sumDiffTurned(d[0], d[2])
	s1, d1 := p.sumDiffTurned(p.eighth(d[1]), p.eighth(d[3]))
	y0, y2 := p.sumDiffScaled(s0, s1, p.half)
	y1, y3 := p.sumDiffTurnedScaled(d0, d1, p.half)
	return []point{y0, y1, y2, y3}
}

// join8 returns points j and j+4 of 8, given points j of the transforms of the even and the odd ones.
func (p *pool) join8(j int, even, odd point) (a, b point) {
	switch j {
	case 1:
		return p.sumDiffScaled(even, p.eighth(odd), p.half)
	case 2:
		return p.sumDiffTurned(even, odd)
	case 3:
		return p.sumDiffTurnedScaled(even, p.eighth(odd), p.half)
	}
	return p.sumDiff(even, odd)
}

// transform3 returns the transform of 3 points: see butterfly3 of package kernel.
func (p *pool) transform3(x []point) []point {
	s, d := p.sumDiff(x[1], x[2])
	m := point{p.take(), p.take()}
	for _, v := range [][3]reg.Register{{x[0].re, s.re, m.re}, {x[0].im, s.im, m.im}} {
		p.VMOVAPS(v[0], v[2])
		p.VFNMADD231PS(constant(half), v[1], v[2])
		p.VADDPS(v[1], v[0], v[0])
		p.give(v[1])
	}
	y1, y2 := p.sumDiffTurnedScaled(m, d, constant(sin3))
	return []point{x[0], y1, y2}
}

// transform5 returns the transform of 5 points: see butterfly5 of package kernel.
func (p *pool) transform5(x []point) []point {
	s, d := p.sumDiff(x[1], x[4])
	t, e := p.sumDiff(x[2], x[3])
	var m1, m2, n1, n2 point
	m1.re, m2.re = p.cosines5(x[0].re, s.re, t.re)
	m1.im, m2.im = p.cosines5(x[0].im, s.im, t.im)
	n1.re, n2.re = p.sines5(d.re, e.re)
	n1.im, n2.im = p.sines5(d.im, e.im)
	y1, y4 := p.sumDiffTurned(m1, n1)
	y2, y3 := p.sumDiffTurned(m2, n2)
	return []point{x[0], y1, y2, y3, y4}
}

// cosines5 returns x + cos1·s + cos2·t and x + cos2·s + cos1·t, and adds s+t to x.
func (p *pool) cosines5(x, s, t reg.Register) (m1, m2 reg.Register) {
	m1, m2 = p.take(), p.take()
	p.VMOVAPS(x, m1)
	p.VMOVAPS(x, m2)
	p.VFMADD231PS(constant(cos5a), s, m1)
	p.VFMADD231PS(constant(cos5b), s, m2)
	p.VFMADD231PS(constant(cos5b), t, m1)
	p.VFMADD231PS(constant(cos5a), t, m2)
	p.VADDPS(s, x, x)
	p.VADDPS(t, x, x)
	p.give(s, t)
	return m1, m2
}

// sines5 returns sin1·d + sin2·e and sin2·d - sin1·e.
func (p *pool) sines5(d, e reg.Register) (n1, n2 reg.Register) {
	n1 = p.take()
	p.VMULPS(constant(sin5a), d, n1)
	p.VFMADD231PS(constant(sin5b), e, n1)
	p.VMULPS(constant(sin5b), d, d)
	p.VFNMADD231PS(constant(sin5a), e, d)
	p.give(e)
	return n1, d
}

// The constants of the transforms. Each is repeated for all lanes of a vector.
const (
	sqrtHalf = iota
	half
	sin3
	cos5a
	cos5b
	sin5a
	sin5b
)

var pointConstants = []float64{
	sqrtHalf: math.Sqrt2 / 2, half: 0.5, sin3: math.Sqrt(3) / 2,
	cos5a: math.Cos(2 * math.Pi / 5), cos5b: math.Cos(4 * math.Pi / 5),
	sin5a: math.Sin(2 * math.Pi / 5), sin5b: math.Sin(4 * math.Pi / 5),
}

// constant returns the address of a vector of one constant.
func constant(i int) Mem { return NewDataAddr(NewStaticSymbol("constants"), 64*i) }

// constantTable writes the constants.
func (c asm) constantTable() {
	c.data("constants")
	for i, x := range pointConstants {
		for v := range 16 {
			c.AddDatum(64*i+4*v, U32(math.Float32bits(float32(x))))
		}
	}
}
