// Package reference is the engine that computes every operation by its definition, forward and backward, in float64 and
// in the order in which one would write it on paper: no layouts, no blocks, no threads, nothing fused. The other
// engines are tested against it, and it is the place to read what an operation computes. Each file holds one operation,
// with its formula first.
//
// Package autograd has checked the shapes. Products are always computed in float64, whatever precision the tape asks
// for.
package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Engine computes operations by definition. The garbage collector manages its memory.
type Engine struct {
	*engine.Step
	leaves map[*tensor.Tensor]*leaf
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine for the tape whose settings are in step.
func New(step *engine.Step) *Engine {
	return &Engine{Step: step, leaves: map[*tensor.Tensor]*leaf{}}
}

// numbers is storage in float64.
type numbers struct {
	x    []float64
	grad []float64 // nil if there is none
}

func (n *numbers) Len() int                  { return len(n.x) }
func (n *numbers) Bytes() int                { return 8 * len(n.x) }
func (n *numbers) Like(m int) tensor.Storage { return &numbers{x: make([]float64, m)} }

func (n *numbers) Copy(to int, from tensor.Storage, at, m int) {
	copy(n.x[to:to+m], from.(*numbers).x[at:])
}

func (n *numbers) Read(dst []float32) {
	for i, v := range n.x {
		dst[i] = float32(v)
	}
}

func (n *numbers) Write(src []float32) {
	for i, v := range src {
		n.x[i] = float64(v)
	}
}

// leaf is the float64 copy of a tensor in ordinary memory, such as a parameter, and its gradient.
type leaf struct {
	numbers
	version uint64
}

// storage returns the elements of x and its gradient. If x is not in float64, it returns a copy, which is renewed when
// x has changed.
func (eng *Engine) storage(x *tensor.Tensor) *numbers {
	if n, ok := x.Storage().(*numbers); ok {
		return n
	}
	l := eng.leaves[x]
	if l == nil {
		l = &leaf{version: ^x.Version()}
		eng.leaves[x] = l
	}
	if l.version != x.Version() {
		l.x, l.version = read(x), x.Version()
	}
	return &l.numbers
}

// values returns the elements of x, or nil if x is nil.
func (eng *Engine) values(x *tensor.Tensor) []float64 {
	if x == nil {
		return nil
	}
	return eng.storage(x).x
}

// wanted reports whether a gradient of x is wanted in this step. x may be nil.
func (eng *Engine) wanted(x *tensor.Tensor) bool {
	if x == nil || !x.NeedsGrad() {
		return false
	}
	_, made := x.Storage().(*numbers)
	return made || !eng.Frozen
}

// grad returns the gradient of x, to add to. It is zeros at first. If x is nil or wants no gradient, it is scratch
// memory.
func (eng *Engine) grad(x *tensor.Tensor, n int) []float64 {
	if !eng.wanted(x) {
		return make([]float64, n)
	}
	if eng.Leaves != nil {
		if g := eng.Leaves.Gradient(x); g != nil {
			return eng.values(g)
		}
	}
	s := eng.storage(x)
	if s.grad == nil {
		s.grad = make([]float64, len(s.x))
	}
	return s.grad
}

// gradOf returns grad of an x that is not nil.
func (eng *Engine) gradOf(x *tensor.Tensor) []float64 { return eng.grad(x, x.Len()) }

// New returns a tensor of zeros.
func (eng *Engine) New(shape ...int) *tensor.Tensor {
	x := tensor.Shaped(shape...)
	x.SetStorage(&numbers{x: make([]float64, x.Len())})
	return x
}

// Full returns a tensor whose elements are all v.
func (eng *Engine) Full(v float32, shape ...int) *tensor.Tensor {
	x := eng.New(shape...)
	x.Fill(v)
	return x
}

// like returns zeros of the shape of x.
func (eng *Engine) like(x *tensor.Tensor) *tensor.Tensor { return eng.New(x.Shape()...) }

// withLast returns zeros of the shape of x, but with a last axis of length n.
func (eng *Engine) withLast(x *tensor.Tensor, n int) *tensor.Tensor {
	shape := x.Shape()
	shape[len(shape)-1] = n
	return eng.New(shape...)
}

// next returns the state after a row, with the elements x: a new tensor while the tape records, else the given one.
func (eng *Engine) next(state *tensor.Tensor, x []float64) *tensor.Tensor {
	if state == nil {
		return nil
	}
	to := state
	if eng.Recording {
		to = tensor.Shaped(state.Shape()...)
	}
	to.SetStorage(&numbers{x: x})
	return to
}

// start returns a copy of the elements of a state of n numbers, or zeros if the state is nil.
func (eng *Engine) start(state *tensor.Tensor, n int) []float64 {
	s := make([]float64, n)
	copy(s, eng.values(state))
	return s
}

// op is a recorded operation.
type op struct {
	name     string
	outputs  []*tensor.Tensor
	backward func()
}

func (o *op) Name() string { return o.name }

func (o *op) Outputs(visit func(*tensor.Tensor)) {
	for _, y := range o.outputs {
		if y != nil {
			visit(y)
		}
	}
}

// record records an operation if one of its inputs wants a gradient.
func (eng *Engine) record(name string, outputs, inputs []*tensor.Tensor, backward func()) {
	if !eng.Recording {
		return
	}
	wanted := false
	for _, x := range inputs {
		if !eng.wanted(x) {
			continue
		}
		wanted = true
		if eng.Leaves != nil {
			eng.Leaves.Use(x)
		}
	}
	if !wanted {
		return
	}
	for _, y := range outputs {
		if y != nil {
			y.SetNeedsGrad(true)
		}
	}
	eng.Push(&op{name, outputs, backward})
}

// list is a short name for a list of tensors.
type list = []*tensor.Tensor

// Reset does nothing: the garbage collector frees tensors.
func (eng *Engine) Reset() {}

// Mark does nothing, like Reset.
func (eng *Engine) Mark() int { return 0 }

// ReleaseSince does nothing, like Reset.
func (eng *Engine) ReleaseSince(int, ...*tensor.Tensor) {}

// Bytes returns 0: the memory is not counted.
func (eng *Engine) Bytes() int { return 0 }

// Backward adds to the gradients of the inputs of o.
func (eng *Engine) Backward(o engine.Op) { o.(*op).backward() }

// BackwardFrom returns false, because the backward of this engine needs a copy of dy.
func (eng *Engine) BackwardFrom(_ engine.Op, _, _ *tensor.Tensor) bool { return false }

// AddGrad adds dy to the gradient of y if one is wanted.
func (eng *Engine) AddGrad(y, dy *tensor.Tensor) {
	g := eng.gradOf(y)
	for i, v := range read(dy) {
		g[i] += v
	}
}

// Grad returns the gradient of x, or nil if there is none.
func (eng *Engine) Grad(x *tensor.Tensor) *tensor.Tensor {
	if g := eng.storage(x).grad; g != nil {
		return Of(g, x.Shape()...)
	}
	return nil
}

// Grad64 returns the gradient of x itself, not rounded and not copied, or nil if there is none.
func (eng *Engine) Grad64(x *tensor.Tensor) []float64 { return eng.storage(x).grad }

// Values64 returns the elements of x themselves.
func (eng *Engine) Values64(x *tensor.Tensor) []float64 { return eng.values(x) }

// DropGrad forgets the gradient of x.
func (eng *Engine) DropGrad(x *tensor.Tensor) {
	if x != nil {
		eng.storage(x).grad = nil
	}
}

// Of returns a tensor over x in this engine's storage.
func Of(x []float64, shape ...int) *tensor.Tensor { return tensor.Stored(&numbers{x: x}, shape...) }
