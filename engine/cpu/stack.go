package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Stack copies each tensor as one run of memory.
func (eng *Engine) Stack(xs ...*tensor.Tensor) *tensor.Tensor {
	n, d := 0, xs[0].Dim(-1)
	for _, x := range xs {
		n += x.Rows()
	}
	y := eng.New(n, d)
	at := 0
	for _, x := range xs {
		xd, to := x.Data(), y.Data()[at:]
		parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) { copy(to[lo*d:hi*d], xd[lo*d:]) })
		at += len(xd)
	}
	if eng.wants(xs...) {
		op := take[stackOp](eng)
		op.xs, op.y = append(op.xs[:0], xs...), y
		eng.push("Stack", op, y)
	}
	return y
}

type stackOp struct {
	xs []*tensor.Tensor
	y  *tensor.Tensor
}

func (o *stackOp) Backward(eng *Engine) {
	dy, d := o.y.Grad(), o.y.Dim(-1)
	for _, x := range o.xs {
		own := dy[:x.Len()]
		dy = dy[x.Len():]
		if dx := eng.gradOf(x); dx != nil {
			parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) { kernel.Add(dx[lo*d:hi*d], own[lo*d:hi*d]) })
		}
	}
}
