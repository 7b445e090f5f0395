package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// gradient is that of x as it is, nil where none has been made. A result has it in its header. A leaf has not, because
// several tapes may go back to it at once: its gradient is with what collects it, else with this engine.
func (eng *Engine) gradient(x *tensor.Tensor) []float32 {
	if x.Lent() {
		return x.Grad()
	}
	if eng.Leaves != nil {
		if g := eng.Leaves.Gradient(x); g != nil {
			return g
		}
	}
	return eng.leaves[x]
}

// setGradient makes g the gradient of x, which nothing collects; nil ends that it has one.
func (eng *Engine) setGradient(x *tensor.Tensor, g []float32) {
	switch {
	case x.Lent():
		x.SetGrad(g)
	case g == nil:
		delete(eng.leaves, x)
	default:
		if eng.leaves == nil {
			eng.leaves = map[*tensor.Tensor][]float32{}
		}
		eng.leaves[x] = g
	}
}

// grad returns x's gradient, made and zeroed on first use.
func (eng *Engine) grad(x *tensor.Tensor) []float32 {
	g := eng.gradient(x)
	if g == nil {
		g = eng.scratch(x.Len())
		eng.setGradient(x, g)
	}
	return g
}

// gradOf returns x's gradient to add into, or nil where none is wanted.
func (eng *Engine) gradOf(x *tensor.Tensor) []float32 {
	if x == nil || !x.NeedsGrad() {
		return nil
	}
	return eng.grad(x)
}

// gradTo is gradOf for operations that can also write: where add is false the contents are unspecified, and the first
// share is to be written there, which saves zeroing and reading them.
func (eng *Engine) gradTo(x *tensor.Tensor) (dx []float32, add bool) {
	if x == nil || !x.NeedsGrad() {
		return nil, false
	}
	if g := eng.gradient(x); g != nil {
		return g, true
	}
	dx = eng.arena.Borrow(x.Len())
	eng.setGradient(x, dx)
	return dx, false
}

// addGrad adds dy to x's gradient, where one is wanted.
func (eng *Engine) addGrad(x *tensor.Tensor, dy []float32) {
	dx, add := eng.gradTo(x)
	if dx == nil {
		return
	}
	parallel.For(len(dx), grain, func(lo, hi int) {
		if add {
			kernel.Add(dx[lo:hi], dy[lo:hi])
		} else {
			copy(dx[lo:hi], dy[lo:hi])
		}
	})
}

// moveGrad adds the gradient of y, a result that is needed no more, to that of x. It becomes the gradient of x if that
// has none yet.
func (eng *Engine) moveGrad(x, y *tensor.Tensor) {
	if x != nil && x.NeedsGrad() && eng.gradient(x) == nil {
		eng.setGradient(x, y.Grad())
		y.SetGrad(nil)
		return
	}
	eng.addGrad(x, y.Grad())
}

// Backward adds the share of op, which this engine recorded, to the gradients of its inputs.
func (eng *Engine) Backward(op engine.Op) { op.(operation).Backward(eng) }

// gradReader is an operation that can do without a gradient of its own: its Backward only reads that of result, unless
// this is nil.
type gradReader interface{ result() *tensor.Tensor }

// BackwardFrom goes back through op with dy itself for the gradient of y instead of a copy, and reports whether it
// could.
func (eng *Engine) BackwardFrom(op engine.Op, y *tensor.Tensor, dy []float32) bool {
	r, ok := op.(gradReader)
	if !ok || r.result() != y || y.Grad() != nil || len(dy) != y.Len() {
		return false
	}
	y.SetGrad(dy)
	op.(operation).Backward(eng)
	y.SetGrad(nil)
	return true
}

// AddGrad adds dy to y's gradient, where one is wanted.
func (eng *Engine) AddGrad(y *tensor.Tensor, dy []float32) {
	if w := wideOf(y); w != nil {
		if g := w.gradient(); g != nil {
			for i := range len(dy) / 2 {
				g.set(i, g.at(i)+pair(dy, i))
			}
		}
		return
	}
	eng.addGrad(y, dy)
}

// Grad copies the gradient of x to dst, and reports whether there is one.
func (eng *Engine) Grad(x *tensor.Tensor, dst []float32) bool {
	if w := wideOf(x); w != nil {
		g := w.gradient()
		if g != nil {
			g.Read(dst)
		}
		return g != nil
	}
	return copy(dst, eng.gradient(x)) > 0
}

// DropGrad gives back the gradient of x, which nothing collects.
func (eng *Engine) DropGrad(x *tensor.Tensor) {
	if x == nil {
		return
	}
	if g := eng.gradient(x); g != nil {
		eng.arena.Return(g)
		eng.setGradient(x, nil)
	}
}

// Finish does nothing: gradients are added where they are collected.
func (eng *Engine) Finish(*tensor.Tensor) {}

// clearGrain is how many elements are worth a task of their own only to be zeroed.
const clearGrain = 1 << 16

// scratch borrows n zeroed floats for the length of one operation; give them back with done.
func (eng *Engine) scratch(n int) []float32 {
	buf := eng.arena.Borrow(n)
	if n <= clearGrain {
		clear(buf)
	} else {
		parallel.For(n, clearGrain, func(lo, hi int) { clear(buf[lo:hi]) })
	}
	return buf
}

func (eng *Engine) done(buf []float32) { eng.arena.Return(buf) }
