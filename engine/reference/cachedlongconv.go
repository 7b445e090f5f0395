package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// CachedLongConv is the causal convolution of the n positions of every row with kernels k (m, d). The p valid inputs of
// the row's cache come before the row, none if the cache is nil. A skip D of nil is 0. With x the inputs of the cache
// followed by those of the row:
//
//	y[t, c] = Σ_{j≤p+t, j<m} k[j, c]·x[p+t-j, c] + D[c]·x[p+t, c],   t < n
//
// Backward, for every t and j:
//
//	dk[j, c] += x[p+t-j, c]·dy[t, c],   dx[p+t-j, c] += k[j, c]·dy[t, c]
//	dD[c] += x[p+t, c]·dy[t, c],   dx[p+t, c] += D[c]·dy[t, c]
//
// Afterwards the cache holds x. A gradient that later rows bring to x goes on to the cache's inputs and to u.
func (eng *Engine) CachedLongConv(u, k, skip *tensor.Tensor, r *engine.Rows,
	caches []*engine.ConvCache) *tensor.Tensor {
	d := u.Dim(1)
	y := eng.like(u)
	taps, D, ys := eng.values(k), eng.start(skip, d), eng.values(y)
	var xs list
	for row, cache := range caches {
		xs = append(xs, eng.withPast(cache, u, r.From(row), r.Len(row)))
	}
	each := func(visit func(row, tap, at, from int)) { // indices in k, y and x
		for row, x := range xs {
			past := x.Dim(0) - r.Len(row)
			for t := range r.Len(row) {
				for j := range min(past+t+1, k.Dim(0)) {
					for c := range d {
						visit(row, j*d+c, (r.From(row)+t)*d+c, (past+t-j)*d+c)
					}
				}
			}
		}
	}
	through := func(visit func(row, c, at, from int)) { // the channel, indices in y and x
		for row, x := range xs {
			past := x.Dim(0) - r.Len(row)
			for i := range r.Len(row) * d {
				visit(row, i%d, r.From(row)*d+i, past*d+i)
			}
		}
	}
	each(func(row, tap, at, from int) { ys[at] += taps[tap] * eng.values(xs[row])[from] })
	through(func(row, c, at, from int) { ys[at] += D[c] * eng.values(xs[row])[from] })
	eng.record("CachedLongConv", list{y}, append(list{k, skip}, xs...), func() {
		dtaps, dD, dy := eng.gradOf(k), eng.grad(skip, d), eng.gradOf(y)
		var dxs [][]float64
		for _, x := range xs {
			dxs = append(dxs, eng.gradOf(x))
		}
		each(func(row, tap, at, from int) {
			dtaps[tap] += eng.values(xs[row])[from] * dy[at]
			dxs[row][from] += taps[tap] * dy[at]
		})
		through(func(row, c, at, from int) {
			dD[c] += eng.values(xs[row])[from] * dy[at]
			dxs[row][from] += D[c] * dy[at]
		})
	})
	return y
}

// withPast returns the valid inputs in a cache, none for nil, followed by the n positions of u from at on. It stores
// them in the cache.
func (eng *Engine) withPast(cache *engine.ConvCache, u *tensor.Tensor, at, n int) *tensor.Tensor {
	past, d := 0, u.Dim(1)
	var before *tensor.Tensor
	from := 0
	if cache != nil {
		past, before = cache.Past(), cache.U
		from = cache.Len - past
	}
	x := eng.New(past+n, d)
	copy(eng.values(x), eng.values(before)[from*d:][:past*d])
	copy(eng.values(x)[past*d:], eng.values(u)[at*d:][:n*d])
	eng.record("AppendPast", list{x}, list{before, u}, func() {
		dx, du := eng.gradOf(x), eng.gradOf(u)
		dbefore := eng.grad(before, (from+past)*d)
		for i, v := range dx {
			if i < past*d {
				dbefore[from*d+i] += v
			} else {
				du[at*d+i-past*d] += v
			}
		}
	})
	if cache != nil {
		cache.U, cache.Len, cache.Sums = x, past+n, nil
	}
	return x
}

// Ahead returns 0: nothing is summed ahead of time.
func (eng *Engine) Ahead() int { return 0 }
