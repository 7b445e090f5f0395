package checkpoint

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strings"
	"unicode/utf8"
)

// The layout of GGUF, the format of llama.cpp (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md),
// little-endian:
//
//	"GGUF", uint32 version (2 or 3), uint64 number of tensors, uint64 number of values
//	values    text key, uint32 type, value
//	tensors   text name, uint32 axes, uint64 length of each (the last axis first), uint32 type, uint64 offset
//	data      at the next multiple of the alignment; tensors one after another, each at a multiple of it
//
// A text is its uint64 length and its bytes.

const (
	ggufMagic        = "GGUF"
	ggufAlignmentKey = "general.alignment"
	ggufAlignment    = 32 // where the file does not say
	maxGGUFAxes      = 4
)

// ggufKind is the type of a value.
type ggufKind uint32

const (
	ggufUint8 ggufKind = iota
	ggufInt8
	ggufUint16
	ggufInt16
	ggufUint32
	ggufInt32
	ggufFloat32
	ggufBool
	ggufString
	ggufArray
	ggufUint64
	ggufInt64
	ggufFloat64
)

// size is the number of bytes of a value, 0 for those of different lengths and for what is no type.
func (k ggufKind) size() int {
	switch k {
	case ggufUint8, ggufInt8, ggufBool:
		return 1
	case ggufUint16, ggufInt16:
		return 2
	case ggufUint32, ggufInt32, ggufFloat32:
		return 4
	case ggufUint64, ggufInt64, ggufFloat64:
		return 8
	}
	return 0
}

// OpenGGUF opens a file of llama.cpp. Its tensors have the shapes of PyTorch, the last axis being that of a row. Values
// returns its other values. Opening any part of a split file opens all of them.
func OpenGGUF(path string) (*File, error) {
	f, err := open(path, (*File).readGGUF)
	if err != nil {
		return nil, err
	}
	return f.withParts()
}

func (f *File) readGGUF() error {
	f.format, f.keyValues = FormatGGUF, map[string]any{}
	r := &ggufReader{data: f.mapping.data}
	r.bytes(len(ggufMagic))
	version, tensors, values := r.uint32(), r.uint64(), r.uint64()
	switch {
	case r.err != nil:
		return r.err
	case version == 1:
		return fmt.Errorf("found GGUF version 1, want version 2 or 3: convert it again with a current llama.cpp")
	case version != 2 && version != 3:
		return fmt.Errorf("found GGUF version %d, want 2 or 3 (in little-endian order)", version)
	}
	// Each costs bytes of the file, so that a wrong number ends at the end of the file.
	for i := uint64(0); i < values && r.err == nil; i++ {
		key := r.text()
		if r.err != nil {
			break
		}
		if _, twice := f.keyValues[key]; twice {
			return fmt.Errorf("two values are named %q", key)
		}
		if f.keyValues[key] = r.value(ggufKind(r.uint32())); r.err != nil {
			return fmt.Errorf("value %q: %w", key, r.err)
		}
		if s, ok := f.keyValues[key].(string); ok {
			f.meta[key] = s
		}
	}
	var spans []span
	for i := uint64(0); i < tensors && r.err == nil; i++ {
		s, err := r.tensor()
		if err != nil {
			return err
		}
		if err := f.add(s.tensor); err != nil {
			return err
		}
		spans = append(spans, s)
	}
	if r.err != nil {
		return r.err
	}
	return f.placeGGUF(spans, r.at)
}

// placeGGUF sets the data of each tensor, which starts after byte at.
func (f *File) placeGGUF(spans []span, at int) error {
	align := uint64(ggufAlignment)
	if v, ok := f.keyValues[ggufAlignmentKey]; ok {
		a, ok := v.(uint64)
		if !ok || a == 0 || a&(a-1) != 0 || a > 1<<16 {
			return fmt.Errorf("%s: found %v, want a power of two up to %d", ggufAlignmentKey, v, 1<<16)
		}
		align = a
	}
	start := roundUp(uint64(at), align)
	if start > uint64(len(f.mapping.data)) {
		if len(spans) == 0 {
			return nil
		}
		return fmt.Errorf("the data begins at byte %d, but the file has only %d"+brokenOff, start, len(f.mapping.data))
	}
	data, next := f.mapping.data[start:], uint64(0)
	for _, s := range spans {
		t := s.tensor
		n, _ := product(t.Shape)
		size := uint64(t.DType.bytes(n))
		if s.begin != next {
			return fmt.Errorf("tensor %q starts at byte %d of the data, want %d, after the one before", t.Name,
				s.begin, next)
		}
		if size > uint64(len(data)) || next > uint64(len(data))-size {
			return fmt.Errorf("tensor %q has %d bytes from byte %d of the data on, but the file has only %d"+
				brokenOff, t.Name, size, next, len(data))
		}
		t.Data = data[next : next+size : next+size]
		if _, err := t.check(); err != nil {
			return err
		}
		next = roundUp(next+size, align)
	}
	return nil
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// Values returns the values of a GGUF file besides its tensors, as uint64, int64, float64, bool, string, or a slice of
// one of these. It is nil for other formats. The map must not be changed.
func (f *File) Values() map[string]any { return f.keyValues }

// ggufReader reads from the front of data. After the first error it reads zeros.
type ggufReader struct {
	data []byte
	at   int
	err  error
}

// bytes are the next n bytes.
func (r *ggufReader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.data)-r.at {
		r.err = fmt.Errorf("the file ends at byte %d, want %d bytes more after byte %d", len(r.data), n, r.at)
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *ggufReader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *ggufReader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count is a number of things that take at least least bytes of the file each.
func (r *ggufReader) count(least int) int {
	n := r.uint64()
	if r.err == nil && n > uint64(len(r.data)-r.at)/uint64(least) {
		r.err = fmt.Errorf("found a length of %d at byte %d, but the file has only %d bytes", n, r.at-8, len(r.data))
		return 0
	}
	return int(n)
}

// text is the next text, which must be UTF-8: names and tokens are.
func (r *ggufReader) text() string {
	at := r.at
	b := r.bytes(r.count(1))
	if r.err == nil && !utf8.Valid(b) {
		r.err = fmt.Errorf("found a text at byte %d that is not UTF-8", at)
		return ""
	}
	return string(b)
}

// value is the next value of a type.
func (r *ggufReader) value(k ggufKind) any {
	switch {
	case r.err != nil:
		return nil
	case k == ggufString:
		return r.text()
	case k == ggufArray:
		return r.array(ggufKind(r.uint32()))
	case k.size() == 0:
		r.err = fmt.Errorf("found type %d, want one of 0 to %d", k, ggufFloat64)
		return nil
	}
	b := r.bytes(k.size())
	if r.err != nil {
		return nil
	}
	switch k {
	case ggufFloat32, ggufFloat64:
		return ggufFloat(k, b)
	case ggufBool:
		return b[0] != 0
	case ggufInt8, ggufInt16, ggufInt32, ggufInt64:
		return ggufSigned(b)
	}
	return ggufUnsigned(b)
}

// array is the next array of values of type k. An array of arrays is refused: no published file has one.
func (r *ggufReader) array(k ggufKind) any {
	switch {
	case k == ggufString:
		out := make([]string, r.count(8))
		for i := range out {
			out[i] = r.text()
		}
		return out
	case k.size() == 0:
		if r.err == nil {
			r.err = fmt.Errorf("found an array of type %d, want one of numbers, booleans or texts", k)
		}
		return nil
	}
	n := r.count(k.size())
	b := r.bytes(n * k.size())
	if r.err != nil {
		return nil
	}
	switch k {
	case ggufFloat32, ggufFloat64:
		return ggufNumbers(b, k.size(), func(b []byte) float64 { return ggufFloat(k, b) })
	case ggufBool:
		return ggufNumbers(b, 1, func(b []byte) bool { return b[0] != 0 })
	case ggufInt8, ggufInt16, ggufInt32, ggufInt64:
		return ggufNumbers(b, k.size(), ggufSigned)
	}
	return ggufNumbers(b, k.size(), ggufUnsigned)
}

func ggufNumbers[T any](b []byte, size int, of func([]byte) T) []T {
	out := make([]T, len(b)/size)
	for i := range out {
		out[i] = of(b[i*size:][:size])
	}
	return out
}

func ggufUnsigned(b []byte) uint64 {
	var all [8]byte
	copy(all[:], b)
	return binary.LittleEndian.Uint64(all[:])
}

func ggufSigned(b []byte) int64 {
	shift := 64 - 8*len(b)
	return int64(ggufUnsigned(b)) << shift >> shift
}

func ggufFloat(k ggufKind, b []byte) float64 {
	if k == ggufFloat32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// tensor is the next description of a tensor, which has no data yet.
func (r *ggufReader) tensor() (span, error) {
	name := r.text()
	axes := r.uint32()
	if r.err == nil && axes > maxGGUFAxes {
		return span{}, fmt.Errorf("tensor %q has %d axes, want at most %d", name, axes, maxGGUFAxes)
	}
	t := &Tensor{Name: name, Shape: make([]int, axes)}
	for i := range t.Shape {
		n := r.uint64()
		if n > math.MaxInt {
			return span{}, fmt.Errorf("tensor %q has an axis of %d, which is not possible", name, n)
		}
		t.Shape[len(t.Shape)-1-i] = int(n)
	}
	kind, begin := r.uint32(), r.uint64()
	if r.err != nil {
		return span{}, r.err
	}
	if int(kind) >= len(ggufTypes) || ggufTypes[kind] == "" {
		return span{}, fmt.Errorf("tensor %q has the type %s, want one of %s", name, ggufTypeName(kind),
			knownGGUFTypes())
	}
	t.DType = ggufTypes[kind]
	n, ok := product(t.Shape)
	block, _ := t.DType.Block()
	if !ok || n > math.MaxInt/8 || len(t.Shape) > 0 && t.Shape[len(t.Shape)-1]%block != 0 {
		return span{}, fmt.Errorf("tensor %q: shape %v is not possible for %s", name, t.Shape, t.DType)
	}
	return span{tensor: t, begin: begin}, nil
}

// ggufTypes are the element types by their numbers in GGUF; empty for what this package does not read.
var ggufTypes = [...]DType{
	0: F32, 1: F16, 2: Q4_0, 3: Q4_1, 6: Q5_0, 7: Q5_1, 8: Q8_0, 12: Q4_K, 13: Q5_K, 14: Q6_K,
	24: I8, 25: I16, 26: I32, 27: I64, 28: F64, 30: BF16,
}

// ggufOther are the names of types that other programs read.
var ggufOther = map[uint32]string{
	9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
	20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}

func ggufTypeName(kind uint32) string {
	if name := ggufOther[kind]; name != "" {
		return name
	}
	return fmt.Sprint("number ", kind)
}

func knownGGUFTypes() string {
	var names []string
	for _, t := range ggufTypes {
		if t != "" {
			names = append(names, string(t))
		}
	}
	return strings.Join(names, " ")
}

// With returns the file with other tensors in place of those of the same names. Both are one open file: closing either
// closes both.
func (f *File) With(others []*Tensor) *File {
	g := *f
	g.tensors = maps.Clone(f.tensors)
	for _, t := range others {
		g.tensors[t.Name] = t
	}
	return &g
}
