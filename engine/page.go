package engine

import "github.com/hippo-ssm/hippo/tensor"

// PageLen is the number of positions of a full page. A page of 12 heads of 64 is 400 KB: calls of kernels for one
// page cost little beside reading it, and a clone that grows copies 200 KB on average.
const PageLen = 64

// pageStep is the number of positions by which the last page grows, so that an idle sequence takes little more memory
// than its positions. Until a page is full, each of its positions has been copied three or four times.
const pageStep = 8

// Page holds keys and values of consecutive positions, head by head.
type Page struct {
	Rows    []*tensor.Tensor // keys, and values if there are any, (heads, Room, head_dim); none where they are rounded
	Rounded Rounded          // heads·Room keys and as many values, if any; nil for float32
	Room    int              // the capacity in places: PageLen in all pages but the last
	heads   int
}

// Rounded holds rows of keys (0), and perhaps of values (1), in another precision than float32.
type Rounded interface {
	// Empty returns memory for keys (1), or keys and values (2), of so many rows each in the same precision.
	Empty(kinds, rows, headDim int) Rounded
	// Copy copies n rows of both from row at of from to row to.
	Copy(to int, from Rounded, at, n int)
	// Set rounds x to a row of keys or values.
	Set(which, row int, x []float32)
	// Get widens n rows of keys or values from the given one on.
	Get(x []float32, which, row, n int)
	// InIntegers reports whether rows are integers of 8 bits with a factor each.
	InIntegers() bool
	// Integers are n rows of integers of keys or values from the given one on, with their factors.
	Integers(which, row, n int) (q []int8, factors []float32)
	// SetIntegers sets rows of integers of keys or values from the given one on.
	SetIntegers(which, row int, q []int8, factors []float32)
	// RowBytes is the memory of a key or a value of one head.
	RowBytes(headDim int) int
}

// Rounder is a packed weight that determines how keys and values are stored.
type Rounder interface{ Rounded() Rounded }

// newPageBeside returns a page for n positions in the storage of x, nil for ordinary memory.
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
	default: // side by side, as a token reads them
		page.Rows = tensor.Lend(page, c.kinds(), c.heads, room, c.hd)
	}
	return page
}

// keys are those of a page, nil where they are rounded.
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
