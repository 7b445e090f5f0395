package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// trapezoidStateGrads holds the gradients of the states of a row.
type trapezoidStateGrads struct{ s, k, v stateGrad }

// trapezoidGrads holds the gradients of the inputs, with scratch for those that are not wanted.
type trapezoidGrads struct {
	dy, dq, dk, dv, da, ddt, dlambda []float32
	skip                             []float32 // the gradient of D by each row (rows, heads)
}

// Backward runs backward through each head, and propagates the gradients of the weights to λ and dt.
func (o *trapezoidOp) Backward(eng *Engine) {
	g := trapezoidGrads{dy: eng.grad(o.y), skip: eng.scratch(o.rows.Count() * o.Heads)}
	unwanted := [][]float32{g.skip}
	for i, to := range []*[]float32{&g.dq, &g.dk, &g.dv, &g.da, &g.ddt, &g.dlambda} {
		*to = eng.gradOrScratch(o.Along()[i], &unwanted)
	}
	o.grads = resize(o.grads, o.rows.Count())
	for i := range o.grads {
		d := &o.grads[i]
		d.s.before, d.s.after = o.s.grads(eng, i)
		d.k.before, d.k.after = o.k.grads(eng, i)
		d.v.before, d.v.after = o.v.grads(eng, i)
	}
	o.work.each(1, func(row, head int) { o.backward(&g, row, head) })
	addParts(eng.gradOf(o.D), g.skip)
	for _, buf := range unwanted {
		eng.done(buf)
	}
}

// backward runs backward through a head of a row.
func (o *trapezoidOp) backward(g *trapezoidGrads, row, head int) {
	d, l, size := &o.grads[row], o.rows.Len(row), o.n*o.p
	own := o.head(row, head)
	at := o.rows.From(row)*o.Ranks*o.Heads + head
	w := decayedGrad{decayed: &own, dq: g.dq[at*o.n:], dk: g.dk[at*o.n:], dv: g.dv[at*o.p:]}
	rest := w.lend(size + 3*l)
	defer putFloats(own.scratch)
	w.ds, w.dsteps, w.dwrite, w.down = rest[:size], rest[size:][:l], rest[size+l:][:l], rest[size+2*l:][:l]
	clear(w.dwrite)
	clear(w.down)
	copyOrClear(w.ds, d.s.after, head)
	o.backEnd(g, row, head)
	dy := g.dy[at*o.p:]
	for t0 := (o.count(row) - 1) * o.positions(); t0 >= 0; t0 -= o.positions() {
		own.s = o.stateBefore(row, head, t0)
		own.zero = t0 == 0 && !o.s.has(row)
		own.load(t0, min(l, t0+o.positions()))
		v, dv, dn := own.rows(own.v, own.vStep, t0), own.rows(w.dv, own.vStep, t0), own.rows(dy, own.vStep, t0)
		for i := range own.n {
			g.skip[row*o.Heads+head] += kernel.Dot(v[i*own.vStep:][:o.p], dn[i*own.vStep:][:o.p])
		}
		kernel.AxpyRows(dv, own.vStep, dn, own.vStep, o.D.Data()[head:], 0, own.n, o.p)
		w.back(t0, min(l, t0+o.positions()), dn, own.vStep, nil)
	}
	early := o.backBegin(w.ds, row, head) // the gradient of (1-λ)·dt
	for t := range l {
		at := (o.rows.From(row)+t)*o.Heads + head
		a, dt, lambda, late := o.A.Data()[at], o.Dt.Data()[at], o.Lambda.Data()[at], w.down[t]+w.dwrite[t]
		g.da[at] += dt * w.dsteps[t]
		g.ddt[at] += a*w.dsteps[t] + lambda*late + (1-lambda)*early
		g.dlambda[at] += dt * (late - early)
		early = w.dwrite[t]
	}
	addTo(d.s.before, w.ds, head)
}

// backEnd is the backward pass of end.
func (o *trapezoidOp) backEnd(g *trapezoidGrads, row, head int) {
	d := &o.grads[row]
	last := (o.rows.From(row) + o.rows.Len(row) - 1) * o.Ranks * o.Heads
	for r := range o.Ranks {
		if d.k.after != nil {
			kernel.Add(rank(g.dk[last*o.n:], r, head, o.Heads, o.n), rank(d.k.after, r, head, o.Heads, o.n))
		}
		if d.v.after != nil {
			kernel.Add(rank(g.dv[last*o.p:], r, head, o.Heads, o.p), rank(d.v.after, r, head, o.Heads, o.p))
		}
	}
}

// backBegin is the backward pass of begin, where ds is the gradient of the state before the row. It returns the
// gradient of the first (1-λ)·dt.
func (o *trapezoidOp) backBegin(ds []float32, row, head int) (sum float32) {
	k, _ := o.k.at(row)
	v, _ := o.v.at(row)
	if k == nil {
		return 0
	}
	d, early := &o.grads[row], o.early(row, head, 0)
	for r := range o.Ranks {
		kr, vr := rank(k, r, head, o.Heads, o.n), rank(v, r, head, o.Heads, o.p)
		for i, w := range kr {
			g := ds[i*o.p:][:o.p]
			dot := kernel.Dot(g, vr)
			sum += w * dot
			if d.k.before != nil {
				rank(d.k.before, r, head, o.Heads, o.n)[i] += early * dot
			}
			if d.v.before != nil {
				kernel.Axpy(early*w, g, rank(d.v.before, r, head, o.Heads, o.p))
			}
		}
	}
	return sum
}
