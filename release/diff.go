package release

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// Diff lists the differences of two files of weights.
type Diff struct {
	OnlyA []string     `json:"only_a"`
	OnlyB []string     `json:"only_b"`
	Same  int          `json:"same"` // tensors without a difference
	Other []TensorDiff `json:"different"`
	// Largest is the index in Other of the largest relative difference, -1 if no values differ.
	Largest int `json:"largest"`
}

// Equal reports whether there is no difference.
func (d *Diff) Equal() bool { return len(d.OnlyA)+len(d.OnlyB)+len(d.Other) == 0 }

// TensorDiff describes the difference of two tensors of one name: in shape, type or values.
type TensorDiff struct {
	Name   string           `json:"name"`
	Layer  string           `json:"layer"` // such as backbone.layers.3; the tensor's name if it belongs to no layer
	ShapeA []int            `json:"shape_a"`
	ShapeB []int            `json:"shape_b"`
	TypeA  checkpoint.DType `json:"type_a"`
	TypeB  checkpoint.DType `json:"type_b"`

	// The values are compared only if the shapes are equal. If a value is finite in only one tensor, its difference is
	// NotFinite.
	Count    int     `json:"count"`    // elements that differ
	Max      float64 `json:"max"`      // the largest difference
	Relative float64 `json:"relative"` // Max divided by the largest magnitude in a
	At       int     `json:"at"`       // index of the element with the largest difference
	A        Number  `json:"a"`        // the element at At, in both tensors
	B        Number  `json:"b"`
}

// NotFinite is the difference to a number that is NaN or infinite.
const NotFinite = math.MaxFloat64

// Number is a float64 that is encoded in JSON as a string if it is NaN or infinite.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return json.Marshal(fmt.Sprint(float64(n)))
	}
	return json.Marshal(float64(n))
}

// SameShape reports whether the values could be compared.
func (d *TensorDiff) SameShape() bool { return slices.Equal(d.ShapeA, d.ShapeB) }

// Compare compares the weights at two paths, each the folder of a model or a run or a checkpoint file. If both are
// supported models, it matches tensors by the names of their parameters, in any layout, otherwise by their names in the
// files. It returns the paths of the files that it compared.
func Compare(pathA, pathB string) (d Diff, fileA, fileB string, err error) {
	models := false
	between := func(a, b side) (err error) {
		fileA, fileB = a.path, b.path
		d, err = compareSides(a, b)
		return err
	}
	_, _, err = withModel(pathA, func(m *model.Model, w model.Weights) error {
		a := sideOfModel(m, w)
		_, _, err := withModel(pathB, func(m *model.Model, w model.Weights) error {
			models = true
			return between(a, sideOfModel(m, w))
		})
		return err
	})
	if models {
		return d, fileA, fileB, err
	}
	err = withTensors(pathA, func(a side) error {
		return withTensors(pathB, func(b side) error { return between(a, b) })
	})
	return d, fileA, fileB, err
}

// withTensors opens a file of tensors, or the one in a folder. It need not be a model.
func withTensors(path string, use func(side) error) error {
	open := checkpoint.Open
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		open = OpenWeights
		if dir, err := model.Resolve(path); err == nil {
			path = dir
		}
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return use(sideOfFile(f))
}

// side is one side of a comparison: named tensors, each made of parts that are concatenated by rows.
type side struct {
	path  string
	order []string
	parts map[string][]checkpoint.Tensor
}

func (s *side) add(name string, parts ...checkpoint.Tensor) {
	s.order, s.parts[name] = append(s.order, name), parts
}

// sideOfModel returns the parameters of a model, and the tensors of its file that no model of its family has.
func sideOfModel(m *model.Model, w model.Weights) side {
	out := side{path: w.File.Path(), parts: map[string][]checkpoint.Tensor{}}
	used := map[string]bool{}
	for _, p := range w.Match(m) {
		out.add(p.Name, p.Parts...)
		for _, x := range p.Parts {
			used[w.Keys[x.Name]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Keys)) {
		key := w.Keys[name]
		if x, ok := w.File.Tensor(key); ok && !used[key] && (w.Extra == nil || w.Extra(name, key) != nil) {
			out.add(name, *x)
		}
	}
	return out
}

// sideOfFile returns the tensors of a file by their official names or, if it mixes two layouts, by its own.
func sideOfFile(f *checkpoint.File) side {
	official := map[string]string{} // by names in the file
	if _, t, err := officialTensors(f); err == nil {
		for name, key := range t.keys {
			official[key] = name
		}
	}
	out := side{path: f.Path(), parts: map[string][]checkpoint.Tensor{}}
	for _, key := range f.Names() {
		x, _ := f.Tensor(key)
		out.add(cmp.Or(official[key], key), *x)
	}
	return out
}

func compareSides(a, b side) (Diff, error) {
	d := Diff{OnlyA: a.missing(b), OnlyB: b.missing(a), Other: []TensorDiff{}, Largest: -1}
	for _, name := range a.order {
		if b.parts[name] == nil {
			continue
		}
		one, err := compareTensors(name, a.parts[name], b.parts[name])
		if err != nil {
			return d, err
		}
		if one.SameShape() && one.TypeA == one.TypeB && one.Count == 0 {
			d.Same++
			continue
		}
		d.Other = append(d.Other, one)
		if n := len(d.Other) - 1; one.Count > 0 && (d.Largest < 0 || one.Relative > d.Other[d.Largest].Relative) {
			d.Largest = n
		}
	}
	return d, nil
}

// missing returns the names of s that other does not have.
func (s *side) missing(other side) []string {
	return slices.DeleteFunc(slices.Clone(s.order), func(name string) bool { return other.parts[name] != nil })
}

// layerOf returns the layer in a name of any layout: the prefix up to the first number between dots.
var layerOf = regexp.MustCompile(`^.*?\.\d+(?:\.|$)`)

// compareTensors compares two tensors, a few elements at a time.
func compareTensors(name string, a, b []checkpoint.Tensor) (TensorDiff, error) {
	d := TensorDiff{Name: name, Layer: name, ShapeA: shapeOfParts(a), ShapeB: shapeOfParts(b), TypeA: typeOfParts(a),
		TypeB: typeOfParts(b)}
	if layer := layerOf.FindString(name); layer != "" {
		d.Layer = strings.TrimSuffix(layer, ".")
	}
	if !d.SameShape() {
		return d, nil
	}
	if slices.EqualFunc(a, b, sameForm) {
		same := false
		if err := disk.Guard(func() { same = slices.EqualFunc(a, b, sameData) }); err != nil || same {
			return d, err
		}
	}
	largest, x, y, at := 0.0, parts{rest: a}, parts{rest: b}, 0
	for {
		n := min(x.left(), y.left(), 1<<15)
		if n == 0 {
			break
		}
		u, err := x.next(n)
		if err != nil {
			return d, err
		}
		v, err := y.next(n)
		if err != nil {
			return d, err
		}
		for i := range u {
			if finite(u[i]) {
				largest = max(largest, math.Abs(u[i]))
			}
			off := difference(u[i], v[i])
			if off > 0 {
				d.Count++
			}
			if off > d.Max {
				d.Max, d.At, d.A, d.B = off, at+i, Number(u[i]), Number(v[i])
			}
		}
		at += n
	}
	switch {
	case d.Max == 0 || d.Max == NotFinite:
		d.Relative = d.Max
	case largest == 0: // all zeros compared with other values
		d.Relative = NotFinite
	default:
		d.Relative = d.Max / largest
	}
	return d, nil
}

// shapeOfParts returns the shape of the tensor that parts form when they are concatenated by rows.
func shapeOfParts(parts []checkpoint.Tensor) []int {
	if len(parts) == 1 {
		return parts[0].Shape
	}
	shape := slices.Clone(parts[0].Shape)
	for _, x := range parts[1:] {
		shape[0] += x.Shape[0]
	}
	return shape
}

// typeOfParts returns the common type of several tensors, or all of their types.
func typeOfParts(parts []checkpoint.Tensor) checkpoint.DType {
	var types []string
	for _, x := range parts {
		if !slices.Contains(types, string(x.DType)) {
			types = append(types, string(x.DType))
		}
	}
	return checkpoint.DType(strings.Join(types, "+"))
}

// sameForm reports whether tensors with the same data have the same values.
func sameForm(a, b checkpoint.Tensor) bool {
	return a.DType == b.DType && len(a.Data) == len(b.Data) && a.InOrder() && b.InOrder()
}

func sameData(a, b checkpoint.Tensor) bool { return bytes.Equal(a.Data, b.Data) }

// parts reads the elements of several tensors in sequence.
type parts struct {
	rest []checkpoint.Tensor
	at   int // in the first of rest
}

// left returns the number of remaining elements of the current tensor, 0 after the last one.
func (p *parts) left() int {
	for len(p.rest) > 0 {
		if n := p.rest[0].Elements() - p.at; n > 0 {
			return n
		}
		p.rest, p.at = p.rest[1:], 0
	}
	return 0
}

// next reads n elements of the current tensor, and releases the memory of the file.
func (p *parts) next(n int) ([]float64, error) {
	x := p.rest[0].Part(p.at, n)
	p.at += n
	defer x.Release()
	return x.Float64()
}

// difference returns the difference of two numbers. Zeros of either sign are equal, and so are two NaNs.
func difference(x, y float64) float64 {
	switch {
	case x == y || x != x && y != y:
		return 0
	case !finite(x) || !finite(y):
		return NotFinite
	}
	return math.Abs(x - y)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
