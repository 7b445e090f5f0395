// Package onnx writes networks as ONNX files (github.com/onnx/onnx, docs/IR.md), using only the standard operators of
// opset 17.
//
// A Graph is built operator by operator. Core is an engine's core whose results are nodes of a graph. engine/compose
// computes every mixer on a core, so running a mixer once writes it as a graph: see Net.
package onnx

import (
	"fmt"
	"slices"
	"strings"
)

// Type is an element type, with its number in ONNX.
type Type int32

// Element types that this package uses.
const (
	Float  Type = 1
	Int64  Type = 7
	Bool   Type = 9
	Double Type = 11
)

// Value is the name of a value in a graph.
type Value string

// Graph is a graph of operators: a whole model, or the body of a loop. A body can also use the values of the graph
// around it.
type Graph struct {
	name   string
	around *Graph // graph around a body; nil for a model

	inputs, outputs []port
	nodes           []node
	known           map[string][]Value // outputs of existing nodes, so that equal nodes are shared

	consts []constant // constants of a model and its loops
	byData map[string]Value
}

// port is an input or an output of a graph.
type port struct {
	name  Value
	typ   Type
	shape []Dim
	doc   string
}

// Dim is a dimension of an input or output: a number, or a name if the dimension varies.
type Dim struct {
	N    int
	Name string
}

// Dims returns fixed dimensions.
func Dims(shape ...int) (dims []Dim) {
	for _, n := range shape {
		dims = append(dims, Dim{N: n})
	}
	return dims
}

type node struct {
	op      string
	in, out []Value
	attrs   []Attr
}

// Attr is an attribute of a node: an int, []int or *Graph.
type Attr struct {
	Name  string
	Value any
}

type constant struct {
	name  Value
	typ   Type
	shape []int
	raw   string // little endian
}

// New returns an empty graph for a model.
func New(name string) *Graph {
	return &Graph{name: name, known: map[string][]Value{}, byData: map[string]Value{}}
}

// body returns an empty graph inside g. The names of its values start with name.
func (g *Graph) body(name string) *Graph {
	return &Graph{name: name, around: g, known: map[string][]Value{}}
}

// inline adds the nodes of a body to g itself.
func (g *Graph) inline(b *Graph) { g.nodes = append(g.nodes, b.nodes...) }

// root returns the graph of the model.
func (g *Graph) root() *Graph {
	for g.around != nil {
		g = g.around
	}
	return g
}

// Input adds an input.
func (g *Graph) Input(name string, t Type, doc string, shape ...Dim) Value {
	g.inputs = append(g.inputs, port{Value(name), t, shape, doc})
	return Value(name)
}

// Output adds an output, which is v by another name.
func (g *Graph) Output(name string, v Value, t Type, doc string, shape ...Dim) {
	g.nodes = append(g.nodes, node{op: "Identity", in: []Value{v}, out: []Value{Value(name)}})
	g.outputs = append(g.outputs, port{Value(name), t, shape, doc})
}

// Op adds a node with one output.
func (g *Graph) Op(op string, in ...Value) Value { return g.ops(1, op, nil, in...)[0] }

// With is like Op, with attributes.
func (g *Graph) With(op string, attrs []Attr, in ...Value) Value {
	return g.ops(1, op, attrs, in...)[0]
}

// ops adds a node with n outputs, or returns the outputs of an existing node with the same operator, attributes and
// inputs.
func (g *Graph) ops(n int, op string, attrs []Attr, in ...Value) []Value {
	key := fmt.Sprint(n, op, attrs, in)
	if out, ok := g.known[key]; ok {
		return out
	}
	out := make([]Value, n)
	for i := range out {
		out[i] = Value(fmt.Sprintf("%s.%d.%s", g.name, len(g.nodes), strings.ToLower(op)))
		if i > 0 {
			out[i] += Value(fmt.Sprint(".", i))
		}
	}
	g.nodes = append(g.nodes, node{op, in, out, attrs})
	g.known[key] = out
	return out
}

// Cast returns v in another type.
func (g *Graph) Cast(v Value, t Type) Value { return g.With("Cast", []Attr{{"to", int(t)}}, v) }

// Reshape returns v with another shape, in which one dimension may be -1.
func (g *Graph) Reshape(v Value, shape ...int) Value { return g.Op("Reshape", v, g.Ints(shape...)) }

// Slice returns the elements [from, to) along an axis.
func (g *Graph) Slice(v Value, axis int, from, to Value) Value {
	return g.Op("Slice", v, from, to, g.Ints(axis))
}

// Gather returns the elements at the given places along an axis.
func (g *Graph) Gather(v Value, axis int, places ...int) Value {
	return g.With("Gather", []Attr{{"axis", axis}}, v, g.Ints(places...))
}

// Concat concatenates values along an axis.
func (g *Graph) Concat(axis int, vs ...Value) Value {
	if len(vs) == 1 {
		return vs[0]
	}
	return g.With("Concat", []Attr{{"axis", axis}}, vs...)
}

// Sum returns the sum along an axis, which is removed.
func (g *Graph) Sum(v Value, axis int) Value {
	return g.With("ReduceSum", []Attr{{"keepdims", 0}}, v, g.Ints(axis))
}

// Scan runs a body for each element along the first axis of xs. It returns the last state, and the outputs of all runs
// along a new first axis. body adds nodes to b and returns the next state and its output, both of type t.
func (g *Graph) Scan(name string, t Type, state Value, size []int, xs Value, shape []int,
	body func(b *Graph, state, x Value) (next Value, out Value)) (last, all Value) {
	b := g.body(name)
	s, x := b.Input(name+".state", t, "", Dims(size...)...), b.Input(name+".x", t, "", Dims(shape...)...)
	next, y := body(b, s, x)
	b.outputs = []port{{name: next, typ: t}, {name: y, typ: t}}
	out := g.ops(2, "Scan", []Attr{{"body", b}, {"num_scan_inputs", 1}}, state, xs)
	return out[0], out[1]
}

// Ints returns a constant vector.
func (g *Graph) Ints(x ...int) Value {
	return g.constant(Int64, []int{len(x)}, x64(x))
}

// Floats returns a constant of type Float with the given shape.
func (g *Graph) Floats(x []float64, shape ...int) Value {
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	return g.constant(Float, shape, narrow)
}

// Doubles returns a constant of type Double with the given shape.
func (g *Graph) Doubles(x []float64, shape ...int) Value { return g.constant(Double, shape, x) }

// Bools returns a constant of type Bool with the given shape.
func (g *Graph) Bools(x []bool, shape ...int) Value { return g.constant(Bool, shape, x) }

// Number returns a constant number of type Float or Double.
func (g *Graph) Number(t Type, x float64) Value {
	if t == Double {
		return g.Doubles([]float64{x})
	}
	return g.Floats([]float64{x})
}

func (g *Graph) constant(t Type, shape []int, data any) Value {
	g = g.root()
	raw := little(data)
	key := fmt.Sprint(t, shape, raw)
	v, ok := g.byData[key]
	if !ok {
		v = Value(fmt.Sprintf("constant.%d", len(g.consts)))
		g.byData[key] = v
		g.consts = append(g.consts, constant{v, t, slices.Clone(shape), raw})
	}
	return v
}

// Sort returns v sorted in ascending order along its last axis, which has n elements.
func (g *Graph) Sort(v Value, n int) Value {
	return g.ops(2, "TopK", []Attr{{"largest", 0}}, v, g.Ints(n))[0]
}
