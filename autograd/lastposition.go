package autograd

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// LastPosition picks the last position of every sequence: x (b, l, d) → y (b, 1, d).
func (t *Tape) LastPosition(x *tensor.Tensor) *tensor.Tensor {
	b, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	y := t.New(b, 1, d)
	for i := range b {
		copy(y.Data()[i*d:][:d], x.Data()[(i*l+l-1)*d:])
	}
	if t.wants(x) {
		op := take[lastPositionOp](t)
		*op = lastPositionOp{x: x, y: y}
		t.push(op)
	}
	return y
}

type lastPositionOp struct{ x, y *tensor.Tensor }

func (o *lastPositionOp) Name() string                   { return "LastPosition" }
func (o *lastPositionOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *lastPositionOp) Backward(t *Tape) {
	dx, dy := t.gradOf(o.x), o.y.Grad()
	if dx == nil || dy == nil {
		return
	}
	b, l, d := o.x.Dim(0), o.x.Dim(1), o.x.Dim(2)
	for i := range b {
		kernel.Add(dx[(i*l+l-1)*d:][:d], dy[i*d:][:d])
	}
}
