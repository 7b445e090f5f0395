// Package optim updates parameters: AdamW fused over all of them, clipping by global norm, and learning-rate schedules.
// It may import tensor, internal/kernel and internal/parallel.
//
// Gradients belong to a step, not to the parameters: they are passed as arguments, one slice for each parameter in the
// optimizer's order. They may be sums over a number of targets, which the optimizer divides by that number.
package optim

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Param is one parameter with the settings of its group.
type Param struct {
	Name string
	*tensor.Tensor
	LR    float64 // peak learning rate
	Decay float64 // weight decay
}

// AdamW is Adam with decoupled weight decay (arXiv:1711.05101). Step makes an update of all parameters in one pass over
// memory; Norm, Begin and Update.Range are its parts, for gradients that come in range by range.
type AdamW struct {
	Beta1, Beta2, Eps float64
	Clip              float64 // largest global norm of the gradient; 0 for no limit

	params   []Param
	m, v     [][]float32
	step     int
	segments []segment
	first    []int // the first segment of each parameter, and the number of all
}

// segment is a piece of one parameter, the unit of work. Norms are summed segment by segment, so that they do not
// depend on the number of cores.
type segment struct{ param, lo, hi int }

const segmentSize = 1 << 14

// NewAdamW returns an optimizer over params with zero moments.
func NewAdamW(params []Param, beta1, beta2, eps, clip float64) *AdamW {
	o := &AdamW{Beta1: beta1, Beta2: beta2, Eps: eps, Clip: clip, params: params}
	lengths := make([]int, len(params))
	for i, p := range params {
		lengths[i] = p.Len()
	}
	o.m, o.v = tensor.Together(lengths...), tensor.Together(lengths...)
	for i, p := range params {
		o.first = append(o.first, len(o.segments))
		for lo, n := 0, p.Len(); lo < n; lo += segmentSize {
			o.segments = append(o.segments, segment{i, lo, min(n, lo+segmentSize)})
		}
	}
	o.first = append(o.first, len(o.segments))
	return o
}

// Tensors are the parameters themselves, in the order in which gradients are passed.
func (o *AdamW) Tensors() []*tensor.Tensor {
	all := make([]*tensor.Tensor, len(o.params))
	for i, p := range o.params {
		all[i] = p.Tensor
	}
	return all
}

// Norm is the norm of all gradients together.
func (o *AdamW) Norm(grads [][]float32) float64 {
	return math.Sqrt(parallel.Sum(len(o.segments), 1, func(lo, hi int) float64 {
		s := o.segments[lo]
		return kernel.SumSquares(grads[s.param][s.lo:s.hi])
	}))
}

// Step updates every parameter with its learning rate times factor and zeroes the gradients, which are sums over
// count targets; count is 1 if they are means. It returns the norm of the mean gradient before clipping. If that is not
// finite, nothing changes.
func (o *AdamW) Step(grads [][]float32, count, factor float64) (norm float64) {
	norm = o.Norm(grads) / count
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm
	}
	o.Begin(o.Scale(norm)/count, factor).Range(grads, 0, len(o.params))
	return norm
}

// Scale is the factor by which gradients of the given norm are clipped.
func (o *AdamW) Scale(norm float64) float64 {
	if o.Clip > 0 && norm > o.Clip {
		return o.Clip / (norm + 1e-6)
	}
	return 1
}

// Update is an update of all parameters. Range makes it, and must come to each parameter once.
type Update struct {
	optimizer          *AdamW
	scale, factor      float64
	correct1, correct2 float64
}

// Begin counts an update by gradients times scale, with the learning rates times factor.
func (o *AdamW) Begin(scale, factor float64) Update {
	o.step++
	return Update{o, scale, factor, 1 - math.Pow(o.Beta1, float64(o.step)), 1 - math.Pow(o.Beta2, float64(o.step))}
}

// Range updates the parameters [lo, hi) and zeroes their gradients, which are those of grads at the same places.
func (u Update) Range(grads [][]float32, lo, hi int) {
	o := u.optimizer
	segments := o.segments[o.first[lo]:o.first[hi]]
	parallel.For(len(segments), 1, func(lo, hi int) {
		for _, s := range segments[lo:hi] {
			p := &o.params[s.param]
			step := kernel.AdamWStep{
				LR: p.LR * u.factor, Decay: p.Decay, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps,
				Correct1: u.correct1, Correct2: u.correct2, GradScale: u.scale,
			}
			m, v := o.m[s.param][s.lo:s.hi], o.v[s.param][s.lo:s.hi]
			kernel.AdamW(p.Data()[s.lo:s.hi], m, v, grads[s.param][s.lo:s.hi], &step)
		}
	})
	for _, p := range o.params[lo:hi] {
		p.Changed()
	}
}

// NonFiniteGrad names the first parameter whose gradient holds a NaN or an infinity.
func (o *AdamW) NonFiniteGrad(grads [][]float32) (name string, found bool) {
	for i, p := range o.params {
		if !kernel.AllFinite(grads[i]) {
			return p.Name, true
		}
	}
	return "", false
}

// Steps is the number of updates made.
func (o *AdamW) Steps() int { return o.step }

// SetSteps sets the number of updates made, when a run is resumed.
func (o *AdamW) SetSteps(n int) { o.step = n }

// Moments visits the moments of every parameter under the names NAME.exp_avg and NAME.exp_avg_sq, for saving. The
// slices are the optimizer's own.
func (o *AdamW) Moments(visit func(name string, shape []int, x []float32)) {
	for i, p := range o.params {
		visit(p.Name+".exp_avg", p.Shape(), o.m[i])
		visit(p.Name+".exp_avg_sq", p.Shape(), o.v[i])
	}
}

// SetMoments fills the moments from what get returns for the names of Moments.
func (o *AdamW) SetMoments(get func(name string) ([]float32, error)) error {
	var failed error
	o.Moments(func(name string, _ []int, x []float32) {
		src, err := get(name)
		if err == nil && len(src) != len(x) {
			err = fmt.Errorf("optimizer state %q has %d values, want %d", name, len(src), len(x))
		}
		if err != nil {
			if failed == nil {
				failed = err
			}
			return
		}
		copy(x, src)
	})
	return failed
}

// NonFiniteParam names the first parameter that holds a NaN or an infinity.
func (o *AdamW) NonFiniteParam() (name string, found bool) {
	for _, p := range o.params {
		if !kernel.AllFinite(p.Data()) {
			return p.Name, true
		}
	}
	return "", false
}
