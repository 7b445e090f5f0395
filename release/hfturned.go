package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
)

// isTurned reports whether a tensor holds a matrix as (in, out).
func (n *hfNames) isTurned(name string) bool {
	return slices.ContainsFunc(n.turned, func(end string) bool { return strings.HasSuffix(name, end) })
}

// isFused returns the end of the name of a matrix whose rows are tensors of their own, "" for other names.
func (n *hfNames) isFused(name string) string {
	for end := range n.fused {
		if strings.HasSuffix(name, end) {
			return end
		}
	}
	return ""
}

// mostCopied bounds the bytes of matrices that are turned: tensors of a hostile archive may share their memory.
func mostCopied(f *checkpoint.File) int { return 16<<20 + 16*f.Size() }

// upright returns a file in which all matrices are (out, in), all vectors have one axis, and rows that are tensors of
// their own stand apart.
func (n *hfNames) upright(f *checkpoint.File) (*checkpoint.File, error) {
	var others []*checkpoint.Tensor
	var errs []error
	copied := 0
	for _, name := range f.Names() {
		x, ok := f.Tensor(name)
		if !ok {
			continue
		}
		if n.isTurned(name) {
			copied += len(x.Data)
		}
		if copied > mostCopied(f) {
			return nil, brief.Error(fmt.Errorf("%s: %s: found matrices that share their memory, with more bytes "+
				"than a file of %d may hold", f.Path(), name, f.Size()))
		}
		switch end := n.isFused(name); {
		case n.isTurned(name) && len(x.Shape) == 2:
			y, err := turned(x)
			others, errs = append(others, y), append(errs, err)
		case hasSuffix(name, n.lone) && len(x.Shape) == 3 && x.Shape[0] == 1 && x.Shape[1] == 1:
			y := *x
			y.Shape = x.Shape[2:]
			others = append(others, &y)
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
