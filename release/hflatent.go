package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// latentHeads holds the sizes of a matrix of multi-head latent attention, which maps a latent vector to the keys and
// values of heads: (heads·(keys + values), rank), with the rows for the keys of each head before those for its values.
// The mixer mla has two parameters for each head: the transpose of the part for keys, and the part for values. Here
// they are stacked to (heads, rank, keys) and (heads, values, rank), as in GGUF files.
type latentHeads struct{ heads, keys, values, rank int }

// latentMatrix is the suffix of the name of such a matrix. latentKeys and latentValues are appended for its parts.
const (
	latentMatrix = "kv_b_proj.weight"
	latentKeys   = ", keys"
	latentValues = ", values"
)

func (l *latentHeads) shape() []int { return []int{l.heads * (l.keys + l.values), l.rank} }

// read splits a matrix into its two parts.
func (l *latentHeads) read(x *checkpoint.Tensor) ([]*checkpoint.Tensor, error) {
	if want := l.shape(); !slices.Equal(x.Shape, want) {
		return nil, fmt.Errorf("%s: found shape %v, want %v", x.Name, x.Shape, want)
	}
	k := &checkpoint.Tensor{Name: x.Name + latentKeys, DType: x.DType, Shape: []int{l.heads, l.rank, l.keys},
		Data: make([]byte, len(x.Data)/(l.keys+l.values)*l.keys)}
	v := &checkpoint.Tensor{Name: x.Name + latentValues, DType: x.DType, Shape: []int{l.heads, l.values, l.rank},
		Data: make([]byte, len(x.Data)-len(k.Data))}
	return []*checkpoint.Tensor{k, v}, x.UseData(func(from []byte) { l.each(len(from), from, k.Data, v.Data, copyTo) })
}

// write is the inverse of read.
func (l *latentHeads) write(name string, k, v *checkpoint.Tensor) (checkpoint.Tensor, error) {
	x := checkpoint.Tensor{Name: name, DType: k.DType, Shape: l.shape(),
		Data: make([]byte, len(k.Data)+len(v.Data))}
	var failed error
	err := k.UseData(func(k []byte) {
		failed = v.UseData(func(v []byte) { l.each(len(x.Data), x.Data, k, v, copyFrom) })
	})
	return x, errors.Join(err, failed)
}

func copyTo(whole, part []byte)   { copy(part, whole) }
func copyFrom(whole, part []byte) { copy(whole, part) }

// each calls f with each piece of a matrix of n bytes, and the same piece in the parts.
func (l *latentHeads) each(n int, whole, k, v []byte, f func(whole, part []byte)) {
	row := n / (l.heads * (l.keys + l.values))
	width := row / l.rank
	for h := range l.heads {
		at := h * (l.keys + l.values) * row
		for j := range l.keys {
			for r := range l.rank {
				f(whole[at+j*row+r*width:][:width], k[((h*l.rank+r)*l.keys+j)*width:][:width])
			}
		}
		f(whole[at+l.keys*row:][:l.values*row], v[h*l.values*row:][:l.values*row])
	}
}

// latentNames returns the names of the parameters of each head. Their matrices are stacked in two tensors.
func latentNames(heads int, keys, values string) (names []rename) {
	for h := range min(heads, maxExperts) { // the mixer reports an error for more
		part := func(own, name string) rename {
			return rename{fmt.Sprintf("%s.%d.weight", own, h),
				[]model.Source{{Name: name, Part: h, Of: heads, Stack: heads}}}
		}
		names = append(names, part("k_b", keys), part("v_b", values))
	}
	return names
}

// madeOf returns the name and shape of the matrix that a part belongs to.
func (n *hfNames) madeOf(part string) (name string, shape []int, ok bool) {
	if name, ok = strings.CutSuffix(part, latentKeys); !ok {
		name, ok = strings.CutSuffix(part, latentValues)
	}
	if !ok || !n.isLatent(name) {
		return "", nil, false
	}
	return name, n.latent.shape(), true
}

func (n *hfNames) isLatent(name string) bool {
	return n.latent != nil && strings.HasSuffix(name, latentMatrix)
}
