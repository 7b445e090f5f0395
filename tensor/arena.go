package tensor

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// Arena lends buffers and tensors for one step and takes them all back at Reset, so that a step with the same shapes as
// the one before allocates nothing. Buffers are kept in free lists by size class. There are sixteen classes per power
// of two, so at most a sixteenth of a buffer is wasted. If a class has no free buffer, a buffer of a class up to half
// as large again is used, so that steps of varying lengths do not fill a list for each length. If there is none, but
// the arena holds enough free memory, a larger buffer is cut in two. So steps that need other sizes in turn, such as
// those of single layers and of the loss, share memory. An Arena is for one goroutine.
type Arena struct {
	free  map[int][][]float32
	cuts  []cut // buffers that were cut in two; a cut of a part comes after the cut that made the part
	again bool  // whether a step was made before
	used  [][]float32
	slots []*Tensor
	next  int
	total int // elements in all buffers, lent or free
	lent  int // elements in buffers that are lent
	most  int // the largest value of lent so far
}

// NewArena returns an empty arena.
func NewArena() *Arena { return &Arena{free: map[int][][]float32{}} }

// sizeClass rounds n up to k·2^e with 16 ≤ k < 32, and to at least 16.
func sizeClass(n int) int {
	if n <= 16 {
		return 16
	}
	step := 1 << max(0, bits.Len(uint(n-1))-5)
	return (n + step - 1) / step * step
}

// wholeClass rounds n, which is at least 16, down to a size class.
func wholeClass(n int) int {
	step := 1 << max(0, bits.Len(uint(n))-5)
	return n / step * step
}

// Floats lends a buffer of n elements with unspecified contents.
func (a *Arena) Floats(n int) []float32 {
	buf := a.take(sizeClass(n))
	a.lent += len(buf)
	a.most = max(a.most, a.lent)
	a.used = append(a.used, buf)
	return buf[:n]
}

// take returns a free buffer of the class or of one of the next eight classes, else a part of a larger buffer, else a
// new buffer. The capacity of the buffer is the size of its class.
func (a *Arena) take(class int) []float32 {
	for {
		for c := class; c <= class+class/2; c = sizeClass(c + 1) {
			if len(a.free[c]) > 0 {
				return a.pop(c)
			}
		}
		if !a.again || class < leastCut || a.total+class <= a.most {
			break
		}
		if buf := a.cut(class); buf != nil {
			return buf
		}
		if !a.join() {
			break
		}
	}
	a.total += class
	return hugepage.Make[float32](class)[:class:class]
}

// pop takes a buffer from a class that has a free one.
func (a *Arena) pop(class int) []float32 {
	list := a.free[class]
	a.free[class] = list[:len(list)-1]
	return list[len(list)-1]
}

// cut is a buffer that was cut in two.
type cut struct{ whole, first, second []float32 }

// leastCut is the smallest part that is cut off. Parts begin at whole cache lines.
const leastCut = 256

// cut cuts a buffer of the class off the smallest free one that leaves another part. It returns nil if there is none.
func (a *Arena) cut(class int) []float32 {
	best := 0
	for c, list := range a.free {
		if len(list) > 0 && c >= class+leastCut && (best == 0 || c < best) {
			best = c
		}
	}
	if best == 0 {
		return nil
	}
	whole := a.pop(best)
	rest := wholeClass(best - class) // the remainder is not used until the two parts are joined
	c := cut{whole, whole[:class:class], whole[class:][:rest:rest]}
	a.cuts = append(a.cuts, c)
	a.putFree(c.second)
	return c.first
}

// join joins the two parts of each cut whose parts are both free. It reports whether there were any.
func (a *Arena) join() (joined bool) {
	for i := len(a.cuts) - 1; i >= 0; i-- { // cuts of parts first
		c := a.cuts[i]
		if a.indexFree(c.first) < 0 || a.indexFree(c.second) < 0 {
			continue
		}
		for _, part := range [][]float32{c.first, c.second} {
			at, list := a.indexFree(part), a.free[len(part)]
			a.free[len(part)] = slices.Delete(list, at, at+1)
		}
		a.putFree(c.whole)
		a.cuts, joined = slices.Delete(a.cuts, i, i+1), true
	}
	return joined
}

// indexFree returns the index of a buffer among the free ones of its class, or -1 if it is lent.
func (a *Arena) indexFree(buf []float32) int {
	return slices.IndexFunc(a.free[len(buf)], func(x []float32) bool { return &x[0] == &buf[0] })
}

func (a *Arena) putFree(buf []float32) { a.free[len(buf)] = append(a.free[len(buf)], buf) }

// Borrow lends a buffer of n elements with unspecified contents that Reset does not take back. The borrower returns it
// with Return. It is for gradients, which are not released in the order of their allocation.
func (a *Arena) Borrow(n int) []float32 {
	buf := a.Floats(n)
	a.used[len(a.used)-1] = nil
	a.used = a.used[:len(a.used)-1]
	return buf
}

// Return takes back a buffer from Borrow.
func (a *Arena) Return(buf []float32) {
	if cap(buf) > 0 {
		a.putBack(buf[:cap(buf)])
	}
}

// Tensor lends a tensor with unspecified contents.
func (a *Arena) Tensor(shape ...int) *Tensor {
	t := a.header(shape)
	t.data = a.Floats(t.Len())
	return t
}

// Like lends a tensor of x's shape, with a last axis of length last if that is positive. Its contents are unspecified.
func (a *Arena) Like(x *Tensor, last int) *Tensor {
	t := a.header(x.dims[:x.nd])
	if last > 0 {
		t.dims[t.nd-1] = last
	}
	t.data = a.Floats(t.Len())
	return t
}

// Over lends a tensor whose elements are in storage s, which must live as long as the step. It has x's shape except for
// the last axis, which has length last.
func (a *Arena) Over(s Storage, x *Tensor, last int) *Tensor {
	t := a.header(x.dims[:x.nd])
	t.dims[t.nd-1] = last
	t.SetStorage(s)
	return t
}

func (a *Arena) header(shape []int) *Tensor {
	if a.next == len(a.slots) {
		a.slots = append(a.slots, new(Tensor))
	}
	t := a.slots[a.next]
	a.next++
	*t = Tensor{lent: true}
	t.setShape(shape)
	return t
}

// Mark returns the current point in the order of lending, for ReleaseSince.
func (a *Arena) Mark() int { return len(a.used) }

// ReleaseSince takes back every buffer lent after mark except those in keep. Tensors over those buffers must not be
// used any more.
func (a *Arena) ReleaseSince(mark int, keep ...[]float32) {
	kept := mark
	for _, buf := range a.used[mark:] {
		if holds(keep, buf) {
			a.used[kept] = buf
			kept++
			continue
		}
		a.putBack(buf)
	}
	clear(a.used[kept:])
	a.used = a.used[:kept]
}

func holds(keep [][]float32, buf []float32) bool {
	for _, k := range keep {
		if len(k) > 0 && &k[0] == &buf[0] {
			return true
		}
	}
	return false
}

func (a *Arena) putBack(buf []float32) {
	a.lent -= len(buf)
	a.putFree(buf)
}

// Reset takes back everything that was lent. If the arena then holds more than twice the most that was ever lent at a
// time, as after steps of many lengths, it drops its smallest buffers, which the longest steps do not use.
func (a *Arena) Reset() {
	a.ReleaseSince(0)
	a.next, a.again = 0, a.again || a.most > 0
	if a.total <= 2*a.most {
		return
	}
	a.join()
	for _, class := range slices.Sorted(maps.Keys(a.free)) {
		for list := a.free[class]; len(list) > 0 && a.total > 2*a.most; a.free[class] = list {
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			a.total -= class
		}
	}
}

// Bytes returns the memory that the arena holds, lent or not: the most that any step so far has needed at a time.
func (a *Arena) Bytes() int { return 4 * a.total }
