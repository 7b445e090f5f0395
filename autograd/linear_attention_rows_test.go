package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// linearSequences returns LinearAttention with a feature map.
func linearSequences(name string, phi engine.FeatureMap, lens []int, keeps []bool, heads, e, m int) sequences {
	s := sequences{name: "LinearAttention/" + name, lens: lens, keeps: keeps,
		along: []int{heads * e, heads * e, heads * m}, states: [][]int{{heads, e, m}, {heads, e}}}
	s.of = func(input, i int, x float64) float64 { // keep denominators away from zero
		if input >= 3 && (input-3)%2 == 1 {
			return x / 5
		}
		return x
	}
	s.op = func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		return withSlots(states, 2, func(slots []engine.Slots) *tensor.Tensor {
			o := engine.LinearOptions{Heads: heads, Phi: phi, Eps: 0.5}
			return t.LinearAttention(u[0], u[1], u[2], o, r, slots[0], slots[1])
		})
	}
	return s
}

// The rows cover every feature map, with and without states. The CPU's engine works in chunks of 64 positions.
func init() {
	registerSequences(func() []sequences {
		one, both, some := []bool{true}, []bool{true, true}, []bool{true, false, true, true}
		all := []sequences{
			linearSequences("elu1", engine.ELU1, []int{7, 7}, nil, 2, 3, 4),
			linearSequences("relu", engine.ReLU, []int{5}, nil, 1, 4, 3),
			linearSequences("relu2", engine.ReLU2, []int{5}, nil, 1, 4, 3),
			linearSequences("softplus", engine.PhiSoftplus, []int{5}, nil, 2, 4, 3),
			linearSequences("two_chunks", engine.ELU1, []int{67}, nil, 1, 2, 1),
			linearSequences("state", engine.ELU1, []int{3, 3}, both, 2, 3, 4),
			linearSequences("state_two_chunks", engine.ReLU, []int{66}, one, 1, 2, 1),
			linearSequences("state_one", engine.ELU1, []int{1}, one, 2, 2, 2),
			linearSequences("ages", engine.ELU1, []int{3, 1, 66, 1}, some, 2, 2, 2),
		}
		for i := range all {
			s, heads := &all[i], all[i].states[0][0]
			big := linearSequences("large", engine.ELU1, []int{150, 150, 150}, nil, heads, 24, 20)
			switch {
			case s.name == "LinearAttention/ages":
				big = linearSequences("large", engine.ELU1, []int{150, 1, 64, 200, 1},
					[]bool{true, true, false, true, true}, heads, 24, 20)
			case s.keeps != nil:
				big = linearSequences("large", engine.ELU1, []int{150, 150, 150},
					[]bool{true, true, true}, heads, 24, 20)
			}
			big.of = s.of
			s.big = &big
		}
		return all
	})
}
