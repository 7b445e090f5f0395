package reference

import "github.com/hippo-ssm/hippo/tensor"

// ScaleShift applies a linear function to each of d channels, for every row r:
//
//	y[r, c] = x[r, c]·γ[c] + β[c]
//	dx[r, c] = γ[c]·dy[r, c],   dγ[c] = Σ_r x[r, c]·dy[r, c],   dβ[c] = Σ_r dy[r, c]
func (eng *Engine) ScaleShift(x, gamma, beta *tensor.Tensor) *tensor.Tensor {
	d := gamma.Len()
	y := eng.like(x)
	xs, gammas, betas, ys := eng.values(x), eng.values(gamma), eng.values(beta), eng.values(y)
	for i, v := range xs {
		ys[i] = v*gammas[i%d] + betas[i%d]
	}
	eng.record("ScaleShift", list{y}, list{x, gamma, beta}, func() {
		dx, dGamma, dBeta, dy := eng.gradOf(x), eng.gradOf(gamma), eng.gradOf(beta), eng.gradOf(y)
		for i, v := range dy {
			dx[i] += gammas[i%d] * v
			dGamma[i%d] += xs[i] * v
			dBeta[i%d] += v
		}
	})
	return y
}
