package action

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The operations that mixers use for gates and parameters, and those that no mixer uses. If a result depends on the
// sequence through one of them, it is not a value.

func (e *tracer) NegExp(x *tensor.Tensor) *tensor.Tensor {
	return e.gate("NegExp", e.Engine.NegExp(x), x)
}

func (e *tracer) Sine(x, f *tensor.Tensor) *tensor.Tensor {
	return e.gate("Sine", e.Engine.Sine(x, f), x)
}

func (e *tracer) Clamp(x *tensor.Tensor, lo, hi float64) *tensor.Tensor {
	return e.gate("Clamp", e.Engine.Clamp(x, lo, hi), x)
}

func (e *tracer) SinkhornBalance(x *tensor.Tensor, o engine.BalanceOptions) *tensor.Tensor {
	return e.gate("SinkhornBalance", e.Engine.SinkhornBalance(x, o), x)
}

func (e *tracer) Dropout(x *tensor.Tensor, p float64, r *engine.Rows, op uint64) *tensor.Tensor {
	return e.gate("Dropout", e.Engine.Dropout(x, p, r, op), x)
}

func (e *tracer) RealPairs(x *tensor.Tensor) *tensor.Tensor {
	return e.gate("RealPairs", e.Engine.RealPairs(x), x)
}

func (e *tracer) Turn(x, bias, phase *tensor.Tensor, by engine.Turning) *tensor.Tensor {
	return e.gate("Turn", e.Engine.Turn(x, bias, phase, by), x, phase)
}

func (e *tracer) DecayWindow(h, at, rate *tensor.Tensor, shift float32) *tensor.Tensor {
	return e.gate("DecayWindow", e.Engine.DecayWindow(h, at, rate, shift), h)
}

func (e *tracer) Route(scores, bias *tensor.Tensor, by engine.Routing) *tensor.Tensor {
	return e.gate("Route", e.Engine.Route(scores, bias, by), scores)
}

func (e *tracer) Experts(x, weights *tensor.Tensor, of engine.Experts) *tensor.Tensor {
	return e.gate("Experts", e.Engine.Experts(x, weights, of), x, weights)
}

func (e *tracer) Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor {
	return e.Engine.Embedding(w, ids)
}

func (e *tracer) Ahead() int { return e.Engine.Ahead() }

func (e *tracer) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor { return e.Engine.KernelRows(k, h) }

func (e *tracer) KernelTaps(k *tensor.Tensor, h int) int { return e.Engine.KernelTaps(k, h) }

func (e *tracer) DiagSystem(p *engine.DiagParams) *engine.DiagSystem { return e.Engine.DiagSystem(p) }

func (e *tracer) DiagKernel(s *engine.DiagSystem, l int) *tensor.Tensor {
	return e.Engine.DiagKernel(s, l)
}

func (e *tracer) DSSSystem(p *engine.DSSParams) *engine.DiagSystem { return e.Engine.DSSSystem(p) }

func (e *tracer) DSSKernel(p *engine.DSSParams, l int) *tensor.Tensor {
	return e.Engine.DSSKernel(p, l)
}

func (e *tracer) DPLRSystem(p *engine.DPLRParams) *engine.DPLRSystem { return e.Engine.DPLRSystem(p) }

func (e *tracer) DPLRKernel(s *engine.DPLRSystem, l int) *tensor.Tensor {
	return e.Engine.DPLRKernel(s, l)
}

func (e *tracer) LinearCrossEntropy(x, w *tensor.Tensor, targets []int32) *tensor.Tensor {
	return e.gate("LinearCrossEntropy", e.Engine.LinearCrossEntropy(x, w, targets), x)
}

func (e *tracer) CrossEntropy(x *tensor.Tensor, targets []int32) *tensor.Tensor {
	return e.gate("CrossEntropy", e.Engine.CrossEntropy(x, targets), x)
}

func (e *tracer) SquaredError(x *tensor.Tensor, target []float32) *tensor.Tensor {
	return e.gate("SquaredError", e.Engine.SquaredError(x, target), x)
}

func (e *tracer) Pinball(x *tensor.Tensor, target, levels []float32) *tensor.Tensor {
	return e.gate("Pinball", e.Engine.Pinball(x, target, levels), x)
}
