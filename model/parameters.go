package model

import (
	"io"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/nn"
)

// Parameters holds the weights of a model of any kind: a Model, a Network or a Classifier. All kinds are initialized
// from a seed, loaded and saved in the same way.
type Parameters struct {
	of       nn.Module
	backbone *Backbone
	shape    *Config // shape of the layers, for which a file must have tensors
	config   func() (name string, text []byte, err error)
}

// Use moves a model whose parameters have values to an engine. Earlier tapes and states must no longer be used.
func (p *Parameters) Use(b engine.Backend) {
	p.backbone.use(b)
	p.Place()
}

// Init initializes every parameter from seed, as the releases do.
func (p *Parameters) Init(seed uint64) { nn.InitAll(p.of, "", seed) }

// NumParams returns the number of trainable values.
func (p *Parameters) NumParams() int { return numParams(p.of) }

// Load fills the parameters. It returns an error if a tensor is missing, unexpected, misshapen or not finite. The error
// lists all such tensors, and no parameter is changed.
func (p *Parameters) Load(w Weights) error {
	return p.load(w, nil)
}

// load is Load, but packs weight matrices if pack is not nil.
func (p *Parameters) load(w Weights, pack *packing) error {
	l, err := p.compare(w)
	if err != nil {
		return err
	}
	return l.fill(pack)
}

// LoadSaved is Load from the file of weights that Save wrote into dir.
func (p *Parameters) LoadSaved(dir string) error {
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, WeightsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	return p.Load(ownWeights(f))
}

// CheckShapes makes the checks of Load without reading values.
func (p *Parameters) CheckShapes(w Weights) error {
	l, err := p.compare(w)
	if err == nil && len(l.problems) > 0 {
		err = l.err()
	}
	return err
}

// compare finds the tensors of a model in a file without reading their values. An error means that the file cannot
// belong to such a model.
func (p *Parameters) compare(w Weights) (*filling, error) {
	if err := checkFile(w.File, p.shape); err != nil {
		return nil, err
	}
	l := w.compareAll(p.of)
	l.backend = p.backbone.Backend()
	return l, nil
}

// Tensors returns the parameters for writing a checkpoint. They share the memory of the model if it is on the host. The
// model must not be packed.
func (p *Parameters) Tensors() []checkpoint.Tensor {
	var out []checkpoint.Tensor
	p.of.Params("", func(name string, q *nn.Param) {
		out = append(out, checkpoint.NewTensor(name, q.Shape(), q.Elements()))
	})
	return out
}

// Shapes visits the names and shapes of all parameters, which need no values.
func (p *Parameters) Shapes(visit func(name string, shape []int)) {
	p.of.Params("", func(name string, q *nn.Param) { visit(name, q.Shape()) })
}

// Save writes the configuration and the weights into dir, which must exist. It returns an error if the model is packed
// or has an adapter.
func (p *Parameters) Save(dir string) error {
	if isPacked(p.of) {
		return errPacked
	}
	if isChanged(p.of) {
		return errAdapter
	}
	err := disk.WriteFile(filepath.Join(dir, WeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, p.Tensors(), savedAs)
	})
	if err != nil {
		return err
	}
	return p.saveConfig(dir)
}

// savedAs is the metadata of a saved file.
var savedAs = map[string]string{"format": "pt", "producer": "hippo"}

// saveConfig writes the configuration.
func (p *Parameters) saveConfig(dir string) error {
	name, text, err := p.config()
	if err != nil {
		return err
	}
	return disk.WriteBytes(filepath.Join(dir, name), text)
}
