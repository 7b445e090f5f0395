package autograd_test

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// behindPast returns the first positions of rows: past for rows that keep a cache of past positions, and 0 for others.
func behindPast(lens []int, keeps []bool, past int) []int {
	return ramp(len(lens), func(i int) int {
		if keeps == nil || !keeps[i] {
			return 0
		}
		return past
	})
}

// withRowCaches turns an operation that takes n lists of row caches into one that returns the contents of the caches
// afterwards. states are their contents before.
func withRowCaches(states []ts, n int, op func(caches [][]*engine.RowCache) *tensor.Tensor) (y ts, next []ts) {
	caches := make([][]*engine.RowCache, n)
	for k := range caches {
		for _, s := range states {
			var c *engine.RowCache
			if s != nil {
				c = &engine.RowCache{}
				c.Replace(s[k])
			}
			caches[k] = append(caches[k], c)
		}
	}
	y = ts{op(caches)}
	for i, s := range states {
		var after ts
		for k := range s {
			after = append(after, caches[k][i].Rows())
		}
		next = append(next, after)
	}
	return y, next
}
