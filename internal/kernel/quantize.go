package kernel

import (
	"math"
	"unsafe"
)

// record is a group of 32 numbers as integers from -127 to 127 times a factor. The assembly of products reads it.
type record struct {
	q      [groupTerms]int8
	factor float32
	start  int32   // start value for a sum of products, which corrects for the zero of the weights
	sum    float32 // sum of the numbers
	joined int32   // start of the joined row, if this is its first record: see vecJoinRows
}

const recordBytes = int(unsafe.Sizeof(record{}))

// quantizeGroups sets a record for every groupTerms numbers of x; the last may have fewer, and records after it become
// zero. The integers are x·(127/top), rounded to nearest, ties to even, where top is the largest |x| of the group, and
// the factor is top/127. start is zero times the sum of the integers. If x contains a NaN or an infinity, the factor is
// NaN and the integers are zero. If top is so small that 127/top is infinite, all are zero.
func quantizeGroups(to []record, x []float32, zero int32) {
	whole := len(x) / groupTerms
	if cpu.has(quantizeGroupsCode) && whole > 0 {
		vecQuantizeGroups(whole, &x[0], int(zero), &to[0].q[0])
	} else {
		for g := range whole {
			to[g].set(x[g*groupTerms:][:groupTerms], zero)
		}
	}
	if rest := x[whole*groupTerms:]; len(rest) > 0 {
		to[whole].set(rest, zero)
		whole++
	}
	clear(to[whole:])
}

// set is quantizeGroups for one group.
func (r *record) set(x []float32, zero int32) {
	inverse, factor := fit(127, largest(x))
	*r = record{factor: factor, sum: factor}
	if inverse == 0 {
		return
	}
	sum := roundInto(r.q[:], x, inverse)
	r.start, r.sum = zero*sum, float32(factor*float32(sum))
}

// fit returns the factor that scales numbers of largest magnitude top to the magnitude largest, and the factor that
// reverses it. If the first would not be finite, or top is not, it is 0, and the second factor is 0 or NaN.
func fit(largest, top float32) (inverse, factor float32) {
	if inverse = largest / top; !(top <= math.MaxFloat32) || inverse > math.MaxFloat32 {
		return 0, (top - top) * 0
	}
	return inverse, top / largest
}

// largest returns the largest |x[i]|, or NaN if x contains one.
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

// directLargest returns the largest bits of |x[i]| for i < n, where n is the number of elements that the assembly
// handles.
func directLargest(x []float32) (bits uint32, n int) {
	n = len(x) &^ 15
	if !cpu.has(largestBitsCode) || n == 0 {
		return 0, 0
	}
	var lanes [16]uint32
	vecLargestBits(n, &x[0], &lanes[0])
	for _, v := range lanes {
		bits = max(bits, v)
	}
	return bits, n
}

// directRoundInto is roundInto for the first n numbers, where n is the number that the assembly handles.
func directRoundInto(q []int8, x []float32, inverse float32) (sum int32, n int) {
	n = len(x) &^ 15
	if !cpu.has(roundIntoCode) || n == 0 {
		return 0, 0
	}
	var lanes [16]int32
	vecRoundInto(n, &x[0], inverse, &q[0], &lanes[0])
	for _, v := range lanes {
		sum += v
	}
	return sum, n
}
