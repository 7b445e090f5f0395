package onnx

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Versions of the format: its encoding (IR) and its operators.
const (
	irVersion = 8
	opset     = 17
)

// little returns data in little endian.
func little(data any) string {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, data); err != nil { // data is a slice of numbers
		panic(err)
	}
	return b.String()
}

func x64(x []int) []int64 {
	y := make([]int64, len(x))
	for i, v := range x {
		y[i] = int64(v)
	}
	return y
}

// message is a protocol buffer message. Its field numbers are those of onnx.proto.
type message []byte

func (m *message) number(field protowire.Number, x int) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(x))
}

func (m *message) text(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) sub(field protowire.Number, sub message) { m.text(field, string(sub)) }

// Meta is an entry of a model's metadata.
type Meta struct{ Name, Text string }

// Encode returns the model as the content of an ONNX file: a ModelProto.
func (g *Graph) Encode(doc string, meta ...Meta) []byte {
	var m, set message
	m.number(1, irVersion)
	m.text(2, "hippo")
	m.text(6, doc)
	m.sub(7, g.proto())
	set.text(1, "")
	set.number(2, opset)
	m.sub(8, set)
	for _, x := range meta {
		var entry message
		entry.text(1, x.Name)
		entry.text(2, x.Text)
		m.sub(14, entry)
	}
	return m
}

// proto returns the graph as a GraphProto.
func (g *Graph) proto() (m message) {
	for _, n := range g.nodes {
		m.sub(1, n.proto())
	}
	m.text(2, g.name)
	for _, c := range g.consts {
		m.sub(5, c.proto())
	}
	for _, p := range g.inputs {
		m.sub(11, p.proto())
	}
	for _, p := range g.outputs {
		m.sub(12, p.proto())
	}
	return m
}

// proto returns the node as a NodeProto.
func (n *node) proto() (m message) {
	for _, v := range n.in {
		m.text(1, string(v))
	}
	for _, v := range n.out {
		m.text(2, string(v))
	}
	m.text(3, string(n.out[0]))
	m.text(4, n.op)
	for _, a := range n.attrs {
		m.sub(5, a.proto())
	}
	return m
}

// proto returns the attribute as an AttributeProto.
func (a Attr) proto() (m message) {
	m.text(1, a.Name)
	switch x := a.Value.(type) {
	case int:
		m.number(3, x)
		m.number(20, 2) // type INT
	case []int:
		for _, v := range x {
			m.number(8, v)
		}
		m.number(20, 7) // type INTS
	case *Graph:
		m.sub(6, x.proto())
		m.number(20, 5) // type GRAPH
	default:
		panic(fmt.Sprintf("onnx: an attribute of %T", x))
	}
	return m
}

// proto returns the constant as a TensorProto.
func (c *constant) proto() (m message) {
	for _, n := range c.shape {
		m.number(1, n)
	}
	m.number(2, int(c.typ))
	m.text(8, string(c.name))
	m.text(9, c.raw)
	return m
}

// proto returns the port as a ValueInfoProto. The shapes of outputs of a loop's body are left to be inferred.
func (p *port) proto() (m message) {
	var shape, tensor, typ message
	for _, d := range p.shape {
		var dim message
		if d.Name != "" {
			dim.text(2, d.Name)
		} else {
			dim.number(1, d.N)
		}
		shape.sub(1, dim)
	}
	tensor.number(1, int(p.typ))
	if p.shape != nil {
		tensor.sub(2, shape)
	}
	typ.sub(1, tensor)
	m.text(1, string(p.name))
	m.sub(2, typ)
	if p.doc != "" {
		m.text(3, p.doc)
	}
	return m
}
