package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// causalConvSequences returns CausalConv of d channels with k taps.
func causalConvSequences(name string, lens []int, keeps []bool, d, k int, bias bool, a engine.Activation) sequences {
	params := [][]int{{d, 1, k}, {d}}
	if !bias {
		params = params[:1]
	}
	return sequences{name: "CausalConv/" + name, lens: lens, keeps: keeps, along: []int{d}, params: params,
		states: [][]int{{k - 1, d}},
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			var b *tensor.Tensor
			if bias {
				b = p[1]
			}
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.CausalConv(u[0], p[0], b, a, r, slots[0])
			})
		}}
}

// inColumns returns s with an input that is a part of another tensor.
func inColumns(s sequences) sequences {
	op, d := s.op, s.along[0]
	s.along = []int{d + 5}
	s.op = func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		return op(t, t.Columns(u[0], 2, d, 3)[1:2], p, r, states)
	}
	return s
}

func init() {
	registerSequences(func() []sequences {
		all := []bool{true, true}
		lens, few := []int{1, 9, 2, 1, 3}, []bool{true, false, true, false, true}
		equal := causalConvSequences("equal", []int{700, 700}, all, 128, 4, true, engine.SiLU)
		mixed := causalConvSequences("mixed", []int{1, 700, 3, 90, 1, 2, 600}, repeated(7, few), 128, 4, true,
			engine.SiLU)
		biasless := causalConvSequences("biasless", mixed.lens, mixed.keeps, 128, 4, false, engine.None)
		wide := inColumns(equal)
		one := causalConvSequences("one", equal.lens, nil, 128, 1, true, engine.SiLU)
		short := causalConvSequences("short", repeated(300, []int{1, 1, 5}), repeated(300, few), 128, 4, true,
			engine.SiLU)
		build := func(name string, lens []int, keeps []bool, k int, a engine.Activation, big *sequences) sequences {
			s := causalConvSequences(name, lens, keeps, 3, k, len(big.params) == 2, a)
			s.big = big
			return s
		}
		return []sequences{
			build("plain", []int{6, 6}, nil, 4, engine.SiLU, &equal),
			build("state", []int{6, 6}, all, 4, engine.SiLU, &equal),
			build("shorter_than_the_taps", []int{2, 2}, all, 4, engine.None, &biasless),
			build("one_tap", []int{3}, nil, 1, engine.SiLU, &one),
			build("one_position", []int{1}, all[:1], 4, engine.SiLU, &short),
			inColumns(build("columns", lens, few, 4, engine.SiLU, &wide)),
			build("ages", lens, few, 4, engine.SiLU, &mixed),
		}
	})
}
