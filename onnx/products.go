package onnx

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
)

// Sum sets to += x. An element may occur several times in to.
func (c *Core) Sum(to, x engine.View) {
	c.reduce(to, x, func(a, b float64) float64 { return a + b }, "Add", func(v Value) Value { return c.g.Sum(v, 1) })
}

// Max sets to = max(to, x). An element may occur several times in to.
func (c *Core) Max(to, x engine.View) {
	c.reduce(to, x, math.Max, "Max", func(v Value) Value {
		return c.g.With("ReduceMax", []Attr{{"axes", []int{1}}, {"keepdims", 0}}, v)
	})
}

// reduce sets to = f(to, x) along the axes on which to repeats its elements.
func (c *Core) reduce(to, x engine.View, f func(a, b float64) float64, op string, along1 func(v Value) Value) {
	if c.fold(to, x, x, func(y, a, _ float64) float64 { return f(y, a) }) {
		return
	}
	var left, right []int // axes that remain, and axes that are reduced
	n := 1
	for i, s := range to.Stride {
		if s != 0 || to.Shape[i] == 1 {
			left = append(left, i)
			n *= to.Shape[i]
		} else {
			right = append(right, i)
		}
	}
	v := c.elements(axes(x, left, right))
	r := c.value(v, []int{n, len(v) / n})
	if len(v) > n {
		r = along1(r)
	}
	c.add(axes(to, left), r, n, op)
}

// fold sets to = f(to, x, y) and returns true if all elements are constants.
func (c *Core) fold(to, x, y engine.View, f func(z, a, b float64) float64) bool {
	z, a, b, ok := c.of(to), c.of(x), c.of(y), true
	for _, v := range []engine.View{to, x, y} {
		v, xs := squeezed(v), c.of(v)
		each(v, func(i int) { ok = ok && xs[i].of == 0 })
	}
	if ok {
		along(to.Shape, [3][]int{to.Stride, x.Stride, y.Stride}, [3]int{to.At, x.At, y.At}, func(p [3]int) {
			z[p[0]].c = f(z[p[0]].c, a[p[1]].c, b[p[2]].c)
		})
	}
	return ok
}

// axes returns a view with some of the axes of v, in the given order. The omitted axes must have length 1 or repeat
// elements.
func axes(v engine.View, groups ...[]int) engine.View {
	w := engine.View{Of: v.Of, At: v.At}
	for _, group := range groups {
		for _, i := range group {
			w.Shape, w.Stride = append(w.Shape, v.Shape[i]), append(w.Stride, v.Stride[i])
		}
	}
	return w
}

// add sets to = to op v, where v has n elements in the order of to. If to is zero and op is Add, the result is v.
func (c *Core) add(to engine.View, v Value, n int, op string) {
	before := c.elements(to)
	if same, x := c.uniform(to); !same || x != 0 || op != "Add" {
		v = c.g.Op(op, c.value(before, []int{n}), c.g.Reshape(v, n))
	}
	y, id, k := c.of(to), int32(len(c.values)), int32(-1)
	c.values = append(c.values, result{v, n})
	each(to, func(i int) { k++; y[i] = elem{of: id, at: k} })
}

// Dot sets to += x·y. An element may occur several times in to. It is a product of matrices for each element of the
// axes that all three have.
func (c *Core) Dot(to, x, y engine.View) {
	if c.fold(to, x, y, func(z, a, b float64) float64 { return z + a*b }) {
		return
	}
	var batch, rows, columns, inner []int
	b, m, n, k := 1, 1, 1, 1
	for i, l := range to.Shape {
		switch {
		case l == 1:
		case to.Stride[i] == 0:
			inner, k = append(inner, i), k*l
		case x.Stride[i] != 0 && y.Stride[i] != 0:
			batch, b = append(batch, i), b*l
		case y.Stride[i] != 0:
			columns, n = append(columns, i), n*l
		default:
			rows, m = append(rows, i), m*l
		}
	}
	g := c.g
	left := c.elements(axes(x, batch, rows, inner))
	right := c.elements(axes(y, batch, inner, columns))
	to = axes(to, batch, rows, columns)
	switch {
	case k == 1:
		c.add(to, g.Op("Mul", c.value(left, []int{b, m, 1}), c.value(right, []int{b, 1, n})), b*m*n, "Add")
	case b == 1:
		c.add(to, g.Op("MatMul", c.value(left, []int{m, k}), c.value(right, []int{k, n})), m*n, "Add")
	default:
		c.add(to, g.Op("MatMul", c.value(left, []int{b, m, k}), c.value(right, []int{b, k, n})), b*m*n, "Add")
	}
}
