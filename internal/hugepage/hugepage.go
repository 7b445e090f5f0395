// Package hugepage allocates large slices and advises the system to back them by huge pages, of 2 MB where possible.
// Reading them is 10 to 30 % faster than with pages of 4 KB (fewer TLB misses, longer runs of the prefetcher). This is
// only advice: the garbage collector owns the memory as usual, and a system without huge pages, or one that refuses,
// works as before.
//
// Source: madvise(2), MADV_HUGEPAGE.
package hugepage

import "unsafe"

const (
	pageSize = 2 << 20
	// least is the smallest size in bytes for which to advise: a smaller slice covers too few whole huge pages.
	least = 2 * pageSize
)

// Element is a type of slice elements: numbers, which hold no pointers for the garbage collector to scan.
type Element interface {
	~float32 | ~uint32 | ~uint16 | ~uint8 | ~int8
}

// Make returns a slice of n zeros.
func Make[T Element](n int) []T {
	s := make([]T, n)
	Advise(s)
	return s
}

// Advise asks for huge pages under the part of s that covers whole ones, if s is large enough. It should be called
// before s is written to, because pages are chosen when they are first touched.
func Advise[T Element](s []T) {
	start := unsafe.Pointer(unsafe.SliceData(s))
	size := len(s) * int(unsafe.Sizeof(*new(T)))
	if inside := wholePages(uintptr(start), size); inside.n > 0 {
		advise(unsafe.Slice((*byte)(start), size)[inside.at:][:inside.n])
	}
}

// part is a range of n bytes from byte at.
type part struct{ at, n int }

// wholePages returns the part of size bytes at an address that covers whole huge pages. It is empty if size is below
// least.
func wholePages(address uintptr, size int) part {
	if size < least {
		return part{}
	}
	at := int(-address & (pageSize - 1))
	return part{at, max(0, size-at) &^ (pageSize - 1)}
}
