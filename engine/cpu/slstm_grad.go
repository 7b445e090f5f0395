package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// Backward turns the gradient of y into that of the gates' arguments, position by position from the last. The gradients
// of W, R, b and x are products over all positions.
//
// c and n are both proportional to e^-m, so y does not depend on m. The gradient of m is that of the state after the
// row, dm - dc·c - dn·n. It goes to the larger of i and f' + m of the previous position.
func (o *slstmOp) Backward(eng *Engine) {
	dy, draw := eng.grad(o.y), eng.arena.Borrow(len(o.raw))
	defer eng.done(draw)
	for part := range o.carried {
		o.states[part] = o.carried[part].stateGrads(eng, o.states[part], o.rows.Count())
	}
	o.each(func(head int, rows []int) { o.backward(dy, draw, head, rows) })
	o.recurrentGrad(eng, draw)
	o.inputGrads(eng, draw)
}

// backward runs backward through the positions of a head of some rows.
func (o *slstmOp) backward(dy, draw []float32, head int, rows []int) {
	n, m := o.n, len(rows)
	buf := getFloats(8*m*n + 9*n)
	defer putFloats(buf)
	var d [4][]float32 // gradients of y, c, n and m of each row (rows, n)
	rest := *buf
	for i := range d {
		d[i], rest = rest[:m*n], rest[m*n:]
	}
	through, rest := rest[:4*m*n], rest[4*m*n:]
	gates := newSLSTMGates(rest, n)
	var before [4][]float32 // values of y (not used), c, n and m before the position
	for i := range before {
		before[i] = rest[(5+i)*n:][:n]
	}
	for i, row := range rows {
		for part := range d {
			copyOrClear(d[part][i*n:][:n], o.states[part][row].after, head)
		}
		last := o.rows.Len(row) - 1
		c, norm := o.keptAt(0, row, last, head), o.keptAt(1, row, last, head)
		for j := range n { // gradient of m, with c·e^m and n·e^m held fixed
			d[3][i*n+j] -= float32(d[1][i*n+j]*c[j]) + float32(d[2][i*n+j]*norm[j])
		}
	}
	r := o.R.Data()[head*4*n*n:]
	for t := o.rows.Len(rows[0]) - 1; t >= 0; t-- {
		live := o.longer(rows, t)
		for i, row := range live {
			for part := 1; part < 4; part++ {
				if t > 0 {
					copy(before[part], o.keptAt(part-1, row, t-1, head))
				} else {
					o.start(before[part], part, row, head)
				}
			}
			fresh := t == 0 && o.fresh[row]
			raw := o.gatesAt(o.raw, row, t, head)
			gates.set(raw, before[3], fresh)
			g := slstmGrad{slstmGates: &gates, raw: raw, to: o.gatesAt(draw, row, t, head), fresh: fresh,
				c0: before[1], n0: before[2], c: o.keptAt(0, row, t, head), n: o.keptAt(1, row, t, head)}
			dy0 := d[0][i*n:][:n]
			kernel.Add(dy0, o.at(dy, row, t, head))
			g.back(dy0, d[1][i*n:][:n], d[2][i*n:][:n], d[3][i*n:][:n])
			copy(through[i*4*n:], g.to)
		}
		kernel.GemmInline(kernel.Product{Op: kernel.NT, M: len(live), N: n, K: 4 * n, A: through, LDA: 4 * n, B: r,
			LDB: 4 * n, C: d[0], LDC: n})
	}
	for i, row := range rows {
		if !o.carried[0].has(row) {
			continue
		}
		o.start(before[1], 1, row, head)
		o.start(before[2], 2, row, head)
		for j := range n {
			d[3][i*n+j] += float32(d[1][i*n+j]*before[1][j]) + float32(d[2][i*n+j]*before[2][j])
		}
		for part := range d {
			addTo(o.states[part][row].before, d[part][i*n:][:n], head)
		}
	}
}

// slstmGrad runs backward through one position of a head.
type slstmGrad struct {
	*slstmGates
	raw, to []float32 // the arguments of the gates (4, n) and their gradients
	fresh   bool
	c0, n0  []float32 // before the position
	c, n    []float32 // after it
}

// back turns the gradients of y, c, n and m after the position into those of c, n and m before it.
func (g *slstmGrad) back(dy, dc, dn, dm []float32) {
	size := len(dy)
	for j, v := range dy {
		y, o := g.c[j]/g.n[j], g.o[j]
		out := v * o / g.n[j]
		g.to[3*size+j] = v * y * o * (1 - o)
		dc[j] += out
		dn[j] -= out * y
		g.to[2*size+j] = dc[j] * g.write[j] * (1 - float32(g.z[j]*g.z[j]))
		in, f := g.raw[j], g.raw[size+j]
		dwrite := g.write[j] * (float32(dc[j]*g.z[j]) + dn[j])
		dkeep := g.keep[j] * (float32(dc[j]*g.c0[j]) + float32(dn[j]*g.n0[j]))
		if g.fresh || g.m[j] == in { // m is i
			dwrite, dm[j] = dwrite+dm[j], 0
			if g.keep[j] == 1 { // decay is clamped to 1
				dkeep = 0
			}
		} else {
			dkeep += dm[j]
		}
		slope := float32(0)
		if f < engine.SLSTMForgets {
			slope = kernel.Sigmoid(-f)
		}
		g.to[j], g.to[size+j] = dwrite, dkeep*slope
		dc[j] *= g.keep[j]
		dn[j] *= g.keep[j]
	}
}

// recurrentGrad adds to the gradient of R, for each row the part of its positions and then that of the state before it.
func (o *slstmOp) recurrentGrad(eng *Engine, draw []float32) {
	dr := eng.gradOf(o.R)
	if dr == nil {
		return
	}
	n := o.n
	parallel.For(o.Heads, 1, func(lo, hi int) {
		for head := lo; head < hi; head++ {
			to := dr[head*4*n*n:][:4*n*n]
			for row := range o.rows.Count() {
				if l := o.rows.Len(row); l > 1 {
					kernel.GemmInline(kernel.Product{Op: kernel.TN, M: n, N: 4 * n, K: l - 1,
						A: o.y.Data()[o.rows.From(row)*o.d+head*n:], LDA: o.d, B: o.gatesFrom(draw, row, 1, head),
						LDB: 4 * o.d, C: to, LDC: 4 * n, Add: true})
				}
				if before, _ := o.carried[0].at(row); before != nil {
					kernel.GemmInline(kernel.Product{Op: kernel.TN, M: n, N: 4 * n, K: 1, A: before[head*n:], LDA: n,
						B: o.gatesFrom(draw, row, 0, head), LDB: 4 * o.d, C: to, LDC: 4 * n, Add: true})
				}
			}
		}
	})
}

// gatesFrom returns the gates of a head from position t of a row on in x, which is laid out like raw.
func (o *slstmOp) gatesFrom(x []float32, row, t, head int) []float32 {
	return x[(o.rows.From(row)+t)*4*o.d+head*4*o.n:]
}

// inputGrads is the backward pass of inputs.
func (o *slstmOp) inputGrads(eng *Engine, draw []float32) {
	n, l, dx := o.n, o.rows.Total(), eng.gradOf(o.X)
	for h := range o.Heads {
		for g, w := range o.W {
			at := (h*4 + g) * n
			if dx != nil {
				eng.precision().Gemm(kernel.Product{Op: kernel.NN, M: l, N: n, K: n, A: draw[at:], LDA: 4 * o.d,
					B: w.Data()[h*n*n:], LDB: n, C: dx[h*n:], LDC: o.d, Add: true})
			}
			if dw := eng.gradOf(w); dw != nil {
				eng.precision().Gemm(kernel.Product{Op: kernel.TN, M: n, N: n, K: l, A: draw[at:], LDA: 4 * o.d,
					B: o.X.Data()[h*n:], LDB: o.d, C: dw[h*n*n:], LDC: n, Add: true})
			}
		}
	}
	if db := eng.gradOf(o.Bias); db != nil {
		sumRows(eng, db, draw, 4*o.d)
	}
}
