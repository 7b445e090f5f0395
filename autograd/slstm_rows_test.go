package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// slstmSequences returns SLSTM of h heads of n channels. Gates have sizes at which either of i and f' + m may be the
// larger. The n of a state, which is input 9 and every fourth after it, is positive.
func slstmSequences(name string, lens []int, keeps []bool, h, n int) sequences {
	d, unit := h*n, 1/math.Sqrt(float64(n))
	weights := []int{h, n, n}
	return sequences{name: "SLSTM/" + name, lens: lens, keeps: keeps, along: []int{d},
		params: [][]int{weights, weights, weights, weights, {h, n, 4 * n}, {h, 4, n}},
		states: [][]int{{d}, {d}, {d}, {d}},
		of: func(input, _ int, x float64) float64 {
			switch {
			case input > 0 && input < 6:
				return unit * x
			case input > 6 && (input-7)%4 == 2:
				return math.Abs(x) + 0.5
			}
			return x
		},
		op: func(t *autograd.Tape, u, w ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 4, func(s []engine.Slots) *tensor.Tensor {
				return t.SLSTM(engine.SLSTM{X: u[0], W: [4]*tensor.Tensor(w[:4]), R: w[4], Bias: w[5], Heads: h}, r,
					engine.SLSTMSlots{Y: s[0], C: s[1], N: s[2], M: s[3]})
			})
		}}
}

func init() {
	registerSequences(func() []sequences {
		all, few := []bool{true, true}, []bool{true, true, false, false, true}
		return withBig([]sequences{
			slstmSequences("plain", []int{5, 5}, nil, 2, 3), slstmSequences("state", []int{4, 4}, all, 2, 3),
			slstmSequences("one_head", []int{4}, all[:1], 1, 4),
			slstmSequences("one", []int{1}, all[:1], 2, 2), slstmSequences("ones", []int{1, 1}, all, 3, 2),
			slstmSequences("ages", []int{1, 3, 5, 3, 1}, few, 2, 3),
		}, slstmSequences("equal", repeated(40, []int{12}), repeated(40, []bool{true}), 4, 20),
			slstmSequences("mixed", randomLengths(40, 24), repeated(40, few), 4, 20))
	})
}
