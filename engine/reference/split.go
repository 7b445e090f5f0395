package reference

import "github.com/hippo-ssm/hippo/tensor"

// Split cuts the last axis into parts of the widths w_0, w_1, …, for every row r. The parts are moves, see there:
//
//	y_k[r, c] = x[r, w_0 + … + w_(k-1) + c],   c < w_k
//	dx is dy_0, dy_1, … side by side
func (eng *Engine) Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	d, at := x.Dim(-1), 0
	var parts []*tensor.Tensor
	for _, w := range widths {
		first := at
		parts = append(parts, eng.move("Split", eng.withLast(x, w), x, func(i int) int { return i/w*d + first + i%w }))
		at += w
	}
	return parts
}
