package mixer

import (
	"math"
	"testing"
)

// TestS4LayerGate checks that the output is a·sigmoid(g) of the two halves of the linear map, and the linear map itself
// without a gate.
func TestS4LayerGate(t *testing.T) {
	const a, g = 2.5, -0.5
	for gate, want := range map[string]float64{"true": a / (1 + math.Exp(-g)), "false": a} {
		m := variant{build: S4DInfo.New, cfg: Config{DState: 6, Options: Options{"gate": gate}}}.mixer(t).(*S4D)
		clear(m.Out.Weight.Data())
		bias := m.Out.Bias.Data()
		for i := range bias {
			bias[i] = a
			if i >= dModel {
				bias[i] = g
			}
		}
		for i, y := range read(m.Forward(newTape(), sequences(1, 2, 7), equalRows(2, 7))) {
			if math.Abs(float64(y)-want) > 1e-6 {
				t.Fatalf("gate=%s: y[%d] = %v, want %v", gate, i, y, want)
			}
		}
	}
}
