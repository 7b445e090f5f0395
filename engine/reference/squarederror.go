package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SquaredError is the mean over the N elements of x whose target is not NaN:
//
//	loss = Σ_i (x[i] - target[i])²/N
//	dx[i] = 2(x[i] - target[i])/N·dloss
func (eng *Engine) SquaredError(x *tensor.Tensor, target []float32) *tensor.Tensor {
	target = slices.Clone(target) // backward reads them later
	loss := eng.New(1)
	xs, n := eng.values(x), float64(engine.CountNumbers(target))
	for i, v := range xs {
		if math.IsNaN(float64(target[i])) {
			continue
		}
		eng.values(loss)[0] += (v - float64(target[i])) * (v - float64(target[i])) / n
	}
	eng.record("SquaredError", list{loss}, list{x}, func() {
		dx, dloss := eng.gradOf(x), eng.gradOf(loss)[0]
		for i, v := range xs {
			if math.IsNaN(float64(target[i])) {
				continue
			}
			dx[i] += 2 * (v - float64(target[i])) / n * dloss
		}
	})
	return loss
}
