package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Join copies position by position.
func (eng *Engine) Join(xs ...*tensor.Tensor) *tensor.Tensor {
	d := xs[0].Dim(-1)
	y := eng.withLast(xs[0], len(xs)*d)
	for i, x := range xs {
		xd, yd := x.Data(), y.Data()
		parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				copy(yd[(r*len(xs)+i)*d:][:d], xd[r*d:])
			}
		})
	}
	if eng.wants(xs...) {
		op := take[joinOp](eng)
		op.xs, op.y = append(op.xs[:0], xs...), y
		eng.push(op)
	}
	return y
}

type joinOp struct {
	xs []*tensor.Tensor
	y  *tensor.Tensor
}

func (o *joinOp) Name() string                   { return "Join" }
func (o *joinOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *joinOp) Backward(eng *Engine) {
	dy, d := o.y.Grad(), o.xs[0].Dim(-1)
	if dy == nil {
		return
	}
	for i, x := range o.xs {
		if dx := eng.gradOf(x); dx != nil {
			parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
				for r := lo; r < hi; r++ {
					kernel.Add(dx[r*d:][:d], dy[(r*len(o.xs)+i)*d:][:d])
				}
			})
		}
	}
}
