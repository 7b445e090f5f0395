package model

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
)

// TestLayerByLayer checks that Layer for each layer, and Rest from any layer on, return what Forward does, also if
// layers hand on values outside the stream.
func TestLayerByLayer(t *testing.T) {
	for _, layers := range []string{composed, mixtures, handing, "h3," + handing} {
		m, ids := hybrid(t, layers), text(1, 40)
		tape, rows := autograd.NewTape(cpu.Backend{}), EqualRows(2, 20)
		want := read(m.Forward(tape, ids, EqualRows(2, 20)))
		first := m.Embed(tape, ids, rows)
		x := first
		for i := range m.Blocks {
			near(t, "hidden states of the rest", read(m.Rest(tape, i, x, first, EqualRows(2, 20))), want, 1e-5)
			x = m.Layer(tape, i, x, first, EqualRows(2, 20))
		}
		near(t, "hidden states", read(m.End(tape, nil, x)), want, 1e-5)
	}
	if hybrid(t, composed).Shares() || !hybrid(t, mixtures).Shares() || !hybrid(t, handing).Shares() {
		t.Error("layers share blocks, or hand something on: found something else")
	}
	defer func() {
		if recover() == nil {
			t.Error("the rest of the layers with a state: no panic")
		}
	}()
	m := hybrid(t, handing)
	tape := autograd.NewTape(cpu.Backend{})
	first := m.Embed(tape, text(1, 4), EqualRows(1, 4))
	m.Rest(tape, 2, first, first, OneRow(4, m.NewState()))
}
