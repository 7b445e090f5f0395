package engine

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// PageRows is the number of positions of a full page of a RowCache.
const PageRows = 128

// RowCache holds one row of d numbers for each of the last Len positions of a sequence so far.
//
// While a tape records, all rows are in X, through which gradients flow into the past: an operation replaces X by a
// longer tensor of the tape. Otherwise the rows are stored in pages, so that a cache grows without being copied. A row
// of a page is written only once, so clones share pages: only the cache that created its last page writes to the free
// rows of that page. A clone that grows copies that one page first.
//
// Pages end at multiples of PageRows, counted from the first position of the sequence, however the cache was filled.
type RowCache struct {
	X   *tensor.Tensor // (Len, d), of a tape; nil if the rows are in pages
	Len int

	pages []*tensor.Tensor // (up to PageRows, d)
	own   *tensor.Tensor   // the last page, if this cache created it
	skip  int              // rows of the first page before the first one in use
}

// Append adds copies of n rows of x (…, d), starting at row from. The first of them is position start of the sequence.
// Append takes the cache off the tape, if it is part of one.
func (c *RowCache) Append(start int, x *tensor.Tensor, from, n int) {
	if skip := (start - c.Len) % PageRows; c.X != nil || skip != c.skip {
		c.refill(c.Rows(), skip)
	}
	c.put(x, from, n)
}

// refill replaces all rows by copies of the rows of x, which may be nil, from index skip of the first page on.
func (c *RowCache) refill(x *tensor.Tensor, skip int) {
	*c = RowCache{skip: skip}
	if x != nil {
		c.put(x, 0, x.Dim(0))
	}
}

// put adds copies of n rows of x, starting at row from, to the pages.
func (c *RowCache) put(x *tensor.Tensor, from, n int) {
	for n > 0 {
		at := (c.skip + c.Len) % PageRows
		k := min(n, PageRows-at)
		c.makeRoom(x, at, k)
		tensor.CopyRows(c.own, at, x, from, k)
		c.Len, from, n = c.Len+k, from+k, n-k
	}
}

// makeRoom ensures that the page for the next n rows, which start at index at of it, belongs to this cache and is large
// enough. A page grows by step rows at a time, so that a short sequence takes little memory.
func (c *RowCache) makeRoom(x *tensor.Tensor, at, n int) {
	const step = 16
	i := (c.skip + c.Len) / PageRows
	room := (at + n + step - 1) / step * step
	if i < len(c.pages) {
		old := c.pages[i]
		if old == c.own && old.Dim(0) >= room {
			return
		}
		c.own = tensor.NewBeside(old, max(room, old.Dim(0)), old.Dim(-1))
		tensor.CopyRows(c.own, 0, old, 0, at)
		c.pages[i] = c.own
		return
	}
	c.own = tensor.NewBeside(x, room, x.Dim(-1))
	c.pages = append(c.pages, c.own)
}

// Past returns Len, or 0 if c is nil.
func (c *RowCache) Past() int {
	if c == nil {
		return 0
	}
	return c.Len
}

// Width returns d, or 0 if c is nil or has no rows.
func (c *RowCache) Width() int {
	if c.Past() == 0 {
		return 0
	}
	x, _, _ := c.Run(0)
	return x.Dim(-1)
}

// Replace replaces all rows by x (n, d), which belongs to a tape. Gradients flow through it.
func (c *RowCache) Replace(x *tensor.Tensor) { *c = RowCache{X: x, Len: x.Dim(0)} }

// Fill replaces all rows by copies of the rows of x (n, d). The start of the next Append determines their positions.
func (c *RowCache) Fill(x *tensor.Tensor) { c.refill(x, 0) }

// Run returns the location of row i: row at of x. The n rows of x from there on are rows i, i+1, … of c.
func (c *RowCache) Run(i int) (x *tensor.Tensor, at, n int) {
	if c.X != nil {
		return c.X, i, c.Len - i
	}
	at = (c.skip + i) % PageRows
	return c.pages[(c.skip+i)/PageRows], at, min(PageRows-at, c.Len-i)
}

// Rows returns all rows (Len, d): X, or a copy of the pages. It returns nil if there are no rows.
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

// Detach moves rows that belong to a tape into pages, without gradients.
func (c *RowCache) Detach() {
	if c.X != nil {
		c.refill(c.X, 0)
	}
}

// Clone returns an independent copy, without gradients. It costs a pointer for each page, and the copy of one page when
// the clone grows. Several goroutines may clone a cache at once, if none of them changes it.
func (c *RowCache) Clone() RowCache {
	out := *c
	out.Detach()
	if c.X == nil {
		out.pages, out.own = slices.Clone(c.pages), nil
	}
	return out
}

// Keep drops all but the last n rows, and gradients.
func (c *RowCache) Keep(n int) {
	if n >= c.Len {
		return
	}
	c.Detach()
	before := c.skip + c.Len - n
	c.pages = slices.Delete(c.pages, 0, min(before/PageRows, len(c.pages)))
	c.skip, c.Len = before%PageRows, n
}

// Bytes returns the memory of the rows. It includes pages that other caches share.
func (c *RowCache) Bytes() int {
	if c.X != nil {
		return c.X.Bytes()
	}
	n := 0
	for _, page := range c.pages {
		n += page.Bytes()
	}
	return n
}
