package release

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// ErrNoMTP reports that a model's files have no head for multi-token prediction.
var ErrNoMTP = errors.New("found no head for multi-token prediction, want a model with one, such as Qwen3.5 or " +
	"Qwen3-Next, in its published files or in a folder made of them")

// MTPFile is the name of a file in a folder of hippo's own layout. It holds the head for multi-token prediction of the
// model that the folder was made from, with the tensors as published. PublishedFile is its configuration.
const MTPFile = "mtp.safetensors"

// FolderTexts returns all files to copy to a model that is made from the one at a path: ChatTexts, and MTPFile if the
// model has a head for multi-token prediction.
func FolderTexts(path string) (map[string][]byte, error) {
	texts, err := ChatTexts(path)
	if err != nil {
		return nil, err
	}
	p, err := parse(texts[PublishedFile])
	if err != nil || p.mtp == "" || p.names.mtp == nil { // an invalid configuration is reported when the model is read
		return texts, nil
	}
	head, err := p.headOf(path)
	if len(head) > 0 {
		texts[MTPFile] = head
	}
	return texts, err
}

// headOf returns the content of MTPFile for the model at a path, nil for a model without such a head.
func (p *published) headOf(path string) ([]byte, error) {
	dir := folderOf(path)
	open := func(string) (*checkpoint.File, error) { return OpenWeights(dir) }
	if IsGGUF(path) {
		open = checkpoint.OpenGGUF
	} else if head, err := os.ReadFile(filepath.Join(dir, MTPFile)); !errors.Is(err, fs.ErrNotExist) {
		return head, err
	}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) { // the weights have another name
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := model.New(p.config)
	if err != nil {
		return nil, nil
	}
	tensors, err := p.mtpOf(m, f)
	if err != nil {
		return nil, err
	}
	for _, name := range f.Names() {
		if x, ok := f.Tensor(name); ok && strings.HasPrefix(name, p.names.mtp.prefix) {
			tensors = append(tensors, *x)
		}
	}
	if len(tensors) == 0 {
		return nil, nil
	}
	var head bytes.Buffer
	err = checkpoint.WriteSafetensors(&head, tensors, map[string]string{"format": "pt"})
	return head.Bytes(), err
}

// mtpNames holds the names of such a head: those of its layer, which is like the others, and those around it.
type mtpNames struct {
	prefix string // prefix of the names of all its tensors
	layers string // as in hfNames
	first  int
	others map[string]string
}

// ofMTP returns the names of the head's tensors in a file, or nil for a file that does not exist yet.
func (n hfNames) ofMTP(f *checkpoint.File) hfNames {
	n.layers, n.first, n.others = n.mtp.layers, n.mtp.first, n.mtp.others
	return n.in(f)
}

// LoadMTP reads the head for multi-token prediction of the model at a path. m has the same layers and embedding. load
// is a method of model.MTP.
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
		config := model.ConfigFile
		path, open = dir, OpenWeights
		if own := filepath.Join(dir, MTPFile); isThere(own) {
			path, open, config = own, checkpoint.OpenSafetensors, PublishedFile
		}
		read = func(*checkpoint.File) (published, error) { return readConfig(filepath.Join(dir, config), 0) }
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
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// isThere reports whether a file exists.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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
	if err := load(h, w); err != nil {
		return nil, err
	}
	return h, nil
}

// mtpOf returns the tensors of the head in the layout of the transformers library, from a GGUF file, or from the
// MTPFile next to another file. It returns nil if there is no head.
func (p *published) mtpOf(m *model.Model, like *checkpoint.File) ([]checkpoint.Tensor, error) {
	if p.mtp == "" || like == nil {
		return nil, nil
	}
	if like.Format() != checkpoint.FormatGGUF {
		return tensorsIn(filepath.Join(filepath.Dir(like.Path()), MTPFile))
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

// tensorsIn returns the tensors of a file, nil if the file does not exist.
func tensorsIn(path string) (out []checkpoint.Tensor, err error) {
	f, err := checkpoint.OpenSafetensors(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		values, err := x.Float32()
		if err != nil {
			return nil, err
		}
		out = append(out, checkpoint.NewTensor(name, x.Shape, values))
	}
	return out, nil
}

// addMTP adds a head as one more layer. h may be nil.
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
