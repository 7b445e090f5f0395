package engine

import "github.com/hippo-ssm/hippo/tensor"

// GroupTerms is the number of elements of a row of weights that share a factor.
const GroupTerms = 32

// Groups is a matrix of weights (N, K) that is already quantized to integers, in groups of GroupTerms along a row:
//
//	W[j, 32g+i] = scale·(factor[g]·q[32g+i] + least[g])
//
// Row sets q (K), factor and least (⌈K/32⌉ each, as float16) to those of row j, and returns its scale. Integers are
// from -128 to 127 for Int8, from -8 to 7 for Int4 and from 0 to 15 for Int4Min; only Int4Min has least numbers.
// Several goroutines may call Row.
type Groups struct {
	N, K int
	Row  func(j int, q []int8, factor, least []uint16) (scale float32)
}

// Rounding is a packed weight that reports how its elements were rounded.
type Rounding interface {
	tensor.Packed
	// Stored returns the precision of the elements.
	Stored() Precision
	// Exact reports whether results must be those of float32 with these elements.
	Exact() bool
	// ReadRow sets dst (K) to row j.
	ReadRow(dst []float32, j int)
	// ReadGroups is Groups.Row, for weights that are integers.
	ReadGroups(j int, q []int8, factor, least []uint16) (scale float32)
	// Sums returns checksums of integer weights, computed from their bytes in memory, which are the same on every
	// machine. It returns nil for other weights.
	Sums() []byte
}
