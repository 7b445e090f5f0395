package autograd_test

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// behindPast are the positions at which rows begin that have past positions in their caches.
func behindPast(lens []int, keeps []bool, past int) []int {
	return ramp(len(lens), func(i int) int {
		if keeps == nil || !keeps[i] {
			return 0
		}
		return past
	})
}

// withRowCaches turns an operation that takes row caches, a list for each of n, into one that gives what is in them
// afterwards. states are the rows in them before.
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
