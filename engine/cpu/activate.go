package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// functions are the kernels of the activations other than None and SquaredReLU.
var functions = [...]kernel.Function{
	engine.GeluTanh: kernel.FuncGelu, engine.GeluErf: kernel.FuncGeluErf, engine.SiLU: kernel.FuncSiLU,
	engine.Sigmoid: kernel.FuncSigmoid, engine.Tanh: kernel.FuncTanh, engine.Softplus: kernel.FuncSoftplus,
}

// activate computes y = a(x).
func activate(a engine.Activation, y, x []float32) {
	switch a {
	case engine.None:
		copy(y, x)
	case engine.SquaredReLU:
		featureMap(engine.ReLU2, y, x)
	default:
		functions[a].Into(y, x)
	}
}

// slopes computes dy *= a'(x) for an activation that is not None.
func slopes(a engine.Activation, dy, x []float32) {
	if a == engine.SquaredReLU {
		featureMapGrad(engine.ReLU2, dy, x)
		return
	}
	functions[a].GradMul(dy, x)
}

// activateGrad turns the gradient dy of y = a(x) into the gradient of x, in place.
func activateGrad(a engine.Activation, dy, x []float32) {
	if a != engine.None {
		parallel.For(len(dy), grain, func(lo, hi int) { slopes(a, dy[lo:hi], x[lo:hi]) })
	}
}

// Activate keeps x. Backward turns dy into dx in place.
func (eng *Engine) Activate(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	y := eng.like(x)
	xd, yd := x.Data(), y.Data()
	parallel.For(len(xd), grain, func(lo, hi int) { activate(a, yd[lo:hi], xd[lo:hi]) })
	if eng.wants(x) {
		op := take[activateOp](eng)
		*op = activateOp{x: x, y: y, a: a}
		eng.push(op)
	}
	return y
}

type activateOp struct {
	x, y *tensor.Tensor
	a    engine.Activation
}

func (o *activateOp) Name() string                   { return "Activate" }
func (o *activateOp) Outputs(f func(*tensor.Tensor)) { f(o.y) }
func (o *activateOp) Backward(eng *Engine) {
	if o.y.Grad() != nil {
		activateGrad(o.a, o.y.Grad(), o.x.Data())
		eng.moveGrad(o.x, o.y)
	}
}
