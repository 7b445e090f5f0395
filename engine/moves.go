package engine

import "github.com/hippo-ssm/hippo/tensor"

// Moves only copy elements, or add up some.
type Moves interface {
	// Append: row i of y is row i of past and then row i of x: (p.Total() + r.Total(), d).
	Append(past, x *tensor.Tensor, p, r *Rows) *tensor.Tensor
	// Join: y = xs side by side along the last axis.
	Join(xs ...*tensor.Tensor) *tensor.Tensor
	// Stack: y = xs (n_i, d) one behind the other: (Σ n_i, d).
	Stack(xs ...*tensor.Tensor) *tensor.Tensor
	// Split: the last axis in parts of the given widths.
	Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor
	// Cut: row i of y is the n[i] positions from at[i] on of row i of x: (Σ n, d).
	Cut(x *tensor.Tensor, r *Rows, at, n []int) *tensor.Tensor
	// Slice: y = the positions [at, at+n) of x, whichever rows they belong to: y (n, d).
	Slice(x *tensor.Tensor, at, n int) *tensor.Tensor
	// Reverse: y[t] = x[l-1-lag-t] in each row, of l positions, zero where there is none.
	Reverse(x *tensor.Tensor, lag int, r *Rows) *tensor.Tensor
	// MeanPositions: y[i] = the mean of the positions of row i: (rows, d).
	MeanPositions(x *tensor.Tensor, r *Rows) *tensor.Tensor
}

// RowCache holds rows of the positions seen so far: X (b, room, d), of which Len are filled, after Start that have been
// forgotten. While a tape records, AppendRows replaces X by a new tensor of exactly the filled length, through which gradients
// flow; otherwise it appends in place and makes room for more from time to time.
type RowCache struct {
	X          *tensor.Tensor // nil before the first position
	Len, Start int
	Own        bool // X is no result of a tape: nothing else needs it
}

// Clone returns an independent copy, without gradients and with no room to spare.
func (c *RowCache) Clone() RowCache { return c.last(c.Len) }

// Keep forgets all but the last n rows.
func (c *RowCache) Keep(n int) {
	if n < c.Len {
		*c = c.last(n)
	}
}

// last returns a copy of the last n rows.
func (c *RowCache) last(n int) RowCache {
	out := RowCache{Len: n, Start: c.Start + c.Len - n, Own: true}
	if n > 0 {
		out.X = tensor.NewBeside(c.X, c.X.Dim(0), n, c.X.Dim(2))
		tensor.CopyRows(out.X, 0, c.X, c.Len-n, n)
	}
	return out
}

// Reserve makes room for l more rows (b, ·, d) in a tensor of c's own.
func (c *RowCache) Reserve(b, l, d int) {
	if c.Own && c.X != nil && c.X.Dim(1) >= c.Len+l {
		return
	}
	old := c.X
	room := roomFor(c.Len + l)
	if old == nil {
		c.X, c.Own = tensor.New(b, room, d), true
		return
	}
	c.X, c.Own = tensor.NewBeside(old, b, room, d), true
	if c.Len > 0 {
		tensor.CopyRows(c.X, 0, old, 0, c.Len)
	}
}
