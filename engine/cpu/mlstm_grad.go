package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// mlstmStateGrads holds the gradients of the states of a row.
type mlstmStateGrads struct{ c, n, m stateGrad }

// mlstmGrads holds the gradients of the inputs, with scratch for those that are not wanted.
type mlstmGrads struct{ dy, dq, dk, dv, di, df []float32 }

// Backward uses y = N/D, so dN = dy/D and the gradient of D is -dy·y/D. What a position reads and writes depends on the
// sums f[s+1] + … + f[t] + i[s] - m[t]. So the gradients of log ā and of log ī, with m held fixed, are those of f and
// i, and m[t] has the gradient
//
//	-dy·y·ε/D   of y,   and   dm - Σ dC·C - dn·n   of the state after the row
//
// which goes to f[t] and m[t-1] or to i[t], whichever is the larger. For the first term, numerator and denominator
// cancel on paper, but would not in float32.
func (o *mlstmOp) Backward(eng *Engine) {
	g := mlstmGrads{dy: eng.grad(o.y)}
	var unwanted [][]float32
	for i, to := range []*[]float32{&g.dq, &g.dk, &g.dv, &g.di, &g.df} {
		*to = eng.gradOrScratch(o.Inputs()[i], &unwanted)
	}
	o.grads = resize(o.grads, o.rows.Count())
	for i := range o.grads {
		d := &o.grads[i]
		d.c.before, d.c.after = o.c.grads(eng, i)
		d.n.before, d.n.after = o.n.grads(eng, i)
		d.m.before, d.m.after = o.m.grads(eng, i)
	}
	o.work.each(1, func(row, head int) { o.backward(&g, row, head) })
	for _, buf := range unwanted {
		eng.done(buf)
	}
}

// backward runs backward through a head of a row.
func (o *mlstmOp) backward(g *mlstmGrads, row, head int) {
	d, l, size := &o.grads[row], o.rows.Len(row), o.e*o.d
	own := o.head(row, head)
	k, v := (o.rows.From(row)*o.Heads+head)*o.e, (o.rows.From(row)*o.Heads+head)*o.d
	w := decayedGrad{decayed: &own, dq: g.dq[k:], dk: g.dk[k:], dv: g.dv[v:]}
	c := min(decayedRows, l)
	rest := w.lend(size + o.e + 3*l + c*o.d + c)
	defer putFloats(own.scratch)
	w.ds, w.dz, w.dsteps, w.dwrite, rest = split5(rest, size, o.e, l, l, len(rest)-size-o.e-2*l)
	gm, dn, dd := rest[:l], rest[l:][:c*o.d], rest[l+c*o.d:]
	copyOrClear(w.ds, d.c.after, head)
	copyOrClear(w.dz, d.n.after, head)
	clear(w.dwrite)
	y, dy := o.y.Data()[v:], g.dy[v:]
	den, slope := o.of(o.den, row, head), o.of(o.slope, row, head)
	dm := float32(0) // gradient of m after the position
	if _, after := o.c.at(row); after != nil {
		_, n := o.n.at(row)
		dm = -kernel.Dot(w.ds, after[head*size:][:size]) - kernel.Dot(w.dz, n[head*o.e:][:o.e])
	}
	if d.m.after != nil {
		dm += d.m.after[head]
	}
	for t0 := (l - 1) / decayedRows * decayedRows; t0 >= 0; t0 -= decayedRows {
		t1 := min(l, t0+decayedRows)
		own.s, own.z = o.stateBefore(row, head, t0)
		own.zero = t0 == 0 && !o.c.has(row)
		own.load(t0, t1)
		for i := range own.n {
			t := t0 + i
			to, from := dn[i*o.d:][:o.d], dy[t*own.vStep:][:o.d]
			copy(to, from)
			kernel.Scale(to, 1/den[t])
			dD := -kernel.Dot(to, y[t*own.vStep:][:o.d])
			dd[i], gm[t] = dD*slope[t], dD*float32(o.Eps)
		}
		w.back(t0, t1, dn, o.d, dd[:own.n])
	}
	for t := l - 1; t >= 0; t-- {
		at := (o.rows.From(row)+t)*o.Heads + head
		dm += gm[t]
		di, df := w.dwrite[t]*own.write[t], w.dsteps[t]
		if own.steps[t] == 0 { // m is f plus the previous m
			df += dm
		} else {
			di, dm = di+dm, 0
		}
		g.di[at] += di
		g.df[at] += df
	}
	addTo(d.c.before, w.ds, head)
	addTo(d.n.before, w.dz, head)
	if d.m.before != nil {
		c, _ := o.c.at(row)
		n, _ := o.n.at(row)
		d.m.before[head] += dm + kernel.Dot(w.ds, c[head*size:][:size]) + kernel.Dot(w.dz, n[head*o.e:][:o.e])
	}
}
