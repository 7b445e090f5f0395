package engine

import "github.com/hippo-ssm/hippo/tensor"

// PageLen is the number of positions of a full page. A page of 12 heads of 64 is 400 KB: calls of kernels for one
// page cost little beside reading it, and a clone that grows copies 200 KB on average.
const PageLen = 64

// pageStep is the number of positions by which the last page grows, so that an idle sequence takes little more memory
// than its positions. Until a page is full, each of its positions is copied three or four times.
const pageStep = 8

// Page holds keys and values of consecutive positions, head by head.
type Page struct {
	Rows    []*tensor.Tensor // keys, and values if any, (heads, Room, head_dim); empty if they are rounded
	Rounded Rounded          // heads·Room keys and as many values, if any; nil for float32
	Room    int              // the capacity in positions: PageLen in all pages except the last
	heads   int
}

// Rounded holds rows of keys (0), and perhaps of values (1), in another precision than float32.
type Rounded interface {
	// Empty returns memory in the same precision for rows of keys (kinds 1), or of keys and values (kinds 2).
	Empty(kinds, rows, headDim int) Rounded
	// Copy copies n rows of both kinds, starting at row at of from, to row to.
	Copy(to int, from Rounded, at, n int)
	// Set rounds x to a row of keys or values.
	Set(which, row int, x []float32)
	// Get converts n rows of keys or values to float32, starting at the given row.
	Get(x []float32, which, row, n int)
	// InIntegers reports whether rows are integers of 8 bits with a factor for each row.
	InIntegers() bool
	// Integers returns n rows of integers of keys or values, starting at the given row, with their factors.
	Integers(which, row, n int) (q []int8, factors []float32)
	// SetIntegers sets rows of integers of keys or values, starting at the given row.
	SetIntegers(which, row int, q []int8, factors []float32)
	// RowBytes returns the size of a key or a value of one head.
	RowBytes(headDim int) int
}

// Rounder is a packed weight that determines how keys and values are stored.
type Rounder interface{ Rounded() Rounded }

// newPageBeside returns a page for n positions in the storage of x, or in host memory if x is nil.
func (c *KVCache) newPageBeside(x *tensor.Tensor, n int) *Page {
	room := (n + pageStep - 1) / pageStep * pageStep
	page := &Page{Room: room, heads: c.heads}
	switch {
	case c.Rounded != nil:
		page.Rounded = c.Rounded.Empty(c.kinds(), c.heads*room, c.hd)
	case x != nil && x.Storage() != nil:
		for range c.kinds() {
			page.Rows = append(page.Rows, tensor.NewBeside(x, c.heads, room, c.hd))
		}
	default: // adjacent in memory, because a token reads both
		page.Rows = tensor.Lend(page, c.kinds(), c.heads, room, c.hd)
	}
	return page
}

// keys returns the keys of a page, or nil if they are rounded.
func (p *Page) keys() *tensor.Tensor {
	if p.Rounded != nil {
		return nil
	}
	return p.Rows[0]
}

// copyFrom copies the first n positions of another page.
func (p *Page) copyFrom(from *Page, n int) {
	if p.Rounded == nil {
		for which, x := range p.Rows {
			tensor.CopyRows(x, 0, from.Rows[which], 0, n)
		}
		return
	}
	for h := range p.heads {
		p.Rounded.Copy(h*p.Room, from.Rounded, h*from.Room, n)
	}
}
