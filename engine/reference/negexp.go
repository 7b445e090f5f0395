package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// NegExp returns the A of Mamba (arXiv:2312.00752), which is negative for every value of its parameter:
//
//	y = -e^x
//	dx = -e^x·dy
func (eng *Engine) NegExp(x *tensor.Tensor) *tensor.Tensor {
	y := eng.like(x)
	ys := eng.values(y)
	for i, v := range eng.values(x) {
		ys[i] = -math.Exp(v)
	}
	eng.record("NegExp", list{y}, list{x}, func() {
		dx, dy := eng.gradOf(x), eng.gradOf(y)
		for i, v := range ys {
			dx[i] += v * dy[i]
		}
	})
	return y
}
