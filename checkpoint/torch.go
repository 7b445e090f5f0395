package checkpoint

import (
	"bytes"
	"fmt"
	"slices"
)

// saved is the content of a file of torch.save: an object whose tensors refer to storages by key.
type saved struct {
	object any
	pickle int // bytes of the pickle of object
	// storage returns the bytes of a storage.
	storage func(*pyStorage) ([]byte, error)
}

// stateKeys are the entries of the saved object that may be its state dict, best first.
var stateKeys = []string{"state_dict", "model_state_dict", "model", "module"}

// isTorch reports whether a file starts like a file of torch.save: a zip archive or a pickle of the magic number.
func isTorch(d []byte) bool {
	return isZip(d) || len(d) > 1 && d[0] == 0x80 && d[1] <= pickleProtocol || bytes.HasPrefix(d, []byte("L1195"))
}

func isZip(d []byte) bool { return bytes.HasPrefix(d, []byte("PK\x03\x04")) }

func (f *File) readTorch() error {
	read := readLegacy
	f.format = FormatTorchLegacy
	if isZip(f.mapping.data) {
		read = readZip
		f.format = FormatTorchZip
	}
	s, err := read(f.mapping.data)
	if err != nil {
		return err
	}
	tensors, err := f.stateDict(s)
	if err != nil {
		return err
	}
	copies := copyBudget{limit: 16<<20 + 4*len(f.mapping.data)}
	for _, n := range tensors {
		data, err := s.storage(n.tensor.storage)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", n.name, err)
		}
		t, err := materialize(n.tensor, data, &copies)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", n.name, err)
		}
		t.Name = n.name
		if err := f.add(t); err != nil {
			return err
		}
	}
	return nil
}

// stateDict finds the state dict by the rule of OpenTorch and flattens it. The rest becomes metadata.
func (f *File) stateDict(s *saved) ([]namedTensor, error) {
	root := asDict(s.object)
	if root != nil {
		for _, key := range stateKeys {
			dict := asDict(root.get(key))
			if dict == nil {
				continue
			}
			tensors, err := flatten(dict, s.pickle)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			if len(tensors) > 0 {
				f.root = key
				f.meta = scalars(root, s.pickle)
				return tensors, nil
			}
		}
	}
	tensors, err := flatten(s.object, s.pickle)
	if err != nil {
		return nil, err
	}
	if len(tensors) == 0 {
		return nil, fmt.Errorf("no tensors: the file holds %s, want a dictionary of tensors as state_dict() gives it",
			describe(s.object))
	}
	f.meta = scalars(s.object, s.pickle)
	return tensors, nil
}

// copyBudget bounds the bytes of tensors that cannot alias the file.
type copyBudget struct{ limit, used int }

// materialize turns a view of a storage into a Tensor: a part of the storage itself when the elements lie in row-major
// order, a copy otherwise. Both are checked to lie inside the storage.
func materialize(v *pyTensor, storage []byte, copies *copyBudget) (*Tensor, error) {
	size := v.elem.size()
	if size == 0 {
		return nil, fmt.Errorf("elements of type %s are not supported, want one of %s, complex64 or complex128",
			v.elem.name, knownTypes)
	}
	n, ok := product(v.shape)
	length, ok2 := mul(n, size)
	if !ok || !ok2 {
		return nil, fmt.Errorf("shape %v is not possible", v.shape)
	}
	t := &Tensor{DType: v.elem.dtype, Shape: slices.Clone(v.shape)}
	if v.elem.complex {
		t.Shape = append(t.Shape, 2)
	}
	if n == 0 {
		return t, nil
	}
	last, ok := lastElement(v)
	if have := len(storage) / size; !ok || last >= have {
		return nil, fmt.Errorf("shape %v with strides %v from element %d ends outside of storage %.20q, "+
			"which has %d elements", v.shape, v.stride, v.offset, v.storage.key, have)
	}
	if isContiguous(v) {
		from := v.offset * size
		t.Data = storage[from : from+length : from+length]
		return t, nil
	}
	if length > copies.limit-copies.used {
		return nil, fmt.Errorf("strides %v ask for a copy of %d bytes, "+
			"and copies of one file may have at most %d bytes in all", v.stride, length, copies.limit)
	}
	copies.used += length
	t.Data = gather(v, storage, size, length)
	return t, nil
}

// lastElement is the index of the farthest element of a view that is not empty; false when it does not fit into int.
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

// isContiguous reports whether the elements follow each other in row-major order. The strides of axes of size 1 do not
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
