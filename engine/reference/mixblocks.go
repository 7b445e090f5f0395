package reference

import "github.com/hippo-ssm/hippo/tensor"

// MixBlocks mixes the blocks of x, head by head, with e = d/heads components each:
//
//	y[u·block+j, h·e+c] = Σ_v w[u, h·k+v]·x[v·block+j, h·e+c]
//	dx[v·block+j, h·e+c] += Σ_u w[u, h·k+v]·dy[u·block+j, h·e+c]
//	dw[u, h·k+v] += Σ_j Σ_c dy[u·block+j, h·e+c]·x[v·block+j, h·e+c]
func (eng *Engine) MixBlocks(x, w *tensor.Tensor, heads, block int) *tensor.Tensor {
	d, k, m := x.Dim(-1), w.Dim(-1)/heads, w.Rows()
	y := eng.New(m*block, d)
	xs, ws, ys := eng.values(x), eng.values(w), eng.values(y)
	each := func(f func(to, from, weight int)) { // for each term, its indices in y, x and w
		for u := range m {
			for v := range x.Rows() / block {
				for j := range block * d {
					f(u*block*d+j, v*block*d+j, (u*heads+j%d/(d/heads))*k+v)
				}
			}
		}
	}
	each(func(to, from, weight int) { ys[to] += ws[weight] * xs[from] })
	eng.record("MixBlocks", list{y}, list{x, w}, func() {
		dx, dw, dy := eng.gradOf(x), eng.gradOf(w), eng.gradOf(y)
		each(func(to, from, weight int) {
			dx[from] += ws[weight] * dy[to]
			dw[weight] += dy[to] * xs[from]
		})
	})
	return y
}
