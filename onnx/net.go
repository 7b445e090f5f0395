package onnx

import (
	"fmt"
	"reflect"

	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// Net writes a network whose input is numbers into graphs.
type Net struct {
	net   *model.Network
	core  *Core
	State []Part // state of a sequence, all zeros before its first position
}

// Part is a part of a state.
type Part struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// NewNet returns a Net for a network, which must not be used afterwards. It returns an error if the network cannot be
// written.
func NewNet(net *model.Network) (*Net, error) {
	if err := unfit(net); err != nil {
		return nil, err
	}
	n := &Net{net: net, core: newCore(nil)}
	net.Use(compose.Backend{Core: n.core})
	n.state(net.NewState(), func(name string, x *tensor.Tensor) {
		n.State = append(n.State, Part{name, x.Shape()})
	})
	return n, nil
}

// unfit returns an error if the configuration of a network shows that the network cannot be written.
func unfit(net *model.Network) error {
	for i, b := range net.Blocks {
		traits := b.Mixer.Traits()
		why := ""
		switch {
		case traits.LooksAhead:
			why = "looks ahead and has no state"
		case traits.ByPosition:
			why = "computes the first position in another way"
		case traits.Growth > 0:
			why = "keeps earlier positions in its state"
		}
		if why != "" {
			return errLayer(i, b.Kind, why)
		}
	}
	if ok, i, kind := net.Recurrent(); !ok {
		return errLayer(i, kind, "keeps earlier positions in its state")
	}
	switch c := net.Config; {
	case c.Steps:
		return fmt.Errorf("onnx: found recurrences that go by the time between rows (--dt steps), want --dt input")
	case c.Channels == 0 || c.Pairs:
		return fmt.Errorf("onnx: found a network of tokens or of pairs of sequences, want one of rows of numbers")
	case net.Positions != nil:
		return fmt.Errorf("onnx: found learned positions, want a network without them")
	}
	return nil
}

func errLayer(i int, kind, why string) error {
	return fmt.Errorf("onnx: layer %d: found the mixer %s, which %s; want one with a state of a fixed size, such as "+
		"s4d, h3 or mamba", i, kind, why)
}

// Size returns the number of elements of a state.
func (n *Net) Size() (size int) {
	for _, p := range n.State {
		l := 1
		for _, d := range p.Shape {
			l *= d
		}
		size += l
	}
	return size
}

// Hidden returns the width of the outputs of Advance and All: the number of outputs, or d_model before the head.
func (n *Net) Hidden() int {
	if n.net.Config.Everywhere {
		return n.net.Config.Outputs
	}
	return n.net.Config.Model.DModel
}

// state visits the tensors of a state that are passed from step to step.
func (n *Net) state(s *model.State, visit func(name string, x *tensor.Tensor)) {
	s.Tensors(func(name string, x *tensor.Tensor) {
		if name != model.PositionName {
			visit(name, x)
		}
	})
}

// Advance adds the next l positions to g. It takes rows (l, channels) and a state (Size), and returns the next state
// and the outputs at each position, or the output of the backbone if the network has one output for a sequence. Both
// are of type Float.
func (n *Net) Advance(g *Graph, l int, rows, state Value) (next, out Value, err error) {
	var bodies [2]*Graph
	for i := range bodies { // at two positions of a sequence, to see whether they matter
		bodies[i] = g.root().body(g.name + ".net")
		if next, out, err = n.trace(bodies[i], i*(l+6), l, rows, state); err != nil {
			return "", "", err
		}
	}
	if !reflect.DeepEqual(bodies[0].nodes, bodies[1].nodes) {
		return "", "", fmt.Errorf("onnx: found layers %s, one of which computes by the place of a row in its "+
			"sequence; want such as s4d, h3 or mamba", n.net.Config.Model.Layers)
	}
	g.inline(bodies[0])
	return next, out, nil
}

// trace runs the network over l positions, starting at position at.
func (n *Net) trace(g *Graph, at, l int, rows, state Value) (next, out Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(errReads)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("onnx: found layers %s, of which one cannot be written: %v", n.net.Config.Model.Layers, e)
		}
	}()
	n.core.g = g
	t, channels := n.net.NewTape(), n.net.Config.Channels
	x := tensor.Stored(n.core.input(rows, l*channels, 0, l*channels), l, channels)
	s, from := n.net.NewState(), 0
	s.Position = at
	n.state(s, func(_ string, x *tensor.Tensor) {
		x.SetStorage(n.core.input(state, n.Size(), from, x.Len()))
		from += x.Len()
	})
	y := n.net.Advance(t, x, s)
	if n.net.Config.Everywhere {
		y = n.net.Output(t, y)
	}
	var after []elem
	n.state(s, func(_ string, x *tensor.Tensor) { after = append(after, x.Storage().(*memory).x...) })
	return n.core.value(after, []int{len(after)}), n.of(y), nil
}

// of returns the value of a tensor.
func (n *Net) of(x *tensor.Tensor) Value { return n.core.value(x.Storage().(*memory).x, x.Shape()) }

// Head adds the head to g: it takes x (1, d_model) and returns (1, outputs).
func (n *Net) Head(g *Graph, x Value) Value {
	n.core.g = g
	d := n.net.Config.Model.DModel
	return n.of(n.net.Output(n.net.NewTape(), tensor.Stored(n.core.input(x, d, 0, d), 1, d)))
}

// chunk is the number of positions that All computes at a time. The kernel of a chunk is a constant in the file.
const chunk = 32

// All adds a whole sequence to g. It takes rows (any length, channels) and returns for each position what Advance
// returns. It processes the sequence in chunks. The last chunk is padded with zeros, which do not affect earlier
// positions.
func (n *Net) All(g *Graph, rows Value) (out Value, err error) {
	channels, size := n.net.Config.Channels, n.Size()
	length := g.Slice(g.Op("Shape", rows), 0, g.Ints(0), g.Ints(1))
	t := g.Ints(chunk)
	count := g.Op("Div", g.Op("Add", length, g.Ints(chunk-1)), t)
	more := g.Op("Sub", g.Op("Mul", count, t), length)
	rows = g.Op("Pad", rows, g.Concat(0, g.Ints(0, 0), more, g.Ints(0)))
	rows = g.Reshape(rows, -1, chunk, channels)
	_, all := g.Scan("chunk", Float, g.Floats(make([]float64, size), size), []int{size}, rows, []int{chunk, channels},
		func(b *Graph, state, x Value) (next, y Value) {
			next, y, err = n.Advance(b, chunk, x, state)
			return next, y
		})
	return g.Slice(g.Reshape(all, -1, n.Hidden()), 0, g.Ints(0), length), err
}
