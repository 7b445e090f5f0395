package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Add passes the gradient of its result on to b, and a copy to a.
func (eng *Engine) Add(a, b *tensor.Tensor) *tensor.Tensor {
	y := eng.like(a)
	parallel.For(y.Len(), grain, func(lo, hi int) {
		kernel.AddInto(y.Data()[lo:hi], a.Data()[lo:hi], b.Data()[lo:hi])
	})
	record(eng, "Add", addOp{a: a, b: b, y: y}, y, a, b)
	return y
}

type addOp struct{ a, b, y *tensor.Tensor }

func (o *addOp) Backward(eng *Engine) {
	eng.addGrad(o.a, o.y.Grad())
	eng.moveGrad(o.b, o.y)
}
