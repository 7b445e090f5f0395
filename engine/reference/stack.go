package reference

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// Stack puts tensors one after the other. Tensor k comes after the p_k positions of the tensors before it:
//
//	y[p_k+i] = x_k[i]
//	dx_k[i] = dy[p_k+i]
func (eng *Engine) Stack(xs ...*tensor.Tensor) *tensor.Tensor {
	xs = slices.Clone(xs) // backward reads them later
	n := 0
	for _, x := range xs {
		n += x.Rows()
	}
	y := eng.New(n, xs[0].Dim(-1))
	at := 0
	for _, x := range xs {
		at += copy(eng.values(y)[at:], eng.values(x))
	}
	eng.record("Stack", list{y}, xs, func() {
		dy := eng.gradOf(y)
		for _, x := range xs {
			dx := eng.gradOf(x)
			for i := range dx {
				dx[i] += dy[i]
			}
			dy = dy[x.Len():]
		}
	})
	return y
}
