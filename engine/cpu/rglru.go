package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// rglruSlab is the number of channels that a task carries along its row.
const rglruSlab = 64

// RGLRU runs along each row, for some channels at a time.
func (eng *Engine) RGLRU(u, r, i, lambda *tensor.Tensor, rows *engine.Rows, slots engine.Slots) *tensor.Tensor {
	o := take[rglruOp](eng)
	record := eng.wantsRows(slots, u, r, i, lambda)
	*o = rglruOp{u: u, r: r, i: i, lambda: lambda, y: eng.like(u), rows: rows, carried: eng.carry(o.carried, slots),
		states: o.states[:0]}
	o.each(o.forward)
	if record {
		eng.push("RGLRU", o, o.y).add(o.after...)
	}
	return o.y
}

type rglruOp struct {
	u, r, i, lambda, y *tensor.Tensor
	rows               *engine.Rows
	carried
	states []stateGrad
}

// rglruSlice is the channels [c0, c1) of a row, of d channels in all, with scratch for one position.
type rglruSlice struct {
	row, c0, c1 int
	half        []float32 // 4·softplus(Λ)
	tanh        []float32 // tanh(4·r·softplus(Λ)) = tanh(-L/2)
}

// each calls f for all channels of all rows, on all cores.
func (o *rglruOp) each(f func(s *rglruSlice)) {
	d := o.u.Dim(-1)
	slabs := (d + rglruSlab - 1) / rglruSlab
	parallel.For(o.rows.Count()*slabs, max(1, grain/(rglruSlab*o.rows.Longest()*8)), func(lo, hi int) {
		buf := getFloats(2 * rglruSlab)
		defer putFloats(buf)
		for k := lo; k < hi; k++ {
			s := rglruSlice{row: k / slabs, c0: k % slabs * rglruSlab}
			s.c1 = min(d, s.c0+rglruSlab)
			s.half, s.tanh = (*buf)[:s.c1-s.c0], (*buf)[rglruSlab:][:s.c1-s.c0]
			kernel.FuncSoftplus.Into(s.half, o.lambda.Data()[s.c0:s.c1])
			kernel.Scale(s.half, engine.RGLRUPower/2)
			f(&s)
		}
	})
}

// of returns the slice's channels of position t of its row in x, which is laid out like u.
func (o *rglruOp) of(s *rglruSlice, x []float32, t int) []float32 {
	d := o.u.Dim(-1)
	return x[(o.rows.From(s.row)+t)*d:][s.c0:s.c1]
}

// decays sets s.tanh to T = tanh(-L/2) for position t. Then e^L = (1-T)/(1+T) and √(1 - e^2L) = 2√T/(1+T), in which
// nothing cancels if a is near 1.
func (o *rglruOp) decays(s *rglruSlice, t int) {
	kernel.MulInto(s.tanh, o.of(s, o.r.Data(), t), s.half)
	kernel.FuncTanh.Into(s.tanh, s.tanh)
}

func (o *rglruOp) forward(s *rglruSlice) {
	before, after := o.at(s.row)
	var last []float32 // the states before position t
	if before != nil {
		last = before[s.c0:s.c1]
	}
	for t := range o.rows.Len(s.row) {
		u, i, y := o.of(s, o.u.Data(), t), o.of(s, o.i.Data(), t), o.of(s, o.y.Data(), t)
		kernel.MulInto(y, u, i)
		if o.rows.Start(s.row)+t > 0 {
			o.decays(s, t)
			for c, T := range s.tanh {
				over := 1 / (1 + T)
				y[c] = float32(2*sqrt32(T)*over) * y[c]
				if last != nil {
					y[c] = float32(y[c]) + float32(float32((1-T)*over)*last[c])
				}
			}
		}
		last = y
	}
	if after != nil {
		copy(after[s.c0:s.c1], last)
	}
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func (o *rglruOp) Backward(eng *Engine) {
	o.states = o.stateGrads(eng, o.states, o.rows.Count())
	d := o.u.Dim(-1)
	w := rglruGrads{rglruOp: o, dy: eng.grad(o.y), du: eng.gradOf(o.u), dr: eng.gradOf(o.r), di: eng.gradOf(o.i),
		dlambda: eng.scratch(o.rows.Count() * d)}
	o.each(w.back)
	addParts(eng.gradOf(o.lambda), w.dlambda)
	eng.done(w.dlambda)
}

// rglruGrads holds the gradients during backward, nil if not wanted.
type rglruGrads struct {
	*rglruOp
	dy, du, dr, di []float32
	dlambda        []float32 // for each row
}

// back runs backward along the slice from its last position.
func (w *rglruGrads) back(s *rglruSlice) {
	buf := getFloats(2 * rglruSlab)
	defer putFloats(buf)
	g, slope := (*buf)[:s.c1-s.c0], (*buf)[rglruSlab:][:s.c1-s.c0]
	clear(g)
	if after := w.states[s.row].after; after != nil {
		copy(g, after[s.c0:s.c1])
	}
	for c := range slope { // dL/dΛ = -8·r·σ(Λ)
		slope[c] = -engine.RGLRUPower
	}
	kernel.FuncSoftplus.GradMul(slope, w.lambda.Data()[s.c0:s.c1])
	before, _ := w.at(s.row)
	dlambda := w.dlambda[s.row*w.u.Dim(-1):][s.c0:s.c1]
	for t := w.rows.Len(s.row) - 1; t >= 0; t-- {
		kernel.Add(g, w.of(s, w.dy, t))
		if w.rows.Start(s.row)+t == 0 {
			w.input(s, t, g, nil)
			clear(g)
			continue
		}
		var last []float32
		if t > 0 {
			last = w.of(s, w.y.Data(), t-1)
		} else if before != nil {
			last = before[s.c0:s.c1]
		}
		w.decays(s, t)
		w.input(s, t, g, s.tanh)
		u, i, r := w.of(s, w.u.Data(), t), w.of(s, w.i.Data(), t), w.of(s, w.r.Data(), t)
		for c, T := range s.tanh {
			over := 1 / (1 + T)
			a, root := (1-T)*over, 2*sqrt32(T)*over
			dL := -i[c] * u[c] * a * a / max(root, rglruRoot)
			if last != nil {
				dL += a * last[c]
			}
			dL *= g[c]
			if w.dr != nil {
				w.of(s, w.dr, t)[c] -= 2 * s.half[c] * dL
			}
			dlambda[c] += slope[c] * r[c] * dL
			g[c] *= a
		}
	}
	if ds := w.states[s.row].before; ds != nil {
		kernel.Add(ds[s.c0:s.c1], g)
	}
}

// rglruRoot is the smallest √(1 - a²) by which backward divides.
var rglruRoot = float32(math.Sqrt(engine.RGLRUFloor) / 2)

// input adds to the gradients of u and i at position t, given the gradient of h and the T of decays, which is nil at
// position 0.
func (w *rglruGrads) input(s *rglruSlice, t int, g, tanh []float32) {
	u, i := w.of(s, w.u.Data(), t), w.of(s, w.i.Data(), t)
	for c, v := range g {
		if tanh != nil {
			v *= 2 * sqrt32(tanh[c]) / (1 + tanh[c])
		}
		if w.du != nil {
			w.of(s, w.du, t)[c] += v * i[c]
		}
		if w.di != nil {
			w.of(s, w.di, t)[c] += v * u[c]
		}
	}
}
