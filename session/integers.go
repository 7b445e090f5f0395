package session

import (
	"bytes"
	"fmt"
	"math"
	"unsafe"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// leastRow is the shortest row of values that is saved as integers: for shorter ones a factor is not worth it.
const leastRow = 8

// integers returns values as rows of integers from -127 to 127, each row with a factor, if every value is exactly its
// integer times its factor. Those are the keys and values that a model packed as int8 keeps (see engine.Rounded), whose
// factors have 16 bits and whose largest integer is 127; a row that has been read back is the same.
func integers(shape []int, values []float32) (q []int8, scales []float32, ok bool) {
	if len(shape) == 0 || len(values) < minRounded {
		return nil, nil, false
	}
	k := shape[len(shape)-1]
	if k < leastRow || !isRow(values[:k], nil) {
		return nil, nil, false // most states end here
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

// factor is what the integers of a row are multiplied by, 0 for zeros.
func factor(row []float32) float32 {
	top := float32(0)
	for _, v := range row {
		top = max(top, v, -v)
	}
	const most = 127
	return math.Float32frombits((math.Float32bits(top/most) + 0xff) &^ 0xff) // the next of 16 bits
}

// isRow reports whether every value of a row is an integer from -127 to 127 times its factor, and puts the integers
// into q, unless it is nil.
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

// asHeld returns the integers of a tensor if they and the factors have the form that a model stores: others have to be
// rounded again.
func asHeld(x *checkpoint.Tensor, factors []float32) (q []int8, ok bool) {
	for _, f := range factors {
		if !(f >= 0 && f <= math.MaxFloat32) || math.Float32bits(f)&0xff != 0 {
			return nil, false
		}
	}
	const least = 0x80 // -128, which no row has
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
