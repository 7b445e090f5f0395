package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// ErrNoMTP is the error of a model whose files have no head for multi-token prediction.
var ErrNoMTP = errors.New("found no head for multi-token prediction, want a model with one, such as Qwen3.5 or " +
	"Qwen3-Next, in its published files")

// mtpNames are the names of such a head: of its layer, which is like the others, and of what is around it.
type mtpNames struct {
	prefix string // of all its tensors
	layers string // as in hfNames
	first  int
	others map[string]string
}

// ofMTP returns the names of the head's tensors in a file, nil for one that is not there yet.
func (n hfNames) ofMTP(f *checkpoint.File) hfNames {
	n.layers, n.first, n.others = n.mtp.layers, n.mtp.first, n.mtp.others
	return n.in(f)
}

// LoadMTP reads the head of the model at a path, whose layers and embedding are those of m: load is a method of it.
func LoadMTP(path string, m *model.Model, load func(*model.MTP, model.Weights) error) (*model.MTP, error) {
	open, read := checkpoint.OpenGGUF, ggufPublished
	if !IsGGUF(path) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return nil, ErrNoMTP
		}
		dir, err := model.Resolve(path)
		if err != nil {
			return nil, err
		}
		path, open = dir, OpenWeights
		read = func(*checkpoint.File) (published, error) { return readConfig(filepath.Join(dir, model.ConfigFile), 0) }
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := read(f)
	if err != nil {
		return nil, err
	}
	h, err := p.loadMTP(m, f, load)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return h, err
}

// loadMTP reads the head in a file.
func (p *published) loadMTP(m *model.Model, f *checkpoint.File,
	load func(*model.MTP, model.Weights) error) (*model.MTP, error) {
	of := func(name string) bool { return p.names.mtp != nil && strings.HasPrefix(name, p.names.mtp.prefix) }
	if p.mtp == "" || !slices.ContainsFunc(f.Names(), of) {
		return nil, ErrNoMTP
	}
	h, err := model.NewMTP(m, p.mtp+"/"+p.config.MLP)
	if err != nil {
		return nil, err
	}
	if f.Format() == checkpoint.FormatGGUF {
		if f, err = ggufParameters(f, p.forms); err != nil {
			return nil, err
		}
	}
	n := p.names.ofMTP(f)
	w := model.Weights{File: f, Keys: map[string]string{},
		Sources: func(parameter string) []model.Source { return n.sources(&h.Backbone, parameter) }}
	for _, name := range f.Names() {
		if of(name) {
			w.Keys[name] = name
		}
	}
	return h, load(h, w)
}

// mtpOf returns the tensors of the head in a GGUF file, nil for none, as they are in the layout of the transformers
// library.
func (p *published) mtpOf(m *model.Model, like *checkpoint.File) ([]checkpoint.Tensor, error) {
	if p.mtp == "" || like == nil || like.Format() != checkpoint.FormatGGUF {
		return nil, nil
	}
	own, err := ggufPublished(like)
	if err != nil {
		return nil, err
	}
	h, err := own.loadMTP(m, like, func(h *model.MTP, w model.Weights) error { return h.Load(w) })
	if errors.Is(err, ErrNoMTP) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	n := p.names.ofMTP(nil)
	return n.tensorsOf(&h.Backbone, h.Tensors())
}

// addMTP adds a head, nil for none, which is one layer more.
func (s *ggufShape) addMTP(h *model.MTP) {
	if h == nil || s.arch == qwen3NextArch || s.published.names.mtp == nil {
		return
	}
	s.mtp = h
	for i, v := range s.values {
		switch v.Key {
		case s.arch + ".block_count":
			s.values[i].Value = v.Value.(uint32) + 1
		case s.arch + ".attention.recurrent_layers":
			s.values[i].Value = append(slices.Clone(v.Value.([]bool)), false)
		}
	}
	s.values = append(s.values, checkpoint.GGUFValue{Key: s.arch + ".nextn_predict_layers", Value: uint32(1)})
}
