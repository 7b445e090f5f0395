package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mul is a gate without an activation function.
func (eng *Engine) Mul(x, z *tensor.Tensor) *tensor.Tensor { return eng.gate("Mul", x, z, engine.None) }

// Gate recomputes a(z) in backward, a stretch of elements at a time.
func (eng *Engine) Gate(x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return eng.gate("Gate", x, z, a)
}

func (eng *Engine) gate(name string, x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	o := gateOp{x: x, z: z, y: eng.like(x), a: a}
	xs, zs, ys := o.stretches(positionsOf(x)), o.stretches(positionsOf(z)), o.stretches(positionsOf(o.y))
	o.overStretches(func(i int, w []float32) {
		y, open := ys.Row(i, len(w)), zs.Row(i, len(w))
		if a != engine.None {
			activate(a, y, open)
			open = y
		}
		kernel.MulInto(y, xs.Row(i, len(w)), open)
	})
	record(eng, name, o, o.y, x, z)
	return o.y
}

type gateOp struct {
	x, z, y *tensor.Tensor
	a       engine.Activation
}

// gateStretch is the number of elements that go through all steps together, so that they stay in the processor's cache.
const gateStretch = 2048

// stretch returns the number of elements that are contiguous in all tensors: those of a position, if one is a part of
// Columns.
func (o *gateOp) stretch() int {
	if columnsOf(o.x) != nil || columnsOf(o.z) != nil {
		return o.y.Dim(-1)
	}
	return gateStretch
}

// stretches returns the stretches of a tensor, given its rows.
func (o *gateOp) stretches(r kernel.Rows) kernel.Rows {
	if r.Step == o.y.Dim(-1) {
		r.Step = o.stretch()
	}
	return r
}

// overStretches calls f for the stretches on all cores, with memory for one.
func (o *gateOp) overStretches(f func(i int, w []float32)) {
	n, all := o.stretch(), o.y.Len()
	parallel.For((all+n-1)/n, max(1, grain/n), func(lo, hi int) {
		buf := getFloats(n)
		defer putFloats(buf)
		for i := lo; i < hi; i++ {
			f(i, (*buf)[:min(n, all-i*n)])
		}
	})
}

func (o *gateOp) Backward(eng *Engine) {
	dx, addX := eng.gradPositions(o.x)
	dz, addZ := eng.gradPositions(o.z)
	dx, dz = o.stretches(dx), o.stretches(dz)
	xs, zs := o.stretches(positionsOf(o.x)), o.stretches(positionsOf(o.z))
	dys := kernel.Rows{X: o.y.Grad(), Step: o.stretch()}
	o.overStretches(func(i int, w []float32) {
		dy, z := dys.Row(i, len(w)), zs.Row(i, len(w))
		if dx.X != nil {
			open := z
			if o.a != engine.None {
				activate(o.a, w, z)
				open = w
			}
			put(dx.Row(i, len(w)), dy, open, addX)
		}
		if dz.X != nil {
			if o.a != engine.None {
				copy(w, dy)
				functions[o.a].GradMul(w, z)
				dy = w
			}
			put(dz.Row(i, len(w)), dy, xs.Row(i, len(w)), addZ)
		}
	})
}

// put sets y to a·b, or adds a·b to y.
func put(y, a, b []float32, add bool) {
	if add {
		kernel.MulAdd(y, a, b)
	} else {
		kernel.MulInto(y, a, b)
	}
}
