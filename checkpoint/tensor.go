package checkpoint

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"reflect"
	"strings"
	"unsafe"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// DType is an element type, spelled as in safetensors.
type DType string

// The element types that this package reads and writes.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U8   DType = "U8"
	Bool DType = "BOOL" // one byte, 0 or 1
)

// Size returns the number of bytes of an element, or 0 for an unknown type and for one that quantizes blocks (see
// Block).
func (d DType) Size() int {
	if elements, bytes := d.Block(); elements == 1 {
		return bytes
	}
	return 0
}

// Tensor is a named array in row-major order.
type Tensor struct {
	Name  string
	DType DType
	Shape []int // empty for a single number
	// Data is little-endian and contiguous. In a tensor from a File it may be the mapped file itself: it must not be
	// written to, and it is invalid after File.Close. Reading it directly after the file was truncated on disk kills
	// the process (the operating system sends SIGBUS); Float32, Float64 and Int64 return an error instead.
	Data []byte

	home *mapping // mapping of the file that Data is in, or nil

	columns, skip int              // of rows of integers or reordered rows: their length, elements to skip in the first
	order         []int            // order of the pieces of a row, see Reordered; nil if Data is in order
	pieces        iter.Seq[[]byte] // used instead of Data, for bytes that are created as they are written
}

// Part returns the n elements of t from element at on, as a tensor with one axis. If the type quantizes blocks, at and
// n must be whole blocks.
func (t *Tensor) Part(at, n int) Tensor {
	if t.inRows() {
		return t.rowsPart(at, n)
	}
	data := t.Data[t.DType.bytes(at):][:t.DType.bytes(n)]
	return Tensor{Name: t.Name, DType: t.DType, Shape: []int{n}, Data: data, home: t.home}
}

// Release frees the mapped memory of Data while it is not needed. Later reads load it from the file again.
func (t *Tensor) Release() {
	if t.home != nil && t.home.release != nil {
		t.home.release(t.Data)
	}
}

// UseData calls use with Data, which use must not keep. It returns an error if Data is mapped from a file that was
// truncated meanwhile.
func (t *Tensor) UseData(use func(data []byte)) error { return disk.Guard(func() { use(t.Data) }) }

// SurelyFinite reports whether all elements are known to be finite, from a cheap check that exists only for bfloat16,
// four elements at a time. If it returns false, they may still be finite.
func (t *Tensor) SurelyFinite() bool {
	if t.DType != BF16 {
		return false
	}
	carry := uint64(0) // carries each largest exponent, at the top of a magnitude, into the sign bit
	err := disk.Guard(func() {
		d := t.Data
		for ; len(d) >= 8; d = d[8:] {
			carry |= binary.LittleEndian.Uint64(d)&0x7f80_7f80_7f80_7f80 + 0x0080_0080_0080_0080
		}
		for ; len(d) >= 2; d = d[2:] {
			carry |= uint64(binary.LittleEndian.Uint16(d)&0x7f80) + 0x0080
		}
	})
	return err == nil && carry&0x8000_8000_8000_8000 == 0
}

// Elements returns the number of elements, the product of Shape.
func (t *Tensor) Elements() int {
	n, _ := product(t.Shape)
	return n
}

// Float32 returns a copy of the elements as float32. F64 and wide integers are rounded to the nearest; BOOL becomes 0
// or 1.
func (t *Tensor) Float32() ([]float32, error) { return floats[float32](t) }

// ReadFloat32 is Float32 into dst, which must have the length of t. After an error its contents are unspecified.
func (t *Tensor) ReadFloat32(dst []float32) error { return readFloats(t, dst) }

// Float64 returns a copy of the elements as float64. Integers above 2^53 are rounded; BOOL becomes 0 or 1.
func (t *Tensor) Float64() ([]float64, error) { return floats[float64](t) }

// Int64 returns a copy of the elements as int64. It returns an error if a floating-point element is not a whole number
// that int64 can hold.
func (t *Tensor) Int64() ([]int64, error) {
	switch t.DType {
	case F64, F32, F16, BF16:
		f, err := t.Float64()
		if err != nil {
			return nil, err
		}
		out := make([]int64, len(f))
		for i, x := range f {
			if x != math.Trunc(x) || x < -1<<63 || x >= 1<<63 {
				return nil, fmt.Errorf("tensor %q: element %d is %v, want a whole number", t.Name, i, x)
			}
			out[i] = int64(x)
		}
		return out, nil
	}
	n, err := t.check()
	if err == nil && (t.DType.Quantized() || t.DType.integers()) {
		err = fmt.Errorf("tensor %q: found elements of type %s, want whole numbers", t.Name, t.DType)
	}
	if err != nil {
		return nil, err
	}
	out := make([]int64, n)
	return out, decode(t, out)
}

func floats[T float32 | float64](t *Tensor) ([]T, error) {
	n, err := t.check()
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	return out, readFloats(t, out)
}

// readFloats converts the elements of a tensor into out.
func readFloats[T float32 | float64](t *Tensor, out []T) error {
	if t.order != nil {
		return readReordered(t, out)
	}
	switch t.DType {
	case F64, F32, F16, BF16:
	default:
		if t.DType.integers() {
			return readIntegers(t, out)
		}
		if t.DType.Quantized() {
			return readBlocks(t, out)
		}
		return decode(t, out)
	}
	if err := t.checkInto(len(out)); err != nil {
		return err
	}
	d := t.Data
	return t.guard(func() {
		switch t.DType {
		case F64:
			for i := range out {
				out[i] = T(math.Float64frombits(binary.LittleEndian.Uint64(d[8*i:])))
			}
		case F32:
			if same, ok := any(out).([]float32); ok && littleEndian {
				copy(bytesOf(same), d)
				return
			}
			for i := range out {
				out[i] = T(math.Float32frombits(binary.LittleEndian.Uint32(d[4*i:])))
			}
		case F16:
			for i := range out {
				out[i] = T(fromHalf(binary.LittleEndian.Uint16(d[2*i:])))
			}
		case BF16:
			i := 0
			for ; i+4 <= len(out); i += 4 { // four at a time in one word
				four, to := binary.LittleEndian.Uint64(d[2*i:]), out[i:i+4:i+4]
				to[0] = T(math.Float32frombits(uint32(four) << 16))
				to[1] = T(math.Float32frombits(uint32(four) & 0xffff0000))
				to[2] = T(math.Float32frombits(uint32(four>>32) << 16))
				to[3] = T(math.Float32frombits(uint32(four>>32) & 0xffff0000))
			}
			for ; i < len(out); i++ {
				out[i] = T(math.Float32frombits(uint32(binary.LittleEndian.Uint16(d[2*i:])) << 16))
			}
		}
	})
}

// integerAt holds functions that read the integer at the start of b, by type.
var integerAt = map[DType]func(b []byte) int64{
	I64:  func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) },
	I32:  func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) },
	I16:  func(b []byte) int64 { return int64(int16(binary.LittleEndian.Uint16(b))) },
	I8:   func(b []byte) int64 { return int64(int8(b[0])) },
	U8:   func(b []byte) int64 { return int64(b[0]) },
	Bool: func(b []byte) int64 { return int64(min(b[0], 1)) },
}

// decode converts the elements of a tensor of integers into out.
func decode[T float32 | float64 | int64](t *Tensor, out []T) error {
	if err := t.checkInto(len(out)); err != nil {
		return err
	}
	at, size := integerAt[t.DType], t.DType.Size()
	return t.guard(func() {
		for i := range out {
			out[i] = T(at(t.Data[i*size:]))
		}
	})
}

// guard is disk.Guard with the name of the tensor in the error.
func (t *Tensor) guard(f func()) error {
	if err := disk.Guard(f); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// fromHalf converts the bits of an IEEE 754 binary16 number: 1 bit sign, 5 bits exponent with bias 15, 10 bits
// fraction.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0: // zero and subnormal numbers: frac · 2^-24, exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*(1.0/(1<<24))))
	case 31: // infinity and NaN
		return math.Float32frombits(sign | 255<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// checkInto is check, and also checks that the destination has exactly as many elements.
func (t *Tensor) checkInto(want int) error {
	n, err := t.check()
	if err == nil && n != want {
		err = fmt.Errorf("tensor %q: found %d elements, want %d", t.Name, n, want)
	}
	return err
}

// check returns the number of elements of t after checking that type, shape and length of the data agree.
func (t *Tensor) check() (int, error) {
	block, size := t.DType.Block()
	if size == 0 && !t.DType.integers() {
		return 0, fmt.Errorf("tensor %q: unknown element type %q, want one of %s", t.Name, t.DType, knownTypes)
	}
	want, ok := t.bytes()
	n := t.Elements()
	if !ok || t.order == nil && n%max(1, block) != 0 {
		return 0, fmt.Errorf("tensor %q: shape %v is not possible", t.Name, t.Shape)
	}
	if len(t.Data) != want && t.pieces == nil {
		return 0, fmt.Errorf("tensor %q: found %d bytes of data, want %d for %s%v", t.Name,
			len(t.Data), want, t.DType, t.Shape)
	}
	return n, nil
}

var knownTypes = strings.Join([]string{
	string(F64), string(F32), string(F16), string(BF16), string(I64), string(I32), string(I16),
	string(I8), string(U8), string(Bool),
}, " ")

// product multiplies the sizes of a shape. It returns false if one is negative or the product does not fit into int.
func product(shape []int) (int, bool) {
	n, ok, empty := 1, true, false
	for _, s := range shape {
		if s < 0 {
			return 0, false
		}
		if s == 0 {
			empty = true // [2^40, 2^40, 0] is possible, as it has no elements
		} else if ok {
			n, ok = mul(n, s)
		}
	}
	if empty {
		return 0, true
	}
	return n, ok
}

// mul multiplies two numbers that are not negative. It returns false if the product does not fit into int.
func mul(a, b int) (int, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int(lo), hi == 0 && lo <= math.MaxInt
}

// Number lists the Go types that have a DType.
type Number interface {
	float64 | float32 | int64 | int32 | int16 | int8 | uint8
}

// numberTypes maps Go types to their element types.
var numberTypes = map[reflect.Type]DType{
	reflect.TypeFor[float64](): F64, reflect.TypeFor[float32](): F32, reflect.TypeFor[int64](): I64,
	reflect.TypeFor[int32](): I32, reflect.TypeFor[int16](): I16, reflect.TypeFor[int8](): I8,
	reflect.TypeFor[uint8](): U8,
}

// NewTensor returns a tensor of Go values for WriteSafetensors. On little-endian machines its Data is the memory of
// values itself, so that saving a model needs no second copy. values must not be changed until the tensor has been
// written.
func NewTensor[T Number](name string, shape []int, values []T) Tensor {
	t := Tensor{Name: name, DType: numberTypes[reflect.TypeFor[T]()], Shape: shape}
	if littleEndian {
		t.Data = bytesOf(values)
		return t
	}
	t.Data, _ = binary.Append(nil, binary.LittleEndian, values) // cannot fail for these types
	return t
}

// littleEndian reports whether numbers in memory have the byte order of files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf returns the memory of values.
func bytesOf[T Number](values []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(*new(T))))
}
