package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Append copies row by row.
func (eng *Engine) Append(past, x *tensor.Tensor, p, r *engine.Rows) *tensor.Tensor {
	o := take[appendOp](eng)
	*o = appendOp{past: past, x: x, y: eng.New(p.Total()+r.Total(), x.Dim(-1)), before: p, rows: r}
	o.each(o.y.Data(), past.Data(), x.Data(), func(y, x []float32) { copy(y, x) })
	if eng.wants(past, x) {
		eng.push("Append", o, o.y)
	}
	return o.y
}

type appendOp struct {
	past, x, y   *tensor.Tensor
	before, rows *engine.Rows
}

// each calls f for each row of past and of x, with the row's part of y. past or x may be nil.
func (o *appendOp) each(y, past, x []float32, f func(y, x []float32)) {
	d, at := o.x.Dim(-1), 0
	part := func(x []float32, r *engine.Rows, i int) {
		n := r.Len(i) * d
		if x != nil {
			f(y[at:at+n], x[r.From(i)*d:][:n])
		}
		at += n
	}
	for i := range o.rows.Count() {
		part(past, o.before, i)
		part(x, o.rows, i)
	}
}

func (o *appendOp) Backward(eng *Engine) {
	o.each(o.y.Grad(), eng.gradOf(o.past), eng.gradOf(o.x), func(dy, dx []float32) { kernel.Add(dx, dy) })
}
