package compose

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
)

// val is a value of an expression: a view of a node. Views of views cost nothing and are not recorded, because the
// gradient of a view is the same view of the gradient.
type val struct {
	e      *Engine
	n      *node
	at     int
	shape  []int
	stride []int
	grad   bool // whether a gradient is wanted
}

// whole returns a node as a value of a shape.
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

// fresh returns a new value with unspecified contents.
func (e *Engine) fresh(shape ...int) *val {
	return e.whole(e.alloc(product(shape)), slices.Clone(shape))
}

// full returns a new value whose elements are all c.
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

// gradView returns the same view of the gradient.
func (v *val) gradView() engine.View {
	return engine.View{Of: v.e.gradient(v.n), At: v.at, Shape: v.shape, Stride: v.stride}
}

// dy returns the gradient of v as a value.
func (v *val) dy() *val {
	return &val{e: v.e, n: &node{buf: v.e.gradient(v.n), n: v.n.n}, at: v.at, shape: v.shape, stride: v.stride}
}

// record records how to compute the gradients of inputs from the gradient of v, a new value, if one of them is wanted.
func (v *val) record(back func(), inputs ...*val) *val {
	for _, x := range inputs {
		v.grad = v.grad || x.grad
	}
	if v.grad {
		v.e.now.steps = append(v.e.now.steps, step{v.n, back})
	}
	return v
}

// addGrad adds x, or its product with a factor, to the gradient of v if it is wanted.
func (v *val) addGrad(x *val, factor ...*val) {
	if !v.grad {
		return
	}
	to, add := v.gradInto()
	x = x.over(v.shape)
	switch core := v.e.core; {
	case len(factor) == 0 && add:
		core.Sum(to, x.view())
	case len(factor) == 0:
		core.Affine(to, x.view(), 1, 0)
	case add:
		core.Dot(to, x.view(), factor[0].over(v.shape).view())
	default:
		core.Zip(engine.OpTimes, to, x.view(), factor[0].over(v.shape).view())
	}
}

// addDot adds x·y, as computed by dot, to the gradient of v if it is wanted.
func (v *val) addDot(dot func(to, x, y engine.View), x, y *val) {
	if v.grad {
		dot(v.gradView(), x.over(v.shape).view(), y.over(v.shape).view())
	}
}

// gradInto is like gradView, for callers that write all of v. Unless add is set the memory is new.
func (v *val) gradInto() (to engine.View, add bool) {
	if !v.whole() {
		return v.gradView(), true
	}
	g, add := v.e.gradientInto(v.n)
	return engine.View{Of: g, Shape: v.shape, Stride: v.stride}, add
}

// wantedGrad returns gradView, or a view without memory if no gradient is wanted.
func (v *val) wantedGrad() (g engine.View) {
	if v.grad {
		g = v.gradView()
	}
	return g
}

// constant returns v without its gradient.
func (v *val) constant() *val {
	y := *v
	y.grad = false
	return &y
}

// viewed returns another view of the same node.
func (v *val) viewed(at int, shape, stride []int) *val {
	return &val{e: v.e, n: v.n, at: at, shape: shape, stride: stride, grad: v.grad}
}

// slice returns the elements [at, at+n) along an axis.
func (v *val) slice(axis, at, n int) *val {
	axis = v.axis(axis)
	shape := slices.Clone(v.shape)
	shape[axis] = n
	return v.viewed(v.at+at*v.stride[axis], shape, v.stride)
}

// pick returns element i along an axis, without that axis.
func (v *val) pick(axis, i int) *val {
	axis = v.axis(axis)
	without := func(x []int) []int { return slices.Delete(slices.Clone(x), axis, axis+1) }
	return v.viewed(v.at+i*v.stride[axis], without(v.shape), without(v.stride))
}

// reversed reverses an axis.
func (v *val) reversed(axis int) *val {
	axis = v.axis(axis)
	stride := slices.Clone(v.stride)
	stride[axis] = -stride[axis]
	return v.viewed(v.at+(v.shape[axis]-1)*v.stride[axis], v.shape, stride)
}

// windows adds an axis of length n after an axis: element (i, j) is element i+j of v.
func (v *val) windows(axis, n int) *val {
	axis = v.axis(axis)
	shape := slices.Insert(slices.Clone(v.shape), axis+1, n)
	shape[axis] -= n - 1
	return v.viewed(v.at, shape, slices.Insert(slices.Clone(v.stride), axis+1, v.stride[axis]))
}

// as returns v in another shape. One length may be -1: it is inferred.
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

// rows returns v as a matrix of rows along its last axis.
func (v *val) rows() *val { return v.as(-1, v.dim(-1)) }

// like returns v in the shape of x, except for its own last axis.
func (v *val) like(x *val) *val {
	return v.as(append(slices.Clone(x.shape[:len(x.shape)-1]), v.dim(-1))...)
}

// unsqueeze adds an axis of length 1.
func (v *val) unsqueeze(axis int) *val {
	return v.viewed(v.at, slices.Insert(slices.Clone(v.shape), axis, 1), slices.Insert(slices.Clone(v.stride), axis, 0))
}

// over repeats v to a shape: along leading axes that it lacks, and along axes of length 1.
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

// both returns the shape to which a and b are repeated.
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

// whole reports whether v is all of a node, in order.
func (v *val) whole() bool {
	return v.at == 0 && v.len() == v.n.n && slices.Equal(v.stride, strides(v.shape))
}

// copy returns a copy of v in new memory.
func (v *val) copy() *val { return v.affine(1, 0) }

// own returns v itself if it is all of a node of this operation that belongs to no tensor, else a copy.
func (v *val) own() *val {
	made := slices.Contains(v.e.made[v.e.now.mark:], v.n)
	if made && v.n.of == nil && !v.n.kept && v.whole() {
		return v
	}
	return v.copy()
}
