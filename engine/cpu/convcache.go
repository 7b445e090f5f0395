package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// CachedLongConv sums a few positions directly, in time linear in the inputs that each sees, and convolves longer rows
// together with the inputs in their caches. Single positions after many inputs use sums computed ahead (aheadBlock),
// for which k needs Ahead more taps.
func (eng *Engine) CachedLongConv(u, k, skip *tensor.Tensor, r *engine.Rows,
	caches []*engine.ConvCache) *tensor.Tensor {
	y := eng.like(u)
	if eng.Recording {
		eng.longConv(y, engine.Gates{V: u, HeadDim: 1}, k, skip, r, func(i int) bool { return caches[i] == nil })
		eng.longConvPast(y, u, k, skip, r, caches, func(i int) bool { return caches[i] != nil })
		return y
	}
	s := take[cacheSteps](eng)
	s.begin(k, r, caches)
	for i, c := range caches {
		if c != nil {
			appendInputs(c, u, spanOf(r, i))
		}
	}
	eng.convolveAhead(y, s, k, skip)
	eng.convolveLast(y, s, k, skip)
	eng.longConv(y, engine.Gates{V: u, HeadDim: 1}, k, skip, r, func(i int) bool { return s.kinds[i] == asLongConv })
	eng.longConvPast(y, u, k, skip, r, caches, func(i int) bool { return s.kinds[i] == together })
	return y
}

// cacheStep is the way in which a row after a cache is convolved.
type cacheStep uint8

const (
	asLongConv cacheStep = iota // like LongConv: there are no inputs before the row
	fromSums                    // one position, most of whose sum has been computed ahead
	byTaps                      // a few positions, tap by tap
	together                    // together with all inputs in the cache
)

// cacheSteps records how CachedLongConv computes each row while nothing is recorded.
type cacheSteps struct {
	rows   *engine.Rows
	caches []*engine.ConvCache
	kinds  []cacheStep
	past   []int  // inputs that the first position of a row sees
	ahead  []int  // the rows of kind fromSums
	due    []int  // the rows of ahead that need new sums
	last   subset // the rows of kind byTaps
}

// begin decides how each row is convolved. It must be called before the row's inputs are in its cache.
func (s *cacheSteps) begin(k *tensor.Tensor, r *engine.Rows, caches []*engine.ConvCache) {
	s.rows, s.caches, s.kinds, s.past, s.ahead = r, caches, s.kinds[:0], s.past[:0], s.ahead[:0]
	for i, c := range caches {
		kind, past, n := asLongConv, 0, r.Len(i)
		if c != nil {
			past = c.Past()
			switch {
			case n == 1 && past >= aheadFrom && k.Dim(0) >= min(c.Window, past+ahead()):
				kind = fromSums
				s.ahead = append(s.ahead, i)
			case n <= directUpTo:
				kind = byTaps
			case past > 0:
				kind = together
			}
			if kind != fromSums {
				c.Sums = nil
			}
		}
		s.kinds, s.past = append(s.kinds, kind), append(s.past, past)
	}
}

// convolveLast computes the rows of y that are summed directly.
func (eng *Engine) convolveLast(y *tensor.Tensor, s *cacheSteps, k, skip *tensor.Tensor) {
	rows := &s.last
	rows.choose(s.rows, func(i int) bool { return s.kinds[i] == byTaps })
	if rows.Count() == 0 {
		return
	}
	d, m := y.Dim(-1), k.Dim(0)
	through := eng.throughOf(skip, d)
	piece := func(i, lo, hi int) {
		i = rows.in(i)
		c, past := s.caches[i], s.past[i]
		x := c.U.Data()[(c.Len-s.rows.Len(i)-past)*d:]
		kernel.FIRAfter(y.Data()[(s.rows.From(i)+lo)*d:], x, k.Data(), through, d, m, past+lo, hi-lo)
	}
	if rows.Longest() > 1 {
		overRows(rows.Rows, firRows, piece)
		return
	}
	work := 1
	for _, past := range s.past {
		work = max(work, min(m, past+1))
	}
	parallel.For(rows.Count(), rowGrain(d*work), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			piece(i, 0, 1)
		}
	})
}

// appendInputs appends the row of u to the cache in place. To make space it drops inputs that no kernel reaches, and
// doubles the memory, with Ahead positions to spare.
func appendInputs(c *engine.ConvCache, u *tensor.Tensor, row span) {
	n, d, past, room := row.len, u.Dim(-1), c.Past(), 0
	if c.U != nil {
		room = c.U.Dim(0) - ahead()
	}
	if c.Len+n > room {
		old, from := c.U, c.Len-past
		if 2*(past+n) > room {
			c.U = tensor.New(max(64, past+n, min(2*room, 2*c.Window))+ahead(), d)
		}
		if past > 0 {
			copy(c.U.Data()[:past*d], old.Data()[from*d:]) // to the front of the same memory if it has room
		}
		c.Len = past
	}
	copy(c.U.Data()[c.Len*d:], u.Data()[row.at*d:][:n*d])
	c.Len += n
}
