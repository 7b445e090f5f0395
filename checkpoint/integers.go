package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
)

// The element types of a folder of quantized weights. Rows are integers in groups of 32 with a factor each
// (docs/quantize.md). A number is scale·(factor·q + least). A row of k numbers in n = ⌈k/32⌉ groups is
//
//	float32 scale; n float16 factors; n float16 least numbers (int4min alone); k integers
//
// 8-bit integers are signed. In int4, -8 is stored as 0. Of each pair of 4-bit integers, the first is in the low half
// of the byte. A safetensors file holds the rows as U8 (rows, bytes), and their types and lengths in its metadata.
const (
	Int8    DType = "int8"    // q from -128 to 127
	Int4    DType = "int4"    // q from -8 to 7
	Int4Min DType = "int4min" // q from 0 to 15
)

const (
	// groupLen is the number of elements that share a factor.
	groupLen = 32
	// integersKey is the key of the metadata about tensors of integers.
	integersKey = "hippo.quantized"
	// integersVersion is the version of the layout.
	integersVersion = 1
)

// integers reports whether rows are integers in groups.
func (d DType) integers() bool { return d == Int8 || d == Int4 || d == Int4Min }

// RowBytes returns the number of bytes of a row of k elements of Int8, Int4 or Int4Min, or 0 if k is out of range.
func (d DType) RowBytes(k int) int {
	if k <= 0 || k > math.MaxInt/8 {
		return 0
	}
	groups := (k + groupLen - 1) / groupLen
	switch d {
	case Int8:
		return 4 + 2*groups + k
	case Int4:
		return 4 + 2*groups + (k+1)/2
	}
	return 4 + 4*groups + (k+1)/2
}

// rowLen returns the number of elements of a row.
func (t *Tensor) rowLen() int {
	if t.columns > 0 || len(t.Shape) == 0 {
		return t.columns
	}
	return t.Shape[len(t.Shape)-1]
}

// inRows reports whether only whole rows can be read, as for rows of integers and reordered rows.
func (t *Tensor) inRows() bool { return t.DType.integers() || t.order != nil }

// rowsBytes returns the number of bytes of the rows that contain the first n elements of t.
func (t *Tensor) rowsBytes(n int) (int, bool) {
	k := t.rowLen()
	size := t.rowBytes(k)
	if size == 0 || n > math.MaxInt-k-t.skip {
		return 0, false
	}
	return mul((t.skip+n+k-1)/k, size)
}

// rowsPart returns the same as Part, for a tensor that can only be read in whole rows.
func (t *Tensor) rowsPart(at, n int) Tensor {
	k, from := t.rowLen(), t.skip+at
	part := Tensor{Name: t.Name, DType: t.DType, Shape: []int{n}, home: t.home, columns: k, skip: from % k,
		order: t.order}
	size, _ := part.rowsBytes(n)
	part.Data = t.Data[from/k*t.rowBytes(k):][:size]
	return part
}

// readIntegers converts the elements of rows of integers into out.
func readIntegers[T float32 | float64](t *Tensor, out []T) error {
	if err := t.checkInto(len(out)); err != nil {
		return err
	}
	k := t.rowLen()
	row, skip := newGroupRow(k), t.skip
	for j := 0; len(out) > 0; j++ {
		if err := row.read(t, j); err != nil {
			return err
		}
		n := min(k-skip, len(out))
		for i := range n {
			out[i] = T(row.value(skip + i))
		}
		out, skip = out[n:], 0
	}
	return nil
}

// groupRow is a row of integers in groups.
type groupRow struct {
	q             []int8
	factor, least []uint16
	scale         float32
}

func newGroupRow(k int) *groupRow {
	groups := (k + groupLen - 1) / groupLen
	return &groupRow{make([]int8, k), make([]uint16, groups), make([]uint16, groups), 0}
}

func (r *groupRow) read(t *Tensor, j int) (err error) {
	r.scale, err = t.ReadGroups(j, r.q, r.factor, r.least)
	return err
}

// value returns element i.
func (r *groupRow) value(i int) float32 {
	g := i / groupLen
	return float32(float32(r.q[i])*(fromHalf(r.factor[g])*r.scale)) + fromHalf(r.least[g])*r.scale
}

// Streamed returns a tensor whose rows are created as they are written, for WriteSafetensors only. row appends the
// bytes of row j to b. Rows of the types Int8, Int4 and Int4Min are those of AppendGroups.
func Streamed(name string, d DType, shape []int, row func(b []byte, j int) []byte) Tensor {
	t := Tensor{Name: name, DType: d, Shape: shape}
	t.pieces = func(yield func([]byte) bool) {
		var b []byte
		for j := range t.Elements() / max(1, t.rowLen()) {
			if b = row(b, j); len(b) >= 1<<16 {
				if !yield(b) {
					return
				}
				b = b[:0]
			}
		}
		yield(b)
	}
	return t
}

// InPieces returns a tensor whose bytes are created or read as they are written, for WriteSafetensors only. The pieces
// must be the bytes of all elements in order.
func InPieces(name string, d DType, shape []int, pieces iter.Seq[[]byte]) Tensor {
	return Tensor{Name: name, DType: d, Shape: shape, pieces: pieces}
}

// bytes returns the memory of all elements, and whether the shape is possible.
func (t *Tensor) bytes() (int, bool) {
	n, ok := product(t.Shape)
	if !ok {
		return 0, false
	}
	if t.inRows() {
		return t.rowsBytes(n)
	}
	block, size := t.DType.Block()
	return mul(n/block, size)
}

// write writes the elements.
func (t *Tensor) write(w io.Writer) error {
	if t.pieces == nil {
		_, err := w.Write(t.Data)
		return err
	}
	n := 0
	for b := range t.pieces {
		if _, err := w.Write(b); err != nil {
			return err
		}
		n += len(b)
	}
	if want, _ := t.bytes(); n != want {
		return fmt.Errorf("found %d bytes, want %d for %s%v", n, want, t.DType, t.Shape)
	}
	return nil
}

// integersMeta is the metadata about tensors of integers.
type integersMeta struct {
	Version int                     `json:"version"`
	Tensors map[string]integersForm `json:"tensors"`
}

// integersForm is the type that a U8 tensor (rows, bytes) stands for.
type integersForm struct {
	Type    DType `json:"type"`
	Columns int   `json:"columns"`
}

// withIntegers returns metadata with an entry about tensors of integers.
func withIntegers(metadata map[string]string, tensors []Tensor) (map[string]string, error) {
	meta := integersMeta{integersVersion, map[string]integersForm{}}
	for i := range tensors {
		if t := &tensors[i]; t.DType.integers() {
			if len(t.Shape) != 2 || t.skip > 0 || t.rowLen() != t.Shape[1] {
				return nil, fmt.Errorf("tensor %q: found shape %v for %s, want rows and columns", t.Name, t.Shape,
					t.DType)
			}
			meta.Tensors[t.Name] = integersForm{t.DType, t.Shape[1]}
		}
	}
	if len(meta.Tensors) == 0 {
		return metadata, nil
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]string{}
	}
	metadata[integersKey] = string(text)
	return metadata, nil
}

// readIntegersMeta sets the types and shapes of the tensors of a safetensors file from its metadata.
func (f *File) readIntegersMeta() error {
	text, ok := f.meta[integersKey]
	if !ok {
		return nil
	}
	var meta integersMeta
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		return fmt.Errorf("%s: %w", integersKey, err)
	}
	if meta.Version != integersVersion {
		return fmt.Errorf("%s: found version %d of the layout of quantized weights, want %d: "+
			"it may be of a newer hippo", integersKey, meta.Version, integersVersion)
	}
	delete(f.meta, integersKey)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(meta.Tensors)) {
		if err := f.setIntegers(name, meta.Tensors[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s: tensor %q: %w", integersKey, name, err))
		}
	}
	return errors.Join(problems...)
}

// setIntegers sets the type and shape of a tensor of bytes.
func (f *File) setIntegers(name string, form integersForm) error {
	t, ok := f.tensors[name]
	switch {
	case !form.Type.integers():
		return fmt.Errorf("found the type %.40q, want %s, %s or %s", form.Type, Int8, Int4, Int4Min)
	case !ok:
		return errors.New("the file has none of this name")
	case t.DType != U8 || len(t.Shape) != 2:
		return fmt.Errorf("found elements of %s and shape %v, want U8 (rows, bytes)", t.DType, t.Shape)
	}
	size := form.Type.RowBytes(form.Columns)
	if size == 0 || size != t.Shape[1] {
		return fmt.Errorf("found rows of %d bytes, want %d for %d columns of %s", t.Shape[1], size, form.Columns,
			form.Type)
	}
	t.DType, t.Shape, t.columns = form.Type, []int{t.Shape[0], form.Columns}, form.Columns
	return nil
}
