package onnxtest

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Zeros returns an array of zeros for an input.
func (m *Model) Zeros(input string) Array {
	for _, p := range m.g.inputs {
		if p.name == input {
			return Array{Shape: p.shape, X: make([]float64, size(p.shape))}
		}
	}
	panic("no input " + input)
}

// Run computes the outputs of a model. It panics if the model is not valid.
func (m *Model) Run(inputs map[string]Array) map[string]Array {
	scope := maps.Clone(m.g.consts)
	if len(inputs) != len(m.g.inputs) {
		panic(fmt.Sprintf("found %d inputs, want %v", len(inputs), m.g.inputs))
	}
	for _, p := range m.g.inputs {
		x := inputs[p.name]
		x.typ = p.typ
		for i, n := range p.shape {
			if len(x.Shape) != len(p.shape) || n != 0 && x.Shape[i] != n {
				panic(fmt.Sprintf("input %s: found the shape %v, want %v", p.name, x.Shape, p.shape))
			}
		}
		scope[p.name] = rounded(x)
	}
	out := m.g.run(scope)
	for i, p := range m.g.outputs {
		x := out[i]
		fits := x.typ == p.typ && len(x.Shape) == len(p.shape)
		for k, n := range p.shape {
			fits = fits && (n == 0 || n == x.Shape[k])
		}
		if !fits {
			panic(fmt.Sprintf("output %s: found %d %v, want %d %v", p.name, x.typ, x.Shape, p.typ, p.shape))
		}
	}
	all := map[string]Array{}
	for i, p := range m.g.outputs {
		all[p.name] = out[i]
	}
	return all
}

// run executes a graph and adds its results to scope.
func (g *graph) run(scope map[string]Array) (out []Array) {
	for _, n := range g.nodes {
		var in []Array
		for _, name := range n.in {
			x, ok := scope[name]
			if !ok {
				panic(fmt.Sprintf("%s %s: found no value %s", n.op, n.out, name))
			}
			in = append(in, x)
		}
		for i, y := range n.compute(in, scope) {
			if _, there := scope[n.out[i]]; there {
				panic("two values are called " + n.out[i])
			}
			if len(y.X) != size(y.Shape) {
				panic(fmt.Sprintf("%s %s: %d numbers in the shape %v", n.op, n.out, len(y.X), y.Shape))
			}
			scope[n.out[i]] = rounded(y)
		}
	}
	for _, p := range g.outputs {
		x, ok := scope[p.name]
		if !ok {
			panic("found no output " + p.name)
		}
		out = append(out, x)
	}
	return out
}

// rounded rounds an array to its type.
func rounded(x Array) Array {
	if x.typ != float {
		return x
	}
	y := make([]float64, len(x.X))
	for i, v := range x.X {
		y[i] = float64(float32(v))
	}
	x.X = y
	return x
}

var unary = map[string]func(float64) float64{
	"Exp": math.Exp, "Log": math.Log, "Sqrt": math.Sqrt, "Tanh": math.Tanh, "Atanh": math.Atanh, "Erf": math.Erf,
	"Sin": math.Sin, "Cos": math.Cos, "Abs": math.Abs, "Identity": func(x float64) float64 { return x },
	"Reciprocal": func(x float64) float64 { return 1 / x },
	"Sigmoid":    func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"IsNaN":      func(x float64) float64 { return bit(x != x) }, "Not": func(x float64) float64 { return 1 - x },
}

var binary2 = map[string]func(a, b float64) float64{
	"Add": func(a, b float64) float64 { return a + b }, "Sub": func(a, b float64) float64 { return a - b },
	"Mul": func(a, b float64) float64 { return a * b }, "Div": func(a, b float64) float64 { return a / b },
	"Max": math.Max, "Min": math.Min, "Less": func(a, b float64) float64 { return bit(a < b) },
	"Greater": func(a, b float64) float64 { return bit(a > b) },
	"Equal":   func(a, b float64) float64 { return bit(a == b) },
}

func bit(x bool) float64 {
	if x {
		return 1
	}
	return 0
}

func (n *node) compute(in []Array, scope map[string]Array) []Array {
	one := func(typ int, shape []int, x []float64) []Array { return []Array{{shape, x, typ}} }
	typ := 0
	if len(in) > 0 {
		typ = in[0].typ
	}
	if f := unary[n.op]; f != nil {
		y := make([]float64, len(in[0].X))
		for i, v := range in[0].X {
			y[i] = f(v)
		}
		if n.op == "IsNaN" {
			typ = truth
		}
		return one(typ, in[0].Shape, y)
	}
	if f := binary2[n.op]; f != nil {
		if in[0].typ != in[1].typ {
			panic(fmt.Sprintf("%s %s of types %d and %d", n.op, n.out, in[0].typ, in[1].typ))
		}
		y := broadcast(func(v []float64) float64 { return f(v[0], v[1]) }, in...)
		if typ == integer && n.op == "Div" {
			for i := range y.X {
				y.X[i] = math.Trunc(y.X[i])
			}
		}
		if y.typ = typ; slices.Contains([]string{"Less", "Greater", "Equal"}, n.op) {
			y.typ = truth
		}
		return []Array{y}
	}
	x := in[0]
	switch n.op {
	case "Where":
		if x.typ != truth || in[1].typ != in[2].typ {
			panic(fmt.Sprintf("Where %s of types %d, %d, %d", n.out, x.typ, in[1].typ, in[2].typ))
		}
		y := broadcast(func(v []float64) float64 {
			if v[0] != 0 {
				return v[1]
			}
			return v[2]
		}, in...)
		y.typ = in[1].typ
		return []Array{y}
	case "Cast":
		y := slices.Clone(x.X)
		for i, v := range y {
			if n.attrs["to"].i == truth {
				y[i] = bit(v != 0)
			}
		}
		return one(n.attrs["to"].i, x.Shape, y)
	case "Shape":
		var y []float64
		for _, d := range x.Shape {
			y = append(y, float64(d))
		}
		return one(integer, []int{len(y)}, y)
	case "Reshape":
		return one(typ, reshaped(len(x.X), in[1].ints()), x.X)
	case "Transpose":
		return []Array{x.transposed(n.attrs["perm"].ints)}
	case "Slice":
		return []Array{x.sliced(in[1].ints(), in[2].ints(), in[3].ints())}
	case "Gather":
		return []Array{x.gathered(n.attrs["axis"].i, in[1])}
	case "Concat":
		return []Array{concat(n.attrs["axis"].i, in)}
	case "Pad":
		return []Array{x.padded(in[1].ints())}
	case "MatMul":
		if x.typ != in[1].typ {
			panic("MatMul of two types")
		}
		return []Array{product(x, in[1])}
	case "Conv":
		return []Array{conv(x, in[1], n.attrs["strides"].ints[0])}
	case "ReduceSum", "ReduceMax", "ReduceMean":
		axes := n.attrs["axes"].ints
		if n.op == "ReduceSum" {
			axes = in[1].ints()
		}
		return []Array{x.reduced(n.op, axes[0], n.attrs["keepdims"].i != 0)}
	case "Softmax":
		return []Array{x.rows(func(row []float64) {
			top, sum := slices.Max(row), 0.0
			for i := range row {
				row[i] = math.Exp(row[i] - top)
				sum += row[i]
			}
			for i := range row {
				row[i] /= sum
			}
		})}
	case "ArgMax":
		shape, last := x.Shape[:len(x.Shape)-1], x.Shape[len(x.Shape)-1]
		var y []float64
		for i := range size(shape) {
			row := x.X[i*last : (i+1)*last]
			y = append(y, float64(slices.Index(row, slices.Max(row))))
		}
		return one(integer, shape, y)
	case "TopK":
		if in[1].ints()[0] != x.Shape[len(x.Shape)-1] || n.attrs["largest"].i != 0 {
			panic("TopK does not sort")
		}
		return []Array{x.rows(slices.Sort[[]float64]), {Shape: []int{0}}}
	case "Scan":
		return n.scan(in, scope)
	}
	panic("no operator " + n.op)
}

// scan runs the body of a node over its second input.
func (n *node) scan(in []Array, outer map[string]Array) []Array {
	state, xs, g := in[0], in[1], n.attrs["body"].g
	all := Array{Shape: nil}
	for i := range xs.Shape[0] {
		scope := maps.Clone(outer)
		x := xs.gathered(0, Array{Shape: []int{}, X: []float64{float64(i)}})
		for k, v := range []Array{state, x} {
			if p := g.inputs[k]; p.typ != v.typ || !slices.Equal(p.shape, v.Shape) {
				panic(fmt.Sprintf("Scan: found %d %v, want %d %v", v.typ, v.Shape, p.typ, p.shape))
			}
			scope[g.inputs[k].name] = v
		}
		out := g.run(scope)
		state = out[0]
		all.typ, all.Shape = out[1].typ, append([]int{xs.Shape[0]}, out[1].Shape...)
		all.X = append(all.X, out[1].X...)
	}
	return []Array{state, all}
}
