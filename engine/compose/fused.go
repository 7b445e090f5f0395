package compose

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
)

// The interfaces in this file are optional methods of a core. Each computes in one launch, forward or backward, what
// otherwise takes many. A gradient is written to new memory, or added if add is set.

// Activator is implemented by a core with kernels for activations.
type Activator interface {
	// Activate sets to = a(x).
	Activate(a engine.Activation, to, x engine.View)
	// ActivateGrad sets to = dy·a'(x).
	ActivateGrad(a engine.Activation, to, dy, x engine.View, add bool)
}

// activated returns a(v), computed by an Activator.
func (v *val) activated(c Activator, a engine.Activation) *val {
	y := v.e.fresh(v.shape...)
	c.Activate(a, y.view(), v.view())
	return y.record(func() {
		v.addGradOf(func(to engine.View, add bool) { c.ActivateGrad(a, to, y.dy().view(), v.view(), add) })
	}, v)
}

// Losser is implemented by a core with kernels for the cross-entropy of rows x (rows, v), which must be contiguous,
// with their targets.
type Losser interface {
	// Losses sets all = log Σ e^x and to = all - x[target] for each row.
	Losses(to, all, x engine.View, targets []int32)
	// LossesGrad sets to = dy (e^(x-all) - 1 at the target).
	LossesGrad(to, dy, all, x engine.View, targets []int32, add bool)
}

// losses returns the losses (rows) of the rows v for their targets.
func (v *val) losses(targets []int32) *val {
	rows := len(targets)
	c, ok := v.e.core.(Losser)
	if !ok {
		places, n := slices.Clone(targets), int32(v.dim(-1))
		for i := range places {
			places[i] += int32(i) * n
		}
		return v.logSumExp().flat().sub(v.as(-1, 1).gather(places).flat())
	}
	if !slices.Equal(v.stride, strides(v.shape)) {
		v = v.copy()
	}
	targets = slices.Clone(targets) // backward reads them later
	y, all := v.e.fresh(rows), v.e.fresh(rows)
	c.Losses(y.view(), all.view(), v.view(), targets)
	return y.record(func() {
		v.addGradOf(func(to engine.View, add bool) {
			c.LossesGrad(to, y.dy().view(), all.view(), v.view(), targets, add)
		})
	}, v)
}

// Correlator is implemented by a core with kernels for the impulse response of the shift SSM.
type Correlator interface {
	// Correlate sets to[i, d] = Σ_{j≥i} c[d, j]·b[d, j-i]; to (n, d), b and c (d, n), all of them contiguous.
	Correlate(to, b, c engine.View)
	// CorrelateGrad adds to the gradients of b and c, given the gradient dy of to. db or dc has no memory if its
	// gradient is not wanted.
	CorrelateGrad(dy, b, c, db, dc engine.View)
}

// shiftKernel returns the impulse response (n, d) of the shift SSM with B and C (d, n). shifted[c, j, i] is B[c, j-i],
// or 0 if i > j.
func (B *val) shiftKernel(C *val, shifted func() *val) *val {
	e := B.e
	c, ok := e.core.(Correlator)
	if !ok {
		return shifted().einsum("cji,cj->ic", C)
	}
	y := e.fresh(B.dim(1), B.dim(0))
	c.Correlate(y.view(), B.view(), C.view())
	return y.record(func() {
		c.CorrelateGrad(y.dy().view(), B.view(), C.view(), B.wantedGrad(), C.wantedGrad())
	}, B, C)
}

// addGradOf calls f to write or add the gradient of v, if it is wanted.
func (v *val) addGradOf(f func(to engine.View, add bool)) {
	switch {
	case !v.grad:
	case v.whole():
		f(v.gradInto())
	default:
		x := v.e.fresh(v.shape...)
		f(x.view(), false)
		v.addGrad(x)
	}
}
