package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// mlstmSequences returns MLSTM of h heads. Input gates are about as often above the kept maximum as below, and ε is
// large enough that its part of the gradient of m counts.
func mlstmSequences(name string, lens []int, keeps []bool, h, dk, dv int) sequences {
	unit := 1 / math.Sqrt(float64(dk))
	return sequences{name: "MLSTM/" + name, lens: lens, keeps: keeps, along: []int{h * dk, h * dk, h * dv, h, h},
		states: [][]int{{h, dk, dv}, {h, dk}, {h}},
		of: func(input, _ int, x float64) float64 {
			switch {
			case input < 2:
				return 2 * unit * x
			case input == 4:
				return -0.3 * math.Exp(x)
			}
			return x
		},
		op: func(t *autograd.Tape, u, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 3, func(slots []engine.Slots) *tensor.Tensor {
				return t.MLSTM(engine.MLSTM{Q: u[0], K: u[1], V: u[2], I: u[3], F: u[4], Heads: h, Eps: 0.2}, r,
					engine.MLSTMSlots{C: slots[0], N: slots[1], M: slots[2]})
			})
		}}
}

// The CPU's engine works in chunks of 64 positions. Without recording, it steps rows of up to eight positions that have
// a state.
func init() {
	registerSequences(func() []sequences {
		all := []bool{true, true}
		return withBig([]sequences{
			mlstmSequences("plain", []int{5, 5}, nil, 2, 3, 4), mlstmSequences("state", []int{5, 5}, all, 2, 3, 2),
			mlstmSequences("chunks", []int{131}, all[:1], 2, 2, 1),
			mlstmSequences("chunks_from_zero", []int{66}, nil, 1, 2, 3),
			mlstmSequences("one_position", []int{1, 1}, all, 2, 3, 2),
			mlstmSequences("ages", []int{1, 70, 2, 1, 6}, []bool{true, true, true, false, false}, 2, 2, 2),
		}, mlstmSequences("equal", []int{150, 150}, all, 6, 24, 20),
			mlstmSequences("mixed", []int{1, 150, 3, 1, 33, 64, 1, 2},
				[]bool{true, true, true, false, false, true, true, true}, 6, 20, 24))
	})
}
