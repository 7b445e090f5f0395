package kernel

import "github.com/hippo-ssm/hippo/internal/counter"

// Drop applies dropout to the elements of x: element i becomes x[i]·scale if counter.Keep keeps element first+i, else
// 0.
func Drop(x []float32, seed uint64, first int, threshold uint32, scale float32) {
	if cpu.has(dropCode) {
		for lo := 0; lo < len(x); lo += callLength {
			vecDrop(min(callLength, len(x)-lo), &x[lo], seed+uint64(first+lo)*counter.Step, threshold, scale)
		}
		return
	}
	for i := range x {
		if counter.Keep(seed, first+i, threshold) {
			x[i] *= scale
		} else {
			x[i] = 0
		}
	}
}

// DropAdd adds the result of Drop on x to y.
func DropAdd(y, x []float32, seed uint64, first int, threshold uint32, scale float32) {
	x = x[:len(y)]
	if cpu.has(dropAddCode) {
		for lo := 0; lo < len(y); lo += callLength {
			vecDropAdd(min(callLength, len(y)-lo), &y[lo], &x[lo], seed+uint64(first+lo)*counter.Step, threshold, scale)
		}
		return
	}
	for i, v := range x {
		if counter.Keep(seed, first+i, threshold) {
			y[i] += float32(v * scale)
		}
	}
}
