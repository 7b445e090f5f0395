package cpu

import "github.com/hippo-ssm/hippo/tensor"

// RealPairs interleaves x with zeros.
func (eng *Engine) RealPairs(x *tensor.Tensor) *tensor.Tensor {
	y := eng.New(append(x.Shape(), 2)...)
	y.Zero()
	for i, v := range x.Data() {
		y.Data()[2*i] = v
	}
	record(eng, "RealPairs", realPairsOp{x: x, y: y}, y, x)
	return y
}

type realPairsOp struct{ x, y *tensor.Tensor }

func (o *realPairsOp) Backward(eng *Engine) {
	dx, dy := eng.gradOf(o.x), o.y.Grad()
	if dx == nil {
		return
	}
	for i := range dx {
		dx[i] += dy[2*i]
	}
}
