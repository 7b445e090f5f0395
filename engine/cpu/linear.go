package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Linear applies the activation after the product, and saves the values before it for backward.
func (eng *Engine) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	n := w.Dim(0)
	m := x.Rows()
	pre := eng.withLast(x, n)
	var b []float32
	if bias != nil {
		b = bias.Data()
	}
	eng.product(m, x.Data(), w, pre.Data(), b)
	record := eng.wants(x, w, bias)
	y := eng.activated(pre, a, record)
	if record {
		eng.push("Linear", save(eng, linearOp{x: x, w: w, bias: bias, pre: pre, y: y, a: a}), y)
	}
	return y
}

// activated returns a(pre). It overwrites pre, unless that is saved for backward.
func (eng *Engine) activated(pre *tensor.Tensor, a engine.Activation, keep bool) *tensor.Tensor {
	if a == engine.None {
		return pre
	}
	y := pre
	if keep {
		y = eng.like(pre)
	}
	xd, yd := pre.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) { activate(a, yd[lo:hi], xd[lo:hi]) })
	return y
}

type linearOp struct {
	x, w, bias, pre, y *tensor.Tensor
	a                  engine.Activation
}

// result returns y if there is no activation, whose backward overwrites dy.
func (o *linearOp) result() *tensor.Tensor {
	if o.a == engine.None {
		return o.y
	}
	return nil
}

func (o *linearOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	k, n, m := o.w.Dim(1), o.w.Dim(0), o.x.Rows()
	activateGrad(o.a, dy, o.pre.Data())
	if dx, add := eng.gradTo(o.x); dx != nil {
		eng.productBack(m, dy, o.w, dx, add)
	}
	if dw := eng.gradOf(o.w); dw != nil {
		eng.precision().Gemm(kernel.Product{
			Op: kernel.TN, M: n, N: k, K: m, A: dy, LDA: n, B: o.x.Data(), LDB: k, C: dw, LDC: k, Add: true,
		})
	}
	if db := eng.gradOf(o.bias); db != nil {
		sumRows(eng, db, dy, n)
	}
}
