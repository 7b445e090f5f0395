package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// scanSequences returns SelectiveScan of d channels in g groups with n states. Δ is the softplus of random numbers and
// A minus their exponential, as in a new Mamba.
func scanSequences(name string, lens []int, keeps []bool, d, g, n int) sequences {
	return sequences{name: "SelectiveScan/" + name, lens: lens, keeps: keeps, along: []int{d, d, 2 * g * n},
		params: [][]int{{d, n}, {d}}, states: [][]int{{d, n}},
		of: func(input, _ int, x float64) float64 {
			switch input {
			case 1:
				return math.Log1p(math.Exp(x))
			case 3:
				return -math.Exp(x)
			}
			return x
		},
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.SelectiveScan(u[0], u[1], p[0], u[2], p[1], g, r, slots[0])
			})
		}}
}

// complexScanSequences returns SelectiveScanComplex. A is near zero, so that states last.
func complexScanSequences(name string, lens []int, keeps []bool, d, g, n int) sequences {
	return sequences{name: "SelectiveScanComplex/" + name, lens: lens, keeps: keeps, along: []int{d, d, 4 * g * n},
		params: [][]int{{d, n, 2}, {d}}, states: [][]int{{d, n, 2}},
		of: func(input, i int, x float64) float64 {
			switch {
			case input == 1:
				return math.Log1p(math.Exp(x))
			case input == 3 && i%2 == 0: // real part
				return -math.Abs(x) / 5
			case input == 3:
				return x / 5
			}
			return x
		},
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.SelectiveScanComplex(u[0], u[1], p[0], u[2], p[1], g, r, slots[0])
			})
		}}
}

// withBig sets the large shapes of the operations: those of mixed for the last half, and those of equal, whose rows
// have equal lengths, for the others.
func withBig(all []sequences, equal, mixed sequences) []sequences {
	for i := range all {
		all[i].big = &equal
		if i >= len(all)/2 {
			all[i].big = &mixed
		}
	}
	return all
}

// The CPU's engine processes a row in chunks of 32 positions, and gives each task 128 channels of a group. Without
// recording, it steps rows of fewer than four positions that have a state.
func init() {
	registerSequences(func() []sequences {
		all := []bool{true, true}
		return withBig([]sequences{
			scanSequences("plain", []int{5, 5}, nil, 3, 1, 2), scanSequences("state", []int{5, 5}, all, 3, 1, 2),
			scanSequences("chunks", []int{67}, all[:1], 2, 1, 3), scanSequences("slabs", []int{2}, all[:1], 131, 1, 2),
			scanSequences("groups", []int{4, 4}, all, 6, 3, 2),
			scanSequences("one_position", []int{1}, all[:1], 3, 1, 2),
			scanSequences("ages", []int{1, 35, 2, 1, 6}, []bool{true, true, true, false, false}, 3, 1, 2),
		}, scanSequences("equal", []int{90, 90}, all, 300, 2, 16),
			scanSequences("mixed", []int{1, 90, 3, 1, 33, 64, 1, 2},
				[]bool{true, true, true, false, false, true, true, true}, 300, 1, 16))
	})
	registerSequences(func() []sequences {
		all := []bool{true, true}
		return withBig([]sequences{
			complexScanSequences("plain", []int{5, 5}, nil, 3, 1, 2),
			complexScanSequences("state", []int{5, 5}, all, 3, 1, 2),
			complexScanSequences("chunks_groups", []int{35}, all[:1], 4, 2, 1),
			complexScanSequences("one_position", []int{1}, all[:1], 3, 1, 2),
			complexScanSequences("ages", []int{1, 35, 2}, []bool{true, false, true}, 3, 1, 2),
		}, complexScanSequences("equal", []int{70, 70}, all, 300, 2, 8),
			complexScanSequences("mixed", []int{1, 90, 3, 1, 33}, []bool{true, true, true, false, false}, 300, 1, 8))
	})
}
