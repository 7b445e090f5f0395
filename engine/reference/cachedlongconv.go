package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// CachedLongConv is the causal convolution of n positions behind the p inputs of the cache that count, for kernels k
// (m, d). A skip D of nil is 0. With x the inputs of the cache, then u:
//
//	y[t, c] = Σ_{j≤p+t, j<m} k[j, c]·x[p+t-j, c] + D[c]·u[t, c],   t < n
//
// Backward, for every t and j:
//
//	dk[j, c] += x[p+t-j, c]·dy[t, c],   dx[p+t-j, c] += k[j, c]·dy[t, c]
//	dD[c] += u[t, c]·dy[t, c],   du[t, c] += D[c]·dy[t, c]
//
// The cache then has x. A gradient that later chunks bring to x goes on to the cache's inputs and u.
func (eng *Engine) oldCachedLongConv(u, k, skip *tensor.Tensor, cache *engine.ConvCache) *tensor.Tensor {
	batch, n, d := u.Dim(0), u.Dim(1), u.Dim(2)
	past, x := cache.Past(), u
	if past > 0 {
		x = eng.oldAppend(eng.oldPositions(cache.U, cache.Len-past, past), u)
	}
	cache.U, cache.Len, cache.Sums = x, past+n, nil
	y := eng.like(u)
	xs, us, taps, D, ys := eng.values(x), eng.values(u), eng.values(k), eng.start(skip, d), eng.values(y)
	each := func(visit func(tap, at, from int)) { // places in k, u and x
		for b := range batch {
			for t := range n {
				for j := range min(past+t+1, k.Dim(0)) {
					for c := range d {
						visit(j*d+c, (b*n+t)*d+c, (b*(past+n)+past+t-j)*d+c)
					}
				}
			}
		}
	}
	each(func(tap, at, from int) { ys[at] += taps[tap] * xs[from] })
	for i, v := range us {
		ys[i] += D[i%d] * v
	}
	eng.record("CachedLongConv", list{y}, list{u, x, k, skip}, func() {
		du, dx, dtaps, dD, dy := eng.gradOf(u), eng.gradOf(x), eng.gradOf(k), eng.grad(skip, d), eng.gradOf(y)
		each(func(tap, at, from int) {
			dtaps[tap] += xs[from] * dy[at]
			dx[from] += taps[tap] * dy[at]
		})
		for i, v := range dy {
			du[i] += D[i%d] * v
			dD[i%d] += us[i] * v
		}
	})
	return y
}

// Ahead is 0: nothing is summed before it is asked for.
func (eng *Engine) Ahead() int { return 0 }
