package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// GLU (arXiv:1612.08083) splits the last axis of x into halves (a, g):
//
//	y = a·σ(g),   σ(g) = 1/(1+e^-g)
//	da = dy·σ(g),   dg = dy·a·σ(g)·(1-σ(g))
func (eng *Engine) GLU(x *tensor.Tensor) *tensor.Tensor {
	d := x.Dim(-1) / 2
	y := eng.withLast(x, d)
	xs, ys := eng.values(x), eng.values(y)
	for i := range ys {
		a, g := i/d*2*d+i%d, i/d*2*d+d+i%d
		ys[i] = xs[a] * sigmoid(xs[g])
	}
	eng.record("GLU", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for i, v := range dy {
			a, g := i/d*2*d+i%d, i/d*2*d+d+i%d
			s := sigmoid(xs[g])
			dx[a] += v * s
			dx[g] += v * xs[a] * s * (1 - s)
		}
	})
	return y
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
