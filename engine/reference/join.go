package reference

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// Join puts tensors x_k of d_k channels side by side, for every row r. x_k starts at channel e_k = d_0 + … + d_(k-1):
//
//	y[r, e_k+c] = x_k[r, c]
//	dx_k[r, c] = dy[r, e_k+c]
func (eng *Engine) Join(xs ...*tensor.Tensor) *tensor.Tensor {
	xs = slices.Clone(xs) // backward reads them later
	width := 0
	for _, x := range xs {
		width += x.Dim(-1)
	}
	y, e := eng.withLast(xs[0], width), 0
	ys := eng.values(y)
	for _, x := range xs {
		d := x.Dim(-1)
		for i, v := range eng.values(x) {
			ys[i/d*width+e+i%d] = v
		}
		e += d
	}
	eng.record("Join", list{y}, xs, func() {
		dy, e := eng.gradOf(y), 0
		for _, x := range xs {
			dx, d := eng.gradOf(x), x.Dim(-1)
			for i := range dx {
				dx[i] += dy[i/d*width+e+i%d]
			}
			e += d
		}
	})
	return y
}
