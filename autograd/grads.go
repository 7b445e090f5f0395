package autograd

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// grad returns x's gradient, made and zeroed on first use.
func (t *Tape) grad(x *tensor.Tensor) []float32 {
	if x.Grad() == nil {
		x.SetGrad(t.scratch(x.Len()))
	}
	return x.Grad()
}

// gradOf returns x's gradient to add into, or nil where none is wanted.
func (t *Tape) gradOf(x *tensor.Tensor) []float32 {
	if x == nil || !x.NeedsGrad() {
		return nil
	}
	return t.grad(x)
}

// gradTo is gradOf for operations that can also write: where add is false the contents are unspecified, and the first share
// is to be written there, which saves zeroing and reading them.
func (t *Tape) gradTo(x *tensor.Tensor) (dx []float32, add bool) {
	if x == nil || !x.NeedsGrad() {
		return nil, false
	}
	if x.Grad() != nil {
		return x.Grad(), true
	}
	x.SetGrad(t.arena.Borrow(x.Len()))
	return x.Grad(), false
}

// addGrad adds dy to x's gradient, where one is wanted.
func (t *Tape) addGrad(x *tensor.Tensor, dy []float32) {
	dx, add := t.gradTo(x)
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

// moveGrad adds the gradient of y, a result that is needed no more, to that of x. It becomes the gradient of x if that has none
// yet.
func (t *Tape) moveGrad(x, y *tensor.Tensor) {
	if x != nil && x.NeedsGrad() && x.Grad() == nil {
		x.SetGrad(y.Grad())
		y.SetGrad(nil)
		return
	}
	t.addGrad(x, y.Grad())
}

// dropGrad gives back the gradient of a result.
func (t *Tape) dropGrad(x *tensor.Tensor) {
	if x != nil && x.Grad() != nil {
		t.arena.Return(x.Grad())
		x.SetGrad(nil)
	}
}

// DropGrads takes the gradients off leaves, so that the next backward makes them anew rather than adds to them, and gives back
// their memory, which must be the tape's: backward made them.
func (t *Tape) DropGrads(leaves ...*tensor.Tensor) {
	for _, x := range leaves {
		t.dropGrad(x)
	}
}

// releaseGrads gives back the gradients of all results.
func (t *Tape) releaseGrads() {
	for _, op := range t.ops {
		op.Outputs(t.dropGrad)
	}
}

// clearGrain is how many elements are worth a task of their own only to be zeroed.
const clearGrain = 1 << 16

// scratch borrows n zeroed floats for the length of one operation; give them back with done.
func (t *Tape) scratch(n int) []float32 {
	buf := t.arena.Borrow(n)
	if n <= clearGrain {
		clear(buf)
	} else {
		parallel.For(n, clearGrain, func(lo, hi int) { clear(buf[lo:hi]) })
	}
	return buf
}

func (t *Tape) done(buf []float32) { t.arena.Return(buf) }
