package engine

import "github.com/hippo-ssm/hippo/tensor"

// GroupTerms is the number of elements of a row of weights that share a factor.
const GroupTerms = 32

// Groups is a matrix of weights (N, K) whose elements are integers already, in groups of GroupTerms of a row:
//
//	W[j, 32g+i] = scale·(factor[g]·q[32g+i] + least[g])
//
// Row sets q (K), factor and least (⌈K/32⌉ each, as float16) to those of row j, and returns its scale. Integers are
// from -128 to 127 of Int8, from -8 to 7 of Int4 and from 0 to 15 of Int4Min, which alone has least numbers. Several
// goroutines call Row.
type Groups struct {
	N, K int
	Row  func(j int, q []int8, factor, least []uint16) (scale float32)
}

// Rounding is a packed weight that reports what its elements were rounded to.
type Rounding interface {
	tensor.Packed
	// Stored is the precision of the elements.
	Stored() Precision
	// Exact reports whether results are to be those of float32 with these elements.
	Exact() bool
	// ReadRow sets dst (K) to row j.
	ReadRow(dst []float32, j int)
	// ReadGroups is Groups.Row for weights that are integers.
	ReadGroups(j int, q []int8, factor, least []uint16) (scale float32)
	// Sums are checksums of weights that are integers, of their bytes in memory, which are the same on every machine:
	// nil for others.
	Sums() []byte
}
