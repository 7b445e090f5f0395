package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Append puts x (…, l, d) after past (…, p, d), sequence by sequence: y (…, p+l, d). A past of nil is empty.
func (eng *Engine) oldAppend(past, x *tensor.Tensor) *tensor.Tensor {
	p, l, d := past.Dim(-2), x.Dim(-2), x.Dim(-1)
	shape := x.Shape()
	shape[len(shape)-2] = p + l
	y := eng.New(shape...)
	for i := range x.Len() / (l * d) {
		to := y.Data()[i*(p+l)*d:]
		copy(to, past.Data()[i*p*d:][:p*d])
		copy(to[p*d:], x.Data()[i*l*d:][:l*d])
	}
	if eng.wants(past, x) {
		op := take[appendOp](eng)
		*op = appendOp{past: past, x: x, y: y}
		eng.push(op)
	}
	return y
}

type appendOp struct{ past, x, y *tensor.Tensor }

func (o *appendOp) Name() string                   { return "Append" }
func (o *appendOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *appendOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	if dy == nil {
		return
	}
	dPast, dx := eng.gradOf(o.past), eng.gradOf(o.x)
	p, l := o.past.Dim(-2)*o.past.Dim(-1), o.x.Dim(-2)*o.x.Dim(-1)
	for i := range o.x.Len() / l {
		if dPast != nil {
			kernel.Add(dPast[i*p:][:p], dy[i*(p+l):][:p])
		}
		if dx != nil {
			kernel.Add(dx[i*l:][:l], dy[i*(p+l)+p:][:l])
		}
	}
}
