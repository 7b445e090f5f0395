package checkpoint

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// saved is the content of a file of torch.save: an object whose tensors refer to storages by key.
type saved struct {
	object any
	pickle int // bytes of the pickle of object
	// storage returns the bytes of a storage.
	storage func(*pyStorage) []byte
}

// stateKeys are the entries of the saved object that may be its state dict, best first.
var stateKeys = []string{"state_dict", "model_state_dict", "model", "module"}

// isTorch reports whether a file starts like a file of torch.save: with a zip archive or a pickle of the magic number.
func isTorch(d []byte) bool {
	return isZip(d) || len(d) > 1 && d[0] == 0x80 && d[1] <= pickleProtocol || bytes.HasPrefix(d, []byte("L1195"))
}

func isZip(d []byte) bool { return bytes.HasPrefix(d, []byte("PK\x03\x04")) }

func (f *File) readTorch() {
	read := readLegacy
	f.format = FormatTorchLegacy
	if isZip(f.mapping.data) {
		read = readZip
		f.format = FormatTorchZip
	}
	s := read(f.mapping.data)
	copies := copyBudget{limit: 16<<20 + 4*len(f.mapping.data)}
	for _, n := range f.stateDict(s) {
		var t *Tensor
		fault.Within(fmt.Sprintf("tensor %q", n.name), func() {
			t = materialize(n.tensor, s.storage(n.tensor.storage), &copies)
		})
		t.Name = n.name
		fault.Check(f.add(t))
	}
}

// stateDict finds the state dict by the rule of OpenTorch and flattens it. The other values become metadata.
func (f *File) stateDict(s *saved) (tensors []namedTensor) {
	if root := asDict(s.object); root != nil {
		for _, key := range stateKeys {
			dict := asDict(root.get(key))
			if dict == nil {
				continue
			}
			fault.Within(key, func() { tensors = flatten(dict, s.pickle) })
			if len(tensors) > 0 {
				f.root = key
				f.meta = scalars(root, s.pickle)
				return tensors
			}
		}
	}
	if tensors = flatten(s.object, s.pickle); len(tensors) == 0 {
		fault.Raisef("no tensors: the file holds %s, want a dictionary of tensors as state_dict() gives it",
			describe(s.object))
	}
	f.meta = scalars(s.object, s.pickle)
	return tensors
}

// copyBudget bounds the bytes of tensors that cannot alias the file.
type copyBudget struct{ limit, used int }

// materialize turns a view of a storage into a Tensor: a part of the storage itself if the elements are in row-major
// order, and a copy otherwise. It checks that the view is inside the storage.
func materialize(v *pyTensor, storage []byte, copies *copyBudget) *Tensor {
	size := v.elem.size()
	if size == 0 {
		fault.Raisef("elements of type %s are not supported, want one of %s, complex64 or complex128",
			v.elem.name, knownTypes)
	}
	n, ok := product(v.shape)
	length, ok2 := mul(n, size)
	if !ok || !ok2 {
		fault.Raisef("shape %v is not possible", v.shape)
	}
	t := &Tensor{DType: v.elem.dtype, Shape: slices.Clone(v.shape)}
	if v.elem.complex {
		t.Shape = append(t.Shape, 2)
	}
	if n == 0 {
		return t
	}
	last, ok := lastElement(v)
	if have := len(storage) / size; !ok || last >= have {
		fault.Raisef("shape %v with strides %v from element %d ends outside of storage %.20q, "+
			"which has %d elements", v.shape, v.stride, v.offset, v.storage.key, have)
	}
	if isContiguous(v) {
		from := v.offset * size
		t.Data = storage[from : from+length : from+length]
		return t
	}
	if length > copies.limit-copies.used {
		fault.Raisef("strides %v ask for a copy of %d bytes, "+
			"and copies of one file may have at most %d bytes in all", v.stride, length, copies.limit)
	}
	copies.used += length
	t.Data = gather(v, storage, size, length)
	return t
}

// lastElement returns the index of the farthest element of a view that is not empty. It returns false if the index does
// not fit into int.
func lastElement(v *pyTensor) (int, bool) {
	last := v.offset
	for i, s := range v.shape {
		step, ok := mul(s-1, v.stride[i])
		if !ok || last+step < last {
			return 0, false
		}
		last += step
	}
	return last, true
}

// isContiguous reports whether the elements are consecutive in row-major order. The strides of axes of size 1 do not
// matter.
func isContiguous(v *pyTensor) bool {
	want := 1
	for i := len(v.shape) - 1; i >= 0; i-- {
		if v.shape[i] != 1 && v.stride[i] != want {
			return false
		}
		want *= v.shape[i]
	}
	return true
}

// gather copies the elements of a view in row-major order.
func gather(v *pyTensor, storage []byte, size, length int) []byte {
	out := make([]byte, 0, length)
	index := make([]int, len(v.shape))
	at := v.offset
	for {
		out = append(out, storage[at*size:(at+1)*size]...)
		d := len(index) - 1
		for ; d >= 0; d-- { // count up, the last index first
			index[d]++
			at += v.stride[d]
			if index[d] < v.shape[d] {
				break
			}
			at -= v.stride[d] * v.shape[d]
			index[d] = 0
		}
		if d < 0 {
			return out
		}
	}
}
