package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// GGUFValue is a named value for WriteGGUF: a uint32, int32, float32, bool or string, or a slice of one of these or of
// uint8.
type GGUFValue struct {
	Key   string
	Value any
}

// WriteGGUF writes values and tensors in the given order, as GGUF version 3 with the usual alignment. Equal input gives
// equal bytes. It checks names, texts and data first, and writes nothing if one is invalid.
func WriteGGUF(w io.Writer, values []GGUFValue, tensors []Tensor) error {
	header, err := ggufHeader(values, tensors)
	if err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	var zeros [ggufAlignment]byte
	write := func(b []byte) error {
		pad := (ggufAlignment - len(b)%ggufAlignment) % ggufAlignment
		if _, err := w.Write(b); err != nil {
			return err
		}
		_, err := w.Write(zeros[:pad])
		return err
	}
	if err := write(header); err != nil {
		return fmt.Errorf("gguf: header: %w", err)
	}
	for i := range tensors {
		if err := write(tensors[i].Data); err != nil {
			return fmt.Errorf("gguf: tensor %q: %w", tensors[i].Name, err)
		}
	}
	return nil
}

func ggufHeader(values []GGUFValue, tensors []Tensor) ([]byte, error) {
	b := &ggufWriter{}
	b.WriteString(ggufMagic)
	b.uint32(3)
	b.uint64(uint64(len(tensors)))
	b.uint64(uint64(len(values)))
	seen := map[string]bool{}
	for _, v := range values {
		if seen[v.Key] {
			return nil, fmt.Errorf("two values are named %q", v.Key)
		}
		seen[v.Key] = true
		b.text(v.Key)
		if err := b.value(v.Value); err != nil {
			return nil, fmt.Errorf("value %q: %w", v.Key, err)
		}
	}
	clear(seen)
	at := uint64(0)
	for i := range tensors {
		t := &tensors[i]
		kind := slices.Index(ggufTypes[:], t.DType)
		_, err := t.check()
		switch {
		case err != nil:
			return nil, err
		case seen[t.Name]:
			return nil, fmt.Errorf("two tensors are named %q", t.Name)
		case kind < 0:
			return nil, fmt.Errorf("tensor %q has the type %s, want one of %s", t.Name, t.DType, knownGGUFTypes())
		case len(t.Shape) < 1 || len(t.Shape) > maxGGUFAxes:
			return nil, fmt.Errorf("tensor %q has %d axes, want 1 to %d", t.Name, len(t.Shape), maxGGUFAxes)
		}
		seen[t.Name] = true
		b.text(t.Name)
		b.uint32(uint32(len(t.Shape)))
		for i := len(t.Shape) - 1; i >= 0; i-- {
			b.uint64(uint64(t.Shape[i]))
		}
		b.uint32(uint32(kind))
		b.uint64(at)
		at = roundUp(at+uint64(len(t.Data)), ggufAlignment)
	}
	return b.Bytes(), b.err
}

// ggufWriter writes the header. err reports the first text that is not UTF-8.
type ggufWriter struct {
	bytes.Buffer
	err error
}

func (b *ggufWriter) uint32(n uint32) { b.Write(binary.LittleEndian.AppendUint32(nil, n)) }
func (b *ggufWriter) uint64(n uint64) { b.Write(binary.LittleEndian.AppendUint64(nil, n)) }

func (b *ggufWriter) text(s string) {
	if !utf8.ValidString(s) && b.err == nil {
		b.err = fmt.Errorf("%q is not UTF-8", s)
	}
	b.uint64(uint64(len(s)))
	b.WriteString(s)
}

func (b *ggufWriter) value(v any) error {
	one := func(k ggufKind) {
		b.uint32(uint32(k))
		b.Write(fixed(v))
	}
	array := func(k ggufKind, n int) {
		b.uint32(uint32(ggufArray))
		b.uint32(uint32(k))
		b.uint64(uint64(n))
		b.Write(fixed(v))
	}
	switch v := v.(type) {
	case uint32:
		one(ggufUint32)
	case int32:
		one(ggufInt32)
	case float32:
		one(ggufFloat32)
	case bool:
		one(ggufBool)
	case string:
		one(ggufString)
		b.text(v)
	case []uint32:
		array(ggufUint32, len(v))
	case []int32:
		array(ggufInt32, len(v))
	case []float32:
		array(ggufFloat32, len(v))
	case []uint8:
		array(ggufUint8, len(v))
	case []bool:
		array(ggufBool, len(v))
	case []string:
		array(ggufString, len(v))
		for _, s := range v {
			b.text(s)
		}
	default:
		return fmt.Errorf("found a %T, want uint32, int32, float32, bool, string or a slice of one of these", v)
	}
	return nil
}

// fixed returns the bytes of numbers, and none for texts.
func fixed(v any) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, v) // fails only for texts
	return b
}
