// Package compose builds a whole engine.Engine on an engine.Core. Every operation is an expression of the core's
// primitives, and its gradient follows from theirs. A new engine starts here: it embeds *Engine, and defines its own
// methods for the operations at which it is fast.
package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Engine computes on a core, for one tape. Package engine documents its methods.
type Engine struct {
	*engine.Step
	core  engine.Core
	nodes map[*tensor.Tensor]*node // of the tensors of this step, and of leaves
	made  []*node                  // in order of creation
	ones  map[any]*node            // constants, which are copied in once
	now   frame
	bytes int // in use
	most  int // maximum of bytes
}

var _ engine.Engine = (*Engine)(nil)

// Open returns an engine on a core for the tape whose settings are in step.
func Open(core engine.Core, step *engine.Step) *Engine {
	return &Engine{Step: step, core: core, nodes: map[*tensor.Tensor]*node{}, ones: map[any]*node{}}
}

// frame holds the state of the current operation.
type frame struct {
	mark    int
	steps   []step
	leaves  []*tensor.Tensor // inputs that want a gradient
	states  []state
	spectra map[spectrumOf]*node // see spectrum
}

// step is a recorded primitive. back adds the gradient of the node that it made to the gradients of its operands. made
// is nil if back belongs to a whole operation.
type step struct {
	made *node
	back func()
}

// state is a tensor that the operation replaces by a value or updates in place.
type state struct {
	at *(*tensor.Tensor)
	to *val
}

// op is a recorded operation.
type op struct {
	name    string
	outputs []*tensor.Tensor
	steps   []step
}

func (o *op) Name() string { return o.name }

func (o *op) Outputs(visit func(*tensor.Tensor)) {
	for _, y := range o.outputs {
		visit(y)
	}
}

// in returns a tensor as a value of an expression, or nil for nil.
func (e *Engine) in(t *tensor.Tensor) *val {
	if t == nil {
		return nil
	}
	v := e.whole(e.node(t), t.Shape())
	if e.Recording && e.wanted(t) {
		v.grad = true
		e.now.leaves = append(e.now.leaves, t)
	}
	return v
}

// compute runs an operation: f evaluates its expression, and compute turns the values into tensors.
func (e *Engine) compute(name string, f func() []*val) []*tensor.Tensor {
	e.now = frame{mark: len(e.made), steps: e.now.steps[:0:0]}
	values := f()
	now := &e.now
	var outputs, made []*tensor.Tensor
	for _, v := range values {
		y := e.tensor(v)
		outputs, made = append(outputs, y), append(made, y)
	}
	for _, s := range now.states {
		if y := e.update(s); y != nil {
			made = append(made, y)
		}
	}
	if len(now.steps) == 0 {
		e.ReleaseSince(now.mark, made...)
		return outputs
	}
	if e.Leaves != nil {
		for _, x := range now.leaves {
			e.Leaves.Use(x)
		}
	}
	e.Push(&op{name, made, now.steps})
	return outputs
}

// Record records an operation by which another engine replaces a composed one. If one of the results has a gradient,
// back is called. It adds to the gradients of the inputs with AddGrad or GradientOf.
func (e *Engine) Record(name string, outputs, inputs []*tensor.Tensor, back func()) {
	wanted := false
	for _, x := range inputs {
		if !e.Recording || !e.wanted(x) {
			continue
		}
		if wanted = true; e.Leaves != nil {
			e.Leaves.Use(x)
		}
	}
	if !wanted {
		return
	}
	for _, y := range outputs {
		y.SetNeedsGrad(true)
	}
	e.Push(&op{name, outputs, []step{{nil, back}}})
}

// one is compute for an operation with one result.
func (e *Engine) one(name string, f func() *val) *tensor.Tensor {
	return e.compute(name, func() []*val { return []*val{f()} })[0]
}

// tensor returns a value as a tensor.
func (e *Engine) tensor(v *val) *tensor.Tensor {
	v = v.own()
	t := tensor.Stored(v.n.buf, v.shape...)
	t.SetNeedsGrad(v.grad)
	v.n.of = t
	e.nodes[t] = v.n
	return t
}

// next sets the value of a state after the operation, unless there is none.
func (e *Engine) next(at **tensor.Tensor, v *val) {
	if *at != nil {
		e.now.states = append(e.now.states, state{at, v})
	}
}

// update replaces a state by a new tensor and returns that tensor while the tape records. Otherwise it updates the
// state in place and returns nil.
func (e *Engine) update(s state) *tensor.Tensor {
	old := *s.at
	if e.Recording {
		y := e.tensor(s.to.as(old.Shape()...))
		*s.at = y
		return y
	}
	if to := old.Storage(); to != nil {
		e.core.Affine(e.whole(&node{buf: to}, s.to.shape).view(), s.to.own().view(), 1, 0)
		return nil
	}
	old.SetStorage(e.keep(s.to.own().n))
	return nil
}

// put sets a tensor of a cache to a value that the tape owns.
func (e *Engine) put(at **tensor.Tensor, v *val) {
	*at = tensor.Shaped(v.shape...)
	e.now.states = append(e.now.states, state{at, v})
}
