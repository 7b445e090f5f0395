package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// ssdSequences returns SSD of h heads of p channels in g groups with n states. The inputs are x with B and C, and dt
// along the sequences, then A and D.
func ssdSequences(name string, lens []int, keeps []bool, h, p, g, n int) sequences {
	return sequences{name: "SSD/" + name, lens: lens, keeps: keeps, along: []int{h*p + 2*g*n, h},
		params: [][]int{{h}, {h}}, states: [][]int{{h, p, n}},
		of: func(input, _ int, x float64) float64 {
			switch input {
			case 1:
				return math.Log1p(math.Exp(x))
			case 2:
				return -math.Exp(x)
			}
			return x
		},
		op: func(t *autograd.Tape, u, w ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.SSD(u[0], u[1], w[0], w[1], p, g, r, slots[0])
			})
		}}
}

// The CPU's engine works in blocks of 64 positions. Without recording, it steps rows of fewer than four positions that
// have a state.
func init() {
	registerSequences(func() []sequences {
		all := []bool{true, true}
		return withBig([]sequences{
			ssdSequences("plain", []int{5, 5}, nil, 2, 3, 1, 4), ssdSequences("state", []int{5, 5}, all, 2, 3, 1, 4),
			ssdSequences("groups", []int{4}, all[:1], 4, 2, 2, 3),
			ssdSequences("blocks", []int{131}, all[:1], 2, 1, 1, 2),
			ssdSequences("blocks_from_zero", []int{66}, nil, 1, 2, 1, 1),
			ssdSequences("one_position", []int{1, 1}, all, 2, 2, 1, 3),
			ssdSequences("ages", []int{1, 70, 2, 1, 6}, []bool{true, true, true, false, false}, 2, 2, 1, 2),
		}, ssdSequences("equal", []int{150, 150}, all, 6, 20, 1, 24),
			ssdSequences("mixed", []int{1, 150, 3, 1, 33, 64, 1, 2},
				[]bool{true, true, true, false, false, true, true, true}, 6, 20, 2, 24))
	})
}
