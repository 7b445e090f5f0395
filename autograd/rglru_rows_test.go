package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// rglruSequences returns RGLRU of d channels. Gates are between 0 and 1, and Λ is such that states last.
func rglruSequences(name string, lens, starts []int, keeps []bool, d int) sequences {
	return sequences{name: "RGLRU/" + name, lens: lens, starts: starts, keeps: keeps, along: []int{d, d, d},
		params: [][]int{{d}}, states: [][]int{{d}},
		of: func(input, _ int, x float64) float64 {
			switch input {
			case 1, 2:
				return 1 / (1 + math.Exp(-x))
			case 3:
				return x - 3
			}
			return x
		},
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.RGLRU(u[0], u[1], u[2], p[0], r, slots[0])
			})
		}}
}

func init() {
	registerSequences(func() []sequences {
		all, few := []bool{true, true}, []bool{true, false, true, true, false}
		return withBig([]sequences{
			rglruSequences("plain", []int{5, 5}, nil, nil, 3), rglruSequences("state", []int{4, 4}, []int{0, 7}, all,
				3),
			rglruSequences("slabs", []int{3}, []int{2}, all[:1], 67),
			rglruSequences("one", []int{1}, []int{9}, all[:1], 3),
			rglruSequences("first", []int{1, 2}, nil, all, 3),
			rglruSequences("ages", []int{1, 3, 5, 3, 1}, []int{4, 0, 0, 1, 2}, few, 3),
		}, rglruSequences("equal", []int{90, 90}, nil, nil, 300),
			rglruSequences("mixed", []int{1, 90, 3, 33, 64}, []int{4, 0, 0, 1, 2}, few, 300))
	})
}
