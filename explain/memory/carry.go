package memory

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/mixer"
)

// carry replaces x, numbers of a part, by Φ_t x. a holds the decays at t for each number, or is nil if they are fixed.
// g holds the gates of ruleTanh.
func (p *statePart) carry(a, g, x []float64) {
	switch p.rule {
	case ruleDecay:
		if a == nil {
			a = p.a
		}
		for i := range x {
			x[i] *= a[i]
		}
	case ruleModes:
		for i := 0; i < len(x); i += 2 {
			re, im := x[i], x[i+1]
			x[i], x[i+1] = p.a[i]*re-p.a[i+1]*im, p.a[i]*im+p.a[i+1]*re
		}
	case ruleRegister:
		for c := range p.channels {
			p.move(x[c*p.cStep:])
		}
	case ruleMatrix:
		row := make([]float64, p.inner)
		for c := range p.channels {
			v := x[c*p.inner:][:p.inner]
			for i := range row {
				row[i] = dotOf(p.m[(c*p.inner+i)*p.inner:][:p.inner], v)
			}
			copy(v, row)
		}
	case ruleTanh:
		n := p.size()
		row := make([]float64, n)
		for i := range row {
			sum := 0.0
			for j, v := range p.r[i*n:][:n] {
				sum += float64(v) * x[j]
			}
			row[i] = g[i] * sum
		}
		copy(x, row)
	}
}

// move shifts the numbers of one channel, which start at x, by one place.
func (p *statePart) move(x []float64) {
	at := func(i int) int { return i * p.iStep }
	if p.turn > 0 {
		for i := p.inner - 1; i > 0; i-- {
			x[at(i)] = x[at(i-1)]
		}
		x[0] = 0
		return
	}
	for i := range p.inner - 1 {
		x[at(i)] = x[at(i+1)]
	}
	x[at(p.inner-1)] = 0
}

// gates returns s/z of the state s = tanh(z) of ruleTanh for numbers with a tanh, and 1 for others.
func (p *statePart) gates(s []float32) []float64 {
	g := make([]float64, len(s))
	for i, v := range s {
		g[i] = 1
		if x := math.Abs(float64(v)); i < p.tanhs && x > 1e-4 {
			g[i] = x / math.Atanh(min(x, 1-1e-7))
		}
	}
	return g
}

func dotOf(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// direction finds the b_c of a part whose transition is fixed, if tokens write in one direction in each channel.
func (w *stateWalk) direction(p *statePart, at int) error {
	if p.rule == ruleDecay && p.same {
		return nil // it makes no difference
	}
	n := p.size()
	places := []int{0, 1, at, min(w.l-1, 2*lookAt+1)}
	states, zeros := make([]mixer.State, len(places)), slices.Repeat([][]float32{make([]float32, n)}, len(places))
	for i, t := range places {
		states[i] = w.before(t)
	}
	writes, err := w.probes(places, states, p.name, p.shape, zeros)
	if err != nil {
		return err
	}
	b := make([]float64, n)
	for c := range p.channels {
		best, most := 0, 0.0
		for k, x := range writes {
			if e := p.squares(x, c, c+1); e > most {
				best, most = k, e
			}
		}
		if most == 0 {
			continue
		}
		for i := range p.inner {
			b[c*p.inner+i] = float64(writes[best][c*p.cStep+i*p.iStep]) / math.Sqrt(most)
		}
		for _, x := range writes {
			along, e := 0.0, p.squares(x, c, c+1)
			for i := range p.inner {
				along += b[c*p.inner+i] * float64(x[c*p.cStep+i*p.iStep])
			}
			if e > 1e-6*most && along*along < (1-1e-3)*e {
				if p.rule == ruleMatrix || p.rule == ruleRegister {
					p.rule = ruleUnknown
				}
				return nil
			}
		}
	}
	p.b = b
	return nil
}

// squares returns the sum of the squares of the numbers of the channels [from, to).
func (p *statePart) squares(x []float32, from, to int) float64 {
	if p.iStep == 1 { // channels are contiguous
		return kernel.SumSquares(x[from*p.inner : to*p.inner])
	}
	sum := 0.0
	for i := range p.inner {
		sum += kernel.SumSquares(x[i*p.iStep+from : i*p.iStep+to])
	}
	return sum
}

// profiles returns the energies E_c(τ) = |Φ^τ b_c|² of a part with one direction, for τ from 0 to l-1, (l, channels).
func (p *statePart) profiles(l int) []float32 {
	if p.rule == ruleDecay || p.rule == ruleModes {
		return p.fadingProfiles(l)
	}
	out := make([]float32, l*p.channels)
	parallel.Each(p.channels, func(c int) {
		one := *p // a part with only this channel
		one.channels, one.cStep, one.iStep = 1, p.inner, 1
		if p.m != nil {
			one.m = p.m[c*p.inner*p.inner:][:p.inner*p.inner]
		}
		x := append([]float64(nil), p.b[c*p.inner:][:p.inner]...)
		for t := range l {
			e := dotOf(x, x)
			out[t*p.channels+c] = float32(e)
			if e < 1e-14 {
				return // the rest is negligible
			}
			one.carry(nil, nil, x)
		}
	})
	return out
}

// fadingProfiles returns the profiles of decays and modes, for which every number or pair i of a channel fades by
// itself:
//
//	E_c(τ) = Σ_i e_i r_i^τ,   e_i = |b_i|², r_i = |a_i|²
//
// With τ = n·j + k this is the product of the matrices e_i r_i^(n·j) and r_i^k. The powers are computed in float64.
func (p *statePart) fadingProfiles(l int) []float32 {
	n := int(math.Ceil(math.Sqrt(float64(l))))
	out := make([]float32, l*p.channels)
	parallel.Each(p.channels, func(c int) {
		e, r := p.fading(c)
		far, near, y := make([]float32, n*len(e)), make([]float32, n*len(e)), make([]float32, n*n)
		for i, x := range e {
			if x == 0 {
				continue // regardless of its decay, which may be above 1
			}
			step, power := math.Pow(r[i], float64(n)), 1.0
			for j := range n {
				far[j*len(e)+i], near[j*len(e)+i] = float32(x), float32(power)
				x, power = x*step, power*r[i]
			}
		}
		kernel.GemmInline(kernel.Product{Op: kernel.NT, M: n, N: n, K: len(e), A: far, LDA: len(e), B: near,
			LDB: len(e), C: y, LDC: n})
		for t := range l {
			out[t*p.channels+c] = y[t]
		}
	})
	return out
}

// fading returns |b_i|² and |a_i|² of the numbers of a channel, or of its pairs for ruleModes.
func (p *statePart) fading(c int) (e, r []float64) {
	step := 1
	if p.rule == ruleModes {
		step = 2
	}
	for i := 0; i < p.inner; i += step {
		b, a := p.b[c*p.inner+i], p.a[c*p.cStep+i*p.iStep]
		x, y := b*b, a*a
		if step == 2 {
			b, a = p.b[c*p.inner+i+1], p.a[c*p.cStep+(i+1)*p.iStep]
			x, y = x+b*b, y+a*a
		}
		e, r = append(e, x), append(r, y)
	}
	return e, r
}

// dual returns bᵀΦ for the channels of a part with one direction: b_c·(Φ S)_c = dual_c·S_c.
func (p *statePart) dual() []float64 {
	out := make([]float64, len(p.b))
	for c := range p.channels {
		b := p.b[c*p.inner:][:p.inner]
		d := out[c*p.inner:][:p.inner]
		for i := range p.inner {
			k := c*p.cStep + i*p.iStep
			switch p.rule {
			case ruleDecay:
				d[i] = b[i] * p.a[k]
			case ruleModes: // the conjugate, for pairs
				j := i &^ 1
				re, im := p.a[c*p.inner+j], p.a[c*p.inner+j+1]
				if i == j {
					d[i] = re*b[j] + im*b[j+1]
				} else {
					d[i] = re*b[j+1] - im*b[j]
				}
			case ruleRegister:
				if to := i + p.turn; to >= 0 && to < p.inner {
					d[i] = b[to]
				}
			case ruleMatrix:
				for r := range p.inner {
					d[i] += b[r] * p.m[(c*p.inner+r)*p.inner+i]
				}
			}
		}
	}
	return out
}

// single returns the index of the only nonzero number of each channel, nil if some channel has several.
func (p *statePart) single(x []float32) []int {
	at := make([]int, p.channels)
	for c := range at {
		at[c] = c * p.cStep
		some := false
		for i := range p.inner {
			if k := c*p.cStep + i*p.iStep; x[k] != 0 {
				if some {
					return nil
				}
				at[c], some = k, true
			}
		}
	}
	return at
}

// laid puts numbers (channels, inner) in the order of the state.
func (p *statePart) laid(x []float64) []float32 {
	out := make([]float32, len(x))
	for c := range p.channels {
		for i := range p.inner {
			out[c*p.cStep+i*p.iStep] = float32(x[c*p.inner+i])
		}
	}
	return out
}
