package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// Tensors that lie in files in another form than parameters do.

// latentHeads are the sizes of a matrix of multi-head latent attention that makes keys and values of heads from a
// latent vector: (heads·(keys + values), rank), for each head the rows of its keys and those of its values. Parameters
// are the keys' part (heads, keys, rank) and the transposes of the values' (heads, rank, values), as the mixer mla
// multiplies by them.
type latentHeads struct{ heads, keys, values, rank int }

// latentMatrix is the end of the name of such a matrix, and latentKeys and latentValues are added to it for its parts.
const (
	latentMatrix = "kv_b_proj.weight"
	latentKeys   = ", keys"
	latentValues = ", values"
)

// read returns the two parts of a matrix.
func (l *latentHeads) read(x *checkpoint.Tensor) ([]*checkpoint.Tensor, error) {
	if want := []int{l.heads * (l.keys + l.values), l.rank}; !slices.Equal(x.Shape, want) {
		return nil, fmt.Errorf("%s: found shape %v, want %v", x.Name, x.Shape, want)
	}
	k := &checkpoint.Tensor{Name: x.Name + latentKeys, DType: x.DType, Shape: []int{l.heads, l.keys, l.rank},
		Data: make([]byte, len(x.Data)/(l.keys+l.values)*l.keys)}
	v := &checkpoint.Tensor{Name: x.Name + latentValues, DType: x.DType, Shape: []int{l.heads, l.rank, l.values},
		Data: make([]byte, len(x.Data)-len(k.Data))}
	return []*checkpoint.Tensor{k, v}, x.UseData(func(from []byte) { l.each(len(from), from, k.Data, v.Data, copyTo) })
}

// write is the reverse of read.
func (l *latentHeads) write(name string, k, v *checkpoint.Tensor) (checkpoint.Tensor, error) {
	x := checkpoint.Tensor{Name: name, DType: k.DType, Shape: []int{l.heads * (l.keys + l.values), l.rank},
		Data: make([]byte, len(k.Data)+len(v.Data))}
	var failed error
	err := k.UseData(func(k []byte) {
		failed = v.UseData(func(v []byte) { l.each(len(x.Data), x.Data, k, v, copyFrom) })
	})
	return x, errors.Join(err, failed)
}

func copyTo(whole, part []byte)   { copy(part, whole) }
func copyFrom(whole, part []byte) { copy(whole, part) }

// each calls f for all pieces of a matrix of n bytes, and for what they are in the parts.
func (l *latentHeads) each(n int, whole, k, v []byte, f func(whole, part []byte)) {
	row := n / (l.heads * (l.keys + l.values))
	width := row / l.rank
	for h := range l.heads {
		at := h * (l.keys + l.values) * row
		f(whole[at:][:l.keys*row], k[h*l.keys*row:][:l.keys*row])
		for j := range l.values {
			for r := range l.rank {
				f(whole[at+(l.keys+j)*row+r*width:][:width], v[((h*l.rank+r)*l.values+j)*width:][:width])
			}
		}
	}
}

// formed returns a file in which all tensors have the form of parameters.
func (n *hfNames) formed(f *checkpoint.File) (*checkpoint.File, error) {
	f, err := n.upright(f)
	if err != nil {
		return nil, err
	}
	var others []*checkpoint.Tensor
	var errs []error
	for _, name := range f.Names() {
		x, ok := f.Tensor(name)
		switch {
		case !ok:
		case n.isSpread(name):
			y := *x
			y.Shape = slices.DeleteFunc(slices.Clone(x.Shape), func(n int) bool { return n == 1 })
			if len(y.Shape) == 0 {
				y.Shape = []int{1}
			}
			others = append(others, &y)
		case n.isLatent(name):
			parts, err := n.latent.read(x)
			if err != nil {
				err = fmt.Errorf("%s: %w", f.Path(), err)
			}
			others, errs = append(others, parts...), append(errs, err)
		}
	}
	if len(others) > 0 {
		f = f.With(others)
	}
	return f, errors.Join(errs...)
}

// unformed gives tensors the form that they have in files.
func (n *hfNames) unformed(tensors []checkpoint.Tensor, like *checkpoint.File) ([]checkpoint.Tensor, error) {
	var out []checkpoint.Tensor
	var errs []error
	for i, x := range tensors { // in the order of their names, keys before values
		if n.isSpread(x.Name) {
			x.Shape = []int{1, 1, x.Shape[0], 1}
			if like != nil {
				if y, ok := like.Tensor(x.Name); ok {
					x.Shape = y.Shape
				}
			}
		}
		if name, ok := strings.CutSuffix(x.Name, latentKeys); ok && n.isLatent(name) {
			whole, err := n.latent.write(name, &x, &tensors[i+1])
			out, errs = append(out, whole), append(errs, err)
		} else if name, ok := strings.CutSuffix(x.Name, latentValues); !ok || !n.isLatent(name) {
			out = append(out, x)
		}
	}
	return out, errors.Join(errs...)
}

func (n *hfNames) isLatent(name string) bool {
	return n.latent != nil && strings.HasSuffix(name, latentMatrix)
}

// isSpread reports whether a tensor is a vector that lies in files with further axes of length 1.
func (n *hfNames) isSpread(name string) bool {
	return slices.ContainsFunc(n.spread, func(end string) bool { return strings.HasSuffix(name, end) })
}
