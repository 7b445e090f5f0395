package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// PublishedFile is the name of a file in a folder of hippo's own layout. It holds the config.json, in the layout of the
// transformers library, with which the model was published, or the model that it was trained or merged from.
const PublishedFile = "published_config.json"

// WriteHF writes a model into a folder in the layout of the transformers library: config.json and the weights. It uses
// the same table of names as reading does. published is the config.json of the family; if nil, it is derived. like is
// the file that the weights came from, nil if unknown: unchanged tensors keep the type and the name that they have
// there. Weights that the type of the configuration cannot represent are written as float32.
func WriteHF(dir string, m *model.Model, published []byte, like *checkpoint.File) error {
	if m.Adapter() != nil {
		return errors.New("found a model with an adapter, want one without: hippo merge makes it")
	}
	if published == nil {
		var err error
		if published, err = hfConfigOf(m, like); err != nil {
			return err
		}
	}
	p, err := parse(published)
	switch {
	case err != nil:
		return err
	case len(p.names.embedding) == 0:
		return fmt.Errorf("model_type: found %q, want one of %s: the transformers library has no class for the "+
			"others, whose own layout is that of hippo convert without --to",
			hfType(published), strings.Join(Families(), ", "))
	}
	if err := p.sameModel(m); err != nil {
		return fmt.Errorf("the model is not one of its published configuration (--config names another): %w", err)
	}
	p.names = p.names.in(like)
	tensors, err := p.names.tensorsOf(&m.Backbone, m.Tensors())
	if err != nil {
		return err
	}
	if tensors, err = p.names.unformed(tensors, like); err != nil {
		return err
	}
	guessing, err := p.mtpOf(m, like)
	if err != nil {
		return err
	}
	tensors = append(tensors, guessing...)
	p.names.asFile(tensors, like)
	kept, err := inTypes(tensors, hfDType(published), like)
	if err != nil {
		return err
	}
	tensors = append(tensors, p.names.otherParts(like)...)
	err = disk.WriteFile(filepath.Join(dir, model.WeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, map[string]string{"format": "pt"})
	})
	if err != nil {
		return err
	}
	return disk.WriteBytes(filepath.Join(dir, model.ConfigFile), hfEdited(published, m, kept))
}

// sameModel returns an error unless the configuration describes m, apart from settings of training.
func (p *published) sameModel(m *model.Model) error {
	got, err := layersOf(&m.Config)
	want, failed := layersOf(&p.config)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	lines := sameFrame(&m.Config, &p.config)
	for _, line := range differences(got, want) {
		lines = append(lines, "layers: "+line)
	}
	if len(lines) > 0 {
		return errors.New(strings.Join(lines, "; "))
	}
	return nil
}

// tensorsOf returns the tensors of a file, in float32, that the parameters of a model make up: the inverse of sources.
func (n *hfNames) tensorsOf(bb *model.Backbone, own []checkpoint.Tensor) (out []checkpoint.Tensor, err error) {
	type whole struct {
		shape  []int
		values []float32
		left   int // values that are not set yet
	}
	found, names := map[string]*whole{}, []string{}
	for _, x := range own {
		values, failed := x.Float32()
		err = errors.Join(err, failed)
		sources, shares, at := n.sources(bb, x.Name), 0, 0
		for _, s := range sources {
			shares += max(1, s.Share)
		}
		for _, s := range sources {
			shape := slices.Clone(x.Shape)
			shape[0] = shape[0] / shares * max(1, s.Share)
			size := len(values) / x.Shape[0] * shape[0]
			part := values[at:][:size]
			at += size
			w := found[s.Name]
			if w == nil {
				w = &whole{shape: s.Whole(shape), left: size * max(1, s.Of)}
				if w.values = part; s.Of > 1 {
					w.values = make([]float32, w.left)
				}
				found[s.Name], names = w, append(names, s.Name)
			}
			if s.Of > 1 {
				copy(w.values[s.Part*size:], part)
			}
			w.left -= size
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if w := found[name]; w.left != 0 {
			err = errors.Join(err, fmt.Errorf("%s: its parameters do not make up the tensor", name))
		} else {
			out = append(out, checkpoint.NewTensor(name, w.shape, w.values))
		}
	}
	return out, err
}

// asFile gives tensors the names that they have in f, which may be nil.
func (n *hfNames) asFile(tensors []checkpoint.Tensor, f *checkpoint.File) {
	renamed, short := n.renamed(f), n.leftOut(f)
	for i := range tensors {
		x := &tensors[i]
		if renamed && x.Name == n.embedding[0]+"weight" {
			x.Name = n.embedding[1] + "weight"
		}
		if short {
			x.Name = strings.TrimPrefix(x.Name, n.optional)
		}
	}
}

// renamed reports whether a file has the embedding under the second of its names.
func (n *hfNames) renamed(f *checkpoint.File) bool {
	if f == nil || len(n.embedding) < 2 {
		return false
	}
	_, ok := f.Tensor(n.embedding[1] + "weight")
	return ok
}

// inTypes converts float32 tensors to the types that they have in like or, if they are not there, to the given type,
// unless that loses information. It reports whether all of them have the given type or that in like.
func inTypes(tensors []checkpoint.Tensor, kind checkpoint.DType, like *checkpoint.File) (all bool, err error) {
	all = true
	for i, x := range tensors {
		as := kind
		if like != nil {
			if old, ok := like.Tensor(x.Name); ok && slices.Contains(floats, old.DType) {
				as = old.DType
			}
		}
		if as == checkpoint.F32 {
			continue
		}
		values, failed := x.Float32()
		if err = errors.Join(err, failed); err != nil {
			return false, err
		}
		y, failed := checkpoint.ConvertTensor(x.Name, as, x.Shape, values)
		back := make([]float32, len(values))
		if failed == nil {
			failed = y.ReadFloat32(back)
		}
		if failed == nil && slices.Equal(back, values) {
			tensors[i] = y
		} else {
			all = false
		}
	}
	return all, err
}

// The fields of a config.json that depend on the weights.
var (
	hfTypeField = regexp.MustCompile(`("(?:torch_)?dtype"\s*:\s*)"([^"]*)"`)
	hfTiedField = regexp.MustCompile(`("(?:tie_word_embeddings|tie_embedding)"\s*:\s*)(?:true|false|null)`)
)

// hfDType returns the type of the weights in a config.json.
func hfDType(data []byte) checkpoint.DType {
	if found := hfTypeField.FindSubmatch(data); found != nil {
		switch string(found[2]) {
		case "bfloat16":
			return checkpoint.BF16
		case "float16":
			return checkpoint.F16
		}
	}
	return checkpoint.F32
}

// hfEdited returns a config.json adapted to the weights of a model: it sets whether the head is tied, and sets the type
// to float32 if not all tensors have the type of the configuration. All other bytes stay the same.
func hfEdited(data []byte, m *model.Model, sameType bool) []byte {
	if !sameType {
		data = hfTypeField.ReplaceAll(data, []byte(`$1"float32"`))
	}
	p, err := parse(data)
	if tied := m.Head == nil; err == nil && p.config.UntiedHead == tied {
		if data = hfTiedField.ReplaceAll(data, fmt.Appendf(nil, "${1}%t", tied)); !hfTiedField.Match(data) {
			data = bytes.Replace(data, []byte("{"), fmt.Appendf(nil, "{\n  \"tie_word_embeddings\": %t,", tied), 1)
		}
	}
	return data
}
