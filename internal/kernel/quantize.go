package kernel

import "math"

// quantizeRow sets q[i] to x[i]/scale rounded to nearest, ties to even, where scale is the largest |x[i]| / 127. It
// returns scale and Σ_i q[i]. If x holds a NaN or an infinity, q is zero and scale is NaN. If scale is so small that
// its inverse is infinite, q and scale are zero.
func quantizeRow(q []int8, x []float32) (scale float32, sum int32) {
	top := largest(x)
	inverse := 127 / top
	if !(top <= math.MaxFloat32) || inverse > math.MaxFloat32 {
		clear(q[:len(x)])
		return (top - top) * 0, 0
	}
	return top / 127, roundInto(q, x, inverse)
}

// largest returns the largest |x[i]|, or NaN if x holds one.
func largest(x []float32) float32 {
	most, n := directLargest(x) // the bits of |x| sort like |x|, with NaN above all
	for _, v := range x[n:] {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(most)
}

// roundInto sets q[i] to x[i]·inverse, of magnitude at most 127, rounded to the nearest integer, and returns Σ_i q[i].
func roundInto(q []int8, x []float32, inverse float32) (sum int32) {
	q = q[:len(x)]
	sum, done := directRoundInto(q, x, inverse)
	const round = 3 << 22 // 1.5·2^23: adding it leaves the integer nearest to a small number in the low bits
	for i := done; i < len(x); i++ {
		n := int8(math.Float32bits(float32(x[i]*inverse) + round))
		q[i] = n
		sum += int32(n)
	}
	return sum
}

// directLargest returns the largest bits of |x[i]| for i < n, where n is as far as there is assembly.
func directLargest(x []float32) (bits uint32, n int) {
	n = len(x) &^ 15
	if cpu == generic || n == 0 {
		return 0, 0
	}
	var lanes [16]uint32
	vecLargestBits(n, &x[0], &lanes[0])
	for _, v := range lanes {
		bits = max(bits, v)
	}
	return bits, n
}

// directRoundInto is roundInto for the first n numbers, where n is as far as there is assembly.
func directRoundInto(q []int8, x []float32, inverse float32) (sum int32, n int) {
	n = len(x) &^ 15
	if cpu == generic || n == 0 {
		return 0, 0
	}
	var lanes [16]int32
	vecRoundInto(n, &x[0], inverse, &q[0], &lanes[0])
	for _, v := range lanes {
		sum += v
	}
	return sum, n
}
