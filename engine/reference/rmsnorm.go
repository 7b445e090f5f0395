package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// AddRMSNorm is the root mean square normalization (arXiv:1910.07467) of a sum, over each group of m channels of a row.
// If r is nil, s = x:
//
//	s = x + r,   ρ = 1/√(mean(s²)+eps),   n = s·ρ,   y[c] = n[c]·w[c]
//
// Backward, with g[c] = w[c]·dy[c], and ds on the right the gradient that comes to s from other operations:
//
//	dx = dr = ds + ρ·(g - n·mean(g·n)),   dw[c] = Σ_r n[c]·dy[c]
func (eng *Engine) AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	d, m := w.Len(), w.Len()/groups
	s, outputs := eng.residualSum(x, r)
	y = eng.like(x)
	ss, ws, ys := eng.values(s), eng.values(w), eng.values(y)
	ns, rhos := make([]float64, len(ss)), make([]float64, len(ss)/m)
	for group := range rhos {
		square := 0.0
		for _, v := range ss[group*m:][:m] {
			square += v * v / float64(m)
		}
		rhos[group] = 1 / math.Sqrt(square+eps)
		for i := group * m; i < (group+1)*m; i++ {
			ns[i] = ss[i] * rhos[group]
			ys[i] = ns[i] * ws[i%d]
		}
	}
	eng.record("AddRMSNorm", append(outputs, y), list{x, r, w}, func() {
		dw, dy := eng.gradOf(w), eng.gradOf(y)
		ds := make([]float64, len(ss))
		for group, rho := range rhos {
			mean := 0.0
			for i := group * m; i < (group+1)*m; i++ {
				mean += ws[i%d] * dy[i] * ns[i] / float64(m)
				dw[i%d] += ns[i] * dy[i]
			}
			for i := group * m; i < (group+1)*m; i++ {
				ds[i] = rho * (ws[i%d]*dy[i] - ns[i]*mean)
			}
		}
		eng.residualSumGrad(x, r, s, ds)
	})
	return s, y
}
