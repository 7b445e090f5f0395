package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// crossSequences returns attention to other sequences: each row has one, whose length is in keys. In the table, the
// keys and values are a parameter, because their rows are not those of the queries.
func crossSequences(name string, queries, keys []int, heads, hd int) row {
	shapes := func(queries, keys []int, d int) [][]int {
		return [][]int{{engine.NewRows(queries...).Total(), d}, {engine.NewRows(keys...).Total(), 2 * d}}
	}
	bigQueries, bigKeys := []int{256, 256, 256, 256}, []int{64, 64, 64, 64}
	if len(queries) > 1 && queries[0] != queries[1] {
		bigQueries, bigKeys = []int{256, 1, 100, 64, 300}, []int{64, 200, 1, 33, 70}
	}
	in := shapes(queries, keys, heads*hd)
	return row{name: "CrossAttention/" + name, in: in, big: shapes(bigQueries, bigKeys, 128),
		op: func(t *autograd.Tape, x ts) ts {
			rq, rkv := engine.NewRows(bigQueries...), engine.NewRows(bigKeys...)
			if x[0].Rows() == in[0][0] {
				rq, rkv = engine.NewRows(queries...), engine.NewRows(keys...)
			}
			return ts{t.CrossAttention(x[0], x[1], heads, rq, rkv)}
		}}
}

// rotateSequences returns rotations without attention.
func rotateSequences(name string, lens, starts []int, heads, hd, dim int) sequences {
	return sequences{name: "Rotate/" + name, lens: lens, starts: starts, along: []int{heads * hd},
		op: func(t *autograd.Tape, u, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 0, func([]engine.Slots) *tensor.Tensor {
				return t.Rotate(u[0], heads, engine.Rotary{Dim: dim}, r)
			})
		}}
}

func init() {
	register(func() []row {
		return []row{
			crossSequences("plain", []int{5, 5}, []int{3, 3}, 2, 3),
			crossSequences("one_key", []int{4}, []int{1}, 1, 2),
			crossSequences("two_tiles", []int{64 + 3}, []int{4}, 2, 2),
			crossSequences("lengths", []int{64 + 3, 1, 5}, []int{4, 3, 1}, 2, 2),
		}
	})
	registerSequences(func() []sequences {
		equal := rotateSequences("large", []int{256, 256}, nil, 4, 32, 16)
		mixed := rotateSequences("large", []int{256, 1, 300, 1}, []int{0, 9, 4, 1000}, 4, 32, 16)
		whole := rotateSequences("whole", []int{5, 5}, nil, 2, 4, 4)
		later := rotateSequences("part_later", []int{5}, []int{7}, 2, 6, 2)
		ages := rotateSequences("ages", []int{3, 1, 4}, []int{2, 300, 0}, 2, 4, 4)
		whole.big, later.big, ages.big = &equal, &mixed, &mixed
		return []sequences{whole, later, ages}
	})
}
