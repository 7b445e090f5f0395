package compose

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Backward adds to the gradients of the inputs of o.
func (e *Engine) Backward(o engine.Op) {
	all := o.(*op)
	outputs := map[*node]bool{}
	for _, y := range all.outputs {
		outputs[e.nodes[y]] = true
	}
	mark := e.Mark()
	for i := len(all.steps) - 1; i >= 0; i-- {
		s := all.steps[i]
		if s.made == nil && !all.graded(e) || s.made != nil && s.made.grad == nil {
			continue
		}
		s.back()
		if s.made != nil && !outputs[s.made] {
			e.dropGrad(s.made)
		}
		e.ReleaseSince(mark)
	}
}

// BackwardFrom returns false: it is not possible without a copy of dy.
func (e *Engine) BackwardFrom(engine.Op, *tensor.Tensor, *tensor.Tensor) bool { return false }

// graded reports whether a result of o has a gradient.
func (o *op) graded(e *Engine) bool {
	return slices.ContainsFunc(o.outputs, func(y *tensor.Tensor) bool { return e.Grad(y) != nil })
}

// GradientOf returns the memory of the gradient of y, to which the caller may add, and whether a gradient is wanted.
func (e *Engine) GradientOf(y *tensor.Tensor) (engine.Buffer, bool) {
	if !e.wanted(y) {
		return nil, false
	}
	return e.gradient(e.node(y)), true
}

// GradientInto is like GradientOf, for callers that write all of a gradient. Unless add is set the memory is new and
// must be written.
func (e *Engine) GradientInto(y *tensor.Tensor) (g engine.Buffer, add, wanted bool) {
	if !e.wanted(y) {
		return nil, false, false
	}
	g, add = e.gradientInto(e.node(y))
	return g, add, true
}

// AddGrad adds dy to the gradient of y if one is wanted.
func (e *Engine) AddGrad(y, dy *tensor.Tensor) {
	if !e.wanted(y) {
		return
	}
	e.core.Sum(e.whole(e.node(y), []int{y.Len()}).gradView(), e.whole(e.node(dy), []int{dy.Len()}).view())
}

// Grad returns the gradient of x, or nil if there is none.
func (e *Engine) Grad(x *tensor.Tensor) *tensor.Tensor {
	if n := e.nodes[x]; n != nil && n.grad != nil {
		return tensor.Stored(n.grad, x.Shape()...)
	}
	return nil
}

// DropGrad frees the gradient of x.
func (e *Engine) DropGrad(x *tensor.Tensor) {
	if n := e.nodes[x]; n != nil {
		e.dropGrad(n)
	}
}
