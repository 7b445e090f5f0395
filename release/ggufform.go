package release

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
)

// ggufForm describes how a tensor of a GGUF file differs from the tensor in a published model. Reading and writing
// follow from it: the methods parameter and stored are inverse.
type ggufForm struct {
	squeeze bool  // (channels, 1, taps) is stored as (channels, taps)
	column  bool  // (n) is stored as (n, 1)
	groups  int   // (n) is stored as (groups, n/groups); 0 for none
	negExp  bool  // a is stored as -exp(a)
	plusOne bool  // w is stored as 1 + w
	row     bool  // (1, n) is stored as (n)
	trim    bool  // a file may have extra leading axes of size 1
	columns []int // index in the file of each piece of a matrix's columns; nil for the same order

	// heads is the number of heads for which components i and i + half of the rotated part are adjacent in the file,
	// since llama.cpp rotates neighbours; 0 for none. rotated is the number of rotated components of a head, which come
	// first; 0 means all of them.
	heads, rotated int

	factors []rowFactor // multipliers in the weights, for successive rows; a factor without rows applies to all
	axes    *ggufAxes   // nil for the same axes
}

// rowFactor is a multiplier of some rows.
type rowFactor struct {
	rows int
	by   float64
}

// ggufForms maps names of tensors, without the layer, to their forms, for the tensors of an architecture that differ.
type ggufForms map[string]ggufForm

// of returns the form of the tensor with the given name.
func (forms ggufForms) of(name string) ggufForm {
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		_, name, _ = strings.Cut(rest, ".")
	}
	return forms[name]
}

// ggufMambaForms has the forms of Mamba's tensors. ggufMamba2Forms returns those of Mamba-2, whose A and D have one
// number for each head.
var ggufMambaForms = ggufForms{"ssm_conv1d.weight": {squeeze: true}, "ssm_a": {negExp: true}}

func ggufMamba2Forms(groups int) ggufForms {
	return ggufForms{"ssm_conv1d.weight": {squeeze: true}, "ssm_a": {negExp: true, column: true},
		"ssm_d": {column: true}, "ssm_norm.weight": {groups: groups}}
}

// with returns a copy of forms that has the factors of others.
func (forms ggufForms) with(factors ggufForms) ggufForms {
	all := maps.Clone(forms)
	for name, other := range factors {
		form := all[name]
		form.factors = other.factors
		all[name] = form
	}
	return all
}

// same reports whether the tensor in the file equals that of published models.
func (form ggufForm) same() bool {
	return form.axes == nil && !form.squeeze && !form.column && form.groups == 0 && !form.negExp && !form.plusOne &&
		!form.row && !form.trim && form.columns == nil && form.heads == 0 && form.factors == nil
}

// ggufExact is the prefix of the names of values that hold the original numbers of a vector. They are written if the
// converted numbers do not give the original ones back to the last bit.
const ggufExact = "hippo.exact."

// ggufParameters returns a GGUF file whose tensors have the shapes and values of published models.
func ggufParameters(f *checkpoint.File, forms ggufForms) (*checkpoint.File, error) {
	var others []*checkpoint.Tensor
	var errs []error
	for _, name := range f.Names() {
		form := forms.of(name)
		x, _ := f.Tensor(name)
		if form.same() || len(x.Shape) == 0 {
			continue
		}
		y, err := form.parameter(x)
		if err == nil {
			err = form.exact(y, x, f.Values()[ggufExact+name])
		}
		others, errs = append(others, y), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	return f.With(others), nil
}

// exact sets the values of y, which parameter returned for x, to the original numbers that a file has for them. It does
// so only if these numbers convert to x, because another program may have changed the weights.
func (form ggufForm) exact(y, x *checkpoint.Tensor, numbers any) error {
	all, ok := numbers.([]float64)
	if !ok || len(all) != x.Elements() {
		return nil
	}
	values := make([]float32, len(all))
	for i, v := range all {
		values[i] = float32(v)
	}
	want, err := x.Float32()
	if err != nil {
		return err
	}
	changed := slices.Clone(values)
	if form.change(y.Shape, changed); slices.Equal(changed, want) {
		*y = checkpoint.NewTensor(y.Name, y.Shape, values)
	}
	return nil
}

// parameter returns a tensor in the form of published models. A tensor of an unexpected shape stays unchanged, so that
// the error reports the shape that was found.
func (form ggufForm) parameter(x *checkpoint.Tensor) (*checkpoint.Tensor, error) {
	y := *x
	if form.trim {
		for y.Shape = x.Shape; len(y.Shape) > 1 && y.Shape[0] == 1; {
			y.Shape = y.Shape[1:]
		}
		x = &y
	}
	axes := len(x.Shape)
	switch {
	case form.squeeze && axes == 2:
		y.Shape = []int{x.Shape[0], 1, x.Shape[1]}
	case form.groups > 0 && axes == 2 && x.Shape[0] == form.groups:
		y.Shape = []int{x.Elements()}
	case form.column && axes == 2 && x.Shape[1] == 1:
		y.Shape = x.Shape[:1]
	case form.row && axes == 1:
		y.Shape = []int{1, x.Shape[0]}
	case form.columns != nil && axes == 2 && x.Shape[1]%len(form.columns) == 0:
		turned, err := x.Reordered(form.columns)
		return &turned, err
	}
	if form.axes != nil {
		y.Shape = form.axes.own(x.Shape)
	}
	if form.heads > 0 {
		if err := form.reorder(&y); err != nil {
			return x, err
		}
	}
	if !form.negExp && !form.plusOne && form.factors == nil {
		return &y, nil
	}
	values, err := y.Float32()
	if err != nil {
		return x, err
	}
	if form.negExp {
		for i, v := range values {
			if !(v < 0) {
				return x, fmt.Errorf("%s: found %v at element %d of %d, want numbers below 0: -exp(A_log)", x.Name, v,
					i, len(values))
			}
			values[i] = shortest(math.Log(float64(-v)), v, minusExp)
		}
	}
	if form.plusOne {
		for i, v := range values {
			values[i] = shortest(float64(v)-1, v, plusOne)
		}
	}
	form.eachFactor(y.Shape, values, func(rows []float32, by float64) {
		if by == 0 { // the original value is lost, and has no effect
			return
		}
		times := func(w float32) float32 { return float32(float64(w) * by) }
		for i, v := range rows {
			rows[i] = shortest(float64(v)/by, v, times)
		}
	})
	y = checkpoint.NewTensor(x.Name, y.Shape, values)
	return &y, nil
}

func minusExp(x float32) float32 { return float32(-math.Exp(float64(x))) }

func plusOne(x float32) float32 { return 1 + x }

// shortest returns a number near x for which f returns y. It prefers one that bfloat16 or float16 can represent, since
// weights are published in these types.
func shortest(x float64, y float32, f func(float32) float32) float32 {
	near := float32(x)
	for _, dropped := range []uint{16, 13} { // bits of a float32 that bfloat16 and float16 do not have
		half := uint32(1) << (dropped - 1)
		if r := math.Float32frombits((math.Float32bits(near) + half) &^ (2*half - 1)); f(r) == y {
			return r
		}
	}
	if f(near) != y {
		for _, to := range []float32{float32(math.Inf(-1)), float32(math.Inf(1))} {
			if r := math.Nextafter32(near, to); f(r) == y {
				return r
			}
		}
	}
	return near
}

// reorder puts the rows of a tensor of a file into the order of published models.
func (form ggufForm) reorder(x *checkpoint.Tensor) error {
	rows := x.Shape[0]
	order := form.order(rows)
	if order == nil {
		return nil
	}
	width := len(x.Data) / rows
	data := make([]byte, len(x.Data))
	err := x.UseData(func(from []byte) {
		for j, at := range order {
			copy(data[at*width:][:width], from[j*width:])
		}
	})
	*x = checkpoint.Tensor{Name: x.Name, DType: x.DType, Shape: x.Shape, Data: data}
	return err
}

// order returns, for each row of the file, the index of the parameter's row. It returns nil if the rows cannot be
// heads.
func (form ggufForm) order(rows int) []int {
	if form.heads < 1 || rows < 1 || rows%(2*form.heads) != 0 {
		return nil
	}
	width, rotated := rows/form.heads, form.rotated
	if rotated == 0 || rotated > width {
		rotated = width
	}
	order := make([]int, rows)
	for j := range order {
		order[j] = j
		if i := j % width; i < rotated {
			order[j] = j - i + i%2*(rotated/2) + i/2
		}
	}
	return order
}

// eachFactor calls f with each multiplier and the values of its rows.
func (form ggufForm) eachFactor(shape []int, values []float32, f func(rows []float32, by float64)) {
	if len(values) == 0 {
		return
	}
	width := len(values) / shape[0]
	for _, m := range form.factors {
		n := m.rows * width
		if m.rows == 0 {
			n = len(values)
		}
		n = min(n, len(values)) // if a file has another shape, the error is reported elsewhere
		f(values[:n], m.by)
		values = values[n:]
	}
}

// change converts values in place to those of a file.
func (form ggufForm) change(shape []int, values []float32) {
	if form.negExp {
		for i, v := range values {
			values[i] = minusExp(v)
		}
	}
	if form.plusOne {
		for i, v := range values {
			values[i] = plusOne(v)
		}
	}
	form.eachFactor(shape, values, func(rows []float32, by float64) {
		for i, v := range rows {
			rows[i] = float32(float64(v) * by)
		}
	})
	if order := form.order(shape[0]); order != nil {
		width, old := len(values)/shape[0], slices.Clone(values)
		for j, at := range order {
			copy(values[j*width:][:width], old[at*width:])
		}
	}
	if form.columns != nil {
		width := shape[1] / len(form.columns)
		for row := range slices.Chunk(values, shape[1]) {
			old := slices.Clone(row)
			for i, at := range form.columns {
				copy(row[at*width:][:width], old[i*width:])
			}
		}
	}
}

// stored is the inverse of parameter: it converts values in place and returns their shape in a file.
func (form ggufForm) stored(shape []int, values []float32) []int {
	form.change(shape, values)
	switch {
	case form.axes != nil:
		return form.axes.file(shape)
	case form.squeeze:
		return []int{shape[0], shape[2]}
	case form.groups > 0:
		return []int{form.groups, shape[0] / form.groups}
	case form.column:
		return []int{shape[0], 1}
	case form.row:
		return []int{shape[1]}
	}
	return shape
}
