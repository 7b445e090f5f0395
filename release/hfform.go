package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
)

// Tensors whose form in files differs from that of parameters.

// isFused returns the suffix of the name of a matrix that combines several tensors by rows, or "" for other names.
func (n *hfNames) isFused(name string) string {
	for end := range n.fused {
		if strings.HasSuffix(name, end) {
			return end
		}
	}
	return ""
}

// mostCopied returns the limit for the bytes of transposed matrices: tensors of a hostile archive may share memory.
func mostCopied(f *checkpoint.File) int { return 16<<20 + 16*f.Size() }

// formed returns a file in which all tensors have the form of parameters: matrices are (out, in), vectors have one
// axis, and combined tensors are split.
func (n *hfNames) formed(f *checkpoint.File) (*checkpoint.File, error) {
	var others []*checkpoint.Tensor
	var errs []error
	copied := 0
	for _, name := range f.Names() {
		x, ok := f.Tensor(name)
		if !ok {
			continue
		}
		switch end := n.isFused(name); {
		case hasSuffix(name, n.turned):
			if copied += len(x.Data); copied > mostCopied(f) {
				return nil, brief.Error(fmt.Errorf("%s: %s: found matrices that share their memory, with more bytes "+
					"than a file of %d may hold", f.Path(), name, f.Size()))
			}
			if len(x.Shape) == 2 {
				y, err := turned(x)
				others, errs = append(others, y), append(errs, err)
			}
		case hasSuffix(name, n.lone) && len(x.Shape) == 3 && x.Shape[0] == 1 && x.Shape[1] == 1:
			others = append(others, shaped(x, x.Shape[2:]))
		case hasSuffix(name, n.spread):
			shape := slices.DeleteFunc(slices.Clone(x.Shape), func(n int) bool { return n == 1 })
			if len(shape) == 0 {
				shape = []int{1}
			}
			others = append(others, shaped(x, shape))
		case n.isLatent(name):
			parts, err := n.latent.read(x)
			if err != nil {
				err = fmt.Errorf("%s: %w", f.Path(), err)
			}
			others, errs = append(others, parts...), append(errs, err)
		case end != "":
			rows := n.fused[end]
			if len(x.Shape) != 2 || x.Shape[0] != len(rows) {
				return nil, brief.Error(fmt.Errorf("%s: %s: found shape %v, want %d rows", f.Path(), name, x.Shape,
					len(rows)))
			}
			for i, row := range rows {
				y := x.Part(i*x.Shape[1], x.Shape[1])
				y.Name, y.Shape = strings.TrimSuffix(name, end)+row, x.Shape[1:]
				others = append(others, &y)
			}
		}
	}
	if len(others) == 0 {
		return f, errors.Join(errs...)
	}
	return f.With(others), errors.Join(errs...)
}

// unformed converts tensors to the form that they have in files. like is the file to follow, nil for none.
func (n *hfNames) unformed(tensors []checkpoint.Tensor, like *checkpoint.File) (out []checkpoint.Tensor, err error) {
	for i, x := range tensors { // in the order of names: keys precede values
		var failed error
		keys, isKeys := strings.CutSuffix(x.Name, latentKeys)
		values, isValues := strings.CutSuffix(x.Name, latentValues)
		switch {
		case isValues && n.isLatent(values): // already written with the keys
			continue
		case isKeys && n.isLatent(keys):
			x, failed = n.latent.write(keys, &x, &tensors[i+1])
		case hasSuffix(x.Name, n.turned):
			var y *checkpoint.Tensor
			y, failed = turned(&x)
			x = *y
		case hasSuffix(x.Name, n.lone) && len(x.Shape) == 1:
			x.Shape = []int{1, 1, x.Shape[0]}
		case hasSuffix(x.Name, n.spread):
			x.Shape = []int{1, 1, x.Shape[0], 1}
			if like != nil {
				if y, ok := like.Tensor(x.Name); ok {
					x.Shape = y.Shape
				}
			}
		}
		out, err = append(out, x), errors.Join(err, failed)
	}
	return out, err
}

// shaped returns a tensor with another shape for the same data.
func shaped(x *checkpoint.Tensor, shape []int) *checkpoint.Tensor {
	y := *x
	y.Shape = shape
	return &y
}

// turned returns the transpose of a matrix.
func turned(x *checkpoint.Tensor) (*checkpoint.Tensor, error) {
	rows, columns := x.Shape[0], x.Shape[1]
	data := make([]byte, len(x.Data))
	err := x.UseData(func(from []byte) {
		width := len(from) / max(1, rows*columns)
		for i := range rows {
			for j := range columns {
				copy(data[(j*rows+i)*width:][:width], from[(i*columns+j)*width:])
			}
		}
	})
	return &checkpoint.Tensor{Name: x.Name, DType: x.DType, Shape: []int{columns, rows}, Data: data}, err
}
