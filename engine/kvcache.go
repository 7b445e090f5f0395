package engine

import (
	"runtime"
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// KVCache holds the (rotated) keys and the values of the last Len positions of one sequence.
//
// While a tape records, Attention replaces K and V by new tensors of exactly these positions, through which gradients
// flow into the past. Otherwise they are stored in pages, so that a cache grows without being copied. A position of a
// page is written only once, so clones share pages: only the cache that created its last page writes to the free
// positions of that page. A clone that grows copies that one page first. Unused pages are garbage collected.
//
// Pages end at multiples of PageLen, counted from the first position of the sequence. So a sum page by page has the
// same bits however the cache was filled.
//
// With Rounded, keys and values are rounded before any query sees them, including those of its own row. K and V are nil
// then, and no gradient flows into the past. With KeysAsValues the keys are the values: only keys are stored, and V is
// nil.
type KVCache struct {
	K, V    *tensor.Tensor // (heads, Len, head_dim), results of a tape; nil if they are in pages
	Len     int
	Rounded Rounded // the precision of pages, without rows; nil for float32

	KeysAsValues bool

	pages     []*Page
	skip      int   // positions of the first page before the first one in use
	own       *Page // the last page, if this cache created it
	heads, hd int
}

// kinds returns 2 for keys and values, or 1 for keys only.
func (c *KVCache) kinds() int { return kindsOf(c.KeysAsValues) }

// empty returns a cache of the same kind without positions. The first position will be stored at index skip of its
// page.
func (c *KVCache) empty(skip int) KVCache {
	return KVCache{Rounded: c.Rounded, KeysAsValues: c.KeysAsValues, skip: skip}
}

// NewKVCache returns an empty cache in the precision of the weights w.
func NewKVCache(w *tensor.Tensor) KVCache {
	if r, ok := w.Packed().(Rounder); ok {
		return KVCache{Rounded: r.Rounded()}
	}
	return KVCache{}
}

// Reserve adds pages for l more positions, from position start of the sequence on. The caller writes them to the places
// that At returns, and then adds l to Len.
func (c *KVCache) Reserve(start, l, heads, hd int) { c.reserve(nil, start, l, heads, hd) }

// Append adds copies of keys and values (heads, l, head_dim), from position start of the sequence on, to pages in the
// storage of k. They are not rounded. v is nil if only keys are stored.
func (c *KVCache) Append(start int, k, v *tensor.Tensor) {
	n, l := c.Len, k.Dim(-2)
	c.ReserveBeside(k, start, l, k.Dim(-3), k.Dim(-1))
	c.Len += l
	for which, x := range []*tensor.Tensor{k, v}[:c.kinds()] {
		c.runs(n, l, func(page *Page, place, done, m int) { tensor.CopyRows(page.Rows[which], place, x, done, m) })
	}
}

// ReserveBeside is Reserve in the storage of tensor k. Keys and values that were read from a file are moved there, too.
func (c *KVCache) ReserveBeside(k *tensor.Tensor, start, l, heads, hd int) {
	c.Detach()
	if c.Len > 0 && c.pages[0].keys().Storage() == nil && k.Storage() != nil {
		for i, page := range c.pages {
			moved := c.newPageBeside(k, page.Room)
			for which, x := range page.Rows {
				tensor.Copy(moved.Rows[which], x)
			}
			c.pages[i], c.own = moved, moved
		}
	}
	c.reserve(k, start, l, heads, hd)
}

// reserve is Reserve in the storage of a tensor, or in host memory if beside is nil.
func (c *KVCache) reserve(beside *tensor.Tensor, start, l, heads, hd int) {
	c.Detach()
	c.heads, c.hd = heads, hd
	c.align((start - c.Len) % PageLen)
	first, end := c.skip+c.Len, c.skip+c.Len+l
	for i := first / PageLen; i*PageLen < end; i++ {
		used, need := max(0, first-i*PageLen), min(PageLen, end-i*PageLen)
		if i == len(c.pages) {
			c.pages = append(c.pages, c.newPageBeside(beside, need))
		} else if page := c.pages[i]; page.Room < need || page != c.own {
			c.pages[i] = c.newPageBeside(page.keys(), max(page.Room, need))
			c.pages[i].copyFrom(page, used)
			runtime.KeepAlive(page) // its memory is valid only while it is reachable
		}
		c.own = c.pages[i]
	}
}

// align moves keys and values so that the first position has index skip in its page.
func (c *KVCache) align(skip int) {
	switch {
	case c.skip == skip:
	case c.Len == 0:
		c.pages, c.own, c.skip = nil, nil, skip
	default:
		k, v := c.Tensors(c.Len)
		c.refill(k, v, skip)
	}
}

// refill stores keys and values (…, heads, n, head_dim) in new pages, from index skip of the first page on.
func (c *KVCache) refill(k, v *tensor.Tensor, skip int) {
	n := k.Dim(-2)
	*c = c.empty(skip)
	c.makeRoom(k, n)
	for which, x := range []*tensor.Tensor{k, v}[:c.kinds()] {
		c.put(which, x)
	}
}

// makeRoom adds n positions without contents to an empty cache, in the storage of x.
func (c *KVCache) makeRoom(x *tensor.Tensor, n int) {
	c.heads, c.hd = x.Dim(-3), x.Dim(-1)
	for end := c.skip + n; len(c.pages)*PageLen < end; {
		c.own = c.newPageBeside(x, min(PageLen, end-len(c.pages)*PageLen))
		c.pages = append(c.pages, c.own)
	}
	c.Len = n
}

// At returns the page of position i, counted from the first in the cache, and its place in that page. left is the
// number of places from there to the end of a full page.
func (c *KVCache) At(i int) (page *Page, place, left int) {
	place = (c.skip + i) % PageLen
	return c.pages[(c.skip+i)/PageLen], place, PageLen - place
}

// runs calls f for each run of the positions [from, from+n) that is in one page: m positions from index place on, after
// the done positions of earlier runs.
func (c *KVCache) runs(from, n int, f func(page *Page, place, done, m int)) {
	for done := 0; done < n; {
		page, place, m := c.At(from + done)
		m = min(m, n-done)
		f(page, place, done, m)
		done += m
	}
	runtime.KeepAlive(c) // the memory of a page is valid only while it is reachable
}

// CopyTo copies the keys (0) or values (1) of n positions, starting at position from, to the front of x (heads, ≥ n,
// head_dim). They must not be rounded.
func (c *KVCache) CopyTo(x *tensor.Tensor, which, from, n int) {
	if c.K != nil {
		tensor.CopyRows(x, 0, [2]*tensor.Tensor{c.K, c.V}[which], from, n)
		return
	}
	c.runs(from, n, func(page *Page, place, done, m int) { tensor.CopyRows(x, done, page.Rows[which], place, m) })
}

// put sets the keys (0) or values (1) of all positions to x (…, heads, Len, head_dim).
func (c *KVCache) put(which int, x *tensor.Tensor) {
	if c.Rounded == nil {
		c.runs(0, c.Len, func(page *Page, place, done, m int) { tensor.CopyRows(page.Rows[which], place, x, done, m) })
		return
	}
	values := make([]float32, x.Len())
	x.CopyTo(values)
	c.runs(0, c.Len, func(page *Page, place, done, m int) {
		for h := range c.heads {
			for i := range m {
				page.Rounded.Set(which, h*page.Room+place+i, values[(h*c.Len+done+i)*c.hd:][:c.hd])
			}
		}
	})
}

// get returns the keys (0) or values (1) of n ≥ 1 positions, starting at position from, in float32.
func (c *KVCache) get(which, from, n int) *tensor.Tensor {
	if c.Rounded == nil {
		beside := c.K
		if beside == nil {
			beside = c.pages[0].keys()
		}
		x := tensor.NewBeside(beside, beside.Dim(-3), n, beside.Dim(-1))
		c.CopyTo(x, which, from, n)
		return x
	}
	values := make([]float32, c.heads*n*c.hd)
	c.runs(from, n, func(page *Page, place, done, m int) {
		for h := range c.heads {
			page.Rounded.Get(values[(h*n+done)*c.hd:], which, h*page.Room+place, m)
		}
	})
	return tensor.FromSlice(values, c.heads, n, c.hd)
}

// Detach moves keys and values that are results of a tape into pages, without gradients.
func (c *KVCache) Detach() {
	if c.K != nil {
		c.refill(c.K, c.V, 0)
	}
}

// Clone returns an independent copy without gradients. It costs a pointer for each page, and the copy of one page when
// the clone grows. Several goroutines may clone a cache at once, if none of them changes it.
func (c *KVCache) Clone() KVCache {
	out := *c
	out.Detach()
	if c.K == nil {
		out.pages, out.own = slices.Clone(c.pages), nil
	}
	return out
}

// Keep drops all but the last n positions, gradients, and pages without remaining positions. Pages still end at the
// same positions of the sequence.
func (c *KVCache) Keep(n int) {
	if n >= c.Len {
		return
	}
	c.Detach()
	c.skip += c.Len - n
	c.pages = slices.Delete(c.pages, 0, c.skip/PageLen)
	c.skip, c.Len = c.skip%PageLen, n
	if len(c.pages) == 0 {
		c.own = nil
	}
}

// Tensors returns copies of the keys and values of the last n positions, or of all if there are fewer, in float32:
// (heads, n, head_dim). v is nil if only keys are stored. A cache that Fill makes of them has the same bits as c. The
// cache must not be empty.
func (c *KVCache) Tensors(n int) (k, v *tensor.Tensor) {
	if c.KeysAsValues {
		return c.Tensor(0, n), nil
	}
	return c.Tensor(0, n), c.Tensor(1, n)
}

// Tensor returns one of the results of Tensors: the keys (0) or the values (1).
func (c *KVCache) Tensor(which, n int) *tensor.Tensor {
	n = min(n, c.Len)
	return c.get(which, c.Len-n, n)
}

// Fill sets the keys (0) or the values (1) to x (…, heads, n, head_dim). The cache must be empty, or only the other
// kind may have been filled. Fill reports whether both have the same number of positions.
func (c *KVCache) Fill(which int, x *tensor.Tensor) bool {
	if !c.makeRoomOnce(x) {
		return false
	}
	c.put(which, x)
	return true
}

// makeRoomOnce adds the positions of x (…, heads, n, head_dim), without contents, to an empty cache. It reports whether
// the cache now has n positions in pages.
func (c *KVCache) makeRoomOnce(x *tensor.Tensor) bool {
	n := x.Dim(-2)
	if c.Len == 0 {
		*c = c.empty(0)
		c.makeRoom(x, n)
	}
	return c.Len == n && c.K == nil
}

// RowBytes returns the size of a key or a value of one head.
func (c *KVCache) RowBytes(hd int) int {
	if c.Rounded == nil {
		return 4 * hd
	}
	return c.Rounded.RowBytes(hd)
}

// Pages calls f for each page, with the size of the page and the size of the positions in it that c sees. Clones share
// pages; the pointer identifies a page.
func (c *KVCache) Pages(f func(page *Page, bytes, seen int)) {
	each := c.kinds() * c.heads * c.RowBytes(c.hd)
	for i, page := range c.pages {
		from, to := max(c.skip, i*PageLen), min(c.skip+c.Len, (i+1)*PageLen)
		f(page, page.Room*each, max(0, to-from)*each)
	}
}

// Bytes returns the memory of keys and values. It includes at most pageStep-1 unused positions of the last page, the
// dropped positions of the first page, and pages that other caches share.
func (c *KVCache) Bytes() int {
	if c.K != nil {
		return c.kinds() * c.K.Bytes()
	}
	n := 0
	for _, page := range c.pages {
		n += c.kinds() * c.heads * page.Room * c.RowBytes(c.hd)
	}
	return n
}
