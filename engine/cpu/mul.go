package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mul saves both factors for backward.
func (eng *Engine) Mul(x, y *tensor.Tensor) *tensor.Tensor {
	z := eng.like(x)
	products(z.Data(), x.Data(), y.Data())
	record(eng, "Mul", mulOp{x: x, y: y, z: z}, z, x, y)
	return z
}

type mulOp struct{ x, y, z *tensor.Tensor }

func (o *mulOp) Backward(eng *Engine) {
	dz := o.z.Grad()
	addProducts(eng.gradOf(o.x), dz, o.y.Data())
	addProducts(eng.gradOf(o.y), dz, o.x.Data())
}

// products computes y = a ⊙ b on all cores.
func products(y, a, b []float32) {
	parallel.For(len(y), grain, func(lo, hi int) { kernel.MulInto(y[lo:hi], a[lo:hi], b[lo:hi]) })
}

// addProducts computes y += a ⊙ b on all cores, unless y is nil.
func addProducts(y, a, b []float32) {
	parallel.For(len(y), grain, func(lo, hi int) { kernel.MulAdd(y[lo:hi], a[lo:hi], b[lo:hi]) })
}
