package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// see returns the positions that each row i sees: the p positions in its cache, if it has one, then its own l positions
// of x. Afterwards the cache holds all of them.
//
//	y[t] = past[t] for t < p,   x[From(i)+t-p] for t ≥ p
//	dpast[t] = dy[t],   dx[From(i)+t] = dy[p+t]
func (eng *Engine) see(x *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) (all []*tensor.Tensor) {
	d := x.Dim(-1)
	for i := range r.Count() {
		var cache engine.RowCache
		if i < len(caches) && caches[i] != nil {
			cache = *caches[i]
		}
		past, p, from := cache.Rows(), cache.Len*d, r.From(i)*d
		y := eng.New(cache.Len+r.Len(i), d)
		copy(eng.values(y), eng.values(past))
		copy(eng.values(y)[p:], eng.values(x)[from:])
		eng.record("AppendRows", list{y}, list{past, x}, func() {
			dy, dx, dPast := eng.gradOf(y), eng.gradOf(x), eng.grad(past, p)
			add(dPast, dy[:p])
			add(dx[from:], dy[p:])
		})
		if i < len(caches) && caches[i] != nil {
			caches[i].Replace(y)
		}
		all = append(all, y)
	}
	return all
}
