package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// NegExp saves y, which is also its derivative.
func (eng *Engine) NegExp(x *tensor.Tensor) *tensor.Tensor {
	y := eng.like(x)
	xd, yd := x.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) {
		copy(yd[lo:hi], xd[lo:hi])
		kernel.ExpShift(yd[lo:hi], 0, -1)
	})
	record(eng, "NegExp", negExpOp{x: x, y: y}, y, x)
	return y
}

type negExpOp struct{ x, y *tensor.Tensor }

func (o *negExpOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	parallel.For(len(dy), grain, func(lo, hi int) { kernel.MulAdd(dx[lo:hi], dy[lo:hi], o.y.Data()[lo:hi]) })
}
