package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Phase sums each angle of a head along a row in float64, and subtracts whole turns at each position, so that the sum
// is as exact after a million positions as after one.
func (eng *Engine) Phase(rates, dt *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	o := take[phaseOp](eng)
	record := eng.wantsRows(slots, rates, dt)
	*o = phaseOp{rates: rates, dt: dt, rows: r, carried: eng.carry(o.carried, slots), n: rates.Dim(-1),
		heads: dt.Dim(-1), states: o.states}
	o.y = eng.withLast(dt, o.heads*o.n)
	o.each(o.forward)
	if record {
		eng.push("Phase", o, o.y).add(o.after...)
	}
	return o.y
}

type phaseOp struct {
	rates, dt, y *tensor.Tensor
	rows         *engine.Rows
	carried
	n, heads int
	states   []stateGrad
}

// each calls f on all cores for every head of every row.
func (o *phaseOp) each(f func(row, head int)) {
	parallel.For(o.rows.Count()*o.heads, max(1, rowGrain(o.n)*o.rows.Count()/o.rows.Total()), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i/o.heads, i%o.heads)
		}
	})
}

// head returns the part of a head at position t in x, which is laid out like y.
func (o *phaseOp) head(x []float32, t, head int) []float32 { return x[(t*o.heads+head)*o.n:][:o.n] }

func (o *phaseOp) forward(row, head int) {
	before, after := o.at(row)
	y, dt, rates := o.y.Data(), o.dt.Data(), o.rates.Data()
	for i := range o.n {
		sum := 0.0
		if before != nil {
			sum = float64(before[head*o.n+i])
		}
		for t := o.rows.From(row); t < o.rows.From(row)+o.rows.Len(row); t++ {
			sum += float64(dt[t*o.heads+head]) * float64(rates[t*o.n+i])
			if sum < 0 || sum >= 2*math.Pi {
				sum -= 2 * math.Pi * math.Floor(sum/(2*math.Pi))
			}
			o.head(y, t, head)[i] = float32(sum)
			if o.rows.Stepped(row) {
				sum = float64(float32(sum)) // like a state between calls
			}
		}
		if after != nil {
			after[head*o.n+i] = float32(sum)
		}
	}
}

// Backward uses g, the sum of the gradients of a position and all after it. g first replaces the gradient of y.
func (o *phaseOp) Backward(eng *Engine) {
	g := eng.grad(o.y)
	o.states = o.stateGrads(eng, o.states, o.rows.Count())
	ddt, drates := eng.gradOf(o.dt), eng.gradOf(o.rates)
	o.each(func(row, head int) {
		d, from := o.states[row], o.rows.From(row)
		for i := range o.n {
			sum := 0.0
			if d.after != nil {
				sum = float64(d.after[head*o.n+i])
			}
			for t := from + o.rows.Len(row) - 1; t >= from; t-- {
				own := o.head(g, t, head)
				sum += float64(own[i])
				own[i] = float32(sum)
			}
		}
		if d.before != nil {
			kernel.Add(d.before[head*o.n:][:o.n], o.head(g, from, head))
		}
	})
	parallel.For(o.rows.Total(), rowGrain(o.heads*o.n), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			for head := range o.heads {
				if drates != nil {
					kernel.Axpy(o.dt.Data()[t*o.heads+head], o.head(g, t, head), drates[t*o.n:][:o.n])
				}
				if ddt != nil {
					ddt[t*o.heads+head] += kernel.Dot(o.head(g, t, head), o.rates.Data()[t*o.n:][:o.n])
				}
			}
		}
	})
}

// Turn computes sine and cosine once for all ranks of a head.
func (eng *Engine) Turn(x, bias, phase *tensor.Tensor, by engine.Turning) *tensor.Tensor {
	o := turnOp{x: x, bias: bias, phase: phase, Turning: by, n: by.Dim(x), angles: phase.Dim(-1) / by.Heads}
	o.y = eng.withLast(x, by.Ranks*by.Heads*o.n)
	parallel.For(x.Rows(), rowGrain(by.Ranks*by.Heads*o.n), func(lo, hi int) {
		o.each(lo, hi, func(p turnPlace, s, c []float32) {
			u, b, y := x.Data()[p.x:][:o.n], bias.Data()[p.bias:][:o.n], o.y.Data()[p.y:][:o.n]
			kernel.AddInto(y, u, b)
			for i, sin := range s {
				a, b := o.Pair(i, o.n)
				y[a], y[b] = float32(y[a]*c[i])-float32(y[b]*sin), float32(y[a]*sin)+float32(y[b]*c[i])
			}
		})
	})
	record(eng, "Turn", o, o.y, x, bias, phase)
	return o.y
}

type turnOp struct {
	x, bias, phase, y *tensor.Tensor
	engine.Turning
	n, angles int
}

// turnPlace holds the indices of a vector in y, x and bias, and of its angles in phase.
type turnPlace struct{ y, x, bias, phase int }

// each calls f for every vector at the positions [lo, hi), with the sines and cosines of its angles.
func (o *turnOp) each(lo, hi int, f func(p turnPlace, s, c []float32)) {
	buf := getFloats(2 * o.angles)
	defer putFloats(buf)
	s, c := (*buf)[:o.angles], (*buf)[o.angles:]
	for t := lo; t < hi; t++ {
		for h := range o.Heads {
			p := turnPlace{phase: (t*o.Heads + h) * o.angles}
			φ := o.phase.Data()[p.phase:][:o.angles]
			for i := range c {
				c[i] = 1
			}
			kernel.FuncSin.Into(s, φ)
			kernel.FuncSin.GradMul(c, φ)
			for r := range o.Ranks {
				p.bias = (r*o.Heads + h) * o.n
				p.y = t*o.Ranks*o.Heads*o.n + p.bias
				p.x = ((t*o.Ranks+r)*o.Groups + h/(o.Heads/o.Groups)) * o.n
				f(p, s, c)
			}
		}
	}
}

// Backward rotates the gradient back in place: then it is that of x + bias.
func (o *turnOp) Backward(eng *Engine) {
	dy, y := o.y.Grad(), o.y.Data()
	dx, dphase := eng.gradOf(o.x), eng.gradOf(o.phase)
	parallel.For(o.x.Rows(), rowGrain(o.Ranks*o.Heads*o.n), func(lo, hi int) {
		o.each(lo, hi, func(p turnPlace, s, c []float32) {
			d, y := dy[p.y:][:o.n], y[p.y:][:o.n]
			for i, sin := range s {
				a, b := o.Pair(i, o.n)
				if dphase != nil {
					dphase[p.phase+i] += float32(d[b]*y[a]) - float32(d[a]*y[b])
				}
				d[a], d[b] = float32(d[a]*c[i])+float32(d[b]*sin), float32(d[b]*c[i])-float32(d[a]*sin)
			}
			if dx != nil {
				kernel.Add(dx[p.x:][:o.n], d)
			}
		})
	})
	if db := eng.gradOf(o.bias); db != nil {
		sumRows(eng, db, dy, o.y.Dim(-1))
	}
}
