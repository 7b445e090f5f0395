package release

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// ShapeOptions say how FromCheckpoint learns the shape of a model.
type ShapeOptions struct {
	// Config is the path of a config.json; "" takes the one beside the checkpoint or, where there is none, InferConfig.
	// A GGUF file has its own.
	Config string
	Heads  int // heads of attention, in place of what the configuration says; 0 for no change
}

// FromCheckpoint makes the model whose weights f holds. It returns the path of the configuration it used, "" when it
// used the shapes of the tensors instead. The errors are those of ParseConfig, InferConfig and Load, which lists every
// missing, unexpected, misshapen and non-finite tensor.
func FromCheckpoint(f *checkpoint.File, o ShapeOptions) (m *model.Model, configPath string, err error) {
	m, w, configPath, err := newModel(f, o)
	if err == nil {
		err = m.Load(w)
	}
	return m, configPath, err
}

// DescribeCheckpoint is FromCheckpoint without reading weights: it compares their shapes only.
func DescribeCheckpoint(f *checkpoint.File, o ShapeOptions) (m *model.Model, configPath string, err error) {
	m, w, configPath, err := newModel(f, o)
	if err == nil {
		err = m.CheckShapes(w)
	}
	return m, configPath, err
}

// newModel makes the model that a file may fit.
func newModel(f *checkpoint.File, o ShapeOptions) (m *model.Model, w model.Weights, configPath string, err error) {
	p, configPath, err := shapeOf(f, o)
	if err == nil && f.Format() == checkpoint.FormatGGUF {
		f, err = ggufParameters(f)
	}
	if err == nil {
		m, w, err = p.open(f)
	}
	return m, w, configPath, err
}

func shapeOf(f *checkpoint.File, o ShapeOptions) (p published, path string, err error) {
	if f.Format() == checkpoint.FormatGGUF { // it has its own
		p, err = ggufPublished(f)
		return p, f.Path(), err
	}
	path = o.Config
	if path == "" {
		path = filepath.Join(filepath.Dir(f.Path()), model.ConfigFile)
	}
	p, err = readConfig(path, o.Heads)
	if o.Config == "" && errors.Is(err, fs.ErrNotExist) {
		p = published{}
		p.config, err = InferConfig(f, o.Heads)
		return p, "", err
	}
	return p, path, err
}
