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
// longer tensor of the tape. Otherwise the rows lie in pages, so that a cache grows without being copied. A written
// place of a page is never written again, so clones share pages: only the cache that made its last page writes to the
// free places of it, and a clone that grows copies that one page first.
//
// Pages end at multiples of PageRows, counted from the first position of the sequence, however the cache was filled.
type RowCache struct {
	X   *tensor.Tensor // (Len, d), of a tape; nil where the rows lie in pages
	Len int

	pages []*tensor.Tensor // (up to PageRows, d)
	own   *tensor.Tensor   // the last page, if this cache made it
	skip  int              // places of the first page before the rows
}

// Append adds copies of n rows of x (…, d), from row from on. The first of them is position start of the sequence. The
// cache is then not part of a tape.
func (c *RowCache) Append(start int, x *tensor.Tensor, from, n int) {
	if skip := (start - c.Len) % PageRows; c.X != nil || skip != c.skip {
		c.refill(c.Rows(), skip)
	}
	c.put(x, from, n)
}

// refill replaces all rows by copies of the rows of x, nil for none, from place skip of the first page on.
func (c *RowCache) refill(x *tensor.Tensor, skip int) {
	*c = RowCache{skip: skip}
	if x != nil {
		c.put(x, 0, x.Dim(0))
	}
}

// put adds copies of n rows of x, from row from on, to the pages.
func (c *RowCache) put(x *tensor.Tensor, from, n int) {
	for n > 0 {
		at := (c.skip + c.Len) % PageRows
		k := min(n, PageRows-at)
		c.makeRoom(x, at, k)
		tensor.CopyRows(c.own, at, x, from, k)
		c.Len, from, n = c.Len+k, from+k, n-k
	}
}

// makeRoom makes sure that the page for the next n rows, from place at of it on, is this cache's own and large enough.
// A page grows by step rows at a time, so that a short sequence takes little memory.
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

// Past returns Len, 0 for a cache of nil.
func (c *RowCache) Past() int {
	if c == nil {
		return 0
	}
	return c.Len
}

// Width returns d, 0 for a cache of nil or without rows.
func (c *RowCache) Width() int {
	if c.Past() == 0 {
		return 0
	}
	x, _, _ := c.Run(0)
	return x.Dim(-1)
}

// Replace makes x (n, d) all rows. It belongs to a tape, and gradients flow through it.
func (c *RowCache) Replace(x *tensor.Tensor) { *c = RowCache{X: x, Len: x.Dim(0)} }

// Fill replaces all rows by copies of the rows of x (n, d). Their positions follow from the start of the next Append.
func (c *RowCache) Fill(x *tensor.Tensor) { c.refill(x, 0) }

// Run returns where row i lies: at row at of x. The n rows of x from there on are rows i, i+1, … of c.
func (c *RowCache) Run(i int) (x *tensor.Tensor, at, n int) {
	if c.X != nil {
		return c.X, i, c.Len - i
	}
	at = (c.skip + i) % PageRows
	return c.pages[(c.skip+i)/PageRows], at, min(PageRows-at, c.Len-i)
}

// Rows returns all rows (Len, d): X, or a copy of what lies in pages. It is nil if there are none.
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

// Detach puts rows that belong to a tape into pages, without gradients.
func (c *RowCache) Detach() {
	if c.X != nil {
		c.refill(c.X, 0)
	}
}

// Clone returns an independent copy, without gradients. It costs a pointer for each page, and the copy of one page when
// it grows. Several goroutines may clone a cache that none of them changes.
func (c *RowCache) Clone() RowCache {
	out := *c
	out.Detach()
	if c.X == nil {
		out.pages, out.own = slices.Clone(c.pages), nil
	}
	return out
}

// Keep forgets all but the last n rows, and gradients.
func (c *RowCache) Keep(n int) {
	if n >= c.Len {
		return
	}
	c.Detach()
	before := c.skip + c.Len - n
	c.pages = slices.Delete(c.pages, 0, min(before/PageRows, len(c.pages)))
	c.skip, c.Len = before%PageRows, n
}

// Bytes is the memory that the rows take. Pages that others share are counted.
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
