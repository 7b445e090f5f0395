package kernel

// Mix64 is the finalizer of SplitMix64: a bijection of 64-bit numbers whose outputs look random.
func Mix64(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Keep says whether dropout with a given seed keeps element i: true with probability 1 - threshold/2^32. A counter-based
// generator lets backward, and any split over cores, see the same mask without storing it.
func Keep(seed uint64, i int, threshold uint32) bool {
	return uint32(Mix64(seed+uint64(i)*keepStep)>>32) >= threshold
}

// KeepThreshold is the threshold of Keep for a dropout probability p.
func KeepThreshold(p float64) uint32 { return uint32(p * (1 << 32)) }

// keepStep is odd, so that no two elements have the same counter.
const keepStep = 0xd1342543de82ef95

// Drop applies dropout to the elements x: number i is x[i]·scale if Keep keeps element first+i, else 0.
func Drop(x []float32, seed uint64, first int, threshold uint32, scale float32) {
	if cpu != generic {
		for lo := 0; lo < len(x); lo += callLength {
			vecDrop(min(callLength, len(x)-lo), &x[lo], seed+uint64(first+lo)*keepStep, threshold, scale)
		}
		return
	}
	for i := range x {
		if Keep(seed, first+i, threshold) {
			x[i] *= scale
		} else {
			x[i] = 0
		}
	}
}

// DropAdd adds to y what Drop makes of x.
func DropAdd(y, x []float32, seed uint64, first int, threshold uint32, scale float32) {
	x = x[:len(y)]
	if cpu != generic {
		for lo := 0; lo < len(y); lo += callLength {
			vecDropAdd(min(callLength, len(y)-lo), &y[lo], &x[lo], seed+uint64(first+lo)*keepStep, threshold, scale)
		}
		return
	}
	for i, v := range x {
		if Keep(seed, first+i, threshold) {
			y[i] += float32(v * scale)
		}
	}
}
