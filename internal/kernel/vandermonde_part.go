package kernel

import "math"

// speed describes how fast the modes of a group rotate and decay. Modes that are 0 do not count.
type speed struct {
	turn     float64 // max |tan arg z|, infinite for a quarter of a turn and more
	min, max float64 // range of |z|²
}

// speedOf returns the speed of the modes re + i·im. A NaN makes all its fields NaN.
func speedOf(re, im []float64) speed {
	im = im[:len(re)]
	least, most, sum := 1.0, 0.0, 0.0
	fastX, fastY := 1.0, 0.0 // the mode that turns fastest
	for i, x := range re {
		y := math.Abs(im[i])
		square := float64(x*x) + float64(y*y)
		sum += square
		switch {
		case square == 0:
			continue
		case x <= 0:
			fastX, fastY = 0, 1
		case float64(y*fastX) > float64(fastY*x):
			fastX, fastY = x, y
		}
		if square < least {
			least = square
		}
		if square > most {
			most = square
		}
	}
	if sum != sum {
		return speed{sum, sum, sum}
	}
	return speed{fastY / fastX, least, most}
}

// lasting returns the number of powers after which all are negligible.
func (s speed) lasting() int {
	if l := 2 * logNegligible / math.Log(s.max); l >= 0 && l < math.MaxInt32 {
		return int(l) + 2
	}
	return math.MaxInt32
}

// Bounds of the modes e^λ whose values at every second position determine the others (see halfband.go).
const (
	halfbandTurn  = 1.35 // |Im 2λ| at most
	halfbandDecay = 0.05 // |Re 2λ| at most
)

// slowest[h] is the speed up to which positions may be halved h times.
var slowest = func() (s [halvingsMost + 1]speed) {
	for h := range s {
		step := math.Ldexp(1, -h)
		s[h] = speed{math.Tan(halfbandTurn * step), math.Exp(-2 * halfbandDecay * step),
			math.Exp(2 * halfbandDecay * step)}
	}
	return s
}()

// halvings returns how often the positions may be halved.
func (s speed) halvings() int {
	h := halvingsMost
	for ; h > 0; h-- {
		if most := slowest[h]; s.turn <= most.turn && s.min >= most.min && s.max <= most.max {
			break
		}
	}
	return h
}

// set takes the modes of p from z.
func (p *vandermondePart) set(z Modes) {
	width := p.hi - p.lo
	for _, x := range []*Modes{&p.stepped, &p.c, &p.s, &p.ds} {
		*x = room(*x, 2*width)
	}
	p.pick(p.stepped, z)
	if p.halvings > 0 {
		p.inverse, p.start = room(p.inverse, 2*width), room(p.start, 2*width)
		slowModes(p.stepped, p.inverse, p.start, p.stepped, p.halvings)
	}
	p.powerMatrix.set(p.stepped, p.lasts)
}

// reach returns the number of positions to which the modes of p contribute.
func (p *vandermondePart) reach() int { return p.rows * p.t }

// slowModes sets, for modes z and at least one halving, stepped = z^m for m = 2^halvings, inverse = 1/z, or 0 for 0,
// and start = stepped^-before(halvings) = (z^-16)^(m-1), mode by mode; stepped may be z.
func slowModes(stepped, inverse, start, z Modes, halvings int) {
	n := z.N()
	if cpu.has(slowModesCode) {
		vecSlowModes(n, halvings, &stepped[0], &inverse[0], &start[0], &z[0])
		return
	}
	for i := range n {
		z, x := z.at(i), complex(0, 0)
		if square := float64(real(z)*real(z)) + float64(imag(z)*imag(z)); square > 0 {
			x = complex(real(z)/square, -imag(z)/square)
		}
		inverse.set(i, x)
		for range 4 {
			x = times(x, x)
		}
		z = times(z, z)
		from := x
		for range halvings - 1 {
			z, x = times(z, z), times(x, x)
			from = times(from, x)
		}
		stepped.set(i, z)
		start.set(i, from)
	}
}

// zeros calls f for the modes that are 0, if p has only every 2^h-th position: p lacks their contribution, which is
// only to position 0.
func (p *vandermondePart) zeros(f func(mode int)) {
	if p.halvings == 0 {
		return
	}
	n := p.inverse.N()
	for i, re := range p.inverse[:n] {
		if re == 0 && p.inverse[n+i] == 0 {
			f(p.lo + i)
		}
	}
}

// pick copies the modes of p from all to x.
func (p *vandermondePart) pick(x, all Modes) {
	width := p.hi - p.lo
	copy(x[:width], all[p.lo:])
	copy(x[width:], all[all.N()+p.lo:][:width])
}

// put copies x to the modes of p in all.
func (p *vandermondePart) put(all, x Modes) {
	width := p.hi - p.lo
	copy(all[p.lo:], x[:width])
	copy(all[all.N()+p.lo:], x[width:])
}

// apply sets k to the contribution of the modes of p, or adds it to k.
func (p *vandermondePart) apply(k []float32, c Modes, add bool) {
	p.pick(p.c, c)
	if p.halvings > 0 {
		p.c.Mul(1, p.c, p.start)
	}
	p.powerMatrix.apply(k, p.c, add)
}

// sums sets the entries of s, and of ds unless that is nil, for the modes of p to the sums over dk, the derivatives at
// the positions of p. With w = z^m for m = 2^halvings, b = before(halvings) and sums s' and ds' over powers of w from 0
// on,
//
//	s = w^-b·s',  ds = d/dz Σ_i dk[i]·w^(i-b) = m/z·w^-b·(w·ds' - b·s').
func (p *vandermondePart) sums(s, ds Modes, dk []float32) {
	if ds == nil {
		p.powerMatrix.sumsOf(p.s, nil, dk)
	} else {
		p.powerMatrix.sumsOf(p.s, p.ds, dk)
	}
	if p.halvings > 0 {
		p.s.Mul(1, p.s, p.start)
		if ds != nil {
			p.ds.Mul(1, p.ds, p.stepped)
			p.ds.Mul(1, p.ds, p.start)
			p.ds.Add(-float64(before(p.halvings)), p.s)
			p.ds.Mul(math.Ldexp(1, p.halvings), p.ds, p.inverse)
		}
	}
	p.put(s, p.s)
	if ds != nil {
		p.put(ds, p.ds)
	}
}
