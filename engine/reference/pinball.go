package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Pinball is the loss for quantiles of Koenker and Bassett ("Regression Quantiles", Econometrica 46, 1978): the mean
// over the N targets that are not NaN and the Q levels:
//
//	ρ_τ(u) = max(τu, (τ-1)u), loss = Σ_i Σ_k ρ_{τ_k}(target[i] - x[i, k])/(NQ)
//	dx[i, k] = -τ_k/(NQ)·dloss where x[i, k] ≤ target[i], else (1-τ_k)/(NQ)·dloss
func (eng *Engine) Pinball(x *tensor.Tensor, target, levels []float32) *tensor.Tensor {
	target, levels = slices.Clone(target), slices.Clone(levels) // backward reads them later
	loss := eng.New(1)
	xs, q := eng.values(x), len(levels)
	n := float64(q * engine.CountNumbers(target))
	each := func(f func(j int, u, level float64)) {
		for i, y := range target {
			if math.IsNaN(float64(y)) {
				continue
			}
			for k, level := range levels {
				f(i*q+k, float64(y)-xs[i*q+k], float64(level))
			}
		}
	}
	each(func(_ int, u, level float64) { eng.values(loss)[0] += max(level*u, (level-1)*u) / n })
	eng.record("Pinball", list{loss}, list{x}, func() {
		dx, dloss := eng.gradOf(x), eng.gradOf(loss)[0]
		each(func(j int, u, level float64) {
			if u >= 0 {
				dx[j] -= level / n * dloss
			} else {
				dx[j] += (1 - level) / n * dloss
			}
		})
	})
	return loss
}
