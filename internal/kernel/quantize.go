package kernel

import "math"

// quantizeRow sets q[i] to the integer nearest to x[i]/scale, the even one of two, where scale is the largest |x[i]| / 127, and
// returns scale and Σ_i q[i]. Where that is not finite, or so small that its inverse is not, q is zero and scale what makes NaN of
// every product if x holds a NaN or an infinity, and 0 otherwise.
func quantizeRow(q []int8, x []float32) (scale float32, sum int32) {
	top := largest(x)
	inverse := 127 / top
	if !(top <= math.MaxFloat32) || inverse > math.MaxFloat32 {
		clear(q[:len(x)])
		return (top - top) * 0, 0
	}
	return top / 127, roundInto(q, x, inverse)
}

// largest is the largest |x[i]|, NaN where there is one.
func largest(x []float32) float32 {
	most, n := directLargest(x) // bits of |x| are in the order of |x|, those of NaN above all
	for _, v := range x[n:] {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(most)
}

// roundInto sets q[i] to the integer nearest to x[i]·inverse, of at most 127, and returns the sum of all.
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
