package release

import (
	"fmt"
	"os"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
)

// DescribeFloat makes the model of a folder (see Describe) or of the file of a checkpoint (see DescribeCheckpoint), as
// one that training can begin with: weights that are not in floating point are an error. Its parameters have no values.
// It also returns the folder or file that it took.
func DescribeFloat(path string) (m *model.Model, at string, err error) {
	err = openAny(path, func(f *checkpoint.File, dir string) error {
		if err := noBlocks(f); err != nil { // whatever model it is of
			return err
		}
		if at = dir; dir == "" {
			at = f.Path()
			m, _, err = newModel(f, ShapeOptions{})
		} else {
			var cfg model.Config
			if cfg, err = ReadConfig(dir); err == nil {
				m, err = modelOf(dir, cfg, f)
			}
		}
		if err == nil {
			err = wantFloat(m, f)
		}
		if err == nil {
			err = checkShapes(m, f)
		}
		return err
	})
	return m, at, err
}

// LoadFloat gives the parameters of m the values of the model that DescribeFloat took.
func LoadFloat(m *model.Model, at string) error {
	return openAny(at, func(f *checkpoint.File, _ string) error {
		if err := wantFloat(m, f); err != nil {
			return err
		}
		return Load(m, f)
	})
}

// openAny opens the weights of a model's or a run's folder, or of a file, for use. dir is that of the model, "" for a
// file. Those of a folder are compared with its manifest.
func openAny(path string, use func(f *checkpoint.File, dir string) error) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		f, err := checkpoint.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return use(f, "")
	}
	dir, err := model.Resolve(path)
	if err != nil {
		return err
	}
	return checkpoint.ReadDir(dir, func() error {
		f, err := openWeights(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		return use(f, dir)
	}, model.ConfigFile, model.WeightsFile)
}

// floats are the types of elements that training can begin with.
var floats = []checkpoint.DType{checkpoint.F64, checkpoint.F32, checkpoint.BF16, checkpoint.F16}

// noBlocks returns an error for a file with tensors that are quantized in blocks: rounded to few bits, they are no
// weights to go on from.
func noBlocks(f *checkpoint.File) error {
	var found []string
	for _, name := range f.Names() {
		if x, _ := f.Tensor(name); x.DType.Quantized() {
			found = append(found, fmt.Sprintf("%s of %s", name, x.DType))
		}
	}
	return quantized(f, found)
}

// wantFloat returns an error for parameters of other types than floats in a file. Whole numbers may mean anything.
func wantFloat(m *model.Model, f *checkpoint.File) error {
	w, err := Weights(f)
	if err != nil {
		return err
	}
	var found []string
	for _, p := range m.Tensors() {
		if x, ok := f.Tensor(w.Keys[p.Name]); ok && !slices.Contains(floats, x.DType) {
			found = append(found, fmt.Sprintf("%s of %s", p.Name, x.DType))
		}
	}
	return quantized(f, found)
}

// quantized is the error for tensors found in a file, nil where there are none.
func quantized(f *checkpoint.File, found []string) error {
	if len(found) == 0 {
		return nil
	}
	return brief.Error(fmt.Errorf("%s: found quantized weights (%s), want %v: the model that these were made from",
		f.Path(), some(found), floats))
}
