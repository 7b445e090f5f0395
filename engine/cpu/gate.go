package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Gate recomputes a(z) in backward, a block of elements at a time.
func (eng *Engine) Gate(x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	y := eng.like(x)
	xd, zd, yd := x.Data(), z.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) {
		for lo := lo; lo < hi; lo += gateBlock {
			hi := min(hi, lo+gateBlock)
			activate(a, yd[lo:hi], zd[lo:hi])
			kernel.Mul(yd[lo:hi], xd[lo:hi])
		}
	})
	record(eng, "Gate", gateOp{x: x, z: z, y: y, a: a}, y, x, z)
	return y
}

// gateBlock is the number of elements that go through all steps together: they stay in the processor's cache.
const gateBlock = 2048

type gateOp struct {
	x, z, y *tensor.Tensor
	a       engine.Activation
}

func (o *gateOp) Backward(eng *Engine) {
	dy := o.y.Grad()
	dx, addX := eng.gradTo(o.x)
	dz, addZ := eng.gradTo(o.z)
	x, z := o.x.Data(), o.z.Data()
	parallel.For(len(dy), grain, func(lo, hi int) {
		buf := getFloats(gateBlock)
		defer putFloats(buf)
		for lo := lo; lo < hi; lo += gateBlock {
			hi := min(hi, lo+gateBlock)
			w := (*buf)[:hi-lo]
			if dx != nil {
				activate(o.a, w, z[lo:hi])
				put(dx[lo:hi], dy[lo:hi], w, addX)
			}
			if dz != nil {
				copy(w, dy[lo:hi])
				if o.a != engine.None {
					functions[o.a].GradMul(w, z[lo:hi])
				}
				put(dz[lo:hi], w, x[lo:hi], addZ)
			}
		}
	})
}

// put sets y to a·b, or adds that to y.
func put(y, a, b []float32, add bool) {
	if add {
		kernel.MulAdd(y, a, b)
	} else {
		kernel.MulInto(y, a, b)
	}
}
