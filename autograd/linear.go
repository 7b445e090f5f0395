package autograd

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Linear computes y = a(x Wᵀ + bias): x (…, k), W (n, k), bias (n) or nil, y (…, n).
func (t *Tape) Linear(x, w, bias *tensor.Tensor, a Activation) *tensor.Tensor {
	k, n := x.Dim(-1), w.Dim(0)
	if w.Dims() != 2 || w.Dim(1) != k || bias != nil && bias.Len() != n {
		shapePanic("Linear", x, w, bias)
	}
	m := x.Rows()
	pre := t.withLast(x, n)
	var b []float32
	if bias != nil {
		b = bias.Data()
	}
	t.product(m, x.Data(), w, pre.Data(), b)
	y, record := pre, t.wants(x, w, bias)
	if a != None {
		if record { // backward needs the values before the activation
			y = t.like(pre)
		}
		xd, yd := pre.Data(), y.Data()
		parallel.For(len(xd), grain, func(lo, hi int) { a.apply(yd[lo:hi], xd[lo:hi]) })
	}
	if record {
		mustTrain("Linear", w)
		op := take[linearOp](t)
		*op = linearOp{x: x, w: w, bias: bias, pre: pre, y: y, a: a}
		t.push(op)
	}
	return y
}

type linearOp struct {
	x, w, bias, pre, y *tensor.Tensor
	a                  Activation
}

func (o *linearOp) Name() string                   { return "Linear" }
func (o *linearOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }

// result is y where there is no activation, whose backward writes over dy.
func (o *linearOp) result() *tensor.Tensor {
	if o.a == None {
		return o.y
	}
	return nil
}

func (o *linearOp) Backward(t *Tape) {
	dy := o.y.Grad()
	if dy == nil {
		return
	}
	k, n, m := o.w.Dim(1), o.w.Dim(0), o.x.Rows()
	o.a.backward(dy, o.pre.Data())
	if dx, add := t.gradTo(o.x); dx != nil {
		t.precision.Gemm(kernel.NN, m, k, n, dy, n, o.w.Data(), k, dx, k, nil, add)
	}
	if dw := t.gradOf(o.w); dw != nil {
		t.precision.Gemm(kernel.TN, n, k, m, dy, n, o.x.Data(), k, dw, k, nil, true)
	}
	if db := t.gradOf(o.bias); db != nil {
		sumRows(t, db, dy, n)
	}
}
