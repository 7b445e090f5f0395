package release

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// Diff is in what two files of weights differ. Tensors are compared under their official names, whatever layout the
// files have.
type Diff struct {
	OnlyA []string     `json:"only_a"`
	OnlyB []string     `json:"only_b"`
	Same  int          `json:"same"` // tensors without a difference
	Other []TensorDiff `json:"different"`
	// Largest is the place in Other of the largest relative difference, -1 where no values differ.
	Largest int `json:"largest"`
}

// Equal tells whether there is no difference.
func (d *Diff) Equal() bool { return len(d.OnlyA)+len(d.OnlyB)+len(d.Other) == 0 }

// TensorDiff is in what two tensors of a name differ: in shape, type or values.
type TensorDiff struct {
	Name   string           `json:"name"`
	Layer  string           `json:"layer"` // such as backbone.layers.3; the name itself, where it is of none
	ShapeA []int            `json:"shape_a"`
	ShapeB []int            `json:"shape_b"`
	TypeA  checkpoint.DType `json:"type_a"`
	TypeB  checkpoint.DType `json:"type_b"`

	// Values are compared where shapes are equal. Those that are not finite in one tensor alone differ by NotFinite.
	Count    int     `json:"count"`    // elements that differ
	Max      float64 `json:"max"`      // the largest difference
	Relative float64 `json:"relative"` // Max by the largest magnitude in a
	At       int     `json:"at"`       // the element with the largest difference
	A        Number  `json:"a"`        // it, in both
	B        Number  `json:"b"`
}

// NotFinite stands for the difference to a number that is NaN or infinite.
const NotFinite = math.MaxFloat64

// Number is a float64 that is text in JSON when it is NaN or infinite.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return json.Marshal(fmt.Sprint(float64(n)))
	}
	return json.Marshal(float64(n))
}

// SameShape tells whether the values could be compared.
func (d *TensorDiff) SameShape() bool { return slices.Equal(d.ShapeA, d.ShapeB) }

// Compare compares the weights at two places, each a model's or a run's folder or the file of a checkpoint. It returns
// the paths of the files that it took.
func Compare(pathA, pathB string) (d Diff, fileA, fileB string, err error) {
	err = openAny(weightsAt(pathA), func(a *checkpoint.File, _ string) error {
		return openAny(weightsAt(pathB), func(b *checkpoint.File, _ string) error {
			fileA, fileB = a.Path(), b.Path()
			d, err = compareFiles(a, b)
			return err
		})
	})
	return d, fileA, fileB, err
}

// weightsAt is the file of weights in a folder that is no model's, such as that of a network for a task, else the path
// itself.
func weightsAt(path string) string {
	file := filepath.Join(path, model.WeightsFile)
	_, noModel := os.Stat(filepath.Join(path, model.ConfigFile))
	if _, err := os.Stat(file); err == nil && noModel != nil {
		return file
	}
	return path
}

func compareFiles(a, b *checkpoint.File) (Diff, error) {
	x, y := byName(a), byName(b)
	d := Diff{OnlyA: missing(x, y), OnlyB: missing(y, x), Other: []TensorDiff{}, Largest: -1}
	for _, name := range x.order {
		s, t := x.tensors[name], y.tensors[name]
		if t == nil {
			continue
		}
		one, err := compareTensors(name, s, t)
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

// named are the tensors of a file by their official names or, where it has two layouts at once, by its own.
type named struct {
	order   []string // of the file
	tensors map[string]*checkpoint.Tensor
}

func byName(f *checkpoint.File) named {
	official := map[string]string{} // by names in the file
	if _, t, err := officialTensors(f); err == nil {
		for name, key := range t.keys {
			official[key] = name
		}
	}
	n := named{tensors: map[string]*checkpoint.Tensor{}}
	for _, key := range f.Names() {
		name := cmp.Or(official[key], key)
		n.order = append(n.order, name)
		n.tensors[name], _ = f.Tensor(key)
	}
	return n
}

// missing are the names of a that b does not have.
func missing(a, b named) []string {
	return slices.DeleteFunc(slices.Clone(a.order), func(name string) bool { return b.tensors[name] != nil })
}

// layerOf finds the layer in a name, in any layout: what there is up to the first number between dots.
var layerOf = regexp.MustCompile(`^.*?\.\d+(?:\.|$)`)

// compareTensors compares two tensors, a few elements at a time.
func compareTensors(name string, a, b *checkpoint.Tensor) (TensorDiff, error) {
	d := TensorDiff{Name: name, Layer: name, ShapeA: a.Shape, ShapeB: b.Shape, TypeA: a.DType, TypeB: b.DType}
	if layer := layerOf.FindString(name); layer != "" {
		d.Layer = strings.TrimSuffix(layer, ".")
	}
	if !d.SameShape() {
		return d, nil
	}
	if a.DType == b.DType {
		same := false
		if err := disk.Guard(func() { same = bytes.Equal(a.Data, b.Data) }); err != nil || same {
			return d, err
		}
	}
	const some = 1 << 15
	largest, n := 0.0, a.Elements()
	for at := 0; at < n; at += some {
		x, y := a.Part(at, min(some, n-at)), b.Part(at, min(some, n-at))
		u, err := x.Float64()
		if err != nil {
			return d, err
		}
		v, err := y.Float64()
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
	}
	switch {
	case d.Max == 0 || d.Max == NotFinite:
		d.Relative = d.Max
	case largest == 0: // all zeros, and something else
		d.Relative = NotFinite
	default:
		d.Relative = d.Max / largest
	}
	return d, nil
}

// difference is that of two numbers. Zeros of two signs are equal, and so are two NaN.
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
