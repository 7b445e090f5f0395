// Package optim updates parameters: AdamW, clipping by global norm, and learning-rate schedules. An engine.Backend does
// the arithmetic, on tensors that it owns.
//
// Gradients belong to a step, not to the parameters: they are passed as arguments, one tensor for each parameter in the
// optimizer's order. They may be sums over a number of targets; the optimizer then divides them by that number.
package optim

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Param is a parameter with the settings of its group.
type Param struct {
	Name string
	*tensor.Tensor
	LR    float64 // peak learning rate
	Decay float64 // weight decay
}

// AdamW is Adam with decoupled weight decay (arXiv:1711.05101). Step updates all parameters in one pass over memory.
// Norm, Begin and Update.Range are its parts, for gradients that arrive range by range.
type AdamW struct {
	Beta1, Beta2, Eps float64
	Clip              float64 // largest global norm of the gradient; 0 for no limit

	backend engine.Backend
	params  []Param
	tensors []*tensor.Tensor // of params
	moments []engine.Moments // nil before they are first needed
	step    int
}

// NewAdamW returns an optimizer over params with zero moments, which computes on b.
func NewAdamW(b engine.Backend, params []Param, beta1, beta2, eps, clip float64) *AdamW {
	o := &AdamW{Beta1: beta1, Beta2: beta2, Eps: eps, Clip: clip, backend: b, params: params}
	for _, p := range params {
		o.tensors = append(o.tensors, p.Tensor)
	}
	return o
}

// own returns the optimizer's moments. The first call makes them, as zeros.
func (o *AdamW) own() []engine.Moments {
	if o.moments == nil {
		m, v := o.backend.Zeros(o.tensors...), o.backend.Zeros(o.tensors...)
		for i, p := range o.params {
			o.moments = append(o.moments, engine.Moments{M: m[i], V: v[i], LR: p.LR, Decay: p.Decay})
		}
	}
	return o.moments
}

// Backend returns the backend that the optimizer computes on.
func (o *AdamW) Backend() engine.Backend { return o.backend }

// Tensors returns the parameters, in the order in which gradients are passed.
func (o *AdamW) Tensors() []*tensor.Tensor { return o.tensors }

// Norm returns the global norm of the gradients.
func (o *AdamW) Norm(grads []*tensor.Tensor) float64 { return o.backend.Norm(grads) }

// Step updates every parameter with its learning rate times factor and zeroes the gradients, which are sums over
// count targets; count is 1 if they are means. It returns the norm of the mean gradient before clipping. If that is not
// finite, nothing changes.
func (o *AdamW) Step(grads []*tensor.Tensor, count, factor float64) (norm float64) {
	norm = o.Norm(grads) / count
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm
	}
	o.Begin(o.Scale(norm)/count, factor).Range(grads, 0, len(o.params))
	return norm
}

// Scale returns the factor that clips gradients of the given norm.
func (o *AdamW) Scale(norm float64) float64 {
	if o.Clip > 0 && norm > o.Clip {
		return o.Clip / (norm + 1e-6)
	}
	return 1
}

// Update is an update of all parameters in parts. Each call of Range updates some parameters. Each parameter must be
// updated once.
type Update struct {
	optimizer *AdamW
	step      engine.AdamWStep
}

// Begin starts an update with gradients times scale and learning rates times factor, and counts it.
func (o *AdamW) Begin(scale, factor float64) Update {
	o.step++
	return Update{o, engine.AdamWStep{
		Factor: factor, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, GradScale: scale,
		Correct1: 1 - math.Pow(o.Beta1, float64(o.step)), Correct2: 1 - math.Pow(o.Beta2, float64(o.step)),
	}}
}

// Range updates the parameters [lo, hi) by grads[lo:hi] and zeroes these gradients.
func (u Update) Range(grads []*tensor.Tensor, lo, hi int) {
	o := u.optimizer
	o.backend.AdamW(o.tensors[lo:hi], o.own()[lo:hi], grads[lo:hi], u.step)
	changed(o.tensors[lo:hi])
}

// changed marks the parameters as modified.
func changed(params []*tensor.Tensor) {
	for _, x := range params {
		x.Changed()
	}
}

// NonFiniteGrad returns the name of the first parameter whose gradient holds a NaN or an infinity.
func (o *AdamW) NonFiniteGrad(grads []*tensor.Tensor) (name string, found bool) {
	return o.nonFinite(grads)
}

// NonFiniteParam returns the name of the first parameter that holds a NaN or an infinity.
func (o *AdamW) NonFiniteParam() (name string, found bool) { return o.nonFinite(o.tensors) }

// nonFinite returns the name of the parameter with the first tensor of xs that holds a NaN or an infinity.
func (o *AdamW) nonFinite(xs []*tensor.Tensor) (name string, found bool) {
	for i, x := range xs {
		if !o.backend.AllFinite(x) {
			return o.params[i].Name, true
		}
	}
	return "", false
}

// Steps returns the number of updates so far.
func (o *AdamW) Steps() int { return o.step }

// SetSteps sets the number of updates so far, for a run that is resumed.
func (o *AdamW) SetSteps(n int) { o.step = n }

// Suffixes of the names of moments.
const (
	FirstMoment  = ".exp_avg"
	SecondMoment = ".exp_avg_sq"
)

// Moments visits the moments of every parameter under the names NAME.exp_avg and NAME.exp_avg_sq, for saving. The
// tensors are the optimizer's own.
func (o *AdamW) Moments(visit func(name string, x *tensor.Tensor)) {
	for i, m := range o.own() {
		name := o.params[i].Name
		visit(name+FirstMoment, m.M)
		visit(name+SecondMoment, m.V)
	}
}

// SetMoments fills the moments from the values that get returns for the names of Moments.
func (o *AdamW) SetMoments(get func(name string) ([]float32, error)) error {
	var failed error
	o.Moments(func(name string, x *tensor.Tensor) {
		src, err := get(name)
		if err == nil && len(src) != x.Len() {
			err = fmt.Errorf("optimizer state %q has %d values, want %d", name, len(src), x.Len())
		}
		if err != nil {
			if failed == nil {
				failed = err
			}
			return
		}
		x.CopyFrom(src)
	})
	return failed
}
