package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// reluAttention returns SquaredReLUAttention of m distances. The caches of rows that have one hold past positions.
func reluAttention(name string, lens []int, keeps []bool, past, s, e, m int) sequences {
	o := sequences{name: "SquaredReLUAttention/" + name, lens: lens, keeps: keeps,
		starts: behindPast(lens, keeps, past), along: []int{s, s, e}, params: [][]int{{m}},
		states: [][]int{{past, s}, {past, e}}, tol: 5e-5}
	o.op = func(t *autograd.Tape, x, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		return withRowCaches(states, 2, func(c [][]*engine.RowCache) *tensor.Tensor {
			return t.SquaredReLUAttention(x[0], x[1], x[2], p[0], r, c[0], c[1])
		})
	}
	return o
}

func init() {
	registerSequences(func() []sequences {
		all := []sequences{
			reluAttention("plain", []int{5, 5}, nil, 0, 3, 2, 3),
			reluAttention("past", []int{2, 2}, []bool{true, true}, 4, 3, 2, 9),
			reluAttention("one", []int{1}, []bool{true}, 4, 3, 2, 4),
			reluAttention("ages", []int{1, 5, 3}, []bool{true, false, true}, 3, 3, 2, 4),
			reluAttention("two_blocks", []int{66}, []bool{true}, 1, 2, 1, 4), // 64 queries at a time on the CPU
		}
		equal := reluAttention("equal", []int{150, 150, 150}, nil, 0, 20, 40, 3)
		mixed := reluAttention("mixed", []int{150, 1, 70, 64}, []bool{true, true, false, true}, 130, 20, 40, 9)
		for i := range all {
			if all[i].big = &mixed; i == 0 {
				all[i].big = &equal
			}
		}
		return all
	})
}
