package hugepage

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// slabSize is the size in bytes of the memory from which pieces are cut. At least seven eighths of it lie on huge
// pages.
const slabSize = 8 * pageSize

// slab is memory for several pieces of one length.
type slab[T Element] struct {
	free [][]T
	all  int
}

// slabs holds the slabs of one type that have free pieces, by the length of the pieces.
type slabs[T Element] struct {
	mu   sync.Mutex
	open map[int][]*slab[T]
}

var floats slabs[float32]

// Lend returns n elements with unspecified contents that belong to owner. Once owner is garbage, they are lent again
// and must no longer be used. Pieces of a few hundred kilobytes are too small for huge pages, so they are cut from
// slabs that lie on huge pages. A slab without lent pieces is left to the garbage collector.
func Lend[P any](owner *P, n int) []float32 { return lend(&floats, owner, n) }

func lend[T Element, P any](from *slabs[T], owner *P, n int) []T {
	from.mu.Lock()
	defer from.mu.Unlock()
	open := from.open[n]
	if len(open) == 0 {
		open = append(open, newSlab[T](n))
	}
	s := open[len(open)-1]
	piece := s.free[len(s.free)-1]
	if s.free = s.free[:len(s.free)-1]; len(s.free) == 0 {
		open = slices.Delete(open, len(open)-1, len(open))
	}
	if from.open == nil {
		from.open = map[int][]*slab[T]{}
	}
	from.open[n] = open
	runtime.AddCleanup(owner, func(piece []T) { from.giveBack(s, piece) }, piece)
	return piece
}

// newSlab returns a slab with pieces of n elements, at least one piece.
func newSlab[T Element](n int) *slab[T] {
	s := &slab[T]{all: max(1, slabSize/(n*int(unsafe.Sizeof(*new(T)))))}
	memory := Make[T](s.all * n)
	for i := range s.all {
		s.free = append(s.free, memory[i*n:][:n:n])
	}
	slices.Reverse(s.free) // lend in the order of addresses
	return s
}

// giveBack frees a piece of s.
func (from *slabs[T]) giveBack(s *slab[T], piece []T) {
	from.mu.Lock()
	defer from.mu.Unlock()
	n := len(piece)
	if len(s.free) == 0 {
		from.open[n] = append(from.open[n], s)
	}
	if s.free = append(s.free, piece); len(s.free) == s.all {
		from.open[n] = slices.DeleteFunc(from.open[n], func(o *slab[T]) bool { return o == s })
	}
}
