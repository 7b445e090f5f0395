package autograd

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Activation is a pointwise function fused into Linear.
type Activation int

// The activations Linear can apply.
const (
	None     Activation = iota
	GeluTanh            // ½x(1+tanh(√(2/π)(x+0.044715x³))), that of the released H3 models
	GeluErf             // ½x(1+erf(x/√2)), that of S4D
)

func (a Activation) apply(y, x []float32) {
	switch a {
	case None:
		copy(y, x)
	case GeluTanh:
		kernel.GeluInto(y, x)
	case GeluErf:
		kernel.GeluErfInto(y, x)
	}
}

// gradInto adds dy·a'(x) to dx.
func (a Activation) gradInto(dx, dy, x []float32) {
	switch a {
	case None:
		kernel.Add(dx, dy)
	case GeluTanh:
		kernel.GeluGradAdd(dx, dy, x)
	case GeluErf:
		kernel.GeluErfGradAdd(dx, dy, x)
	}
}

// Activate computes y = a(x) element by element.
func (t *Tape) Activate(x *tensor.Tensor, a Activation) *tensor.Tensor {
	y := t.like(x)
	xd, yd := x.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) { a.apply(yd[lo:hi], xd[lo:hi]) })
	if t.wants(x) {
		op := take[activateOp](t)
		*op = activateOp{x: x, y: y, a: a}
		t.push(op)
	}
	return y
}

type activateOp struct {
	x, y *tensor.Tensor
	a    Activation
}

func (o *activateOp) Name() string                   { return "Activate" }
func (o *activateOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *activateOp) Backward(t *Tape) {
	dx, dy, x := t.gradOf(o.x), o.y.Grad(), o.x.Data()
	if dx == nil || dy == nil {
		return
	}
	parallel.For(len(x), grain, func(lo, hi int) { o.a.gradInto(dx[lo:hi], dy[lo:hi], x[lo:hi]) })
}
