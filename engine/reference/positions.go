package reference

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// Positions takes n positions of every sequence (a move, see there):
//
//	y[b, t] = x[b, at+t],   t < n
//	dx[b, at+t] = dy[b, t]
func (eng *Engine) oldPositions(x *tensor.Tensor, at, n int) *tensor.Tensor {
	l, d := x.Dim(1), x.Dim(2)
	return eng.move("Positions", eng.New(x.Dim(0), n, d), x, func(i int) int {
		b, t, c := i/(n*d), i/d%n, i%d
		return (b*l+at+t)*d + c
	})
}

// Rows takes n rows of x, all axes but the last taken as one:
//
//	y[r] = x[at+r],   r < n
//	dx[at+r] = dy[r]
func (eng *Engine) oldRows(x *tensor.Tensor, at, n int) *tensor.Tensor {
	d := x.Dim(-1)
	return eng.move("Rows", eng.New(n, d), x, func(i int) int { return at*d + i })
}

// PickPositions takes one position of every sequence:
//
//	y[b, 0] = x[b, at[b]]
//	dx[b, at[b]] = dy[b, 0]
func (eng *Engine) oldPickPositions(x *tensor.Tensor, at []int) *tensor.Tensor {
	l, d := x.Dim(1), x.Dim(2)
	at = slices.Clone(at) // backward reads them later
	return eng.move("PickPositions", eng.New(x.Dim(0), 1, d), x, func(i int) int { return (i/d*l+at[i/d])*d + i%d })
}

// FirstPositions keeps as many positions of sequence b as lengths[b] says:
//
//	y[b, t] = x[b, t] where t < lengths[b], else 0
//	dx[b, t] = dy[b, t] where t < lengths[b], else 0
func (eng *Engine) oldFirstPositions(x *tensor.Tensor, lengths []int) *tensor.Tensor {
	if lengths == nil {
		return x
	}
	l, d := x.Dim(1), x.Dim(2)
	lengths = slices.Clone(lengths) // backward reads them later
	return eng.move("FirstPositions", eng.like(x), x, func(i int) int {
		if b, t := i/(l*d), i/d%l; t < lengths[b] {
			return i
		}
		return -1
	})
}
