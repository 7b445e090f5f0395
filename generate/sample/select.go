package sample

import (
	"math/bits"
	"slices"
)

// selectLargest moves the k largest candidates to the front, in any order. Its expected time is linear in len(c). It
// uses quickselect (Hoare 1961) with the median of three as the pivot, and sorts if an unlucky order makes that slow
// (introselect, Musser 1997).
func selectLargest(c []candidate, k int) {
	const small = 12 // for this length, sorting is as fast
	for rounds := 2 * bits.Len(uint(len(c))); rounds > 0 && len(c) > small && 0 < k && k < len(c); rounds-- {
		p := partition(c)
		if k <= p {
			c = c[:p]
		} else {
			c, k = c[p:], k-p
		}
	}
	if 0 < k && k < len(c) {
		sortLargestFirst(c)
	}
}

// partition moves the larger candidates to c[:p], the smaller to c[p:], neither empty. len(c) must be 3 or more.
// (Hoare's scheme; no two candidates are equal.)
func partition(c []candidate) (p int) {
	pivot := median(c[0], c[len(c)/2], c[len(c)-1])
	i, j := 0, len(c)-1
	for {
		for larger(c[i], pivot) {
			i++
		}
		for larger(pivot, c[j]) {
			j--
		}
		if i >= j {
			return i
		}
		c[i], c[j] = c[j], c[i]
		i++
		j--
	}
}

func median(a, b, c candidate) candidate {
	if larger(b, a) {
		a, b = b, a
	}
	// a is larger than b.
	switch {
	case larger(c, a):
		return a
	case larger(b, c):
		return b
	}
	return c
}

// smallest returns the smallest of c, which is not empty.
func smallest(c []candidate) candidate {
	least := c[0]
	for _, x := range c[1:] {
		if larger(least, x) {
			least = x
		}
	}
	return least
}

func sortLargestFirst(c []candidate) {
	slices.SortFunc(c, func(a, b candidate) int {
		switch {
		case larger(a, b):
			return -1
		case larger(b, a):
			return 1
		}
		return 0
	})
}
