package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// The element types of a folder of quantized weights, whose rows are integers in groups of 32 with a factor each
// (docs/quantize.md). A number is scale·(factor·q + least). A row of k numbers in n = ⌈k/32⌉ groups is
//
//	float32 scale; n float16 factors; n float16 least numbers (int4min alone); k integers
//
// An integer of 8 bits has its sign, -8 is stored as 0 in int4, and of each two of 4 bits the first is the low half of a
// byte. A safetensors file has the rows as U8 (rows, bytes), and their types and lengths in its metadata.
const (
	Int8    DType = "int8"    // q from -128 to 127
	Int4    DType = "int4"    // q from -8 to 7
	Int4Min DType = "int4min" // q from 0 to 15
)

const (
	// groupLen is the number of elements that share a factor.
	groupLen = 32
	// integersKey is the name of the metadata about tensors of integers.
	integersKey = "hippo.quantized"
	// integersVersion is that of the layout above.
	integersVersion = 1
)

// integers tells whether rows are integers in groups.
func (d DType) integers() bool { return d == Int8 || d == Int4 || d == Int4Min }

// RowBytes is the number of bytes of a row of k elements of Int8, Int4 or Int4Min, 0 for more than there can be.
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

// rowLen is the number of elements of a row.
func (t *Tensor) rowLen() int {
	if t.columns > 0 || len(t.Shape) == 0 {
		return t.columns
	}
	return t.Shape[len(t.Shape)-1]
}

// integerBytes is the memory of n elements, the first of which is in the first row.
func (t *Tensor) integerBytes(n int) (int, bool) {
	k := t.rowLen()
	size := t.DType.RowBytes(k)
	if size == 0 || n > math.MaxInt-k-t.skip {
		return 0, false
	}
	return mul((t.skip+n+k-1)/k, size)
}

// integerPart is Part of rows of integers.
func (t *Tensor) integerPart(at, n int) Tensor {
	k, from := t.rowLen(), t.skip+at
	part := Tensor{Name: t.Name, DType: t.DType, Shape: []int{n}, home: t.home, columns: k, skip: from % k}
	size, _ := part.integerBytes(n)
	part.Data = t.Data[from/k*t.DType.RowBytes(k):][:size]
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

// value is element i.
func (r *groupRow) value(i int) float32 {
	g := i / groupLen
	return float32(float32(r.q[i])*(fromHalf(r.factor[g])*r.scale)) + fromHalf(r.least[g])*r.scale
}

// GroupTypes are the types of rows of integers that hold all elements of t, the smallest first: Int8, Int4 or Int4Min,
// or none. Of the factors and least numbers of Q4_K, of 17 bits, such a row has the first 11.
func (t *Tensor) GroupTypes() []DType {
	switch t.DType {
	case Q4_0, Int4:
		return []DType{Int4, Int8}
	case Q5_0, Q8_0, Int8:
		return []DType{Int8}
	case Q4_1, Q4_K, Int4Min:
		return []DType{Int4Min}
	}
	return nil
}

// ReadGroups sets q to the integers of row j, as long as the last axis, and factor and least to the factors and least
// numbers of each 32 of them, as float16, and returns the scale: an element is scale·(factor·q + least). It is for types
// that have GroupTypes. Factors that are not finite are an error.
func (t *Tensor) ReadGroups(j int, q []int8, factor, least []uint16) (scale float32, err error) {
	err = disk.Guard(func() {
		if t.DType.integers() {
			size := t.DType.RowBytes(len(q))
			scale = readIntegerRow(t.DType, t.Data[j*size:][:size], q, factor, least)
			return
		}
		block, size := t.DType.Block()
		n := len(q) / block * size
		scale = readBlockRow(t.DType, t.Data[j*n:][:n], q, factor, least)
	})
	if err == nil {
		err = checkGroups(j, scale, factor, least)
	}
	if err != nil {
		return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return scale, nil
}

// checkGroups returns an error for factors with which elements are not finite.
func checkGroups(j int, scale float32, factor, least []uint16) error {
	if !(scale >= 0) {
		return fmt.Errorf("row %d: found the scale %v, want a number from 0 on", j, scale)
	}
	const infinite = 0x7c00
	most, mostLeast := uint16(0), uint16(0) // the bits of magnitudes, which sort as they do
	for g := range factor {
		most, mostLeast = max(most, factor[g]&0x7fff), max(mostLeast, least[g]&0x7fff)
	}
	if most >= infinite || mostLeast >= infinite {
		g := slices.IndexFunc(factor, func(f uint16) bool { return f&0x7fff >= infinite })
		if g < 0 {
			g = slices.IndexFunc(least, func(f uint16) bool { return f&0x7fff >= infinite })
		}
		return fmt.Errorf("row %d, group %d: found the factor %v and the least number %v, want finite numbers", j, g,
			fromHalf(factor[g]), fromHalf(least[g]))
	}
	if x := scale * (128*fromHalf(most) + fromHalf(mostLeast)); !(x <= math.MaxFloat32) {
		return fmt.Errorf("row %d: found the scale %v, with which numbers may be infinite", j, scale)
	}
	return nil
}

// readIntegerRow is ReadGroups of the bytes of a row of integers.
func readIntegerRow(d DType, b []byte, q []int8, factor, least []uint16) (scale float32) {
	scale = math.Float32frombits(binary.LittleEndian.Uint32(b))
	b = b[4:]
	for g := range factor {
		factor[g], least[g] = binary.LittleEndian.Uint16(b[2*g:]), 0
	}
	b = b[2*len(factor):]
	zero := int8(8)
	if d == Int4Min {
		zero = 0
		for g := range least {
			least[g] = binary.LittleEndian.Uint16(b[2*g:])
		}
		b = b[2*len(least):]
	}
	if d == Int8 {
		for i := range q {
			q[i] = int8(b[i])
		}
		return scale
	}
	n := len(q) / 2
	for i, v := range b[:n] {
		two := q[2*i : 2*i+2 : 2*i+2]
		two[0], two[1] = int8(v&15)-zero, int8(v>>4)-zero
	}
	if len(q)%2 == 1 {
		q[2*n] = int8(b[n]&15) - zero
	}
	return scale
}

// AppendGroups appends a row of integers of type d to b, as ReadGroups returns it.
func AppendGroups(b []byte, d DType, scale float32, q []int8, factor, least []uint16) []byte {
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(scale))
	for _, f := range factor {
		b = binary.LittleEndian.AppendUint16(b, f)
	}
	zero := int8(8)
	if d == Int4Min {
		zero = 0
		for _, f := range least {
			b = binary.LittleEndian.AppendUint16(b, f)
		}
	}
	if d == Int8 {
		for _, v := range q {
			b = append(b, byte(v))
		}
		return b
	}
	for i := 0; i < len(q); i += 2 {
		v := byte(q[i] + zero)
		if i+1 < len(q) {
			v |= byte(q[i+1]+zero) << 4
		}
		b = append(b, v)
	}
	return b
}

// readBlockRow is ReadGroups of the blocks of a row of a GGUF file.
func readBlockRow(d DType, b []byte, q []int8, factor, least []uint16) (scale float32) {
	if d == Q4_K {
		return readRowK(b, q, factor, least)
	}
	_, size := d.Block()
	for g := range factor {
		block, to := b[g*size:][:size], q[g*groupLen:][:groupLen]
		factor[g], least[g] = binary.LittleEndian.Uint16(block), 0
		switch d {
		case Q4_0:
			splitNibbles(to, block[2:], -8)
		case Q4_1:
			least[g] = binary.LittleEndian.Uint16(block[2:])
			splitNibbles(to, block[4:], 0)
		case Q5_0:
			high := binary.LittleEndian.Uint32(block[2:])
			splitNibbles(to, block[6:], -16)
			for i := range to {
				to[i] += int8(high >> i & 1 << 4)
			}
		case Q8_0:
			for i := range to {
				to[i] = int8(block[2+i])
			}
		}
	}
	return 1
}

// splitNibbles sets q to the halves of 16 bytes, the low ones first, plus zero.
func splitNibbles(q []int8, b []byte, zero int8) {
	for i := range 16 {
		q[i], q[i+16] = int8(b[i]&15)+zero, int8(b[i]>>4)+zero
	}
}

// readRowK is readBlockRow of Q4_K. The scale is a power of two with which the largest factor or least number of the
// row is far from the ends of float16.
func readRowK(b []byte, q []int8, factor, least []uint16) (scale float32) {
	const block, size = 256, 144
	const groups = block / groupLen
	pair := func(g int) (f, m float32) {
		at := b[g/groups*size:]
		i, j := kFactors(at[4:16], g%groups)
		return float32(halfAt(at, 0) * float32(i)), -float32(halfAt(at, 2) * float32(j))
	}
	top := 0.0
	for g := range factor {
		f, m := pair(g)
		top = max(top, math.Abs(float64(f)), math.Abs(float64(m))) // NaN stays
	}
	_, exponent := math.Frexp(top)
	exponent = max(exponent-7, -126)
	if !(top <= math.MaxFloat32) {
		exponent = 0
	}
	for g := range factor {
		f, m := pair(g)
		factor[g] = toHalf(float32(math.Ldexp(float64(f), -exponent)))
		least[g] = toHalf(float32(math.Ldexp(float64(m), -exponent)))
		low := b[g/groups*size+16+g%groups/2*groupLen:][:groupLen]
		for i, v := range low {
			q[g*groupLen+i] = int8(v >> (g % 2 * 4) & 15)
		}
	}
	return float32(math.Ldexp(1, exponent))
}

// Streamed is a tensor whose rows are made as they are written: for WriteSafetensors only. row appends the bytes of row
// j to b. Rows of the types Int8, Int4 and Int4Min are those of AppendGroups.
func Streamed(name string, d DType, shape []int, row func(b []byte, j int) []byte) Tensor {
	return Tensor{Name: name, DType: d, Shape: shape, row: row}
}

// bytes is the memory of all elements, if that is possible.
func (t *Tensor) bytes() (int, bool) {
	n, ok := product(t.Shape)
	if !ok {
		return 0, false
	}
	if t.DType.integers() {
		return t.integerBytes(n)
	}
	block, size := t.DType.Block()
	return mul(n/block, size)
}

// write writes the elements.
func (t *Tensor) write(w io.Writer) error {
	if t.row == nil {
		_, err := w.Write(t.Data)
		return err
	}
	var b []byte
	for j := range t.Elements() / max(1, t.rowLen()) {
		b = t.row(b, j)
		if len(b) >= 1<<16 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := w.Write(b)
	return err
}

// integersMeta is the metadata about tensors of integers.
type integersMeta struct {
	Version int                     `json:"version"`
	Tensors map[string]integersForm `json:"tensors"`
}

// integersForm is what U8 (rows, bytes) stands for.
type integersForm struct {
	Type    DType `json:"type"`
	Columns int   `json:"columns"`
}

// withIntegers is metadata with what it says about tensors of integers.
func withIntegers(metadata map[string]string, tensors []Tensor) (map[string]string, error) {
	said := integersMeta{integersVersion, map[string]integersForm{}}
	for i := range tensors {
		if t := &tensors[i]; t.DType.integers() {
			if len(t.Shape) != 2 || t.skip > 0 || t.rowLen() != t.Shape[1] {
				return nil, fmt.Errorf("tensor %q: found shape %v for %s, want rows and columns", t.Name, t.Shape, t.DType)
			}
			said.Tensors[t.Name] = integersForm{t.DType, t.Shape[1]}
		}
	}
	if len(said.Tensors) == 0 {
		return metadata, nil
	}
	text, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]string{}
	}
	metadata[integersKey] = string(text)
	return metadata, nil
}

// readIntegersMeta gives the tensors of a safetensors file the types and shapes that its metadata says.
func (f *File) readIntegersMeta() error {
	text, ok := f.meta[integersKey]
	if !ok {
		return nil
	}
	var said integersMeta
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return fmt.Errorf("%s: %w", integersKey, err)
	}
	if said.Version != integersVersion {
		return fmt.Errorf("%s: found version %d of the layout of quantized weights, want %d: it may be of a newer hippo",
			integersKey, said.Version, integersVersion)
	}
	delete(f.meta, integersKey)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(said.Tensors)) {
		if err := f.setIntegers(name, said.Tensors[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s: tensor %q: %w", integersKey, name, err))
		}
	}
	return errors.Join(problems...)
}

// setIntegers gives a tensor of bytes its type and shape.
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
		return fmt.Errorf("found rows of %d bytes, want %d for %d columns of %s", t.Shape[1], size, form.Columns, form.Type)
	}
	t.DType, t.Shape, t.columns = form.Type, []int{t.Shape[0], form.Columns}, form.Columns
	return nil
}
