package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// shiftSequences returns ShiftSSM of d channels and n places.
func shiftSequences(name string, lens []int, keeps []bool, d, n int) sequences {
	s := sequences{name: "ShiftSSM/" + name, lens: lens, keeps: keeps, along: []int{d},
		params: [][]int{{d, n}, {d, n}, {d}}, states: [][]int{{d, n}}}
	s.op = func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
			return t.ShiftSSM(u[0], p[0], p[1], p[2], r, slots[0])
		})
	}
	return s
}

func init() {
	registerSequences(func() []sequences {
		big := shiftSequences("large", []int{256, 256, 1, 200, 311}, []bool{true, false, true, true, true}, 128, 32)
		all := []sequences{
			shiftSequences("plain", []int{9, 9}, nil, 3, 4), shiftSequences("short", []int{2}, nil, 3, 5),
			shiftSequences("state", []int{9, 9}, []bool{true, true}, 3, 4),
			shiftSequences("state_one", []int{1}, []bool{true}, 2, 4),
			shiftSequences("ages", []int{1, 9, 1, 3}, []bool{true, true, false, true}, 3, 4),
		}
		for i := range all {
			all[i].big = &big
		}
		return all
	})
}
