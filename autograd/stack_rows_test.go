package autograd_test

import "github.com/hippo-ssm/hippo/autograd"

func init() {
	register(func() []row {
		return []row{{
			name: "Stack", in: [][]int{{2, 3}, {1, 3}, {4, 3}}, big: [][]int{{256, 256}, {1, 256}, {700, 256}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Stack(in...)} },
		}}
	})
}
