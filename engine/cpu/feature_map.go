package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// featureFunction returns the kernel of φ if φ is an activation function, else -1.
func featureFunction(f engine.FeatureMap) kernel.Function {
	switch f {
	case engine.ELU1:
		return kernel.FuncELU1
	case engine.PhiSoftplus:
		return kernel.FuncSoftplus
	case engine.ReLU2:
		return kernel.FuncReLU2
	}
	return -1
}

// featureMap sets y to φ(x).
func featureMap(f engine.FeatureMap, y, x []float32) {
	y = y[:len(x)]
	if g := featureFunction(f); g >= 0 {
		g.Into(y, x)
		return
	}
	for i, v := range x { // without branches, which would be mispredicted half the time
		y[i] = max(v, 0)
	}
}

// featureMapGrad multiplies dy by the derivative of φ at x.
func featureMapGrad(f engine.FeatureMap, dy, x []float32) {
	if g := featureFunction(f); g >= 0 {
		g.GradMul(dy, x)
		return
	}
	dy = dy[:len(x)]
	for i, v := range x { // 1 above 0, also if a product would leave the range of float32
		dy[i] *= min(max(v, 0)*math.MaxFloat32, 1)
	}
}
