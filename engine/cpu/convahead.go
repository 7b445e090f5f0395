package cpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// aheadBlock holds the contribution of the inputs before a position to the Ahead positions from it on. Summing one
// position takes reading all inputs and the whole kernel from memory once, and so does summing Ahead positions
// together. So a decoded token costs a fraction of that, plus the few inputs since the position.
type aheadBlock struct {
	sums []float32      // (Ahead, d)
	k    *tensor.Tensor // the kernel of the sums; nil if there are no sums
	used int            // number of positions of the block that have passed
}

// aheadFrom is the smallest number of inputs for which a block is worth while.
const aheadFrom = 128

// Ahead returns the number of positions of an aheadBlock.
func (eng *Engine) Ahead() int { return ahead() }

func ahead() int { return 2 * kernel.FIRRows() } // a call of the direct filter on each of two cores

// Fork returns a copy for a copy of the cache.
func (a *aheadBlock) Fork() engine.Forkable {
	if a.k == nil {
		return nil
	}
	c := *a
	c.sums = slices.Clone(a.sums)
	return &c
}

// convolveAhead computes the rows of y that s has listed in ahead, each of one position.
func (eng *Engine) convolveAhead(y *tensor.Tensor, s *cacheSteps, k, skip *tensor.Tensor) {
	if len(s.ahead) == 0 {
		return
	}
	s.due = s.due[:0]
	for _, i := range s.ahead {
		c, past := s.caches[i], s.past[i]
		a, ok := c.Sums.(*aheadBlock)
		if !ok {
			a = &aheadBlock{}
			c.Sums = a
		}
		if a.k != k || a.used == ahead() {
			a.used = 0
			if past < c.Window-1 { // blocks start at the same positions in a copy of c
				a.used = past % ahead()
			}
			a.k = k
			s.due = append(s.due, i)
		}
	}
	eng.sumAhead(s, k)
	d, through := y.Dim(-1), eng.throughOf(skip, y.Dim(-1))
	parallel.For(len(s.ahead), rowGrain(d*ahead()), func(lo, hi int) {
		for _, i := range s.ahead[lo:hi] {
			c := s.caches[i]
			a := c.Sums.(*aheadBlock)
			row, x := y.Data()[s.rows.From(i)*d:][:d], c.U.Data()[(c.Len-1-a.used)*d:]
			kernel.FIRAfter(row, x, k.Data(), through, d, k.Dim(0), a.used, 1)
			kernel.Add(row, a.sums[a.used*d:])
			a.used++
		}
	})
}

// sumAhead fills the blocks of the rows that are due, with kernel k. A block starts used positions before the last one
// in the cache; the inputs from its start on are set to zero meanwhile.
func (eng *Engine) sumAhead(s *cacheSteps, k *tensor.Tensor) {
	if len(s.due) == 0 {
		return
	}
	n, d := ahead(), k.Dim(1)
	none, saved := eng.throughOf(nil, d), eng.scratch(len(s.due)*n*d)
	defer eng.done(saved)
	swap := func() {
		for j, i := range s.due {
			c := s.caches[i]
			a := c.Sums.(*aheadBlock)
			a.sums = resize(a.sums, n*d)
			x, h := c.U.Data()[(c.Len-1-a.used)*d:][:n*d], saved[j*n*d:]
			for at, v := range x {
				x[at], h[at] = h[at], v
			}
		}
	}
	swap()
	overPositions(len(s.due), n, kernel.FIRRows(), func(j, lo, hi int) {
		c := s.caches[s.due[j]]
		a, past := c.Sums.(*aheadBlock), s.past[s.due[j]]
		past -= a.used
		x := c.U.Data()[(c.Len-1-a.used-past)*d:]
		kernel.FIRAfter(a.sums[lo*d:], x, k.Data(), none, d, k.Dim(0), past+lo, hi-lo)
	})
	swap()
}
