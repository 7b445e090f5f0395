package tensor

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// Arena lends buffers and tensors for one step and takes them all back at Reset, so that a step with the same shapes as
// the one before makes no garbage. Buffers are kept in free lists by size class: sixteen classes per power of two, so
// at most a sixteenth of a buffer is waste. If a class has no free buffer, a class up to half as large again may serve,
// so that steps of varying lengths do not fill a list for each. An Arena is for one goroutine.
type Arena struct {
	free  map[int][][]float32
	used  [][]float32
	slots []*Tensor
	next  int
	total int // elements in all buffers, lent or free
	lent  int // elements in buffers that are lent
	most  int // the most that were lent at a time
}

// NewArena returns an empty arena.
func NewArena() *Arena { return &Arena{free: map[int][][]float32{}} }

// sizeClass rounds n up to k·2^e with 16 ≤ k < 32, and to 16 at least.
func sizeClass(n int) int {
	if n <= 16 {
		return 16
	}
	step := 1 << max(0, bits.Len(uint(n-1))-5)
	return (n + step - 1) / step * step
}

// Floats lends a buffer of n elements with unspecified contents.
func (a *Arena) Floats(n int) []float32 {
	buf := a.take(sizeClass(n))
	a.lent += len(buf)
	a.most = max(a.most, a.lent)
	a.used = append(a.used, buf)
	return buf[:n]
}

// take returns a free buffer of the class or of one of the next eight, else a new one. Its capacity is the size of its
// class.
func (a *Arena) take(class int) []float32 {
	for c := class; c <= class+class/2; c = sizeClass(c + 1) {
		if list := a.free[c]; len(list) > 0 {
			a.free[c] = list[:len(list)-1]
			return list[len(list)-1]
		}
	}
	a.total += class
	return hugepage.Make[float32](class)[:class:class]
}

// Borrow lends a buffer of n elements with unspecified contents that Reset does not take back: the borrower returns it
// with Return. It is for gradients, which are released in another order than they are made.
func (a *Arena) Borrow(n int) []float32 {
	buf := a.Floats(n)
	a.used[len(a.used)-1] = nil
	a.used = a.used[:len(a.used)-1]
	return buf
}

// Return takes back what Borrow lent.
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

// Like lends a tensor of x's shape, its last axis of length last when that is positive; contents unspecified.
func (a *Arena) Like(x *Tensor, last int) *Tensor {
	t := a.header(x.dims[:x.nd])
	if last > 0 {
		t.dims[t.nd-1] = last
	}
	t.data = a.Floats(t.Len())
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
	a.free[len(buf)] = append(a.free[len(buf)], buf)
}

// Reset takes back everything that was lent. If the arena then holds more than twice the most that was ever lent at
// a time, as after steps of many lengths, it drops its smallest buffers, which the longest steps do not use.
func (a *Arena) Reset() {
	a.ReleaseSince(0)
	a.next = 0
	if a.total <= 2*a.most {
		return
	}
	for _, class := range slices.Sorted(maps.Keys(a.free)) {
		for list := a.free[class]; len(list) > 0 && a.total > 2*a.most; a.free[class] = list {
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			a.total -= class
		}
	}
}

// Bytes is the memory the arena holds, lent or not: the most that any step since it was made needed at a time.
func (a *Arena) Bytes() int { return 4 * a.total }
