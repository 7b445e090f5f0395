package session

import (
	"bytes"
	"fmt"
	"math"
	"unsafe"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// leastRow is the minimum length of a row that is saved as integers. For a shorter row the factor costs more than is
// saved.
const leastRow = 8

// integers returns values as rows of integers from -127 to 127 with one factor per row. ok is false unless every value
// is exactly its integer times the factor. The keys and values of a model packed as int8 have this form (see
// engine.Rounded): their factors have 16 bits and their largest integer is 127. Saving and loading a row does not
// change it.
func integers(shape []int, values []float32) (q []int8, scales []float32, ok bool) {
	if len(shape) == 0 || len(values) < minRounded {
		return nil, nil, false
	}
	k := shape[len(shape)-1]
	if k < leastRow || !isRow(values[:k], nil) {
		return nil, nil, false // most states return here
	}
	q, scales = make([]int8, len(values)), make([]float32, len(values)/k)
	for i := range scales {
		row := values[i*k:][:k]
		scales[i] = factor(row)
		if !isRow(row, q[i*k:]) {
			return nil, nil, false
		}
	}
	return q, scales, true
}

// factor returns the factor of a row's integers, 0 for a row of zeros.
func factor(row []float32) float32 {
	top := float32(0)
	for _, v := range row {
		top = max(top, v, -v)
	}
	const most = 127
	return math.Float32frombits((math.Float32bits(top/most) + 0xff) &^ 0xff) // round up to 16 bits
}

// isRow reports whether every value of a row is an integer from -127 to 127 times the factor of the row. If q is not
// nil, isRow stores the integers in q.
func isRow(row []float32, q []int8) bool {
	scale := factor(row)
	if !(scale <= math.MaxFloat32) {
		return false
	}
	inverse := float32(0)
	if scale > 0 {
		inverse = 1 / scale
	}
	for j, v := range row {
		whole := float32(math.RoundToEven(float64(v * inverse)))
		if !(whole >= -127 && whole <= 127) {
			return false
		}
		n := int8(whole)
		if math.Float32bits(float32(n)*scale) != math.Float32bits(v) {
			return false
		}
		if q != nil {
			q[j] = n
		}
	}
	return true
}

// storedIntegers returns the integers of a tensor if they and their factors have the form that a model stores.
// Otherwise the values must be rounded again.
func storedIntegers(x *checkpoint.Tensor, factors []float32) (q []int8, ok bool) {
	for _, f := range factors {
		if !(f >= 0 && f <= math.MaxFloat32) || math.Float32bits(f)&0xff != 0 {
			return nil, false
		}
	}
	const least = 0x80 // -128, which is not used
	if len(x.Data) == 0 || bytes.IndexByte(x.Data, least) >= 0 {
		return nil, false
	}
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(x.Data))), len(x.Data)), true
}

// widen multiplies integers by the factors of their rows.
func widen(name string, values []float32, shape []int, factors []float32) error {
	k := 0
	if len(shape) > 0 {
		k = shape[len(shape)-1]
	}
	if len(values) != len(factors)*k {
		return fmt.Errorf("found %d factors of %q, of shape %v", len(factors), name, shape)
	}
	for i, f := range factors {
		for j := range values[i*k:][:k] {
			values[i*k+j] *= f
		}
	}
	return nil
}
