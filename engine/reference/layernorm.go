package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// AddLayerNorm is layer normalization (arXiv:1607.06450) of a sum, over each group of m channels of a row. If r is nil,
// s = x:
//
//	s = x + r,   μ = mean(s),   ρ = 1/√(mean((s-μ)²)+eps),   n = (s-μ)·ρ,   y[c] = n[c]·w[c] + b[c]
//
// Backward, with g[c] = w[c]·dy[c], and ds on the right the gradient that comes to s from other operations:
//
//	dx = dr = ds + ρ·(g - mean(g) - n·mean(g·n)),   dw[c] = Σ_r n[c]·dy[c],   db[c] = Σ_r dy[c]
func (eng *Engine) AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	d, m := w.Len(), w.Len()/groups
	s, outputs := eng.residualSum(x, r)
	y = eng.like(x)
	ss, ws, bs, ys := eng.values(s), eng.values(w), eng.values(b), eng.values(y)
	ns, rhos := make([]float64, len(ss)), make([]float64, len(ss)/m)
	for group := range rhos {
		mean, square := 0.0, 0.0
		for _, v := range ss[group*m:][:m] {
			mean += v / float64(m)
		}
		for _, v := range ss[group*m:][:m] {
			square += (v - mean) * (v - mean) / float64(m)
		}
		rhos[group] = 1 / math.Sqrt(square+eps)
		for i := group * m; i < (group+1)*m; i++ {
			ns[i] = (ss[i] - mean) * rhos[group]
			ys[i] = ns[i]*ws[i%d] + bs[i%d]
		}
	}
	eng.record("AddLayerNorm", append(outputs, y), list{x, r, w, b}, func() {
		dw, db, dy := eng.gradOf(w), eng.gradOf(b), eng.gradOf(y)
		ds := make([]float64, len(ss))
		for group, rho := range rhos {
			mean, meanN := 0.0, 0.0
			for i := group * m; i < (group+1)*m; i++ {
				mean += ws[i%d] * dy[i] / float64(m)
				meanN += ws[i%d] * dy[i] * ns[i] / float64(m)
				dw[i%d] += ns[i] * dy[i]
				db[i%d] += dy[i]
			}
			for i := group * m; i < (group+1)*m; i++ {
				ds[i] = rho * (ws[i%d]*dy[i] - mean - ns[i]*meanN)
			}
		}
		eng.residualSumGrad(x, r, s, ds)
	})
	return s, y
}

// residualSum returns s = x + r, a result of the operation, or x itself if r is nil.
func (eng *Engine) residualSum(x, r *tensor.Tensor) (s *tensor.Tensor, outputs list) {
	if r == nil {
		return x, nil
	}
	s = eng.like(x)
	xs, rs, ss := eng.values(x), eng.values(r), eng.values(s)
	for i := range ss {
		ss[i] = xs[i] + rs[i]
	}
	return s, list{s}
}

// residualSumGrad adds ds, and the gradient that other operations brought to s, to the gradients of x and r.
func (eng *Engine) residualSumGrad(x, r, s *tensor.Tensor, ds []float64) {
	dx := eng.gradOf(x)
	if r == nil {
		for i, v := range ds {
			dx[i] += v
		}
		return
	}
	dr, more := eng.gradOf(r), eng.gradOf(s)
	for i, v := range ds {
		dx[i] += v + more[i]
		dr[i] += v + more[i]
	}
}
