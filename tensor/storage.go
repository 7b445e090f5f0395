package tensor

import "fmt"

// Storage holds the elements of a tensor in an engine's own form instead of float32 in ordinary memory: in another
// precision or on another device. Only the engine that made it looks inside; the host copies in and out.
type Storage interface {
	// Len is the number of elements, Bytes their memory.
	Len() int
	Bytes() int
	// Like returns storage of the same kind for n zeros.
	Like(n int) Storage
	// Copy copies n elements of from, which is of the same kind, starting at element at, to the elements from to on.
	// The two ranges may overlap.
	Copy(to int, from Storage, at, n int)
	// Read copies the elements out, rounded to float32; Write copies as many in.
	Read(dst []float32)
	Write(src []float32)
}

// InMemory is Storage in ordinary memory, where Rooms, Move and Zeros put it as they do floats.
type InMemory interface {
	Storage
	// Room is the memory that the elements take, in floats.
	Room() int
	// In returns storage of the same kind and length over memory, whose contents become the elements.
	In(memory []float32) Storage
}

// Stored returns a tensor over storage.
func Stored(s Storage, shape ...int) *Tensor {
	t := Shaped(shape...)
	t.SetStorage(s)
	return t
}

// Storage is the engine's storage of the elements, nil if they are in Data.
func (t *Tensor) Storage() Storage { return t.storage }

// SetStorage replaces Data by s, which must have the tensor's length. CopyFrom keeps the storage, SetData drops it.
func (t *Tensor) SetStorage(s Storage) {
	if s.Len() != t.Len() {
		panic(fmt.Sprintf("tensor.SetStorage: %d values for shape %v", s.Len(), t))
	}
	t.data, t.packed, t.storage = nil, nil, s
	t.version++
}

// NewBeside returns a tensor of zeros in the same kind of storage as x.
func NewBeside(x *Tensor, shape ...int) *Tensor {
	if x.storage == nil {
		return New(shape...)
	}
	t := Shaped(shape...)
	t.SetStorage(x.storage.Like(t.Len()))
	return t
}

// CopyRows copies n rows of every matrix in src (…, rows, d), from row from on, to the same matrix in dst, from row to
// on. dst may have another number of rows. dst may be src, with to ≤ from.
func CopyRows(dst *Tensor, to int, src *Tensor, from, n int) {
	d := src.Dim(-1)
	a, b := src.Dim(-2)*d, dst.Dim(-2)*d
	for i := range src.Len() / a {
		copyElements(dst, i*b+to*d, src, i*a+from*d, n*d)
	}
}

// Copy copies the elements of src to dst, which has as many.
func Copy(dst, src *Tensor) {
	copyElements(dst, 0, src, 0, src.Len())
	dst.Changed()
}

// copyElements copies n elements between any kinds of storage.
func copyElements(dst *Tensor, to int, src *Tensor, at, n int) {
	switch {
	case dst.storage == nil && src.storage == nil:
		copy(dst.data[to:to+n], src.data[at:])
	case dst.storage != nil && src.storage != nil:
		dst.storage.Copy(to, src.storage, at, n)
	default:
		all := make([]float32, src.Len())
		src.CopyTo(all)
		if dst.storage == nil {
			copy(dst.data[to:to+n], all[at:])
			return
		}
		part := dst.storage.Like(n)
		part.Write(all[at : at+n])
		dst.storage.Copy(to, part, 0, n)
	}
}
