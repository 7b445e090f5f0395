package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"
)

// WriteSafetensors writes the tensors in the given order, one after another, so that its memory does not grow with
// their size. Equal input gives equal bytes. The header is padded with spaces so that the data starts at a multiple of
// 8 bytes.
//
// It returns an error, and writes nothing, if two tensors have the same name, if a name or text is not UTF-8, or if the
// data of a tensor does not have the length that its type and shape require.
func WriteSafetensors(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	metadata, err := withIntegers(metadata, tensors)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	header, err := safetensorsHeader(tensors, metadata)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	for _, part := range [][]byte{length, header} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("safetensors: header: %w", err)
		}
	}
	for i := range tensors {
		if err := tensors[i].write(w); err != nil {
			return fmt.Errorf("safetensors: tensor %q: %w", tensors[i].Name, err)
		}
	}
	return nil
}

func safetensorsHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	b := bytes.NewBufferString("{")
	if len(metadata) > 0 {
		for _, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, fmt.Errorf("metadata %q is not UTF-8", key)
			}
		}
		field(b, metadataKey, metadata) // json sorts the keys of a map
	}
	seen := make(map[string]bool, len(tensors))
	at := 0
	for i := range tensors {
		t := &tensors[i]
		switch {
		case t.Name == metadataKey || !utf8.ValidString(t.Name):
			return nil, fmt.Errorf("a tensor cannot be named %q", t.Name)
		case seen[t.Name]:
			return nil, fmt.Errorf("two tensors are named %q", t.Name)
		}
		seen[t.Name] = true
		if _, err := t.check(); err != nil {
			return nil, err
		}
		if t.DType.Quantized() {
			return nil, fmt.Errorf("tensor %q has the type %s, which safetensors does not have", t.Name, t.DType)
		}
		d, shape, size := t.DType, t.Shape, len(t.Data)
		if t.pieces != nil {
			size, _ = t.bytes() // check has found that it is possible
		}
		if d.integers() {
			d, shape = U8, []int{shape[0], d.RowBytes(shape[1])}
		}
		field(b, t.Name, struct {
			DType   DType  `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{d, append([]int{}, shape...), [2]int{at, at + size}}) // never null, even if the shape is nil
		at += size
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len() > maxHeaderLen {
		return nil, fmt.Errorf("the header would have %d bytes, want at most %d", b.Len(), maxHeaderLen)
	}
	return b.Bytes(), nil
}

// field appends "key":value to a JSON object that is being written.
func field(b *bytes.Buffer, key string, value any) {
	if b.Len() > 1 {
		b.WriteByte(',')
	}
	k, _ := json.Marshal(key) // texts, numbers and maps of texts always have JSON
	v, _ := json.Marshal(value)
	b.Write(k)
	b.WriteByte(':')
	b.Write(v)
}
