package optim

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// Add adds the gradients src to dst and zeroes src. Both are of all parameters. What is added to what does not depend
// on the cores, so neither does a bit of the sum.
func (o *AdamW) Add(dst, src [][]float32) {
	parallel.For(len(o.segments), 1, func(lo, hi int) {
		for _, s := range o.segments[lo:hi] {
			x := src[s.param][s.lo:s.hi]
			kernel.Add(dst[s.param][s.lo:s.hi], x)
			clear(x)
		}
	})
}
