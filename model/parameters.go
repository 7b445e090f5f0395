package model

import (
	"io"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/nn"
)

// Parameters are the weights of a model of any kind: a Model, a Network or a Classifier. All get their values from a
// seed or a file, and are saved, in the same way.
type Parameters struct {
	of       nn.Module
	backbone *Backbone
	shape    *Config // of the layers, for which a file must have tensors
	config   func() (name string, text []byte, err error)
}

// Use moves a model, whose parameters have their values, to an engine. Earlier tapes and states must not be used any
// more.
func (p *Parameters) Use(b engine.Backend) {
	p.backbone.use(b)
	place := func(_ string, q *nn.Param) {
		b.Place(q.Tensor)
		if q.Change != nil {
			q.Change.Params("", func(_ string, c *nn.Param) { b.Place(c.Tensor) })
		}
	}
	p.of.Params("", place)
}

// Init fills every parameter as the releases do, from seed.
func (p *Parameters) Init(seed uint64) { nn.InitAll(p.of, "", seed) }

// NumParams is the number of trainable numbers.
func (p *Parameters) NumParams() int { return numParams(p.of) }

// Load fills the parameters. It changes nothing unless everything fits: a missing, unexpected, misshapen or non-finite
// tensor is an error, and the error lists all of them.
func (p *Parameters) Load(w Weights) error {
	return p.load(w, nil)
}

// load is Load, which packs weight matrices if there is a precision for them.
func (p *Parameters) load(w Weights, pack *packing) error {
	l, err := p.compare(w)
	if err != nil {
		return err
	}
	return l.fill(pack)
}

// LoadSaved is Load from the file of weights that Save wrote into a folder.
func (p *Parameters) LoadSaved(dir string) error {
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, WeightsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	return p.Load(ownWeights(f))
}

// CheckShapes is Load without values.
func (p *Parameters) CheckShapes(w Weights) error {
	l, err := p.compare(w)
	if err == nil && len(l.problems) > 0 {
		err = l.err()
	}
	return err
}

// compare finds the tensors of a model in a file, without reading their values. An error means that the file cannot be
// that of such a model, whatever its tensors.
func (p *Parameters) compare(w Weights) (*filling, error) {
	if err := checkFile(w.File, p.shape); err != nil {
		return nil, err
	}
	l := w.compareAll(p.of)
	l.backend = p.backbone.Backend()
	return l, nil
}

// Tensors lists the parameters for writing a checkpoint, in the memory of the model if the host has it. The model must
// not be packed.
func (p *Parameters) Tensors() []checkpoint.Tensor {
	var out []checkpoint.Tensor
	p.of.Params("", func(name string, q *nn.Param) {
		out = append(out, checkpoint.NewTensor(name, q.Shape(), q.Elements()))
	})
	return out
}

// Save writes the configuration and the weights into dir, which must exist. It is an error if the model is packed
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

// savedAs is what the metadata of a file says.
var savedAs = map[string]string{"format": "pt", "producer": "hippo"}

// saveConfig writes the configuration.
func (p *Parameters) saveConfig(dir string) error {
	name, text, err := p.config()
	if err != nil {
		return err
	}
	return disk.WriteBytes(filepath.Join(dir, name), text)
}
