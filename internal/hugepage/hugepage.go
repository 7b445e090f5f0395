// Package hugepage makes large slices whose memory the system is asked to back by huge pages, 2 MB each where it can, which
// memory streams from 10 to 30 % faster than from pages of 4 KB (fewer misses of the address translation, longer runs of the
// prefetcher). The advice is all there is: the garbage collector owns the memory as any other, and a system that has no such
// pages, or refuses, costs nothing.
//
// It imports golang.org/x/sys and the standard library. Source: madvise(2), MADV_HUGEPAGE.
package hugepage

import "unsafe"

const (
	pageSize = 2 << 20
	// least is the size in bytes from which the advice is given: below it too little of a slice lies on whole huge pages.
	least = 2 * pageSize
)

// Element is what slices are made of: numbers, in which the garbage collector looks for no pointers.
type Element interface {
	~float32 | ~uint32 | ~uint16 | ~int8
}

// Make returns a slice of n zeros.
func Make[T Element](n int) []T {
	s := make([]T, n)
	Advise(s)
	return s
}

// Advise asks for huge pages under the part of s that fills whole ones, which is nothing where s is small. It should be called
// before s is written to, as pages are chosen when they are first touched.
func Advise[T Element](s []T) {
	start := unsafe.Pointer(unsafe.SliceData(s))
	size := len(s) * int(unsafe.Sizeof(*new(T)))
	if inside := wholePages(uintptr(start), size); inside.n > 0 {
		advise(unsafe.Slice((*byte)(start), size)[inside.at:][:inside.n])
	}
}

// part is n bytes from byte at on.
type part struct{ at, n int }

// wholePages is the part of size bytes at an address that fills whole huge pages, nothing for fewer bytes than least.
func wholePages(address uintptr, size int) part {
	if size < least {
		return part{}
	}
	at := int(-address & (pageSize - 1))
	return part{at, max(0, size-at) &^ (pageSize - 1)}
}
