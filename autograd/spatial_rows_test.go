package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// spatialMix returns SpatialMix of up to n positions. The caches of rows that have one hold past positions.
func spatialMix(name string, lens, starts []int, keeps []bool, past, d, n int) sequences {
	o := sequences{name: "SpatialMix/" + name, lens: lens, starts: starts, keeps: keeps, along: []int{d},
		params: [][]int{{n, n}, {n}}, states: [][]int{{past, d}}, most: n - past}
	o.op = func(t *autograd.Tape, x, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		return withRowCaches(states, 1, func(c [][]*engine.RowCache) *tensor.Tensor {
			return t.SpatialMix(x[0], p[0], p[1], r, c[0])
		})
	}
	return o
}

func init() {
	registerSequences(func() []sequences {
		all := []sequences{
			spatialMix("plain", []int{5, 5}, nil, nil, 0, 3, 6),
			spatialMix("past", []int{2, 2}, []int{5, 5}, []bool{true, true}, 4, 3, 8), // one position has been removed
			spatialMix("one", []int{1}, []int{4}, []bool{true}, 4, 3, 5),
			spatialMix("ages", []int{1, 5, 3, 2}, []int{3, 0, 4, 2}, []bool{true, false, true, false}, 3, 2, 7),
			spatialMix("two_blocks", []int{66}, []int{1}, []bool{true}, 1, 1, 67), // 64 rows of W at a time on the CPU
		}
		equal := spatialMix("equal", []int{150, 150, 150}, nil, nil, 0, 40, 170)
		some := []bool{true, true, false, true}
		mixed := spatialMix("mixed", []int{150, 1, 70, 64}, []int{135, 130, 0, 200}, some, 130, 40, 300)
		for i := range all {
			if all[i].big = &mixed; i == 0 {
				all[i].big = &equal
			}
		}
		return all
	})
}
