// Package compose builds a whole engine.Engine on an engine.Core: every operation is an expression of the core's
// primitives, and its gradient follows from theirs. It is where a new engine starts. An engine that is fast at an
// operation embeds *Engine and has a method for it.
package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Engine computes on a core, for one tape.
type Engine struct {
	*engine.Step
	core  engine.Core
	nodes map[*tensor.Tensor]*node // of the tensors of this step, and of leaves
	made  []*node                  // in the order in which they were made
	ones  map[any]*node            // constants, which are copied in once
	now   frame
	bytes int // lent at present
	most  int
}

var _ engine.Engine = (*Engine)(nil)

// Open returns an engine on a core for the tape whose step it reads.
func Open(core engine.Core, step *engine.Step) *Engine {
	return &Engine{Step: step, core: core, nodes: map[*tensor.Tensor]*node{}, ones: map[any]*node{}}
}

// node is memory, and what an engine knows of it.
type node struct {
	buf, grad engine.Buffer // grad is nil if none has been made
	n         int
	of        *tensor.Tensor // nil for what is inside of an operation
	leaf      bool           // not made by this engine in this step
	copied    bool           // of a leaf in ordinary memory
	version   uint64
	used      bool // a leaf that has been read since Reset
	kept      bool // belongs to somebody else now
}

// frame is the operation that is being computed.
type frame struct {
	mark   int
	steps  []step
	leaves []*tensor.Tensor // that want a gradient
	states []state
}

// step is a recorded primitive: it has made a node, and takes its gradient back.
type step struct {
	made *node
	back func()
}

// state is a tensor that an operation replaces, or updates in place.
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

// alloc lends n numbers until Reset.
func (e *Engine) alloc(n int) *node {
	x := &node{buf: e.core.New(n), n: n}
	e.made = append(e.made, x)
	e.lend(n)
	return x
}

func (e *Engine) lend(n int) {
	e.bytes += 4 * n
	e.most = max(e.most, e.bytes)
}

// release takes the memory of a node back.
func (e *Engine) release(x *node) {
	e.dropGrad(x)
	if !x.kept {
		e.core.Free(x.buf)
		e.bytes -= 4 * x.n
	}
	if x.of != nil && e.nodes[x.of] == x {
		delete(e.nodes, x.of)
	}
}

// keep leaves the memory of x to whoever holds it.
func (e *Engine) keep(x *node) engine.Buffer {
	if !x.kept {
		x.kept = true
		e.bytes -= 4 * x.n
	}
	return x.buf
}

// gradient is the memory of the gradient of x, zeros at first.
func (e *Engine) gradient(x *node) engine.Buffer {
	if x.leaf && e.Leaves != nil {
		if g := e.Leaves.Gradient(x.of); g != nil {
			return g.Storage()
		}
	}
	if x.grad == nil {
		x.grad = e.core.New(x.n)
		e.lend(x.n)
		e.core.Fill(engine.View{Of: x.grad, Shape: []int{x.n}, Stride: []int{1}}, 0)
	}
	return x.grad
}

func (e *Engine) dropGrad(x *node) {
	if x.grad != nil {
		e.core.Free(x.grad)
		e.bytes -= 4 * x.n
		x.grad = nil
	}
}

// node returns the memory of a tensor: its own, or a copy of ordinary memory as long as that stays as it is.
func (e *Engine) node(t *tensor.Tensor) *node {
	x, stored := e.nodes[t], t.Storage()
	if x != nil && stored != nil && x.buf != stored || x != nil && stored == nil && !x.copied {
		e.release(x) // it has other memory now
		x = nil
	}
	if x == nil {
		x = &node{buf: stored, n: t.Len(), of: t, leaf: true, copied: stored == nil, kept: stored != nil}
		if x.copied {
			x.buf, x.version = e.core.New(x.n), t.Version()-1
			e.lend(x.n)
		}
		e.nodes[t] = x
	}
	if x.copied && x.version != t.Version() {
		values := make([]float32, x.n)
		if t.CopyTo(values) != x.n {
			panic(errPacked)
		}
		x.buf.Write(values)
		x.version = t.Version()
	}
	x.used = true
	return x
}

// wanted reports whether a gradient of t is wanted in this step.
func (e *Engine) wanted(t *tensor.Tensor) bool {
	if t == nil || !t.NeedsGrad() {
		return false
	}
	x := e.nodes[t]
	return x != nil && !x.leaf || !e.Frozen
}

// in is a tensor as a value of an expression; nil for nil.
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

// compute runs an operation: f is its expression, whose values become tensors.
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

// Record records an operation that an engine has in the place of a composed one. Once its results have a gradient, back
// adds to those of its inputs, with AddGrad or in memory of the core.
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
	e.Push(&op{name, outputs, []step{{e.node(outputs[0]), back}}})
}

// one is compute of an operation with one result.
func (e *Engine) one(name string, f func() *val) *tensor.Tensor {
	return e.compute(name, func() []*val { return []*val{f()} })[0]
}

// tensor makes a tensor of a value.
func (e *Engine) tensor(v *val) *tensor.Tensor {
	v = v.own()
	t := tensor.Stored(v.n.buf, v.shape...)
	t.SetNeedsGrad(v.grad)
	v.n.of = t
	e.nodes[t] = v.n
	return t
}

// next says what a state is after an operation. A state of nil is not carried.
func (e *Engine) next(at **tensor.Tensor, v *val) {
	if *at != nil {
		e.now.states = append(e.now.states, state{at, v})
	}
}

// update replaces a state by a new tensor while the tape records, which it returns; else it updates it in place.
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

// constant is host data of a given key, which is copied in once.
func (e *Engine) constant(key any, data func() []float32) *val {
	x := e.ones[key]
	if x == nil {
		values := data()
		x = &node{buf: e.core.New(len(values)), n: len(values)}
		x.buf.Write(values)
		e.ones[key] = x
	}
	return e.whole(x, []int{x.n})
}

// upload copies host data in, for this operation.
func (e *Engine) upload(data []float32, shape ...int) *val {
	x := e.alloc(len(data))
	x.buf.Write(data)
	return e.whole(x, shape)
}

// read copies a value out.
func (v *val) read() []float32 {
	out := make([]float32, v.len())
	v.copy().n.buf.Read(out)
	return out
}

// New returns a tensor with unspecified contents.
func (e *Engine) New(shape ...int) *tensor.Tensor {
	t := tensor.Shaped(shape...)
	x := e.alloc(t.Len())
	t.SetStorage(x.buf)
	x.of = t
	e.nodes[t] = x
	return t
}

// Full returns a tensor whose elements are all v.
func (e *Engine) Full(v float32, shape ...int) *tensor.Tensor {
	t := e.New(shape...)
	e.core.Fill(e.in(t).view(), float64(v))
	return t
}

// Reset takes back all memory, and the copies of leaves that were not used.
func (e *Engine) Reset() {
	e.ReleaseSince(0)
	for _, x := range e.nodes {
		if x.leaf && !x.used && x.grad == nil {
			e.release(x)
		}
		x.used = false
	}
}

// Mark names the present point for ReleaseSince.
func (e *Engine) Mark() int { return len(e.made) }

// ReleaseSince takes back what was made after mark except keep.
func (e *Engine) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	left := e.made[:mark]
	for _, x := range e.made[mark:] {
		kept := false
		for _, t := range keep {
			kept = kept || t == x.of && t != nil
		}
		if kept {
			left = append(left, x)
		} else {
			e.release(x)
		}
	}
	clear(e.made[len(left):])
	e.made = left
}

// Bytes is the most memory that was lent at a time.
func (e *Engine) Bytes() int { return e.most }

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
		if s.made.grad == nil {
			continue
		}
		s.back()
		if !outputs[s.made] {
			e.dropGrad(s.made)
		}
		e.ReleaseSince(mark)
	}
}

// BackwardFrom cannot do without a copy of dy.
func (e *Engine) BackwardFrom(engine.Op, *tensor.Tensor, *tensor.Tensor) bool { return false }

// AddGrad adds dy to the gradient of y if one is wanted.
func (e *Engine) AddGrad(y, dy *tensor.Tensor) {
	if !e.wanted(y) {
		return
	}
	e.core.Sum(e.whole(e.node(y), []int{y.Len()}).gradView(), e.whole(e.node(dy), []int{dy.Len()}).view())
}

// Grad returns the gradient of x, nil if there is none.
func (e *Engine) Grad(x *tensor.Tensor) *tensor.Tensor {
	if n := e.nodes[x]; n != nil && n.grad != nil {
		return tensor.Stored(n.grad, x.Shape()...)
	}
	return nil
}

// DropGrad forgets the gradient of x.
func (e *Engine) DropGrad(x *tensor.Tensor) {
	if n := e.nodes[x]; n != nil {
		e.dropGrad(n)
	}
}

// put sets a tensor to a value that belongs to the tape.
func (e *Engine) put(at **tensor.Tensor, v *val) {
	*at = tensor.Shaped(v.shape...)
	e.now.states = append(e.now.states, state{at, v})
}

// lasting is a tensor of zeros that outlives the step.
func (e *Engine) lasting(shape ...int) *tensor.Tensor {
	t := tensor.Stored(e.core.New(product(shape)), shape...)
	e.core.Fill(e.in(t).view(), 0)
	return t
}

// write copies v to the positions of t from one on.
func (e *Engine) write(t *tensor.Tensor, at int, v *val) {
	to := e.in(t).slice(0, at, v.dim(0))
	e.core.Affine(to.view(), v.view(), 1, 0)
}
