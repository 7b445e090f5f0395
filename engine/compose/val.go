package compose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
)

// val is a value of an expression: a view of a node. Views of views cost nothing and are not recorded: the gradient of
// a view is the same view of the gradient.
type val struct {
	e      *Engine
	n      *node
	at     int
	shape  []int
	stride []int
	grad   bool // a gradient is wanted
}

// whole is all of a node.
func (e *Engine) whole(n *node, shape []int) *val {
	return &val{e: e, n: n, shape: shape, stride: strides(shape)}
}

func strides(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// fresh is a new value with unspecified contents.
func (e *Engine) fresh(shape ...int) *val {
	return e.whole(e.alloc(product(shape)), slices.Clone(shape))
}

// full is a new value whose elements are all c.
func (e *Engine) full(c float64, shape ...int) *val {
	y := e.fresh(shape...)
	e.core.Fill(y.view(), c)
	return y
}

func (v *val) len() int { return product(v.shape) }
func (v *val) view() engine.View {
	return engine.View{Of: v.n.buf, At: v.at, Shape: v.shape, Stride: v.stride}
}
func (v *val) dim(axis int) int { return v.shape[v.axis(axis)] }

func (v *val) axis(axis int) int {
	if axis < 0 {
		axis += len(v.shape)
	}
	return axis
}

// gradView is the same view of the gradient.
func (v *val) gradView() engine.View {
	return engine.View{Of: v.e.gradient(v.n), At: v.at, Shape: v.shape, Stride: v.stride}
}

// dy is the gradient of v as a value.
func (v *val) dy() *val {
	return &val{e: v.e, n: &node{buf: v.e.gradient(v.n), n: v.n.n}, at: v.at, shape: v.shape, stride: v.stride}
}

// record notes how the gradient of y, a new value, goes back to inputs.
func (v *val) record(back func(), inputs ...*val) *val {
	for _, x := range inputs {
		v.grad = v.grad || x.grad
	}
	if v.grad {
		v.e.now.steps = append(v.e.now.steps, step{v.n, back})
	}
	return v
}

// add adds x, a product with more factors if there are some, to the gradient of v.
func (v *val) addGrad(x *val, factors ...*val) {
	if !v.grad {
		return
	}
	to := v.gradView()
	switch len(factors) {
	case 0:
		v.e.core.Sum(to, x.over(v.shape).view())
	case 1:
		v.e.core.Dot(to, x.over(v.shape).view(), factors[0].over(v.shape).view())
	}
}

// constant is v without its gradient.
func (v *val) constant() *val {
	y := *v
	y.grad = false
	return &y
}

// viewed is another view of the same node.
func (v *val) viewed(at int, shape, stride []int) *val {
	return &val{e: v.e, n: v.n, at: at, shape: shape, stride: stride, grad: v.grad}
}

// slice is the elements [at, at+n) along an axis.
func (v *val) slice(axis, at, n int) *val {
	axis = v.axis(axis)
	shape := slices.Clone(v.shape)
	shape[axis] = n
	return v.viewed(v.at+at*v.stride[axis], shape, v.stride)
}

// pick is element i along an axis, which is gone.
func (v *val) pick(axis, i int) *val {
	axis = v.axis(axis)
	shape, stride := slices.Delete(slices.Clone(v.shape), axis, axis+1), slices.Delete(slices.Clone(v.stride), axis, axis+1)
	return v.viewed(v.at+i*v.stride[axis], shape, stride)
}

// reversed turns the elements along an axis round.
func (v *val) reversed(axis int) *val {
	axis = v.axis(axis)
	stride := slices.Clone(v.stride)
	stride[axis] = -stride[axis]
	return v.viewed(v.at+(v.shape[axis]-1)*v.stride[axis], v.shape, stride)
}

// windows has n more elements along a new axis after an axis: element (i, j) is element i+j of v.
func (v *val) windows(axis, n int) *val {
	axis = v.axis(axis)
	shape := slices.Insert(slices.Clone(v.shape), axis+1, n)
	shape[axis] -= n - 1
	return v.viewed(v.at, shape, slices.Insert(slices.Clone(v.stride), axis+1, v.stride[axis]))
}

// as is v in another shape, in which -1 stands for what is left.
func (v *val) as(shape ...int) *val {
	shape = slices.Clone(shape)
	if i := slices.Index(shape, -1); i >= 0 {
		shape[i] = 1
		shape[i] = v.len() / product(shape)
	}
	if slices.Equal(shape, v.shape) {
		return v
	}
	if !slices.Equal(v.stride, strides(v.shape)) {
		v = v.copy()
	}
	return v.viewed(v.at, shape, strides(shape))
}

func (v *val) flat() *val { return v.as(-1) }

// rows is v as a matrix of its last axis.
func (v *val) rows() *val { return v.as(-1, v.dim(-1)) }

// like is v in the shape of x, but for a last axis of its own.
func (v *val) like(x *val) *val {
	return v.as(append(slices.Clone(x.shape[:len(x.shape)-1]), v.dim(-1))...)
}

// unsqueeze has a new axis of length 1.
func (v *val) unsqueeze(axis int) *val {
	return v.viewed(v.at, slices.Insert(slices.Clone(v.shape), axis, 1), slices.Insert(slices.Clone(v.stride), axis, 0))
}

// over repeats v to a shape: along axes on the left that it lacks, and along those of length 1.
func (v *val) over(shape []int) *val {
	if slices.Equal(shape, v.shape) {
		return v
	}
	stride := make([]int, len(shape))
	for i := range v.shape {
		j := len(shape) - len(v.shape) + i
		if v.shape[i] == shape[j] {
			stride[j] = v.stride[i]
		} else if v.shape[i] != 1 {
			panic(fmt.Sprintf("engine/compose: %v does not fit %v", v.shape, shape))
		}
	}
	return v.viewed(v.at, shape, stride)
}

// both is the shape over which a and b fit.
func both(a, b *val) []int {
	n := max(len(a.shape), len(b.shape))
	shape := make([]int, n)
	for i := range shape {
		shape[i] = 1
		for _, x := range []*val{a, b} {
			if j := i - n + len(x.shape); j >= 0 {
				shape[i] = max(shape[i], x.shape[j])
			}
		}
	}
	return shape
}

// copy is a new value.
func (v *val) copy() *val { return v.affine(1, 0) }

// own is v itself if it is all of a node that no tensor has, else a copy.
func (v *val) own() *val {
	made := slices.Contains(v.e.made[v.e.now.mark:], v.n)
	if made && v.n.of == nil && !v.n.kept && v.at == 0 && v.len() == v.n.n && slices.Equal(v.stride, strides(v.shape)) {
		return v
	}
	return v.copy()
}

// affine is scale·v + shift.
func (v *val) affine(scale, shift float64) *val {
	y := v.e.fresh(v.shape...)
	v.e.core.Affine(y.view(), v.view(), scale, shift)
	return y.record(func() { v.addGrad(y.dy().constant().affine(scale, 0)) }, v)
}

func (v *val) scale(c float64) *val { return v.affine(c, 0) }
func (v *val) plus(c float64) *val  { return v.affine(1, c) }
func (v *val) neg() *val            { return v.affine(-1, 0) }

// apply is f(v), with slope what its gradient is multiplied by.
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

// abs is |v|, without a gradient.
func (v *val) abs() *val { return v.constant().apply(engine.FnAbs, nil) }

// twoBySqrtPi is 2/√π.
const twoBySqrtPi = 1.1283791670955126

// zip is a f b.
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

// addTo is v + b, or v for a b of nil.
func (v *val) addTo(b *val) *val {
	if b == nil {
		return v
	}
	return v.add(b)
}

// less is 1 where v < b, else 0. It has no gradient.
func (v *val) less(b *val) *val { return zip(engine.OpLess, v.constant(), b.constant()) }

// lessThan is less of a number.
func (v *val) lessThan(c float64) *val { return v.less(v.e.full(c)) }

// where is v where the condition is not 0, else b.
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

// concat puts values one after the other along an axis.
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

// stack puts values one after the other along a new last axis.
func stack(xs ...*val) *val {
	parts := make([]*val, len(xs))
	for i, x := range xs {
		parts[i] = x.unsqueeze(len(x.shape))
	}
	return concat(-1, parts...)
}

// pad has n zeros before v along an axis, and m after it.
func (v *val) pad(axis, n, m int) *val {
	zeros := func(k int) *val {
		shape := slices.Clone(v.shape)
		shape[v.axis(axis)] = k
		return v.e.full(0, shape...)
	}
	return concat(axis, zeros(n), v, zeros(m))
}

// einsum multiplies and sums in Einstein's notation: "ij,jk->ik" is a matrix product. b is nil for one operand.
func (v *val) einsum(spec string, b *val) *val {
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
	// over is x with all letters for axes.
	over := func(x *val, own string) *val {
		stride := make([]int, len(letters))
		for j, c := range own {
			stride[strings.IndexRune(letters, c)] = x.stride[j]
		}
		return x.viewed(x.at, shape, stride)
	}
	y, core := v.e.full(0, shape[:len(to)]...), v.e.core
	v, all := over(v, left), over(y, to)
	if b == nil {
		core.Sum(all.view(), v.view())
		return y.record(func() { v.addGrad(all.dy()) }, v)
	}
	b = over(b, right)
	core.Dot(all.view(), v.view(), b.view())
	return y.record(func() {
		v.addGrad(all.dy(), b)
		b.addGrad(all.dy(), v)
	}, v, b)
}

// max is the largest along the last axis, which stays with length 1, without a gradient.
func (v *val) max() *val {
	y := v.e.fresh(append(slices.Clone(v.shape[:len(v.shape)-1]), 1)...)
	v.e.core.Affine(y.view(), v.slice(-1, 0, 1).view(), 1, 0)
	v.e.core.Max(y.over(v.shape).view(), v.view())
	return y
}

// sum is the sum along the last axis, which stays with length 1.
func (v *val) sum() *val {
	y := v.e.full(0, append(slices.Clone(v.shape[:len(v.shape)-1]), 1)...)
	all := y.over(v.shape)
	v.e.core.Sum(all.view(), v.view())
	return y.record(func() { v.addGrad(all.dy()) }, v)
}

func (v *val) mean() *val { return v.sum().scale(1 / float64(v.dim(-1))) }

// softmax is that along the last axis.
func (v *val) softmax() *val {
	y := v.sub(v.max()).exp()
	return y.div(y.sum())
}

// gather is rows of v.
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

// count is 0 to n-1.
func (e *Engine) count(n int) *val {
	y := e.fresh(n)
	e.core.Count(y.view())
	return y
}
