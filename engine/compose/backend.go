package compose

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Backend implements engine.Backend on a core.
type Backend struct{ Core engine.Core }

var _ engine.Backend = Backend{}

// Kind returns the name of the core.
func (b Backend) Kind() string { return b.Core.Kind() }

// Open returns an engine for the tape whose settings are in step.
func (b Backend) Open(step *engine.Step) engine.Engine { return Open(b.Core, step) }

// Zeros returns tensors of zeros in the shapes of like, in the memory of the core.
func (b Backend) Zeros(like ...*tensor.Tensor) []*tensor.Tensor {
	e, all := b.engine(), make([]*tensor.Tensor, len(like))
	for i, x := range like {
		all[i] = e.lasting(x.Shape()...)
	}
	return all
}

// Place moves tensors to the memory of the core.
func (b Backend) Place(xs ...*tensor.Tensor) {
	for _, x := range xs {
		if x.Storage() == nil && x.Packed() == nil {
			values, buf := make([]float32, x.Len()), b.Core.New(x.Len())
			x.CopyTo(values)
			buf.Write(values)
			x.SetStorage(buf)
		}
	}
}

// LossMemory returns the size of the logits, their exponentials, and the gradients of both.
func (Backend) LossMemory(rows, _, v int, _ bool) int { return 4 * rows * v }

// Pack panics, because a core has no rounded weights.
func (Backend) Pack(engine.Precision, engine.PackAs, ...engine.Matrix) []tensor.Packed {
	panic(errPacked)
}

// PackGroups panics like Pack.
func (Backend) PackGroups(engine.Precision, ...engine.Groups) []tensor.Packed { panic(errPacked) }

const errPacked = "engine/compose: found packed weights, want those of a model that is not packed"

// engine returns an engine for a calculation outside of a tape.
func (b Backend) engine() *Engine { return Open(b.Core, &engine.Step{}) }

// AllFinite reports whether x holds neither NaN nor infinity: only then x·0 adds up to 0.
func (b Backend) AllFinite(x *tensor.Tensor) bool {
	e := b.engine()
	defer e.Reset()
	return e.in(x).flat().scale(0).einsum("i->", nil).read()[0] == 0
}

// Norm returns the Euclidean norm of all elements.
func (b Backend) Norm(xs []*tensor.Tensor) float64 {
	e := b.engine()
	defer e.Reset()
	sum := e.full(0)
	for _, x := range xs {
		v := e.in(x).flat()
		sum = sum.add(v.einsum("i,i->", v))
	}
	return math.Sqrt(float64(sum.read()[0]))
}

// set copies v to a tensor that outlives the step, in host memory if the tensor is there.
func (e *Engine) set(t *tensor.Tensor, v *val) {
	if t.Storage() == nil {
		t.CopyFrom(v.read())
		return
	}
	e.core.Affine(e.in(t).view(), v.as(t.Shape()...).view(), 1, 0)
}

// AdamW updates parameters by the definition in engine.Updates.
func (b Backend) AdamW(params []*tensor.Tensor, moments []engine.Moments, grads []*tensor.Tensor, s engine.AdamWStep) {
	e := b.engine()
	for k, o := range moments {
		lr, g := o.LR*s.Factor, e.in(grads[k]).scale(s.GradScale)
		m := e.in(o.M).scale(s.Beta1).add(g.scale(1 - s.Beta1))
		v := e.in(o.V).scale(s.Beta2).add(g.mul(g).scale(1 - s.Beta2))
		change := m.scale(lr / s.Correct1).div(v.scale(1 / s.Correct2).sqrt().plus(s.Eps))
		e.set(params[k], e.in(params[k]).scale(1-lr*o.Decay).sub(change))
		e.set(o.M, m)
		e.set(o.V, v)
		e.set(grads[k], e.full(0, grads[k].Shape()...))
		e.Reset()
	}
}

// Sum sets dst to dst + src, and src to zero.
func (b Backend) Sum(dst, src []*tensor.Tensor) {
	e := b.engine()
	for k, x := range src {
		e.set(dst[k], e.in(dst[k]).add(e.in(x)))
		e.set(x, e.full(0, x.Shape()...))
		e.Reset()
	}
}

// Average sets each average a to a + share·(x - a).
func (b Backend) Average(averages, xs []*tensor.Tensor, share float32) {
	e := b.engine()
	for k, x := range xs {
		a := e.in(averages[k])
		e.set(averages[k], a.add(e.in(x).sub(a).scale(float64(share))))
		e.Reset()
	}
}

// Swap exchanges a and b.
func (b Backend) Swap(as, bs []*tensor.Tensor) {
	e := b.engine()
	for k, x := range bs {
		a := e.in(as[k]).copy()
		e.set(as[k], e.in(x))
		e.set(x, a)
		e.Reset()
	}
}
