package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Experts computes one expert after the other: it gathers the positions that use it, multiplies them by its matrices,
// and adds the weighted results to their positions. A row of a product does not depend on the others, and the sum of a
// position goes over its experts in order, so a position gets the same bits whichever positions are computed with it.
func (eng *Engine) Experts(x, weights *tensor.Tensor, of engine.Experts) *tensor.Tensor {
	o := take[expertsOp](eng)
	*o = expertsOp{x: x, weights: weights, y: eng.like(x), of: of, first: o.first[:0], at: o.at[:0]}
	record := eng.wants(x, weights)
	for _, ws := range [][]*tensor.Tensor{of.FC1, of.Gate, of.FC2} {
		record = eng.wants(ws...) || record
	}
	o.assign()
	if record {
		o.h = eng.arena.Floats(len(o.at) * o.inner())
		o.g = eng.arena.Floats(len(o.at) * o.inner() * min(1, len(of.Gate)))
	}
	o.forward(eng)
	if record {
		eng.push("Experts", o, o.y)
	}
	return o.y
}

type expertsOp struct {
	x, weights, y *tensor.Tensor
	of            engine.Experts
	first         []int     // where the positions of each expert start in at, and the end
	at            []int     // positions, those of each expert in order
	h, g          []float32 // (at, f): results of FC1 and Gate, saved for backward
}

// inner returns the number f of inner channels.
func (o *expertsOp) inner() int { return o.of.FC1[0].Dim(0) }

// positions returns the positions of expert e.
func (o *expertsOp) positions(e int) []int { return o.at[o.first[e]:o.first[e+1]] }

// weight returns the weight of expert e for position p.
func (o *expertsOp) weight(p, e int) float32 { return o.weights.Data()[p*len(o.of.FC1)+e] }

// assign lists the positions of each expert.
func (o *expertsOp) assign() {
	n, experts := o.x.Rows(), len(o.of.FC1)
	for e := range experts {
		o.first = append(o.first, len(o.at))
		for p := range n {
			if o.weight(p, e) != 0 {
				o.at = append(o.at, p)
			}
		}
	}
	o.first = append(o.first, len(o.at))
}

func (o *expertsOp) forward(eng *Engine) {
	n, d, f := o.x.Rows(), o.x.Dim(-1), o.inner()
	y := o.y.Data()
	clear(y)
	xs, out := eng.arena.Borrow(n*d), eng.arena.Borrow(n*d)
	h, g := eng.arena.Borrow(n*f), eng.arena.Borrow(n*f)
	for e := range o.of.FC1 {
		at := o.positions(e)
		if len(at) == 0 {
			continue
		}
		m, kept := len(at), o.first[e]*f
		gatherRows(xs, o.x.Data(), at, d)
		eng.product(m, xs, o.of.FC1[e], h, nil)
		if len(o.of.Gate) > 0 {
			eng.product(m, xs, o.of.Gate[e], g, nil)
		}
		if o.h != nil {
			copy(o.h[kept:], h[:m*f])
			copy(o.g[min(kept, len(o.g)):], g[:m*f])
		}
		o.activate(h[:m*f], h, g)
		eng.product(m, h, o.of.FC2[e], out, nil)
		parallel.For(m, rowGrain(d), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				row := out[r*d:][:d]
				kernel.Scale(row, o.weight(at[r], e))
				kernel.Add(y[at[r]*d:][:d], row)
			}
		})
	}
	eng.done(xs)
	eng.done(out)
	eng.done(h)
	eng.done(g)
}

// gatherRows copies the positions at of x, d channels each, one after the other.
func gatherRows(to, x []float32, at []int, d int) {
	parallel.For(len(at), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			copy(to[r*d:][:d], x[at[r]*d:])
		}
	})
}

// activate sets m, which may be h, to h ⊙ a(g), or to a(h) without gates. It overwrites g.
func (o *expertsOp) activate(m, h, g []float32) {
	parallel.For(len(m), grain, func(lo, hi int) {
		if len(o.of.Gate) == 0 {
			activate(o.of.Activation, m[lo:hi], h[lo:hi])
			return
		}
		activate(o.of.Activation, g[lo:hi], g[lo:hi])
		kernel.MulInto(m[lo:hi], h[lo:hi], g[lo:hi])
	})
}

func (o *expertsOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	n, d, f := o.x.Rows(), o.x.Dim(-1), o.inner()
	w := expertsGrad{expertsOp: o, eng: eng, dy: dy, dx: eng.gradOf(o.x), dweights: eng.gradOf(o.weights)}
	for _, buf := range []*[]float32{&w.xs, &w.dys} {
		*buf = eng.arena.Borrow(n * d)
		defer eng.done(*buf)
	}
	for _, buf := range []*[]float32{&w.m, &w.dm, &w.gate} {
		*buf = eng.arena.Borrow(n * f)
		defer eng.done(*buf)
	}
	for e := range o.of.FC1 {
		if at := o.positions(e); len(at) > 0 {
			w.expert(e, at)
		}
	}
}

// expertsGrad holds the gradients during backward, and scratch for those of one expert.
type expertsGrad struct {
	*expertsOp
	eng              *Engine
	dy, dx, dweights []float32
	xs, dys          []float32 // (n, d)
	m, dm, gate      []float32 // (n, f); gate is a(g)
}

// expert runs backward through expert e, whose positions are at.
func (w *expertsGrad) expert(e int, at []int) {
	d, f, rows := w.x.Dim(-1), w.inner(), len(at)
	kept := w.first[e] * f
	h, m, dm, gate := w.h[kept:][:rows*f], w.m[:rows*f], w.dm[:rows*f], w.gate[:rows*f]
	gated := len(w.of.Gate) > 0
	if gated {
		copy(gate, w.g[kept:])
	}
	w.activate(m, h, gate)
	gatherRows(w.xs, w.x.Data(), at, d)
	gatherRows(w.dys, w.dy, at, d)
	w.eng.productBack(rows, w.dys, w.of.FC2[e], dm, false)
	parallel.For(rows, rowGrain(f), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			p := at[r]
			if w.dweights != nil {
				var back [1]float32
				kernel.RowDots(1, f, m[r*f:][:f], f, dm[r*f:][:f], back[:])
				w.dweights[p*len(w.of.FC1)+e] += back[0]
			}
			kernel.Scale(dm[r*f:][:f], w.weight(p, e))
			kernel.Scale(w.dys[r*d:][:d], w.weight(p, e))
		}
	})
	if dfc2 := w.eng.gradOf(w.of.FC2[e]); dfc2 != nil {
		w.multiply(d, f, rows, w.dys, m, dfc2)
	}
	if gated {
		dg := m // m is no longer needed
		parallel.For(len(dm), grain, func(lo, hi int) {
			kernel.MulInto(dg[lo:hi], dm[lo:hi], h[lo:hi])
			functions[w.of.Activation].GradMul(dg[lo:hi], w.g[kept+lo:kept+hi])
			kernel.Mul(dm[lo:hi], gate[lo:hi])
		})
		w.matrix(w.of.Gate[e], dg, rows, false)
	} else {
		activateGrad(w.of.Activation, dm, h)
	}
	w.matrix(w.of.FC1[e], dm, rows, gated)
	if w.dx != nil {
		parallel.For(rows, rowGrain(d), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				kernel.Add(w.dx[at[r]*d:][:d], w.dys[r*d:][:d])
			}
		})
	}
}

// matrix runs backward through h = x·Wᵀ, given the gradient dh. It adds to that of W, and sets or adds to dys, that of
// x.
func (w *expertsGrad) matrix(of *tensor.Tensor, dh []float32, rows int, add bool) {
	d, f := w.x.Dim(-1), w.inner()
	if dw := w.eng.gradOf(of); dw != nil {
		w.multiply(f, d, rows, dh, w.xs, dw)
	}
	if w.dx != nil {
		w.eng.productBack(rows, dh, of, w.dys, add)
	}
}

// multiply adds Aᵀ·B, with k terms, to C (m, n). The rows of all matrices are contiguous.
func (w *expertsGrad) multiply(m, n, k int, a, b, c []float32) {
	w.eng.precision().Gemm(kernel.Product{Op: kernel.TN, M: m, N: n, K: k, A: a, LDA: m, B: b, LDB: n, C: c, LDC: n,
		Add: true})
}
