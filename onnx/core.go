package onnx

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Core is an engine's core that computes only results that depend on constants alone, in float64. It adds everything
// else to a graph as nodes.
//
// Core knows the origin of each element of its memory: a constant, or an element of a node's output. So moves (views,
// slices, transposed axes, padding) cost no nodes until an operator needs its operand as an array: see value.
type Core struct {
	g      *Graph
	values []result // origins of elements; the first stands for constants
}

// result is the output of a node, or an input of the graph.
type result struct {
	name Value
	n    int // number of elements
}

// elem is element at of the result of, or the constant c if of is 0.
type elem struct {
	of, at int32
	c      float64
}

// newCore returns a core that adds nodes to g.
func newCore(g *Graph) *Core { return &Core{g: g, values: make([]result, 1)} }

// memory is a Buffer of a Core.
type memory struct {
	core *Core
	x    []elem
}

func (m *memory) Len() int   { return len(m.x) }
func (m *memory) Bytes() int { return 4 * len(m.x) }
func (m *memory) Like(n int) tensor.Storage {
	return &memory{m.core, make([]elem, n)}
}

func (m *memory) Copy(to int, from tensor.Storage, at, n int) {
	copy(m.x[to:to+n], from.(*memory).x[at:])
}

// errReads is the reason that a mixer cannot be written.
type errReads string

const reads errReads = "it decides by its numbers which parts to compute"

func (m *memory) Read(dst []float32) {
	for i, e := range m.x {
		if e.of != 0 {
			panic(reads)
		}
		dst[i] = float32(e.c)
	}
}

func (m *memory) Write(src []float32) {
	for i, v := range src {
		m.x[i] = elem{c: float64(v)}
	}
}

// input returns memory for the elements [at, at+n) of a value with size elements.
func (c *Core) input(v Value, size, at, n int) *memory {
	c.values = append(c.values, result{v, size})
	m := &memory{c, make([]elem, n)}
	for i := range m.x {
		m.x[i] = elem{of: int32(len(c.values) - 1), at: int32(at + i)}
	}
	return m
}

// Kind returns the name of the engine.
func (c *Core) Kind() string { return "onnx" }

// Free does nothing.
func (c *Core) Free(engine.Buffer) {}

// New returns memory filled with zeros.
func (c *Core) New(n int) engine.Buffer { return &memory{c, make([]elem, n)} }

func (c *Core) of(v engine.View) []elem { return v.Of.(*memory).x }

func (c *Core) Fill(to engine.View, x float64) {
	y := c.of(to)
	each(to, func(i int) { y[i] = elem{c: x} })
}

func (c *Core) Count(to engine.View) {
	n, y := -1.0, c.of(to)
	each(to, func(i int) { n++; y[i] = elem{c: n} })
}

func (c *Core) Keep(to engine.View, seed uint64, threshold uint32) {
	n, y := -1, c.of(to)
	each(to, func(i int) {
		if n++; counter.Keep(seed, n, threshold) {
			y[i] = elem{c: 1}
		} else {
			y[i] = elem{}
		}
	})
}

func (c *Core) Affine(to, x engine.View, scale, shift float64) {
	switch {
	case scale == 1 && shift == 0:
		y, from, n := c.of(to), c.elements(x), -1
		each(to, func(i int) { n++; y[i] = from[n] })
	case scale == 1:
		c.pointwise(to, func(v float64) float64 { return v + shift }, func(v Value) Value {
			return c.g.Op("Add", v, c.g.Number(Float, shift))
		}, x)
	default:
		c.pointwise(to, func(v float64) float64 { return scale*v + shift }, func(v Value) Value {
			if v = c.g.Op("Mul", v, c.g.Number(Float, scale)); shift != 0 {
				v = c.g.Op("Add", v, c.g.Number(Float, shift))
			}
			return v
		}, x)
	}
}

// function is a function of one number, and the operator that computes it.
type function struct {
	of  func(float64) float64
	ops string
}

var functions = map[engine.Function]function{
	engine.FnExp: {math.Exp, "Exp"}, engine.FnExpm1: {math.Expm1, ""}, engine.FnLog: {math.Log, "Log"},
	engine.FnLog1p: {math.Log1p, ""}, engine.FnSqrt: {math.Sqrt, "Sqrt"}, engine.FnTanh: {math.Tanh, "Tanh"},
	engine.FnErf: {math.Erf, "Erf"}, engine.FnSin: {math.Sin, "Sin"}, engine.FnCos: {math.Cos, "Cos"},
	engine.FnAbs:        {math.Abs, "Abs"},
	engine.FnReciprocal: {func(x float64) float64 { return 1 / x }, "Reciprocal"},
	engine.FnSigmoid:    {func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, "Sigmoid"},
}

// Map expresses two functions that have no operator by formulas that are also accurate near 0:
//
//	e^x - 1 = 2t/(1-t) with t = tanh(x/2),  log(1+x) = 2 artanh(x/(2+x))
func (c *Core) Map(f engine.Function, to, x engine.View) {
	g, two := c.g, func() Value { return c.g.Number(Float, 2) }
	c.pointwise(to, functions[f].of, func(v Value) Value {
		switch f {
		case engine.FnExpm1:
			t := g.Op("Tanh", g.Op("Div", v, two()))
			return g.Op("Div", g.Op("Mul", t, two()), g.Op("Sub", g.Number(Float, 1), t))
		case engine.FnLog1p:
			return g.Op("Mul", g.Op("Atanh", g.Op("Div", v, g.Op("Add", v, two()))), two())
		}
		return g.Op(functions[f].ops, v)
	}, x)
}

func (c *Core) Zip(f engine.Operator, to, x, y engine.View) {
	var of func(a, b float64) float64
	op := map[engine.Operator]string{engine.OpPlus: "Add", engine.OpMinus: "Sub", engine.OpTimes: "Mul",
		engine.OpLess: "Less"}[f]
	neutral := 0.0
	switch f {
	case engine.OpPlus:
		of = func(a, b float64) float64 { return a + b }
	case engine.OpMinus:
		of = func(a, b float64) float64 { return a - b }
	case engine.OpTimes:
		of, neutral = func(a, b float64) float64 { return a * b }, 1
	case engine.OpLess:
		of, neutral = func(a, b float64) float64 { return bit(a < b) }, math.NaN()
	}
	if same, v := c.uniform(y); same && v == neutral {
		c.Affine(to, x, 1, 0)
		return
	}
	if same, v := c.uniform(x); same && v == neutral && f != engine.OpMinus {
		c.Affine(to, y, 1, 0)
		return
	}
	c.zip(to, of, func(a, b Value) Value {
		if v := c.g.Op(op, a, b); f != engine.OpLess {
			return v
		} else {
			return c.g.Cast(v, Float)
		}
	}, x, y)
}

func bit(x bool) float64 {
	if x {
		return 1
	}
	return 0
}

func (c *Core) Select(to, condition, x, y engine.View) {
	when, a, b := c.elements(condition), c.elements(x), c.elements(y)
	if isConstant(when) {
		z, n := c.of(to), -1
		each(to, func(i int) {
			if n++; when[n].c != 0 {
				z[i] = a[n]
			} else {
				z[i] = b[n]
			}
		})
		return
	}
	g := c.g
	c.emit(to, func(v ...Value) Value { return g.Op("Where", g.Cast(v[0], Bool), v[1], v[2]) }, condition, x, y)
}

func (c *Core) Gather(to, x engine.View, rows []int32) {
	for i, row := range rows {
		c.Affine(at(to, i), at(x, int(row)), 1, 0)
	}
}

func (c *Core) Scatter(to, x engine.View, rows []int32) {
	for i, row := range rows {
		c.Sum(at(to, int(row)), at(x, i))
	}
}

// at returns element i along the first axis.
func at(v engine.View, i int) engine.View {
	return engine.View{Of: v.Of, At: v.At + i*v.Stride[0], Shape: v.Shape[1:], Stride: v.Stride[1:]}
}

// pointwise sets to = f(x), element by element.
func (c *Core) pointwise(to engine.View, f func(float64) float64, op func(Value) Value, x engine.View) {
	c.zip(to, func(a, _ float64) float64 { return f(a) }, func(a, _ Value) Value { return op(a) }, x)
}

// zip sets to = f(x, y), or f(x, x) if there is only x.
func (c *Core) zip(to engine.View, f func(a, b float64) float64, op func(a, b Value) Value, xs ...engine.View) {
	a := c.elements(xs[0])
	b := a
	if len(xs) > 1 {
		b = c.elements(xs[1])
	}
	if isConstant(a) && isConstant(b) {
		y, n := c.of(to), -1
		each(to, func(i int) { n++; y[i] = elem{c: f(a[n].c, b[n].c)} })
		return
	}
	c.emit(to, func(v ...Value) Value { return op(v[0], v[len(v)-1]) }, xs...)
}

// emit sets to = op(xs...) by nodes. If a view repeats elements along an axis, its operand has length 1 there, as
// operators broadcast.
func (c *Core) emit(to engine.View, op func(v ...Value) Value, xs ...engine.View) {
	shape := make([]int, len(to.Shape))
	for i := range shape {
		shape[i] = 1
	}
	var operands []Value
	for _, x := range xs {
		if same, v := c.uniform(x); same {
			operands = append(operands, c.g.Number(Float, v))
			continue
		}
		x = squeezed(x)
		operands = append(operands, c.value(c.elements(x), x.Shape))
		for i, n := range x.Shape {
			shape[i] = max(shape[i], n)
		}
	}
	c.set(to, op(operands...), shape)
}

// squeezed returns x with length 1 along axes on which it repeats elements.
func squeezed(x engine.View) engine.View {
	x.Shape = slices.Clone(x.Shape)
	for i, s := range x.Stride {
		if s == 0 {
			x.Shape[i] = min(1, x.Shape[i])
		}
	}
	return x
}

// set sets the elements of to to those of a new value with the given shape. Axes of length 1 are repeated.
func (c *Core) set(to engine.View, v Value, shape []int) {
	y, id := c.of(to), int32(len(c.values))
	from := engine.View{Shape: to.Shape, Stride: make([]int, len(shape))}
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] > 1 {
			from.Stride[i] = n
		}
		n *= shape[i]
	}
	c.values = append(c.values, result{v, n})
	along(from.Shape, [3][]int{to.Stride, from.Stride, from.Stride}, [3]int{to.At}, func(p [3]int) {
		y[p[0]] = elem{of: id, at: int32(p[1])}
	})
}

// uniform reports whether all elements are the same constant, and returns it.
func (c *Core) uniform(x engine.View) (bool, float64) {
	x = squeezed(x)
	last := x.At
	for i, n := range x.Shape {
		if last += (n - 1) * x.Stride[i]; n == 0 {
			return false, 0
		}
	}
	xs := c.of(x)
	first, same := xs[x.At], xs[x.At] == xs[last] // differences mostly show here
	if same = same && first.of == 0; same {
		each(x, func(i int) { same = same && xs[i] == first })
	}
	return same, first.c
}

// elements returns the elements of a view in order.
func (c *Core) elements(x engine.View) []elem {
	from := c.of(x)
	n := 1
	for _, d := range x.Shape {
		n *= d
	}
	all := make([]elem, 0, n)
	each(x, func(i int) { all = append(all, from[i]) })
	return all
}

func isConstant(xs []elem) bool {
	return !slices.ContainsFunc(xs, func(e elem) bool { return e.of != 0 })
}

// each calls f with the index of every element of a view.
func each(v engine.View, f func(i int)) {
	along(v.Shape, [3][]int{v.Stride, v.Stride, v.Stride}, [3]int{v.At}, func(p [3]int) { f(p[0]) })
}

// along calls f for every element of a shape, with its index in three views.
func along(shape []int, strides [3][]int, p [3]int, f func(p [3]int)) {
	if len(shape) == 0 {
		f(p)
		return
	}
	rest := [3][]int{strides[0][1:], strides[1][1:], strides[2][1:]}
	for range shape[0] {
		along(shape[1:], rest, p, f)
		for k := range p {
			p[k] += strides[k][0]
		}
	}
}
