package cpu

import "github.com/hippo-ssm/hippo/tensor"

// copyPositions copies n positions of every sequence of x (b, ·, d) from at on to the positions of y (b, ·, d) from to on.
func copyPositions(y *tensor.Tensor, to int, x *tensor.Tensor, at, n int) {
	d, ly, lx := x.Dim(2), y.Dim(1), x.Dim(1)
	for i := range x.Dim(0) {
		copy(y.Data()[(i*ly+to)*d:][:n*d], x.Data()[(i*lx+at)*d:])
	}
}
