//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// fused computes y (…, d) in one launch over rows of d elements, for operations that are not recorded.
func (e *Engine) fused(op int, a engine.Activation, y *tensor.Tensor, xs ...engine.View) *tensor.Tensor {
	views := append([]engine.View{e.all(y, y.Rows(), y.Dim(-1))}, xs...)
	e.c.pointwise(op|int(a)<<8, 0, 0, views...)
	return y
}

func (e *Engine) Activate(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if e.Recording {
		return e.Engine.Activate(x, a)
	}
	return e.fused(opActivate, a, e.like(x, x.Dim(-1)), e.all(x, x.Rows(), x.Dim(-1)))
}

func (e *Engine) AddBias(x, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if e.Recording {
		return e.Engine.AddBias(x, bias, a)
	}
	rows, d := x.Rows(), x.Dim(-1)
	return e.fused(opAddBias, a, e.like(x, d), e.all(x, rows, d), e.all(bias, rows, d))
}

func (e *Engine) Gate(x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if e.Recording {
		return e.Engine.Gate(x, z, a)
	}
	rows, d := x.Rows(), x.Dim(-1)
	y := e.like(x, d)
	if e.gated(y, x, z, a) {
		return y
	}
	return e.fused(opGate, a, y, e.all(x, rows, d), e.all(z, rows, d))
}

func (e *Engine) GLU(x *tensor.Tensor) *tensor.Tensor {
	if e.Recording {
		return e.Engine.GLU(x)
	}
	d := x.Dim(-1) / 2
	half := engine.View{Of: e.Memory(x), Shape: []int{x.Rows(), d}, Stride: []int{2 * d, 1}}
	gate := half
	gate.At = d
	return e.fused(opGate, engine.Sigmoid, e.like(x, d), half, gate)
}

func (e *Engine) ScaleShift(x, gamma, beta *tensor.Tensor) *tensor.Tensor {
	if e.Recording {
		return e.Engine.ScaleShift(x, gamma, beta)
	}
	rows, d := x.Rows(), x.Dim(-1)
	return e.fused(opScaleShift, engine.None, e.like(x, d), e.all(x, rows, d), e.all(gamma, rows, d),
		e.all(beta, rows, d))
}

// mostNegExp is the number of results of NegExp that are cached.
const mostNegExp = 1 << 8

// kept is a result that was computed from a version of a tensor.
type kept struct {
	version uint64
	y       *tensor.Tensor
}

// NegExp caches its results while the tape does not record, because tokens that are decoded one after another have the
// same parameters.
func (e *Engine) NegExp(x *tensor.Tensor) *tensor.Tensor {
	if e.Recording {
		return e.Engine.NegExp(x)
	}
	if k := e.negExp[x]; k.y != nil && k.version == x.Version() {
		return k.y
	}
	y := tensor.Stored(e.c.New(x.Len()), x.Shape()...)
	e.c.pointwise(opNegExp, 0, 0, flat(y.Storage(), x.Len()), flat(e.Memory(x), x.Len()))
	if e.negExp == nil || len(e.negExp) >= mostNegExp {
		e.negExp = map[*tensor.Tensor]kept{}
	}
	e.negExp[x] = kept{x.Version(), y}
	return y
}
