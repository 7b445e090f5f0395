package autograd_test

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

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
