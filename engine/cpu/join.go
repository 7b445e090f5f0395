package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Join puts tensors (…, d_i) side by side along the last axis: y (…, Σ d_i).
func (eng *Engine) Join(xs ...*tensor.Tensor) *tensor.Tensor {
	width := 0
	for _, x := range xs {
		width += x.Dim(-1)
	}
	y, at := eng.withLast(xs[0], width), 0
	for _, x := range xs {
		d, xd, yd := x.Dim(-1), x.Data(), y.Data()[at:]
		parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				copy(yd[r*width:][:d], xd[r*d:])
			}
		})
		at += d
	}
	if eng.wants(xs...) {
		op := take[joinOp](eng)
		op.xs, op.y = append(op.xs[:0], xs...), y
		eng.push("Join", op, y)
	}
	return y
}

type joinOp struct {
	xs []*tensor.Tensor
	y  *tensor.Tensor
}

func (o *joinOp) Backward(eng *Engine) {
	dy, width := o.y.Grad(), o.y.Dim(-1)
	for _, x := range o.xs {
		d := x.Dim(-1)
		if dx := eng.gradOf(x); dx != nil {
			from := dy
			parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
				for r := lo; r < hi; r++ {
					kernel.Add(dx[r*d:][:d], from[r*width:][:d])
				}
			})
		}
		dy = dy[d:]
	}
}
