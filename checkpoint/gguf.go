package checkpoint

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
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
	ggufAlignment    = 32 // if the file does not specify one
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

// ggufForm describes how to read values of a type that has a fixed size.
type ggufForm struct {
	size int
	one  func(b []byte) any
	many func(b []byte) any // returns a slice of consecutive values
}

func ggufFormOf[T any](size int, of func([]byte) T) ggufForm {
	return ggufForm{size, func(b []byte) any { return of(b) }, func(b []byte) any {
		out := make([]T, len(b)/size)
		for i := range out {
			out[i] = of(b[i*size:][:size])
		}
		return out
	}}
}

// ggufForms has no entries for texts, arrays and unknown types.
var ggufForms = map[ggufKind]ggufForm{
	ggufUint8:   ggufFormOf(1, ggufUnsigned),
	ggufInt8:    ggufFormOf(1, ggufSigned),
	ggufUint16:  ggufFormOf(2, ggufUnsigned),
	ggufInt16:   ggufFormOf(2, ggufSigned),
	ggufUint32:  ggufFormOf(4, ggufUnsigned),
	ggufInt32:   ggufFormOf(4, ggufSigned),
	ggufFloat32: ggufFormOf(4, ggufSingle),
	ggufBool:    ggufFormOf(1, func(b []byte) bool { return b[0] != 0 }),
	ggufUint64:  ggufFormOf(8, ggufUnsigned),
	ggufInt64:   ggufFormOf(8, ggufSigned),
	ggufFloat64: ggufFormOf(8, func(b []byte) float64 { return math.Float64frombits(ggufUnsigned(b)) }),
}

// OpenGGUF opens a file of llama.cpp. Its tensors have PyTorch's shapes: the elements along the last axis are a row.
// Values returns the other values of the file. If one part of a split file is opened, so are all others.
func OpenGGUF(path string) (*File, error) {
	f, err := open(path, (*File).readGGUF)
	if err != nil {
		return nil, err
	}
	return f.withParts()
}

func (f *File) readGGUF() {
	f.format, f.keyValues = FormatGGUF, map[string]any{}
	r := &ggufReader{data: f.mapping.data}
	r.bytes(len(ggufMagic))
	version, tensors, values := r.uint32(), r.uint64(), r.uint64()
	switch {
	case version == 1:
		fault.Raisef("found GGUF version 1, want version 2 or 3: convert it again with a current llama.cpp")
	case version != 2 && version != 3:
		fault.Raisef("found GGUF version %d, want 2 or 3 (in little-endian order)", version)
	}
	// Each value takes bytes of the file, so a wrong count ends at the end of the file.
	for range values {
		key := r.text()
		if _, twice := f.keyValues[key]; twice {
			fault.Raisef("two values are named %q", key)
		}
		fault.Within(fmt.Sprintf("value %q", key), func() { f.keyValues[key] = r.value(ggufKind(r.uint32())) })
		if s, ok := f.keyValues[key].(string); ok {
			f.meta[key] = s
		}
	}
	var spans []span
	for range tensors {
		s := r.tensor()
		fault.Check(f.add(s.tensor))
		spans = append(spans, s)
	}
	f.placeGGUF(spans, r.at)
}

// placeGGUF sets the data of each tensor, which starts after byte at.
func (f *File) placeGGUF(spans []span, at int) {
	align := uint64(ggufAlignment)
	if v, ok := f.keyValues[ggufAlignmentKey]; ok {
		a, ok := v.(uint64)
		if !ok || a == 0 || a&(a-1) != 0 || a > 1<<16 {
			fault.Raisef("%s: found %v, want a power of two up to %d", ggufAlignmentKey, v, 1<<16)
		}
		align = a
	}
	start := roundUp(uint64(at), align)
	if start > uint64(len(f.mapping.data)) {
		if len(spans) == 0 {
			return
		}
		fault.Raisef("the data begins at byte %d, but the file has only %d"+brokenOff, start, len(f.mapping.data))
	}
	data, next := f.mapping.data[start:], uint64(0)
	for _, s := range spans {
		t := s.tensor
		n, _ := product(t.Shape)
		size := uint64(t.DType.bytes(n))
		if s.begin != next {
			fault.Raisef("tensor %q starts at byte %d of the data, want %d, after the one before", t.Name,
				s.begin, next)
		}
		if size > uint64(len(data)) || next > uint64(len(data))-size {
			fault.Raisef("tensor %q has %d bytes from byte %d of the data on, but the file has only %d"+
				brokenOff, t.Name, size, next, len(data))
		}
		t.Data = data[next : next+size : next+size]
		fault.Must(t.check())
		next = roundUp(next+size, align)
	}
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// Values returns the values of a GGUF file other than its tensors, as uint64, int64, float64, bool, string, or a slice
// of one of these. It returns nil for other formats. The map must not be changed.
func (f *File) Values() map[string]any { return f.keyValues }

// ggufReader reads data from the beginning.
type ggufReader struct {
	data     []byte
	at       int
	inArrays int // number of elements of all arrays so far
}

// bytes returns the next n bytes.
func (r *ggufReader) bytes(n int) []byte {
	if n < 0 || n > len(r.data)-r.at {
		fault.Raisef("the file ends at byte %d, want %d bytes more after byte %d", len(r.data), n, r.at)
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *ggufReader) uint32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *ggufReader) uint64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

// count reads a number of items that take at least least bytes of the file each.
func (r *ggufReader) count(least int) int {
	n := r.uint64()
	if n > uint64(len(r.data)-r.at)/uint64(least) {
		fault.Raisef("found a length of %d at byte %d, but the file has only %d bytes", n, r.at-8, len(r.data))
	}
	return int(n)
}

// text reads the next text, which must be UTF-8, as names and tokens are.
func (r *ggufReader) text() string {
	at := r.at
	b := r.bytes(r.count(1))
	if !utf8.Valid(b) {
		fault.Raisef("found a text at byte %d that is not UTF-8", at)
	}
	return string(b)
}

// value reads the next value, of type k.
func (r *ggufReader) value(k ggufKind) any {
	switch k {
	case ggufString:
		return r.text()
	case ggufArray:
		return r.array(ggufKind(r.uint32()))
	}
	form, known := ggufForms[k]
	if !known {
		fault.Raisef("found type %d, want one of 0 to %d", k, ggufFloat64)
	}
	return form.one(r.bytes(form.size))
}

// array reads the next array, of values of type k. An array of arrays is refused: no published file has one.
func (r *ggufReader) array(k ggufKind) any {
	if k == ggufString {
		out := make([]string, r.elements(8))
		for i := range out {
			out[i] = r.text()
		}
		return out
	}
	form, known := ggufForms[k]
	if !known {
		fault.Raisef("found an array of type %d, want one of numbers, booleans or texts", k)
	}
	return form.many(r.bytes(r.elements(form.size) * form.size))
}

// maxGGUFElements bounds the number of elements of all arrays of a file. A byte of a file becomes eight in memory, and
// twice as many if a reader converts it. The largest published vocabularies have a quarter of a million tokens, with
// twice as many merges.
const maxGGUFElements = 1 << 22

// elements reads the length of an array whose elements take at least least bytes of the file each.
func (r *ggufReader) elements(least int) int {
	at, n := r.at, r.count(least)
	if r.inArrays += n; r.inArrays > maxGGUFElements {
		fault.Raisef("found %d elements of arrays at byte %d, want at most %d in a file", r.inArrays, at,
			maxGGUFElements)
	}
	return n
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

func ggufSingle(b []byte) float64 { return float64(math.Float32frombits(uint32(ggufUnsigned(b)))) }

// tensor reads the next description of a tensor, which has no data yet.
func (r *ggufReader) tensor() span {
	name := r.text()
	axes := r.uint32()
	if axes > maxGGUFAxes {
		fault.Raisef("tensor %q has %d axes, want at most %d", name, axes, maxGGUFAxes)
	}
	t := &Tensor{Name: name, Shape: make([]int, axes)}
	for i := range t.Shape {
		n := r.uint64()
		if n > math.MaxInt {
			fault.Raisef("tensor %q has an axis of %d, which is not possible", name, n)
		}
		t.Shape[len(t.Shape)-1-i] = int(n)
	}
	kind, begin := r.uint32(), r.uint64()
	if int(kind) >= len(ggufTypes) || ggufTypes[kind] == "" {
		fault.Raisef("tensor %q has the type %s, want one of %s", name, ggufTypeName(kind), knownGGUFTypes())
	}
	t.DType = ggufTypes[kind]
	n, ok := product(t.Shape)
	block, _ := t.DType.Block()
	if !ok || n > math.MaxInt/8 || len(t.Shape) > 0 && t.Shape[len(t.Shape)-1]%block != 0 {
		fault.Raisef("tensor %q: shape %v is not possible for %s", name, t.Shape, t.DType)
	}
	return span{tensor: t, begin: begin}
}

// ggufTypes holds the element types by their numbers in GGUF, with "" for types that this package does not read.
var ggufTypes = [...]DType{
	0: F32, 1: F16, 2: Q4_0, 3: Q4_1, 6: Q5_0, 7: Q5_1, 8: Q8_0, 10: Q2_K, 11: Q3_K, 12: Q4_K, 13: Q5_K, 14: Q6_K,
	24: I8, 25: I16, 26: I32, 27: I64, 28: F64, 30: BF16,
}

// ggufOther holds the names of types that only other programs read.
var ggufOther = map[uint32]string{
	9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
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

// With returns the file with other tensors, which replace tensors of the same names. Both are one open file: closing
// either closes both.
func (f *File) With(others []*Tensor) *File {
	g := *f
	g.tensors, g.names = maps.Clone(f.tensors), slices.Clone(f.names)
	for _, t := range others {
		if g.tensors[t.Name] == nil {
			g.names = append(g.names, t.Name)
		}
		g.tensors[t.Name] = t
	}
	return &g
}
