package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// ScaleShift keeps x. Backward turns dy into dy ⊙ x in place for the gradient of γ.
func (eng *Engine) ScaleShift(x, gamma, beta *tensor.Tensor) *tensor.Tensor {
	d := x.Dim(-1)
	y := eng.like(x)
	xd, yd := x.Data(), y.Data()
	parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			copy(yd[r*d:][:d], beta.Data())
			kernel.MulAdd(yd[r*d:][:d], xd[r*d:][:d], gamma.Data())
		}
	})
	record(eng, "ScaleShift", scaleShiftOp{x: x, gamma: gamma, beta: beta, y: y}, y, x, gamma, beta)
	return y
}

type scaleShiftOp struct{ x, gamma, beta, y *tensor.Tensor }

func (o *scaleShiftOp) Backward(eng *Engine) {
	dy, d, rows := o.y.Grad(), o.x.Dim(-1), o.x.Rows()
	if dBeta := eng.gradOf(o.beta); dBeta != nil {
		sumRows(eng, dBeta, dy, d)
	}
	if dx := eng.gradOf(o.x); dx != nil {
		parallel.For(rows, rowGrain(d), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				kernel.MulAdd(dx[r*d:][:d], dy[r*d:][:d], o.gamma.Data())
			}
		})
	}
	if dGamma := eng.gradOf(o.gamma); dGamma != nil {
		kernel.Mul(dy, o.x.Data()) // dy is no longer used
		sumRows(eng, dGamma, dy, d)
	}
}
