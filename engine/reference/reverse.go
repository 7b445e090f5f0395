package reference

import "github.com/hippo-ssm/hippo/tensor"

// Reverse turns sequences of l positions round, less the last lag of them (a move, see there):
//
//	y[b, t] = x[b, l-1-lag-t], 0 where there is no such position
//	dx[b, l-1-lag-t] = dy[b, t]
func (eng *Engine) oldReverse(x *tensor.Tensor, lag int) *tensor.Tensor {
	l, d := x.Dim(-2), x.Dim(-1)
	return eng.move("Reverse", eng.like(x), x, func(i int) int {
		b, t, c := i/(l*d), i/d%l, i%d
		if from := l - 1 - lag - t; from >= 0 {
			return (b*l+from)*d + c
		}
		return -1
	})
}
