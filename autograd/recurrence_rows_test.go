package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// recurrenceSequences returns Recurrence of n components, some of them linear. With an R of 128 × 128 numbers of this
// size, states neither grow nor fade.
func recurrenceSequences(name string, lens []int, keeps []bool, n, linear int) sequences {
	return sequences{name: "Recurrence/" + name, lens: lens, keeps: keeps, along: []int{n}, params: [][]int{{n, n}},
		states: [][]int{{n}},
		of: func(input, _ int, x float64) float64 {
			if input == 1 {
				return 0.12 * x
			}
			return x
		},
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.Recurrence(u[0], p[0], n-linear, r, slots[0])
			})
		}}
}

func init() {
	registerSequences(func() []sequences {
		all, few := []bool{true, true}, []bool{true, true, false, false, true}
		return withBig([]sequences{
			recurrenceSequences("tanh", []int{5, 5}, nil, 3, 0), recurrenceSequences("state", []int{4, 4}, all, 3, 0),
			recurrenceSequences("part_linear", []int{4}, all[:1], 5, 3),
			recurrenceSequences("linear", []int{4}, all[:1], 3, 3),
			recurrenceSequences("one", []int{1}, all[:1], 3, 0), recurrenceSequences("ones", []int{1, 1}, all, 3, 0),
			recurrenceSequences("ages", []int{1, 3, 5, 3, 1}, few, 3, 0),
		}, recurrenceSequences("equal", repeated(64, []int{12}), repeated(64, []bool{true}), 128, 0),
			recurrenceSequences("mixed", randomLengths(64, 24), repeated(64, few), 128, 60))
	})
}
