// Package onnxtest reads and executes ONNX files, slowly and strictly: types must match, names must be new, and
// operators must be among those that package onnx writes.
package onnxtest

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The data types, by their numbers in ONNX.
const (
	float   = 1
	integer = 7
	truth   = 9
	double  = 11
)

// Array is an array of numbers. All are stored as float64, rounded to the array's type.
type Array struct {
	Shape []int
	X     []float64
	typ   int
}

type graph struct {
	nodes           []node
	consts          map[string]Array
	inputs, outputs []port
}

type port struct {
	name  string
	typ   int
	shape []int // 0 for a dimension that may vary
}

type node struct {
	op      string
	in, out []string
	attrs   map[string]attr
}

type attr struct {
	i    int
	ints []int
	g    *graph
}

// Model is a decoded file.
type Model struct {
	g    *graph
	Meta map[string]string
}

// field is a field of a protocol buffer message.
type field struct {
	n protowire.Number
	i int
	b []byte
}

func fields(b []byte, visit func(f field)) {
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		check(k)
		b = b[k:]
		f := field{n: n}
		switch typ {
		case protowire.VarintType:
			v, k := protowire.ConsumeVarint(b)
			check(k)
			f.i, b = int(v), b[k:]
		case protowire.BytesType:
			v, k := protowire.ConsumeBytes(b)
			check(k)
			f.b, b = v, b[k:]
		default:
			panic(fmt.Sprintf("a field of type %d", typ))
		}
		visit(f)
	}
}

func check(n int) {
	if n < 0 {
		panic(protowire.ParseError(n))
	}
}

// Decode decodes a file.
func Decode(file []byte) *Model {
	m := &Model{Meta: map[string]string{}}
	fields(file, func(f field) {
		switch f.n {
		case 7:
			m.g = decodeGraph(f.b)
		case 14:
			var text [3]string
			fields(f.b, func(f field) { text[f.n] = string(f.b) })
			m.Meta[text[1]] = text[2]
		}
	})
	return m
}

func decodeGraph(b []byte) *graph {
	g := &graph{consts: map[string]Array{}}
	fields(b, func(f field) {
		switch f.n {
		case 1:
			g.nodes = append(g.nodes, decodeNode(f.b))
		case 5:
			name, x := decodeTensor(f.b)
			g.consts[name] = x
		case 11:
			g.inputs = append(g.inputs, decodePort(f.b))
		case 12:
			g.outputs = append(g.outputs, decodePort(f.b))
		}
	})
	return g
}

func decodeNode(b []byte) node {
	n := node{attrs: map[string]attr{}}
	fields(b, func(f field) {
		switch f.n {
		case 1:
			n.in = append(n.in, string(f.b))
		case 2:
			n.out = append(n.out, string(f.b))
		case 4:
			n.op = string(f.b)
		case 5:
			name, a := "", attr{}
			fields(f.b, func(f field) {
				switch f.n {
				case 1:
					name = string(f.b)
				case 3:
					a.i = f.i
				case 6:
					a.g = decodeGraph(f.b)
				case 8:
					a.ints = append(a.ints, f.i)
				}
			})
			n.attrs[name] = a
		}
	})
	return n
}

func decodeTensor(b []byte) (name string, x Array) {
	var raw []byte
	x.Shape = []int{}
	fields(b, func(f field) {
		switch f.n {
		case 1:
			x.Shape = append(x.Shape, f.i)
		case 2:
			x.typ = f.i
		case 8:
			name = string(f.b)
		case 9:
			raw = f.b
		}
	})
	for len(raw) > 0 {
		switch x.typ {
		case float:
			x.X, raw = append(x.X, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))), raw[4:]
		case double:
			x.X, raw = append(x.X, math.Float64frombits(binary.LittleEndian.Uint64(raw))), raw[8:]
		case integer:
			x.X, raw = append(x.X, float64(int64(binary.LittleEndian.Uint64(raw)))), raw[8:]
		case truth:
			x.X, raw = append(x.X, float64(raw[0])), raw[1:]
		}
	}
	if len(x.X) != size(x.Shape) {
		panic(fmt.Sprintf("constant %s: found %d numbers in the shape %v", name, len(x.X), x.Shape))
	}
	return name, x
}

func decodePort(b []byte) (p port) {
	fields(b, func(f field) {
		switch f.n {
		case 1:
			p.name = string(f.b)
		case 2:
			fields(f.b, func(f field) {
				fields(f.b, func(f field) {
					switch f.n {
					case 1:
						p.typ = f.i
					case 2:
						p.shape = []int{}
						fields(f.b, func(f field) {
							n := 0
							fields(f.b, func(f field) { n = f.i })
							p.shape = append(p.shape, n)
						})
					}
				})
			})
		}
	})
	return p
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
