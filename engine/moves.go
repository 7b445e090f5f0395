package engine

import "github.com/hippo-ssm/hippo/tensor"

// Moves are the operations that only copy elements, or add some of them up.
type Moves interface {
	// Append returns y whose row i is row i of past followed by row i of x: (p.Total() + r.Total(), d).
	Append(past, x *tensor.Tensor, p, r *Rows) *tensor.Tensor
	// Join concatenates xs, which may differ in width, along the last axis.
	Join(xs ...*tensor.Tensor) *tensor.Tensor
	// Stack concatenates xs (n_i, d) along the first axis: (Σ n_i, d).
	Stack(xs ...*tensor.Tensor) *tensor.Tensor
	// Split splits the last axis into parts of the given widths.
	Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor
	// Cut returns y whose row i is the n[i] positions from at[i] on of row i of x: (Σ n, d).
	Cut(x *tensor.Tensor, r *Rows, at, n []int) *tensor.Tensor
	// Slice returns the positions [at, at+n) of x, whichever rows they belong to: y (n, d).
	Slice(x *tensor.Tensor, at, n int) *tensor.Tensor
	// Reverse returns y[t] = x[l-1-lag-t] in each row of l positions, or zero where there is no such position.
	Reverse(x *tensor.Tensor, lag int, r *Rows) *tensor.Tensor
	// MeanPositions returns y[i] = the mean of the positions of row i: (rows, d).
	MeanPositions(x *tensor.Tensor, r *Rows) *tensor.Tensor
}
