package compose

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// act returns a(v).
func (v *val) act(a engine.Activation) *val {
	if c, ok := v.e.core.(Activator); ok && a != engine.None {
		return v.activated(c, a)
	}
	switch a {
	case engine.GeluTanh:
		return v.halfTimes(v.mul(v).affine(0.044715, 1).mul(v).scale(math.Sqrt(2 / math.Pi)).tanh())
	case engine.GeluErf:
		return v.halfTimes(v.scale(math.Sqrt2 / 2).erf())
	case engine.SiLU:
		return v.mul(v.sigmoid())
	case engine.Sigmoid:
		return v.sigmoid()
	case engine.Tanh:
		return v.tanh()
	case engine.Softplus:
		return v.softplus()
	case engine.SquaredReLU:
		y := v.relu()
		return y.mul(y)
	case engine.HeavyTail:
		return v.neg().relu().plus(1).recip().add(v.relu())
	}
	return v
}

// halfTimes returns v/2·(1+t).
func (v *val) halfTimes(t *val) *val { return v.scale(0.5).mul(t.plus(1)) }

func (v *val) relu() *val { return v.where(v.positive(), v.e.full(0)) }

// positive returns 1 where v > 0, else 0.
func (v *val) positive() *val { return v.e.full(0).less(v) }

// softplus returns max(v, 0) + log(1+e^-|v|), whose derivative is the logistic function.
func (v *val) softplus() *val {
	x := v.constant()
	y := x.relu().add(x.abs().neg().exp().log1p())
	return y.record(func() { v.addGrad(y.dy(), x.sigmoid()) }, v)
}

func (e *Engine) Activate(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return e.one("Activate", func() *val { return e.in(x).act(a) })
}

func (e *Engine) Add(a, b *tensor.Tensor) *tensor.Tensor {
	return e.one("Add", func() *val { return e.in(a).add(e.in(b)) })
}

func (e *Engine) AddBias(x, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return e.one("AddBias", func() *val { return e.in(x).add(e.in(bias).flat()).act(a) })
}

func (e *Engine) Mul(x, y *tensor.Tensor) *tensor.Tensor {
	return e.one("Mul", func() *val { return e.in(x).mul(e.in(y)) })
}

func (e *Engine) Gate(x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return e.one("Gate", func() *val { return e.in(x).mul(e.in(z).act(a)) })
}

func (e *Engine) GLU(x *tensor.Tensor) *tensor.Tensor {
	return e.one("GLU", func() *val {
		x := e.in(x)
		d := x.dim(-1) / 2
		return x.slice(-1, 0, d).mul(x.slice(-1, d, d).sigmoid())
	})
}

func (e *Engine) NegExp(x *tensor.Tensor) *tensor.Tensor {
	return e.one("NegExp", func() *val { return e.in(x).exp().neg() })
}

func (e *Engine) Sine(x, f *tensor.Tensor) *tensor.Tensor {
	return e.one("Sine", func() *val { return e.in(x).mul(e.in(f).flat()).sin() })
}

func (e *Engine) Scale(x *tensor.Tensor, c float64) *tensor.Tensor {
	return e.one("Scale", func() *val { return e.in(x).scale(c) })
}

func (e *Engine) Clamp(x *tensor.Tensor, lo, hi float64) *tensor.Tensor {
	return e.one("Clamp", func() *val {
		x, lo, hi := e.in(x), e.full(lo), e.full(hi)
		x = lo.where(x.less(lo), x)
		return hi.where(hi.less(x), x)
	})
}

func (e *Engine) ScaleShift(x, gamma, beta *tensor.Tensor) *tensor.Tensor {
	return e.one("ScaleShift", func() *val { return e.in(x).mul(e.in(gamma).flat()).add(e.in(beta).flat()) })
}

// mask returns 1/(1-p) for those of n elements that dropout keeps, and 0 for the others.
func (e *Engine) mask(seed uint64, p float64, n int) *val {
	m := e.fresh(n)
	e.core.Keep(m.view(), seed, counter.KeepThreshold(p))
	return m.scale(1 / (1 - p))
}

func (e *Engine) Dropout(x *tensor.Tensor, p float64, r *engine.Rows, op uint64) *tensor.Tensor {
	return e.one("Dropout", func() *val {
		return e.in(x).rows().each(r, func(i int, x *val) *val {
			return x.mul(e.mask(r.Seed(i, op), p, x.len()).as(x.shape...))
		}).as(x.Shape()...)
	})
}

func (e *Engine) DecayWindow(h, at, rate *tensor.Tensor, shift float32) *tensor.Tensor {
	return e.one("DecayWindow", func() *val {
		h := e.in(h)
		times := e.in(at).constant().flat().slice(0, 0, h.dim(0)).as(-1, 1)
		return h.mul(times.mul(e.in(rate).constant().flat().abs()).neg().exp().plus(float64(shift)))
	})
}

func (e *Engine) RealPairs(x *tensor.Tensor) *tensor.Tensor {
	return e.one("RealPairs", func() *val { return stack(e.in(x), e.full(0, x.Shape()...)) })
}
