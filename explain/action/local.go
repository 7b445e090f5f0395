package action

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The operations that act on each position separately.

// atZero returns the value and the slope of an activation at 0.
func atZero(a engine.Activation) (value, slope float64) {
	switch a {
	case engine.GeluTanh, engine.GeluErf, engine.SiLU:
		return 0, 0.5
	case engine.Sigmoid:
		return 0.5, 0.25
	case engine.Softplus:
		return math.Ln2, 0.5
	case engine.SquaredReLU:
		return 0, 0
	case engine.HeavyTail:
		return 1, 1
	}
	return 0, 1
}

// secant adds the step y = a(x) = a(0) + ((a(x) - a(0))/x)·x. The factor is held fixed, as in the paper for SiLU.
func (e *tracer) secant(x, y *tensor.Tensor, a engine.Activation) {
	zero, slope := atZero(a)
	k := slopes(x.Floats(), y.Floats(), zero, slope)
	e.scaled("Activate", x, y, tensor.FromSlice(k, y.Shape()...), zero)
}

// slopes returns (y - zero)/x, or slope where x is close to 0.
func slopes(x, y []float32, zero, slope float64) []float32 {
	k := make([]float32, len(x))
	for i, v := range x {
		k[i] = float32(slope)
		if math.Abs(float64(v)) > 1e-12 {
			k[i] = float32((float64(y[i]) - zero) / float64(v))
		}
	}
	return k
}

// scaled adds the step y = k ⊙ x + c.
func (e *tracer) scaled(name string, x, y, k *tensor.Tensor, c float64) {
	var shift *tensor.Tensor
	if c != 0 {
		shift = tensor.New(y.Shape()...)
		shift.Fill(float32(c))
	}
	e.add(&step{name: name, in: list{x}, out: list{y}, pointwise: true, run: one(func(x *tensor.Tensor) *tensor.Tensor {
		z := e.Engine.Mul(x, k)
		if shift != nil {
			z = e.Engine.Add(z, shift)
		}
		return z
	})})
}

// Activate is traced by its secant.
func (e *tracer) Activate(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	y := e.Engine.Activate(x, a)
	if e.follow(list{x}, list{y}) {
		e.secant(x, y, a)
	}
	return y
}

func (e *tracer) AddBias(x, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return e.activated(step{name: "AddBias", pointwise: true}, x, a,
		func(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
			return e.Engine.AddBias(x, e.held(bias), a)
		})
}

func (e *tracer) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	s := step{name: "Linear"}
	if e.on && e.mixed(x) {
		s.weight = e.copied(w)
	}
	return e.activated(s, x, a, func(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
		return e.Engine.Linear(x, e.held(w), e.held(bias), a)
	})
}

func (e *tracer) LinearLowRank(x, w, bias *tensor.Tensor, change engine.LowRank,
	a engine.Activation) *tensor.Tensor {
	return e.activated(step{name: "LinearLowRank"}, x, a, func(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
		c := change
		if c.Down, c.Up = e.held(c.Down), e.held(c.Up); !e.on {
			c.X = x
		}
		return e.Engine.LinearLowRank(x, e.held(w), e.held(bias), c, a)
	})
}

func (e *tracer) BlockLinear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return e.activated(step{name: "BlockLinear"}, x, a, func(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
		return e.Engine.BlockLinear(x, e.held(w), e.held(bias), a)
	})
}

func (e *tracer) Add(a, b *tensor.Tensor) *tensor.Tensor {
	return e.each(step{name: "Add"}, func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Add(xs[0], xs[1]) }, a,
		b)
}

// Mul holds one factor fixed, the gate: the one that has passed fewer operations along the sequence.
func (e *tracer) Mul(x, y *tensor.Tensor) *tensor.Tensor {
	z := e.Engine.Mul(x, y)
	if !e.follow(list{x, y}, list{z}) {
		return z
	}
	value, gate := x, y
	if e.of[y].depth > e.of[x].depth {
		value, gate = y, x
	}
	if e.mixed(x) && e.mixed(y) && e.of[x].depth == e.of[y].depth {
		e.add(&step{name: "Mul", in: list{x, y}, out: list{z},
			why: "it multiplies two results that come from other positions alike"})
		return z
	}
	e.gated("Mul", value, gate, z)
	return z
}

// gated adds the step z = value ⊙ gate.
func (e *tracer) gated(name string, value, gate, z *tensor.Tensor) {
	gate = e.copied(gate)
	e.add(&step{name: name, in: list{value}, out: list{z}, pointwise: true,
		run: one(func(x *tensor.Tensor) *tensor.Tensor { return e.Engine.Mul(x, gate) })})
}

// Gate holds a(z) fixed, or x if only z depends on other positions.
func (e *tracer) Gate(x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	y := e.Engine.Gate(x, z, a)
	if !e.follow(list{x, z}, list{y}) {
		return y
	}
	opened := e.Engine.Activate(z, a)
	if e.mixed(x) {
		e.gated("Gate", x, opened, y)
		return y
	}
	e.secant(z, opened, a)
	e.gated("Gate", opened, x, y)
	return y
}

// GLU holds its gate fixed.
func (e *tracer) GLU(x *tensor.Tensor) *tensor.Tensor {
	y := e.Engine.GLU(x)
	if !e.follow(list{x}, list{y}) {
		return y
	}
	d := y.Dim(-1)
	halves := e.Split(x, d, d)
	e.gated("GLU", halves[0], e.Engine.Activate(halves[1], engine.Sigmoid), y)
	return y
}

func (e *tracer) Scale(x *tensor.Tensor, c float64) *tensor.Tensor {
	return e.each(step{name: "Scale", pointwise: true},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Scale(xs[0], c) }, x)
}

func (e *tracer) ScaleShift(x, gamma, beta *tensor.Tensor) *tensor.Tensor {
	return e.each(step{name: "ScaleShift", pointwise: true}, func(xs []*tensor.Tensor) *tensor.Tensor {
		return e.Engine.ScaleShift(xs[0], e.held(gamma), e.held(beta))
	}, x)
}

// Rotate is linear: the rotation does not depend on x.
func (e *tracer) Rotate(x *tensor.Tensor, heads int, rot engine.Rotary, r *engine.Rows) *tensor.Tensor {
	return e.each(step{name: "Rotate"},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Rotate(xs[0], heads, rot, r) }, x)
}

func (e *tracer) Join(xs ...*tensor.Tensor) *tensor.Tensor {
	joined := !slices.ContainsFunc(xs, func(x *tensor.Tensor) bool { return !e.known(x) })
	return e.each(step{name: "Join", joined: !e.on || joined},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Join(xs...) }, xs...)
}

// Split is linear and has several results.
func (e *tracer) Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	ys := e.Engine.Split(x, widths...)
	widths = slices.Clone(widths)
	at := make([]int, len(widths))
	for i := range widths[1:] {
		at[i+1] = at[i] + widths[i]
	}
	e.linear(&step{name: "Split", at: at}, list{x}, slices.Clone(ys),
		func(xs []*tensor.Tensor) []*tensor.Tensor { return slices.Clone(e.Engine.Split(xs[0], widths...)) })
	return ys
}

// AddRMSNorm is traced with the root mean square held fixed.
func (e *tracer) AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	s, y = e.Engine.AddRMSNorm(x, r, w, groups, eps)
	if !e.normed("AddRMSNorm", x, r, s, y) {
		return s, y
	}
	xs, ws := s.Floats(), w.Floats()
	d := len(ws)
	for at := 0; at < len(xs); at += d / groups {
		part := xs[at:][:d/groups]
		sum := 0.0
		for _, v := range part {
			sum += float64(v) * float64(v)
		}
		inverse := 1 / math.Sqrt(sum/float64(len(part))+eps)
		for i := range part {
			part[i] = float32(inverse * float64(ws[at%d+i]))
		}
	}
	e.scaled("AddRMSNorm", s, y, tensor.FromSlice(xs, y.Shape()...), 0)
	return s, y
}

// AddLayerNorm is traced with the deviation held fixed.
func (e *tracer) AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	s, y = e.Engine.AddLayerNorm(x, r, w, b, groups, eps)
	if !e.normed("AddLayerNorm", x, r, s, y) {
		return s, y
	}
	d := w.Len() / groups
	inverse := s.Floats()
	for at := 0; at < len(inverse); at += d {
		row := inverse[at:][:d]
		mean, square := 0.0, 0.0
		for _, v := range row {
			mean += float64(v) / float64(d)
		}
		for _, v := range row {
			square += (float64(v) - mean) * (float64(v) - mean) / float64(d)
		}
		for i := range row {
			row[i] = float32(1 / math.Sqrt(square+eps))
		}
	}
	center := make([]float32, groups*d*d) // I - 1/d for each group
	for i := range center {
		center[i] = float32(-1 / float64(d))
		if i%(d*d)%(d+1) == 0 {
			center[i] += 1
		}
	}
	minus, scale := tensor.FromSlice(center, groups, d, d), tensor.FromSlice(inverse, s.Shape()...)
	none := tensor.New(groups, d)
	gamma, beta := e.copied(w), e.copied(b)
	e.add(&step{name: "AddLayerNorm", in: list{s}, out: list{y}, run: one(func(x *tensor.Tensor) *tensor.Tensor {
		x = e.Engine.Mul(e.Engine.BlockLinear(x, minus, none, engine.None), scale)
		return e.Engine.ScaleShift(x, gamma, beta)
	})})
	return s, y
}

// normed traces s = x + r, and reports whether the norm y of s needs a step.
func (e *tracer) normed(name string, x, r, s, y *tensor.Tensor) bool {
	if r != nil {
		e.linear(&step{name: name}, list{x, r}, list{s},
			func(xs []*tensor.Tensor) []*tensor.Tensor { return list{e.Engine.Add(xs[0], xs[1])} })
	}
	return e.follow(list{s}, list{y})
}
