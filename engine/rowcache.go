package engine

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// PageRows is the number of positions that a page of a RowCache holds.
const PageRows = 128

// RowCache holds one row of d numbers for each position of a sequence so far, or for the last Len of them.
//
// While a tape records, all rows are in X, through which gradients flow into the past: an operation replaces X by a
// longer tensor of the tape. Otherwise the rows lie in pages. A page that is full is never written again, so clones
// share it. Pages end at multiples of PageRows, counted from the first position of the sequence. What is summed page by
// page therefore has the same bits however the sequence was cut into chunks.
type RowCache struct {
	X     *tensor.Tensor // (Len, d); nil where the rows lie in pages
	Len   int
	pages []*tensor.Tensor // (up to PageRows, d)
	skip  int              // places of the first page before the rows
}

// Append copies n rows of x (…, d), from number from on, behind the others. The cache is no part of a tape any more.
func (c *RowCache) Append(x *tensor.Tensor, from, n int) {
	if c.X != nil {
		*c = c.Clone()
	}
	for n > 0 {
		at := (c.skip + c.Len) % PageRows
		k := min(n, PageRows-at)
		tensor.CopyRows(c.lastPage(x, at+k), at, x, from, k)
		c.Len, from, n = c.Len+k, from+k, n-k
	}
}

// lastPage returns the page for the next row, with room for n rows, beside x. A page grows by some rows at a time, so
// that a short sequence takes little memory.
func (c *RowCache) lastPage(x *tensor.Tensor, n int) *tensor.Tensor {
	const step = 16
	i := (c.skip + c.Len) / PageRows
	room := (n + step - 1) / step * step
	if i == len(c.pages) {
		c.pages = append(c.pages, tensor.NewBeside(x, room, x.Dim(-1)))
	}
	if old := c.pages[i]; old.Dim(0) < n {
		c.pages[i] = tensor.NewBeside(x, room, x.Dim(-1))
		tensor.CopyRows(c.pages[i], 0, old, 0, old.Dim(0))
	}
	return c.pages[i]
}

// Past is Len, 0 for a cache of nil.
func (c *RowCache) Past() int {
	if c == nil {
		return 0
	}
	return c.Len
}

// Width is d, 0 for a cache of nil or without rows.
func (c *RowCache) Width() int {
	if c.Past() == 0 {
		return 0
	}
	x, _, _ := c.Run(0)
	return x.Dim(-1)
}

// Replace makes x (n, d) all rows. It belongs to a tape, and gradients flow through it.
func (c *RowCache) Replace(x *tensor.Tensor) { c.X, c.Len, c.pages = x, x.Dim(0), nil }

// Fill replaces all rows by copies of those of x (n, d), the first of which belongs to position start of the sequence.
func (c *RowCache) Fill(x *tensor.Tensor, start int) {
	*c = RowCache{skip: start % PageRows}
	c.Append(x, 0, x.Dim(0))
}

// Run says where row i lies: it is row at of x, and n rows from there on, row i among them, belong to c in this order.
func (c *RowCache) Run(i int) (x *tensor.Tensor, at, n int) {
	if c.X != nil {
		return c.X, i, c.Len - i
	}
	at = (c.skip + i) % PageRows
	return c.pages[(c.skip+i)/PageRows], at, min(PageRows-at, c.Len-i)
}

// Rows returns all rows (Len, d): X, or a copy of what lies in pages. It is nil where there are none.
func (c *RowCache) Rows() *tensor.Tensor {
	if c.X != nil || c.Len == 0 {
		return c.X
	}
	all := tensor.NewBeside(c.pages[0], c.Len, c.pages[0].Dim(-1))
	for i := 0; i < c.Len; {
		x, at, n := c.Run(i)
		tensor.CopyRows(all, i, x, at, n)
		i += n
	}
	return all
}

// Clone returns an independent copy, without gradients. Both share the pages that are full.
func (c *RowCache) Clone() RowCache {
	out := RowCache{skip: c.skip}
	if c.X == nil {
		if full := (c.skip + c.Len) / PageRows; full > 0 {
			out.pages, out.Len = slices.Clone(c.pages[:full]), full*PageRows-c.skip
		}
	}
	for out.Len < c.Len {
		x, at, n := c.Run(out.Len)
		out.Append(x, at, n)
	}
	return out
}

// Keep forgets all but the last n rows, and gradients.
func (c *RowCache) Keep(n int) {
	if n >= c.Len {
		return
	}
	if c.X != nil {
		*c = c.Clone()
	}
	before := c.skip + c.Len - n
	c.pages = slices.Delete(c.pages, 0, min(before/PageRows, len(c.pages)))
	c.skip, c.Len = before%PageRows, n
}
