package checkpoint

import (
	"fmt"
	"slices"
)

// Reordered returns the matrix t (…, k) with the columns of its rows in another order: each row consists of len(from)
// pieces of equal width, and piece i is piece from[i] of t. Nothing is copied: elements are put in order as they are
// read. It returns an error if rows cannot be divided into that many pieces, or are not whole blocks.
func (t *Tensor) Reordered(from []int) (Tensor, error) {
	k := t.rowLen()
	block, _ := t.DType.Block()
	if k < 1 || len(from) < 1 || k%len(from) != 0 || k%max(1, block) != 0 || t.order != nil {
		return Tensor{}, fmt.Errorf("tensor %q: found rows of %d elements of type %s, want whole blocks, and a "+
			"multiple of %d", t.Name, k, t.DType, len(from))
	}
	y := *t
	y.columns, y.order = k, from
	return y, nil
}

// InOrder reports whether Data has the elements in order.
func (t *Tensor) InOrder() bool { return t.order == nil }

// rowBytes returns the number of bytes of a row of k elements.
func (t *Tensor) rowBytes(k int) int {
	if t.DType.integers() {
		return t.DType.RowBytes(k)
	}
	return t.DType.bytes(k)
}

// reorder puts the pieces of a row in order.
func reorder[E any](row []E, from []int) {
	old, n := slices.Clone(row), len(row)/len(from)
	for i, at := range from {
		copy(row[i*n:][:n], old[at*n:])
	}
}

// readReordered converts the elements of reordered rows into out.
func readReordered[T float32 | float64](t *Tensor, out []T) error {
	if err := t.checkInto(len(out)); err != nil {
		return err
	}
	k := t.rowLen()
	row, skip, size := make([]T, k), t.skip, t.rowBytes(k)
	plain := Tensor{Name: t.Name, DType: t.DType, Shape: []int{k}, home: t.home}
	for j := 0; len(out) > 0; j++ {
		plain.Data = t.Data[j*size:][:size]
		if err := readFloats(&plain, row); err != nil {
			return err
		}
		reorder(row, t.order)
		n := copy(out, row[skip:])
		out, skip = out[n:], 0
	}
	return nil
}
