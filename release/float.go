package release

import (
	"fmt"
	"os"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
)

// DescribeFloat builds the model at a path (see withModel), without values, as a start for training. Weights that are
// not floating-point numbers are an error. DescribeFloat also returns the folder or file that it used.
func DescribeFloat(path string) (*model.Model, string, error) {
	return withModel(path, func(m *model.Model, w model.Weights) error {
		if err := wantFloat(m, w); err != nil {
			return err
		}
		return m.CheckShapes(w)
	})
}

// LoadFloat loads the values from the folder or file that DescribeFloat returned into the parameters of m, a model of
// the same shape.
func LoadFloat(m *model.Model, at string) error { return loadFloat(m, at, m.Load) }

// LoadFrozen is like LoadFloat, for a model that is trained only through an adapter. It rounds matrices as it reads
// them, see model.Model.PackFrozen.
func LoadFrozen(m *model.Model, at string, p engine.Precision) error {
	return loadFloat(m, at, func(w model.Weights) error { return m.LoadFrozen(w, p) })
}

func loadFloat(m *model.Model, at string, load func(model.Weights) error) error {
	_, _, err := withModel(at, func(_ *model.Model, w model.Weights) error {
		if err := wantFloat(m, w); err != nil {
			return err
		}
		return load(w)
	})
	return err
}

// withModel builds the model at a path, which may be any path that LoadDir accepts or a checkpoint file (see
// DescribeCheckpoint), and calls use to compare or read its weights. It returns the folder or file that it used.
func withModel(path string, use func(*model.Model, model.Weights) error) (*model.Model, string, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() || IsGGUF(path) {
		return loadDir(path, use)
	}
	f, err := checkpoint.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	m, w, _, err := newModel(f, ShapeOptions{})
	if err == nil {
		err = use(m, w)
	}
	return m, path, err
}

// floats lists the element types that training can start from.
var floats = []checkpoint.DType{checkpoint.F64, checkpoint.F32, checkpoint.BF16, checkpoint.F16}

// wantFloat returns an error if parameters in a file have other types than floats. The values of quantized blocks are
// rounded to few bits, and the meaning of integers is unknown.
func wantFloat(m *model.Model, w model.Weights) error {
	var found []string
	for _, p := range w.Match(m) {
		for _, x := range p.Parts {
			if !slices.Contains(floats, x.DType) {
				found = append(found, fmt.Sprintf("%s of %s", x.Name, x.DType))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return brief.Error(fmt.Errorf("%s: found quantized weights (%s), want %v: the model that these were made from",
		w.File.Path(), some(found), floats))
}
