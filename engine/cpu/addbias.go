package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// AddBias saves x + bias for backward.
func (eng *Engine) AddBias(x, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	d, in := x.Dim(-1), positionsOf(x)
	pre := eng.like(x)
	parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			kernel.AddInto(pre.Data()[r*d:][:d], in.Row(r, d), bias.Data())
		}
	})
	y := eng.like(x)
	parallel.For(x.Len(), grain, func(lo, hi int) { activate(a, y.Data()[lo:hi], pre.Data()[lo:hi]) })
	record(eng, "AddBias", addBiasOp{x: x, bias: bias, pre: pre, y: y, a: a}, y, x, bias)
	return y
}

type addBiasOp struct {
	x, bias, pre, y *tensor.Tensor
	a               engine.Activation
}

func (o *addBiasOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	activateGrad(o.a, dy, o.pre.Data())
	if db := eng.gradOf(o.bias); db != nil {
		sumRows(eng, db, dy, o.bias.Len())
	}
	eng.moveGrad(o.x, o.y)
}
