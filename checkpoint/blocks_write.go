package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// packers append a block of a type that has the values x.
var packers = map[DType]func(b []byte, x []float32) []byte{
	Q8_0: appendQ8,
	Q4_0: func(b []byte, x []float32) []byte { return appendSmall(b, x, 4) },
	Q5_0: func(b []byte, x []float32) []byte { return appendSmall(b, x, 5) },
	Q5_1: appendQ51,
	Q4_K: func(b []byte, x []float32) []byte { return appendK(b, x, 4) },
	Q5_K: func(b []byte, x []float32) []byte { return appendK(b, x, 5) },
	Q6_K: appendQ6K,
}

// ConvertTensor creates a tensor of float32 values in F32, F16, BF16 or one of the types that quantize blocks, except
// Q4_1, Q2_K and Q3_K. Values are rounded to the nearest, with the factors that llama.cpp chooses (ggml-quants.c,
// quantize_row_*_ref). Rows must be whole blocks. The bytes do not depend on the number of cores.
func ConvertTensor(name string, to DType, shape []int, values []float32) (Tensor, error) {
	t := Tensor{Name: name, DType: to, Shape: shape}
	pack := packers[to]
	switch {
	case to == F32:
		return NewTensor(name, shape, values), nil
	case to == F16, to == BF16:
		round := toHalf
		if to == BF16 {
			round = toBF16
		}
		t.Data = make([]byte, 0, 2*len(values))
		for _, v := range values {
			t.Data = binary.LittleEndian.AppendUint16(t.Data, round(v))
		}
	case pack != nil:
		n, size := to.Block()
		if last := len(shape) - 1; last < 0 || shape[last]%n != 0 {
			return t, fmt.Errorf("tensor %q: shape %v, want rows of a multiple of %d elements for %s", name, shape, n,
				to)
		}
		t.Data = make([]byte, len(values)/n*size)
		parallel.For(len(values)/n, packGrain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				pack(t.Data[i*size:][:0:size], values[i*n:][:n])
			}
		})
	default:
		return t, fmt.Errorf("tensor %q: found type %s, want one of F32, F16, BF16, %s", name, to, packedTypes())
	}
	_, err := t.check()
	return t, err
}

// packGrain is the number of blocks that a core packs at a time.
const packGrain = 64

// packedTypes returns the types of packers as text.
func packedTypes() string {
	names := []string{}
	for kind := range packers {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// appendQ8 appends a block of Q8_0. The integers are computed with the exact factor, which is then rounded to f16.
func appendQ8(b []byte, x []float32) []byte {
	d := abs(farthest(x)) / 127
	b = appendHalf(b, d)
	inverse := inverseOf(d)
	for _, v := range x {
		b = append(b, byte(int8(math.Round(float64(float32(v*inverse))))))
	}
	return b
}

// appendSmall appends a block of Q4_0 or Q5_0. q, before it is shifted to numbers from 0 on, is the integer nearest to
// x/d. The value farthest from 0 has the least integer. The low halves of the bytes hold the first 16 values, and the
// high halves the others.
func appendSmall(b []byte, x []float32, bits int) []byte {
	least := float32(int(1) << (bits - 1))
	d := farthest(x) / -least
	inverse := inverseOf(d)
	var q [32]byte
	for i, v := range x {
		q[i] = byte(min(1<<bits-1, int(float32(v*inverse)+(least+0.5))))
	}
	return appendBits(appendHalf(b, d), q[:], bits)
}

// appendQ51 appends a block of Q5_1: d is 1/31 of the range, and m is the least value.
func appendQ51(b []byte, x []float32) []byte {
	least := slices.Min(x)
	d := (slices.Max(x) - least) / 31
	inverse := inverseOf(d)
	var q [32]byte
	for i, v := range x {
		q[i] = byte(min(31, int(float32((v-least)*inverse)+0.5)))
	}
	return appendBits(appendHalf(appendHalf(b, d), least), q[:], 5)
}

// appendBits appends 32 integers of 4 or 5 bits: the fifth bits, then the low halves.
func appendBits(b []byte, q []byte, bits int) []byte {
	if bits == 5 {
		high := uint32(0)
		for i, v := range q {
			high |= uint32(v>>4) << i
		}
		b = binary.LittleEndian.AppendUint32(b, high)
	}
	for i, v := range q[:16] {
		b = append(b, v&15|q[16+i]<<4)
	}
	return b
}

// farthest returns the value that is farthest from 0, the first of several.
func farthest(x []float32) (v float32) {
	for _, a := range x {
		if abs(a) > abs(v) {
			v = a
		}
	}
	return v
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

// inverseOf returns 1/x, or 0 for 0.
func inverseOf(x float32) float32 {
	if x == 0 {
		return 0
	}
	return 1 / x
}

func appendHalf(b []byte, x float32) []byte { return binary.LittleEndian.AppendUint16(b, toHalf(x)) }

// toHalf rounds to the nearest IEEE 754 binary16 number, ties to even. Numbers that are too large become infinite.
func toHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign, abs := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case abs > 0x7f800000: // NaN
		return sign | 0x7e00
	case abs >= 0x477ff000: // rounds to 2^16 or more
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*(1<<24)))
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-0x38000000)>>13)
}

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // a NaN remains a NaN
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
