package release

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// ShapeOptions specifies how FromCheckpoint determines the shape of a model.
type ShapeOptions struct {
	// Config is the path of a config.json. If it is "", the one next to the checkpoint is used or, if there is none,
	// InferConfig. A GGUF file contains its own configuration.
	Config string
	Heads  int // number of attention heads, overrides the configuration; 0 for no change
}

// FromCheckpoint loads the model whose weights f holds. It returns the path of the configuration that it used, or "" if
// it used the shapes of the tensors instead. Errors come from ParseConfig, InferConfig and Load, which lists every
// missing, unexpected, misshapen and non-finite tensor.
func FromCheckpoint(f *checkpoint.File, o ShapeOptions) (m *model.Model, configPath string, err error) {
	m, w, configPath, err := newModel(f, o)
	if err == nil {
		err = m.Load(w)
	}
	return m, configPath, err
}

// DescribeCheckpoint is like FromCheckpoint, but reads no weights: it compares only their shapes.
func DescribeCheckpoint(f *checkpoint.File, o ShapeOptions) (m *model.Model, configPath string, err error) {
	m, w, configPath, err := newModel(f, o)
	if err == nil {
		err = m.CheckShapes(w)
	}
	return m, configPath, err
}

// newModel builds a model from the configuration for a file.
func newModel(f *checkpoint.File, o ShapeOptions) (m *model.Model, w model.Weights, configPath string, err error) {
	p, configPath, err := shapeOf(f, o)
	switch {
	case err != nil:
	case f.Format() == checkpoint.FormatGGUF:
		f, err = ggufParameters(f, p.forms)
	default:
		if fam := familyOfNames(f.Names()); fam.hf != nil {
			p.names = fam.hf()
		}
	}
	if err == nil {
		m, w, err = p.open(f)
	}
	return m, w, configPath, err
}

func shapeOf(f *checkpoint.File, o ShapeOptions) (p published, path string, err error) {
	if f.Format() == checkpoint.FormatGGUF { // contains its own configuration
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
