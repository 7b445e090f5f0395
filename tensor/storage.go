package tensor

import "fmt"

// Storage holds the elements of a tensor in an engine's own form, such as another precision or the memory of a device,
// instead of float32 in ordinary memory. Only the engine that made it looks inside. The host copies elements in and
// out.
type Storage interface {
	// Len returns the number of elements, and Bytes their memory.
	Len() int
	Bytes() int
	// Like returns storage of the same kind for n zeros.
	Like(n int) Storage
	// Copy copies the n elements of from, which is of the same kind, that start at element at. It copies them to the
	// elements that start at to. The two ranges may overlap.
	Copy(to int, from Storage, at, n int)
	// Read copies the elements out, rounded to float32, and Write copies elements in. Both copy all elements.
	Read(dst []float32)
	Write(src []float32)
}

// InMemory is Storage in ordinary memory, which Rooms, Move and Zeros can place as they place floats.
type InMemory interface {
	Storage
	// Room returns the memory that the elements take, in floats.
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

// Storage returns the engine's storage of the elements, or nil if they are in Data.
func (t *Tensor) Storage() Storage { return t.storage }

// SetStorage replaces Data by s, which must have the tensor's length. CopyFrom keeps the storage, and SetData drops it.
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

// CopyRows copies n rows, from row from on, of every matrix in src (…, rows, d) to the same matrix in dst, from row to
// on. dst may have another number of rows. dst may be src if to ≤ from.
func CopyRows(dst *Tensor, to int, src *Tensor, from, n int) {
	d := src.Dim(-1)
	a, b := src.Dim(-2)*d, dst.Dim(-2)*d
	for i := range src.Len() / a {
		copyElements(dst, i*b+to*d, src, i*a+from*d, n*d)
	}
}

// Copy copies the elements of src to dst, which must have the same number of elements.
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
