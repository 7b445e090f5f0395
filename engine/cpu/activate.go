package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// functions are the kernels of the activations other than None.
var functions = [...]kernel.Function{
	engine.GeluTanh: kernel.FuncGelu, engine.GeluErf: kernel.FuncGeluErf, engine.SiLU: kernel.FuncSiLU,
	engine.Sigmoid: kernel.FuncSigmoid,
	engine.Tanh:    kernel.FuncTanh, engine.Softplus: kernel.FuncSoftplus, engine.SquaredReLU: kernel.FuncReLU2,
	engine.HeavyTail: kernel.FuncHeavyTail,
}

// activate computes y = a(x).
func activate(a engine.Activation, y, x []float32) {
	if a == engine.None {
		copy(y, x)
		return
	}
	functions[a].Into(y, x)
}

// activateGrad turns the gradient dy of y = a(x) into the gradient of x, in place.
func activateGrad(a engine.Activation, dy, x []float32) {
	if a != engine.None {
		parallel.For(len(dy), grain, func(lo, hi int) { functions[a].GradMul(dy[lo:hi], x[lo:hi]) })
	}
}

// Activate keeps x. Backward turns dy into dx in place.
func (eng *Engine) Activate(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	y := eng.like(x)
	xd, yd := x.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) { activate(a, yd[lo:hi], xd[lo:hi]) })
	record(eng, "Activate", activateOp{x: x, y: y, a: a}, y, x)
	return y
}

type activateOp struct {
	x, y *tensor.Tensor
	a    engine.Activation
}

func (o *activateOp) Backward(eng *Engine) {
	activateGrad(o.a, o.y.Grad(), o.x.Data())
	eng.moveGrad(o.x, o.y)
}
