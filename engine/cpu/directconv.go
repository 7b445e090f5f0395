package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// directUpTo is the length up to which a causal convolution is summed tap by tap, because its l/2 multiply-adds for
// each element then take less time than transforms. Both are equally fast at about 110 positions with AVX-512.
const directUpTo = 96

// directConv sets the rows of y for which use is true to q·(K∗u + D u), u = k·v, position by position, for head_dim 1.
// It saves u and K∗u + D u for backward.
func (eng *Engine) directConv(y *tensor.Tensor, g engine.Gates, kern, skip *tensor.Tensor, r *engine.Rows,
	use func(i int) bool) {
	op := take[directOp](eng)
	op.choose(r, use)
	if op.Count() == 0 {
		return
	}
	d := g.V.Dim(-1)
	kern = eng.KernelRows(kern, d)
	op.Gates, op.kern, op.skip, op.y, op.through = g, kern, skip, y, eng.throughOf(skip, d)
	op.u = g.V.Data()
	if g.K != nil || !op.whole() {
		op.u = eng.arena.Floats(op.Total() * d)
		op.gate(rowsOf{op.u, true}, inAll(g.V), inAll(g.K), d, false)
	}
	op.z = y.Data()
	apart := g.Q != nil || !op.whole()
	if apart {
		op.z = eng.arena.Floats(op.Total() * d)
	}
	op.over(func(i, lo, hi int) {
		at := op.From(i) * d
		kernel.FIR(op.z[at:], op.u[at:], kern.Data(), op.through, d, op.taps(i), lo, hi)
	})
	if apart {
		op.gate(inAll(y), rowsOf{op.z, true}, inAll(g.Q), d, false)
	}
	if eng.wants(g.Q, g.K, g.V, kern, skip) {
		eng.pushPart("DirectConv", op, y)
	}
}

// throughOf returns the skip, or zeros if there is none.
func (eng *Engine) throughOf(skip *tensor.Tensor, d int) []float32 {
	if skip != nil {
		return skip.Data()
	}
	zeros := eng.arena.Floats(d)
	clear(zeros)
	return zeros
}

// directOp works on contiguous rows: on copies, unless they are all rows of the tensors.
type directOp struct {
	engine.Gates
	subset
	kern, skip, y *tensor.Tensor
	through       []float32
	u, z          []float32 // (n, d): inputs, and outputs before the gate
}

// taps returns the number of taps that row i sees.
func (o *directOp) taps(i int) int { return min(o.Len(i), o.kern.Dim(0)) }

// over calls f on all cores for pieces of the rows. The cuts of a row depend only on its length.
func (o *directOp) over(f func(i, lo, hi int)) {
	overRows(o.Rows, max(firRows, rowGrain(o.kern.Dim(1)*directUpTo)), f)
}

// inAll returns the elements of x in all rows, or none if x is nil.
func inAll(x *tensor.Tensor) rowsOf {
	if x == nil {
		return rowsOf{}
	}
	return rowsOf{x: x.Data()}
}

func (o *directOp) Backward(eng *Engine) {
	dz, d := o.y.Grad(), o.kern.Dim(1)
	dy := rowsOf{x: dz}
	o.gate(rowsOf{x: eng.gradOf(o.Q)}, dy, rowsOf{o.z, true}, d, true)
	if !o.whole() {
		dz = eng.arena.Borrow(o.Total() * d)
		defer eng.done(dz)
	}
	if !o.whole() || o.Q != nil { // the gradient of y is no longer needed
		o.gate(rowsOf{dz, true}, dy, inAll(o.Q), d, false)
	}
	if dk := eng.gradOf(o.kern); dk != nil {
		parallel.For(min(o.kern.Dim(0), o.Longest()), max(firTaps, rowGrain(o.Total()*d)), func(lo, hi int) {
			for i := range o.Count() {
				at := o.From(i) * d
				kernel.FIRTapsGrad(dk, dz[at:], o.u[at:], d, o.Len(i), lo, min(hi, o.Len(i)))
			}
		})
	}
	if o.skip != nil {
		eng.skipGrad(o.skip, dz[:o.Total()*d], o.u[:o.Total()*d])
	}
	o.inputGrad(eng, dz, d)
}

// inputGrad adds to the gradients of v and k.
func (o *directOp) inputGrad(eng *Engine, dz []float32, d int) {
	direct := o.K == nil && o.whole()
	du := eng.gradOf(o.V)
	if du == nil && o.K == nil {
		return
	}
	if !direct {
		du = eng.scratch(o.Total() * d)
		defer eng.done(du)
	}
	o.over(func(i, lo, hi int) {
		at := o.From(i) * d
		kernel.FIRGrad(du[at:], dz[at:], o.kern.Data(), o.through, d, o.taps(i), o.Len(i), lo, hi)
	})
	if direct {
		return
	}
	if o.K != nil {
		o.gate(rowsOf{x: eng.gradOf(o.K)}, rowsOf{du, true}, inAll(o.V), d, true)
	}
	o.gate(rowsOf{x: eng.gradOf(o.V)}, rowsOf{du, true}, inAll(o.K), d, true)
}

// skipGrad adds Σ dy·x, over the rows of dy and x, to the gradient of a skip D (d).
func (eng *Engine) skipGrad(skip *tensor.Tensor, dy, x []float32) {
	g, d := eng.gradOf(skip), skip.Len()
	if g != nil && d <= narrowRows { // like the first tap of a filter
		kernel.FIRTapsGrad(g, dy, x, d, len(x)/d, 0, 1)
		return
	}
	parallel.For(len(g), max(64, rowGrain(len(x)/d)), func(lo, hi int) {
		for at := 0; at < len(x); at += d {
			kernel.MulAdd(g[lo:hi], dy[at+lo:], x[at+lo:])
		}
	})
}
