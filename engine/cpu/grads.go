package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// gradient returns the gradient of x, or nil if there is none. A result has it in its header. A leaf does not, because
// several tapes may run backward to it at once: its gradient is in Step.Leaves, or else in this engine.
func (eng *Engine) gradient(x *tensor.Tensor) []float32 {
	if x.Lent() {
		return x.Grad()
	}
	if eng.Leaves != nil {
		if g := eng.Leaves.Gradient(x); g != nil {
			return g.Data()
		}
	}
	return eng.leaves[x]
}

// setGradient makes g the gradient of x, which Step.Leaves does not collect. If g is nil, x has no gradient afterwards.
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

// grad returns x's gradient, allocated and zeroed on first use.
func (eng *Engine) grad(x *tensor.Tensor) []float32 {
	g := eng.gradient(x)
	if g == nil {
		g = eng.scratch(x.Len())
		eng.setGradient(x, g)
	}
	return g
}

// gradOf returns x's gradient to add to, or nil if it is not wanted.
func (eng *Engine) gradOf(x *tensor.Tensor) []float32 {
	if !eng.wanted(x) {
		return nil
	}
	return eng.grad(x)
}

// gradOrScratch is gradOf for operations that compute all gradients in one pass. If a gradient is not wanted, it
// returns scratch and appends it to unwanted, to be released with done.
func (eng *Engine) gradOrScratch(x *tensor.Tensor, unwanted *[][]float32) []float32 {
	dx := eng.gradOf(x)
	if dx == nil {
		dx = eng.scratch(x.Len())
		*unwanted = append(*unwanted, dx)
	}
	return dx
}

// gradTo is gradOf for operations that can also overwrite. If add is false, the contents are unspecified and must be
// overwritten, which saves zeroing and reading them.
func (eng *Engine) gradTo(x *tensor.Tensor) (dx []float32, add bool) {
	if !eng.wanted(x) {
		return nil, false
	}
	if g := eng.gradient(x); g != nil {
		return g, true
	}
	dx = eng.arena.Borrow(x.Len())
	eng.setGradient(x, dx)
	return dx, false
}

// addGrad adds dy to x's gradient, if one is wanted.
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

// moveGrad adds the gradient of y, a result that is no longer used, to the gradient of x, which may be a part of
// Columns. If x has no gradient yet, that of y becomes the gradient of x.
func (eng *Engine) moveGrad(x, y *tensor.Tensor) {
	if columnsOf(x) != nil {
		eng.addColumnsGrad(x, y.Grad())
		return
	}
	if eng.wanted(x) && eng.gradient(x) == nil {
		eng.setGradient(x, y.Grad())
		y.SetGrad(nil)
		return
	}
	eng.addGrad(x, y.Grad())
}

// Backward adds to the gradients of the inputs of op, which this engine recorded.
func (eng *Engine) Backward(op engine.Op) {
	if r := op.(*recorded); r.used() {
		r.operation.Backward(eng)
	}
}

// gradReader is an operation whose Backward only reads the gradient of its result, unless result returns nil.
type gradReader interface{ result() *tensor.Tensor }

// BackwardFrom uses dy itself, not a copy, as the gradient of y, if op is a gradReader.
func (eng *Engine) BackwardFrom(op engine.Op, y, dy *tensor.Tensor) bool {
	o := op.(*recorded).operation
	r, ok := o.(gradReader)
	if !ok || r.result() != y || y.Grad() != nil || len(dy.Data()) != y.Len() {
		return false
	}
	y.SetGrad(dy.Data())
	o.Backward(eng)
	y.SetGrad(nil)
	return true
}

// AddGrad adds dy to y's gradient if one is wanted.
func (eng *Engine) AddGrad(y, dy *tensor.Tensor) {
	w := wideOf(y)
	if w == nil {
		eng.addGrad(y, dy.Data())
		return
	}
	g := w.gradient()
	if g == nil {
		return
	}
	from := wideOf(dy)
	if from == nil {
		from = &complexes{x: make([]complex128, dy.Len()/2)}
		from.Write(dy.Data())
	}
	for i := range dy.Len() / 2 {
		g.set(i, g.at(i)+from.at(i))
	}
}

// Grad returns the gradient of x, or nil if there is none.
func (eng *Engine) Grad(x *tensor.Tensor) *tensor.Tensor {
	if w := wideOf(x); w != nil {
		if g := w.gradient(); g != nil {
			return tensor.Stored(g, x.Shape()...)
		}
		return nil
	}
	if g := eng.gradient(x); g != nil {
		return tensor.FromSlice(g, x.Shape()...)
	}
	return nil
}

// DropGrad releases the gradient of x, which Step.Leaves does not collect.
func (eng *Engine) DropGrad(x *tensor.Tensor) {
	if x == nil {
		return
	}
	if g := eng.gradient(x); g != nil {
		eng.arena.Return(g)
		eng.setGradient(x, nil)
	}
}

// clearGrain is the number of elements that one task zeroes.
const clearGrain = 1 << 16

// scratch borrows n zeroed floats for one operation. They must be given back with done.
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
