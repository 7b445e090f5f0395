// Package counter computes random numbers as functions of a seed and a position (counter-based), so that any split of
// the work over cores and machines uses the same numbers without storing them.
package counter

// Mix64 is the finalizer of SplitMix64: a bijection of 64-bit numbers whose outputs look random.
func Mix64(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Step is the distance between the counters of neighboring elements. It is odd, so that no two elements have the same
// counter.
const Step = 0xd1342543de82ef95

// Keep reports whether dropout with a given seed keeps element i: true with probability 1 - threshold/2^32.
func Keep(seed uint64, i int, threshold uint32) bool {
	return uint32(Mix64(seed+uint64(i)*Step)>>32) >= threshold
}

// KeepThreshold returns the threshold of Keep for a dropout probability p.
func KeepThreshold(p float64) uint32 { return uint32(p * (1 << 32)) }
