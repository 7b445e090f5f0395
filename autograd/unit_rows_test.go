//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// spatialRows cover SpatialMix: inputs x, of which the last l positions come out, W and bias. The CPU's engine takes 64
// rows of W at a time.
func spatialRows() []row {
	build := func(name string, b, all, l, d, start, n, past int) row {
		const bigAll, bigN = 150, 170
		return row{name: "SpatialMix/" + name, in: [][]int{{b, all, d}, {n, n}, {n}},
			big: [][]int{{3, bigAll, 40}, {bigN, bigN}, {bigN}},
			op: func(t *autograd.Tape, in ts) ts {
				l := l
				if in[0].Dim(1) == bigAll {
					l = bigAll - past
				}
				return ts{t.SpatialMix(engine.RowCache{X: in[0], Len: in[0].Dim(1), Start: start}, in[1], in[2], l)}
			}}
	}
	return []row{
		build("whole", 2, 5, 5, 3, 0, 6, 0), build("past", 2, 6, 2, 3, 1, 8, 70),
		build("two_blocks", 1, 66, 65, 1, 0, 66, 1),
	}
}

// reluAttentionRows cover SquaredReLUAttention: inputs q, k, v, bias. The CPU's engine takes 64 queries at a time.
func reluAttentionRows() []row {
	build := func(name string, b, all, l, m, bigL int) row {
		const bigAll = 150
		return row{name: "SquaredReLUAttention/" + name, in: [][]int{{b, l, 3}, {b, all, 3}, {b, all, 2}, {m}},
			big: [][]int{{3, bigL, 20}, {3, bigAll, 20}, {3, bigAll, 40}, {m}}, tol: 5e-5,
			op: func(t *autograd.Tape, in ts) ts {
				rows := func(i int) engine.RowCache { return engine.RowCache{X: in[i], Len: in[i].Dim(1)} }
				return ts{t.SquaredReLUAttention(in[0], rows(1), rows(2), in[3])}
			}}
	}
	return []row{
		build("whole", 2, 5, 5, 3, 150), build("past", 2, 6, 2, 9, 70), build("two_blocks", 1, 67, 66, 4, 149),
	}
}

func init() {
	register(spatialRows)
	register(reluAttentionRows)
}
