package engine

import "github.com/hippo-ssm/hippo/tensor"

// Moves only copy elements, or add up some.
type Moves interface {
	// Append: row i of y is row i of past and then row i of x: (p.Total() + r.Total(), d).
	Append(past, x *tensor.Tensor, p, r *Rows) *tensor.Tensor
	// Join: y = xs, perhaps of different widths, side by side along the last axis.
	Join(xs ...*tensor.Tensor) *tensor.Tensor
	// Stack: y = xs (n_i, d) one after the other: (Σ n_i, d).
	Stack(xs ...*tensor.Tensor) *tensor.Tensor
	// Split: the last axis in parts of the given widths.
	Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor
	// Cut: row i of y is the n[i] positions from at[i] on of row i of x: (Σ n, d).
	Cut(x *tensor.Tensor, r *Rows, at, n []int) *tensor.Tensor
	// Slice: y = the positions [at, at+n) of x, whichever rows they belong to: y (n, d).
	Slice(x *tensor.Tensor, at, n int) *tensor.Tensor
	// Reverse: y[t] = x[l-1-lag-t] in each row, of l positions, zero if there is none.
	Reverse(x *tensor.Tensor, lag int, r *Rows) *tensor.Tensor
	// MeanPositions: y[i] = the mean of the positions of row i: (rows, d).
	MeanPositions(x *tensor.Tensor, r *Rows) *tensor.Tensor
}
