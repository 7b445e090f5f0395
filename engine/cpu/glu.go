package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// GLU computes position by position, because the halves of x alternate in memory.
func (eng *Engine) GLU(x *tensor.Tensor) *tensor.Tensor {
	d := x.Dim(-1) / 2
	y := eng.withLast(x, d)
	xd, yd := x.Data(), y.Data()
	parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			kernel.GLU(yd[r*d:][:d], xd[2*r*d:][:d], xd[(2*r+1)*d:][:d])
		}
	})
	record(eng, "GLU", gluOp{x: x, y: y}, y, x)
	return y
}

type gluOp struct{ x, y *tensor.Tensor }

func (o *gluOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	d, x := o.y.Dim(-1), o.x.Data()
	parallel.For(o.y.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			kernel.GLUGrad(dx[2*r*d:][:d], dx[(2*r+1)*d:][:d], dy[r*d:][:d], x[2*r*d:][:d], x[(2*r+1)*d:][:d])
		}
	})
}
