// Package tensor provides tensors and the arena: dense float32 arrays in row-major order, the gradients of results, and
// the memory that holds both. It has no arithmetic.
//
// Only engine/cpu looks inside a tensor (Data, Grad). Other packages call operations, and copy in and out with CopyFrom
// and CopyTo to load, save or plot.
package tensor

import (
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// MaxDims is the largest number of axes a tensor can have.
const MaxDims = 4

// Tensor is a dense float32 array in row-major order. A result that an arena lent has space for its gradient. The
// gradients of parameters and inputs, which several steps may share, belong to the step.
type Tensor struct {
	dims      [MaxDims]int
	nd        int
	data      []float32
	grad      []float32
	lent      bool // whether an arena lent the tensor
	needsGrad bool
	version   uint64
	packed    Packed
	storage   Storage // an engine's storage, instead of data
}

// Packed is another form of the elements of a weight matrix, which replaces Data. An engine makes it and computes with
// it.
type Packed interface {
	Len() int   // number of elements
	Bytes() int // memory
}

// New returns a zeroed tensor on the ordinary heap, for states, which outlive a step.
func New(shape ...int) *Tensor {
	t := Shaped(shape...)
	t.data = hugepage.Make[float32](t.Len())
	return t
}

// Together returns slices of zeros of the given lengths, side by side in one piece of memory, on huge pages if the
// system has them. It is for data that is processed as a whole, such as the parameters of a model.
func Together(lengths ...int) [][]float32 { return sideBySide(hugepage.Make[float32], lengths) }

// sideBySide is Together in memory that allocate returns.
func sideBySide(allocate func(n int) []float32, lengths []int) [][]float32 {
	const line = 16 // floats of a cache line, at which each slice starts
	starts := make([]int, len(lengths)+1)
	for i, n := range lengths {
		starts[i+1] = starts[i] + (n+line-1)/line*line
	}
	all, out := allocate(starts[len(lengths)]), make([][]float32, len(lengths))
	for i, n := range lengths {
		out[i] = all[starts[i]:][:n:n]
	}
	return out
}

// Rooms returns memory for the elements of tensors, side by side as in Together. It returns none for tensors whose
// elements are held by an engine or an arena.
func Rooms(xs ...*Tensor) [][]float32 { return Together(roomLengths(xs)...) }

// roomLengths returns the lengths of the memory of Rooms.
func roomLengths(xs []*Tensor) []int {
	lengths := make([]int, len(xs))
	for i, x := range xs {
		if s, ok := x.storage.(InMemory); ok {
			lengths[i] = s.Room()
		} else if !x.lent {
			lengths[i] = len(x.data)
		}
	}
	return lengths
}

// Move copies the elements to the memory to, which holds them from then on. It does nothing if to is empty.
func (t *Tensor) Move(to []float32) {
	if len(to) == 0 {
		return
	}
	if s, ok := t.storage.(InMemory); ok {
		moved := s.In(to)
		moved.Copy(0, s, 0, s.Len())
		t.SetStorage(moved)
		return
	}
	t.CopyTo(to)
	t.SetData(to)
}

// Compact moves the elements of tensors into one piece of memory, in their order. Tensors that shared elements are
// independent afterwards.
func Compact(xs ...*Tensor) {
	for i, room := range Rooms(xs...) {
		xs[i].Move(room)
	}
}

// Zeros gives tensors without memory elements of zero, side by side as in Together. Tensors whose storage is InMemory
// keep its kind.
func Zeros(xs ...*Tensor) {
	lengths := make([]int, len(xs))
	for i, x := range xs {
		lengths[i] = x.Len()
		if s, ok := x.storage.(InMemory); ok {
			lengths[i] = s.Room()
		}
	}
	for i, data := range Together(lengths...) {
		if s, ok := xs[i].storage.(InMemory); ok {
			xs[i].SetStorage(s.In(data))
		} else {
			xs[i].SetData(data)
		}
	}
}

// Shaped returns a tensor without memory; SetData or CopyFrom adds it. It is for parameters, so that a model can be
// described, checked and counted at no cost.
func Shaped(shape ...int) *Tensor {
	t := &Tensor{}
	t.setShape(shape)
	return t
}

// FromSlice returns a tensor over data, which it does not copy.
func FromSlice(data []float32, shape ...int) *Tensor {
	t := Shaped(shape...)
	t.SetData(data)
	return t
}

func (t *Tensor) setShape(shape []int) {
	if len(shape) > MaxDims {
		panic(fmt.Sprintf("tensor: %d axes, at most %d are possible", len(shape), MaxDims))
	}
	t.nd = copy(t.dims[:], shape)
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.dims[:t.nd] {
		n *= d
	}
	return n
}

// Dims returns the number of axes.
func (t *Tensor) Dims() int { return t.nd }

// Dim returns the length of axis i. A negative i counts from the last axis.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += t.nd
	}
	return t.dims[i]
}

// Shape returns a copy of the shape.
func (t *Tensor) Shape() []int { return append([]int(nil), t.dims[:t.nd]...) }

// SameShape reports whether both tensors have equal shapes.
func (t *Tensor) SameShape(u *Tensor) bool { return t.nd == u.nd && t.dims == u.dims }

// Rows returns the number of vectors along the last axis: Len()/Dim(-1).
func (t *Tensor) Rows() int {
	if last := t.Dim(-1); last > 0 {
		return t.Len() / last
	}
	return 0
}

// Data returns the memory of the elements, unless an engine has its own storage for them. It is for engine/cpu only.
func (t *Tensor) Data() []float32 { return t.data }

// Packed returns the form that replaces Data, or nil.
func (t *Tensor) Packed() Packed { return t.packed }

// SetPacked replaces Data by p, which must have the tensor's length. CopyFrom and SetData drop it.
func (t *Tensor) SetPacked(p Packed) {
	if p.Len() != t.Len() {
		panic(fmt.Sprintf("tensor.SetPacked: %d values for shape %v", p.Len(), t))
	}
	t.data, t.packed = nil, p
	t.version++
}

// Bytes returns the memory of the elements.
func (t *Tensor) Bytes() int {
	switch {
	case t.packed != nil:
		return t.packed.Bytes()
	case t.storage != nil:
		return t.storage.Bytes()
	}
	return 4 * len(t.data)
}

// Lent reports whether an Arena lent the tensor: it is a result of one step, and no other step uses it.
func (t *Tensor) Lent() bool { return t.lent }

// Grad returns the storage of a result's gradient, or nil if there is none. It is for engine/cpu only.
func (t *Tensor) Grad() []float32 { return t.grad }

// SetGrad sets the memory of a result's gradient, of length Len, or nil for none. The tensor must be lent: other
// tensors may be shared by several steps, each of which has its own gradients.
func (t *Tensor) SetGrad(g []float32) {
	if !t.lent {
		panic(fmt.Sprintf("tensor.SetGrad: a tensor of shape %v that no arena lent; its gradient is the step's", t))
	}
	if g != nil && len(g) != t.Len() {
		panic(fmt.Sprintf("tensor.SetGrad: %d values for shape %v", len(g), t))
	}
	t.grad = g
}

// NeedsGrad reports whether a gradient is wanted for this tensor.
func (t *Tensor) NeedsGrad() bool { return t.needsGrad }

// SetNeedsGrad sets whether a gradient is wanted for this tensor.
func (t *Tensor) SetNeedsGrad(on bool) { t.needsGrad = on }

// Version returns the number of changes announced by CopyFrom, SetData and Changed, so that a value derived from a
// parameter can be cached until the parameter changes.
func (t *Tensor) Version() uint64 { return t.version }

// Changed announces that the elements were written through Data.
func (t *Tensor) Changed() { t.version++ }

// Part returns a tensor over n elements from at on, in the same memory, which must be host memory.
func (t *Tensor) Part(at, n int) *Tensor {
	if t.data == nil {
		panic(fmt.Sprintf("tensor.Part: shape %v has no elements in the memory of the host", t))
	}
	return FromSlice(t.data[at:at+n:at+n], n)
}

// SetData sets the memory of the tensor to data, which must have the tensor's length.
func (t *Tensor) SetData(data []float32) {
	if len(data) != t.Len() {
		panic(fmt.Sprintf("tensor.SetData: %d values for shape %v", len(data), t))
	}
	t.data, t.packed, t.storage = data, nil, nil
	t.version++
}

// Share makes t use the elements of x, which must have the same shape, in the same memory. From then on neither of the
// two may be changed. It is for models over the same weights.
func (t *Tensor) Share(x *Tensor) {
	if !t.SameShape(x) {
		panic(fmt.Sprintf("tensor.Share: shapes %v and %v", t, x))
	}
	t.data, t.packed, t.storage = x.data, x.packed, x.storage
	t.version++
}

// CopyFrom fills the tensor from src, which must have its length.
func (t *Tensor) CopyFrom(src []float32) {
	if len(src) != t.Len() {
		panic(fmt.Sprintf("tensor.CopyFrom: %d values for shape %v", len(src), t))
	}
	switch {
	case t.storage != nil:
		t.storage.Write(src)
	default:
		if t.data == nil {
			t.data, t.packed = make([]float32, len(src)), nil
		}
		copy(t.data, src)
	}
	t.version++
}

// CopyTo copies the elements into dst, which must be long enough, and returns their number.
func (t *Tensor) CopyTo(dst []float32) int {
	if t.data == nil && t.storage == nil {
		return 0
	}
	if len(dst) < t.Len() {
		panic(fmt.Sprintf("tensor.CopyTo: room for %d values, shape %v", len(dst), t))
	}
	if t.storage != nil {
		t.storage.Read(dst[:t.Len()])
		return t.Len()
	}
	return copy(dst, t.data)
}

// Value returns the only element.
func (t *Tensor) Value() float64 {
	var x [1]float32
	t.CopyTo(x[:])
	return float64(x[0])
}

// Floats returns a copy of the elements.
func (t *Tensor) Floats() []float32 {
	out := make([]float32, t.Len())
	t.CopyTo(out)
	return out
}

// Elements returns the elements for reading, in row-major order: the tensor's memory if it is on the host, else a copy.
// It returns nil if the tensor has no values.
func (t *Tensor) Elements() []float32 {
	if t.storage == nil {
		return t.data
	}
	all := make([]float32, t.Len())
	t.storage.Read(all)
	return all
}

// CopyRowTo copies row i along the last axis into dst, which must be long enough.
func (t *Tensor) CopyRowTo(dst []float32, i int) {
	d := t.Dim(-1)
	if i < 0 || i >= t.Rows() || len(dst) < d {
		panic(fmt.Sprintf("tensor.CopyRowTo: row %d, room for %d values, shape %v", i, len(dst), t))
	}
	t.CopyPartTo(dst[:d], i*d)
}

// CopyPartTo fills dst with the elements from at on.
func (t *Tensor) CopyPartTo(dst []float32, at int) {
	switch n := len(dst); {
	case t.storage == nil:
		copy(dst, t.data[at:at+n])
	case n == t.Len():
		t.storage.Read(dst)
	default:
		part := t.storage.Like(n)
		part.Copy(0, t.storage, at, n)
		part.Read(dst)
	}
}

// Clone returns a copy on the ordinary heap, without a gradient.
func (t *Tensor) Clone() *Tensor {
	if t.storage != nil {
		c := NewBeside(t, t.Shape()...)
		c.storage.Copy(0, t.storage, 0, t.Len())
		return c
	}
	return &Tensor{dims: t.dims, nd: t.nd, data: append([]float32(nil), t.data...)}
}

// Shallow is Clone, but leaves the copying to Move: until one of the two has been moved, neither may be changed.
func (t *Tensor) Shallow() *Tensor {
	_, inMemory := t.storage.(InMemory)
	if t.storage != nil && !inMemory || t.lent {
		return t.Clone()
	}
	return &Tensor{dims: t.dims, nd: t.nd, data: t.data, storage: t.storage}
}

// Zero sets every element to zero.
func (t *Tensor) Zero() {
	if t.storage != nil {
		t.storage = t.storage.Like(t.Len())
		return
	}
	clear(t.data)
}

// Fill sets every element to v.
func (t *Tensor) Fill(v float32) {
	if t.storage != nil {
		all := make([]float32, t.Len())
		for i := range all {
			all[i] = v
		}
		t.storage.Write(all)
		return
	}
	for i := range t.data {
		t.data[i] = v
	}
}

// String returns the shape, not the contents: "(2, 24, 64)".
func (t *Tensor) String() string {
	parts := make([]string, t.nd)
	for i := range parts {
		parts[i] = fmt.Sprint(t.dims[i])
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
