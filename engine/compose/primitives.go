package compose

import (
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
)

// The recorded primitives. Each adds to the gradients of its operands, given the gradient of its result.

// affine returns scale·v + shift.
func (v *val) affine(scale, shift float64) *val {
	y := v.e.fresh(v.shape...)
	v.e.core.Affine(y.view(), v.view(), scale, shift)
	return y.record(func() { v.addGrad(y.dy().constant().affine(scale, 0)) }, v)
}

func (v *val) scale(c float64) *val { return v.affine(c, 0) }
func (v *val) plus(c float64) *val  { return v.affine(1, c) }
func (v *val) neg() *val            { return v.affine(-1, 0) }

// apply returns y = f(v). Its gradient is multiplied by slope(v, y).
func (v *val) apply(f engine.Function, slope func(x, y *val) *val) *val {
	y := v.e.fresh(v.shape...)
	v.e.core.Map(f, y.view(), v.view())
	return y.record(func() { v.addGrad(y.dy(), slope(v.constant(), y.constant())) }, v)
}

func (v *val) exp() *val   { return v.apply(engine.FnExp, func(_, y *val) *val { return y }) }
func (v *val) expm1() *val { return v.apply(engine.FnExpm1, func(_, y *val) *val { return y.plus(1) }) }
func (v *val) log() *val   { return v.apply(engine.FnLog, func(x, _ *val) *val { return x.recip() }) }
func (v *val) log1p() *val {
	return v.apply(engine.FnLog1p, func(x, _ *val) *val { return x.plus(1).recip() })
}
func (v *val) sqrt() *val {
	return v.apply(engine.FnSqrt, func(_, y *val) *val { return y.scale(2).recip() })
}
func (v *val) recip() *val {
	return v.apply(engine.FnReciprocal, func(_, y *val) *val { return y.mul(y).neg() })
}
func (v *val) sigmoid() *val {
	return v.apply(engine.FnSigmoid, func(_, y *val) *val { return y.mul(y.affine(-1, 1)) })
}
func (v *val) tanh() *val {
	return v.apply(engine.FnTanh, func(_, y *val) *val { return y.mul(y).affine(-1, 1) })
}
func (v *val) erf() *val {
	return v.apply(engine.FnErf, func(x, _ *val) *val { return x.mul(x).neg().exp().scale(twoBySqrtPi) })
}
func (v *val) sin() *val { return v.apply(engine.FnSin, func(x, _ *val) *val { return x.cos() }) }
func (v *val) cos() *val { return v.apply(engine.FnCos, func(x, _ *val) *val { return x.sin().neg() }) }

// abs returns |v|, without a gradient.
func (v *val) abs() *val { return v.constant().apply(engine.FnAbs, nil) }

// twoBySqrtPi is 2/√π.
const twoBySqrtPi = 1.1283791670955126

// zip returns a f b.
func zip(f engine.Operator, a, b *val) *val {
	shape := both(a, b)
	y := a.e.fresh(shape...)
	a, b = a.over(shape), b.over(shape)
	a.e.core.Zip(f, y.view(), a.view(), b.view())
	return y.record(func() {
		switch dy := y.dy(); f {
		case engine.OpPlus:
			a.addGrad(dy)
			b.addGrad(dy)
		case engine.OpMinus:
			a.addGrad(dy)
			if b.grad {
				b.addGrad(dy.neg())
			}
		case engine.OpTimes:
			a.addGrad(dy, b)
			b.addGrad(dy, a)
		}
	}, a, b)
}

func (v *val) add(b *val) *val { return zip(engine.OpPlus, v, b) }
func (v *val) sub(b *val) *val { return zip(engine.OpMinus, v, b) }
func (v *val) mul(b *val) *val { return zip(engine.OpTimes, v, b) }
func (v *val) div(b *val) *val { return v.mul(b.recip()) }

// addTo returns v + b, or v if b is nil.
func (v *val) addTo(b *val) *val {
	if b == nil {
		return v
	}
	return v.add(b)
}

// less returns 1 where v < b, else 0. It has no gradient.
func (v *val) less(b *val) *val { return zip(engine.OpLess, v.constant(), b.constant()) }

// lessThan returns 1 where v < c, else 0.
func (v *val) lessThan(c float64) *val { return v.less(v.e.full(c)) }

// where returns v where the condition is not 0, else b.
func (v *val) where(condition, b *val) *val {
	shape := both(condition, v)
	shape = both(&val{shape: shape}, b)
	y, e := v.e.fresh(shape...), v.e
	condition, v, b = condition.over(shape), v.over(shape), b.over(shape)
	e.core.Select(y.view(), condition.view(), v.view(), b.view())
	return y.record(func() {
		zero := e.full(0)
		if v.grad {
			v.addGrad(y.dy().where(condition, zero))
		}
		if b.grad {
			b.addGrad(zero.where(condition, y.dy()))
		}
	}, v, b)
}

// concat concatenates values along an axis.
func concat(axis int, xs ...*val) *val {
	e, shape := xs[0].e, slices.Clone(xs[0].shape)
	axis = xs[0].axis(axis)
	shape[axis] = 0
	for _, x := range xs {
		shape[axis] += x.shape[axis]
	}
	y, at := e.fresh(shape...), 0
	parts := make([]*val, len(xs))
	for i, x := range xs {
		parts[i] = y.slice(axis, at, x.shape[axis])
		if x.len() > 0 {
			e.core.Affine(parts[i].view(), x.view(), 1, 0)
		}
		at += x.shape[axis]
	}
	return y.record(func() {
		for i, x := range xs {
			if x.len() > 0 {
				x.addGrad(parts[i].dy())
			}
		}
	}, xs...)
}

// stack stacks values along a new last axis.
func stack(xs ...*val) *val {
	parts := make([]*val, len(xs))
	for i, x := range xs {
		parts[i] = x.unsqueeze(len(x.shape))
	}
	return concat(-1, parts...)
}

// pad adds n zeros before v and m zeros after it, along an axis.
func (v *val) pad(axis, n, m int) *val {
	zeros := func(k int) *val {
		shape := slices.Clone(v.shape)
		shape[v.axis(axis)] = k
		return v.e.full(0, shape...)
	}
	return concat(axis, zeros(n), v, zeros(m))
}

// Rounder is implemented by a core that multiplies at bf16: DotBF16 is Dot of operands that are rounded to bfloat16, to
// nearest even.
type Rounder interface {
	DotBF16(to, x, y engine.View)
}

// matmul is einsum at the precision of the tape, forward and backward. A core that is no Rounder computes at float32.
func (v *val) matmul(spec string, b *val) *val {
	if r, ok := v.e.core.(Rounder); ok && v.e.Precision == engine.BF16 {
		return v.einsumBy(r.DotBF16, spec, b)
	}
	return v.einsum(spec, b)
}

// einsum multiplies and sums in Einstein's notation: "ij,jk->ik" is a matrix product. b is nil if there is one operand.
func (v *val) einsum(spec string, b *val) *val { return v.einsumBy(v.e.core.Dot, spec, b) }

func (v *val) einsumBy(dot func(to, x, y engine.View), spec string, b *val) *val {
	from, to, _ := strings.Cut(spec, "->")
	left, right, _ := strings.Cut(from, ",")
	letters, length := to, map[rune]int{}
	for i, x := range []*val{v, b} {
		for j, c := range []string{left, right}[i] {
			length[c] = x.shape[j]
			if !strings.ContainsRune(letters, c) {
				letters += string(c)
			}
		}
	}
	shape := make([]int, len(letters))
	for i, c := range letters {
		shape[i] = length[c]
	}
	// over returns x with an axis for each letter.
	over := func(x *val, own string) *val {
		stride := make([]int, len(letters))
		for j, c := range own {
			stride[strings.IndexRune(letters, c)] = x.stride[j]
		}
		return x.viewed(x.at, shape, stride)
	}
	y := v.e.full(0, shape[:len(to)]...)
	v, all := over(v, left), over(y, to)
	if b == nil {
		v.e.core.Sum(all.view(), v.view())
		return y.record(func() { v.addGrad(all.dy()) }, v)
	}
	b = over(b, right)
	dot(all.view(), v.view(), b.view())
	return y.record(func() {
		v.addDot(dot, all.dy(), b)
		b.addDot(dot, all.dy(), v)
	}, v, b)
}

// max returns the maximum along the last axis, which is kept with length 1. It has no gradient.
func (v *val) max() *val {
	y := v.e.fresh(append(slices.Clone(v.shape[:len(v.shape)-1]), 1)...)
	v.e.core.Affine(y.view(), v.slice(-1, 0, 1).view(), 1, 0)
	v.e.core.Max(y.over(v.shape).view(), v.view())
	return y
}

// sum returns the sum along the last axis, which is kept with length 1.
func (v *val) sum() *val {
	y := v.e.full(0, append(slices.Clone(v.shape[:len(v.shape)-1]), 1)...)
	all := y.over(v.shape)
	v.e.core.Sum(all.view(), v.view())
	return y.record(func() { v.addGrad(all.dy()) }, v)
}

func (v *val) mean() *val { return v.sum().scale(1 / float64(v.dim(-1))) }

// softmax returns e^v/Σe^v along the last axis.
func (v *val) softmax() *val {
	y := v.sub(v.max()).exp()
	return y.div(y.sum())
}

// logSumExp returns log Σe^v along the last axis.
func (v *val) logSumExp() *val {
	largest := v.max()
	return v.sub(largest).exp().sum().log().add(largest)
}

// gather returns the given rows of v.
func (v *val) gather(rows []int32) *val {
	rows = slices.Clone(rows) // backward reads them later
	y := v.e.fresh(append([]int{len(rows)}, v.shape[1:]...)...)
	v.e.core.Gather(y.view(), v.view(), rows)
	return y.record(func() {
		if v.grad {
			v.e.core.Scatter(v.gradView(), y.dy().view(), rows)
		}
	}, v)
}

// count returns 0 to n-1.
func (e *Engine) count(n int) *val {
	y := e.fresh(n)
	e.core.Count(y.view())
	return y
}
