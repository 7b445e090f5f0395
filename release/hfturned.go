package release

import (
	"errors"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
)

// isTurned reports whether a tensor holds a matrix as (in, out).
func (n *hfNames) isTurned(name string) bool {
	return slices.ContainsFunc(n.turned, func(end string) bool { return strings.HasSuffix(name, end) })
}

// upright returns a file in which all matrices are (out, in).
func (n *hfNames) upright(f *checkpoint.File) (*checkpoint.File, error) {
	var others []*checkpoint.Tensor
	var errs []error
	for _, name := range f.Names() {
		if x, ok := f.Tensor(name); ok && n.isTurned(name) && len(x.Shape) == 2 {
			y, err := turned(x)
			others, errs = append(others, y), append(errs, err)
		}
	}
	if len(others) == 0 {
		return f, nil
	}
	return f.With(others), errors.Join(errs...)
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
