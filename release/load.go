package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// headName is the name of the head's weights in every family. They are shared with the embedding.
const headName = "lm_head.weight"

// tensors gives access to the tensors of a file by their official names.
type tensors struct {
	file *checkpoint.File
	keys map[string]string // from official names to names in the file
}

// shape returns the shape of a tensor, nil if there is none.
func (t tensors) shape(name string) []int {
	if x, ok := t.file.Tensor(t.keys[name]); ok {
		return x.Shape
	}
	return nil
}

// same reports whether two tensors have the same shape and bits. a and b are names in the file.
func (t tensors) same(a, b string) bool {
	x, okX := t.file.Tensor(a)
	y, okY := t.file.Tensor(b)
	equal := false
	fault := disk.Guard(func() { // the data is missing if the file was truncated in the meantime
		equal = okX && okY && slices.Equal(x.Shape, y.Shape) && string(x.Data) == string(y.Data)
	})
	return equal && fault == nil
}

// officialTensors determines the family of a file by the names of its tensors, and returns both.
func officialTensors(f *checkpoint.File) (family, tensors, error) {
	names := f.Names()
	fam := familyOfNames(names)
	keys, err := fam.names(names)
	if err != nil {
		return fam, tensors{}, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	return fam, tensors{f, keys}, nil
}

// Weights finds the weights of a model in a file, in any layout in which its family was published.
func Weights(f *checkpoint.File) (model.Weights, error) {
	if f.Format() == checkpoint.FormatGGUF {
		return model.Weights{}, fmt.Errorf("%s: found a GGUF file, which says itself what model it is: want "+
			"LoadDir or FromCheckpoint", f.Path())
	}
	fam, t, err := officialTensors(f)
	if err == nil && fam.hf != nil {
		err = fmt.Errorf("%s: found the layout of RWKV-7's authors: want FromCheckpoint", f.Path())
	}
	if err != nil {
		return model.Weights{}, err
	}
	table, hasTable := t.keys[fam.table]
	if head := t.keys[headName]; head != "" && !hasTable {
		t.keys[fam.table] = head
	}
	extra := func(name, key string) error {
		switch {
		case name == headName: // replaces the embedding, or equals it
			if hasTable && !t.same(key, table) {
				return fmt.Errorf("differs from %s, want the same (tied) weights", table)
			}
			return nil
		case strings.HasSuffix(name, ".inv_freq"): // of rotary positions, which are computed
			return nil
		case strings.HasPrefix(name, model.ClassifierPrefix): // for model.Classifier
			return nil
		case fam.extra != nil:
			return fam.extra(t, key)
		}
		return errExtra
	}
	return model.Weights{File: f, Keys: t.keys, Extra: extra}, nil
}

// errExtra is the error for a tensor that is not in any family.
var errExtra = errors.New("unexpected")

// Load loads a model's parameters from a file in any layout in which its family was published. If tensors are missing,
// unexpected, misshapen or non-finite, it returns an error that lists all of them, and changes nothing.
func Load(m *model.Model, f *checkpoint.File) error {
	w, err := Weights(f)
	if err != nil {
		return err
	}
	return m.Load(w)
}

// LoadDir reads a model from a folder with config.json and model.safetensors (or several such files and their index,
// model.safetensors.index.json), as written by hippo or by a family's release. It also reads a GGUF file, or the folder
// of a training run, from which it takes the best checkpoint or, if there is none, the last one. It returns the folder
// or file that it read.
func LoadDir(dir string) (*model.Model, string, error) { return loadDir(dir, (*model.Model).Load) }

// LoadDirPacked is like LoadDir, for inference only: it packs weights at a precision as it reads them, see
// model.Model.Pack.
func LoadDirPacked(dir string, p engine.Precision) (*model.Model, string, error) {
	return loadDir(dir, func(m *model.Model, w model.Weights) error { return m.LoadPacked(w, p) })
}

// LoadDirStored is like LoadDirPacked with the precision of the file, see model.Model.LoadStored. Weights of bfloat16
// and integers take no more memory than in the file. Results equal those of float32, except for products with integers.
func LoadDirStored(dir string) (*model.Model, string, error) {
	return loadDir(dir, (*model.Model).LoadStored)
}

func loadDir(dir string, load func(*model.Model, model.Weights) error) (*model.Model, string, error) {
	if IsGGUF(dir) {
		m, err := openGGUF(dir, load)
		return m, dir, err
	}
	dir, err := model.Resolve(dir)
	if err != nil {
		return nil, "", err
	}
	var m *model.Model
	err = checkpoint.ReadDir(dir, func() (err error) {
		m, err = openModel(dir, load)
		return err
	}, model.ConfigFile, model.WeightsFile) // the configuration has the tokenizer's fingerprint
	return m, dir, err
}

// Describe builds the model of a folder or a GGUF file like LoadDir, but does not read its weights: the parameters have
// no values. It checks the parameters' shapes against the file of weights, so their sizes can be trusted.
func Describe(dir string) (*model.Model, string, error) {
	if IsGGUF(dir) {
		m, err := openGGUF(dir, (*model.Model).CheckShapes)
		return m, dir, err
	}
	dir, err := model.Resolve(dir)
	if err != nil {
		return nil, "", err
	}
	m, err := openModel(dir, (*model.Model).CheckShapes)
	return m, dir, err
}

// openModel builds the model of a folder, and calls use to compare or read the weights.
func openModel(dir string, use func(*model.Model, model.Weights) error) (*model.Model, error) {
	p, err := readConfig(filepath.Join(dir, model.ConfigFile), 0)
	if err != nil {
		return nil, err
	}
	f, err := OpenWeights(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, w, err := p.open(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, model.ConfigFile), err)
	}
	return m, use(m, w)
}

// OpenWeights opens the weights of a folder: one file, or the files that an index names.
func OpenWeights(dir string) (*checkpoint.File, error) {
	path := filepath.Join(dir, model.WeightsFile)
	f, err := checkpoint.OpenSafetensors(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	index := strings.TrimSuffix(path, filepath.Ext(path)) + checkpoint.IndexSuffix
	if _, missing := os.Stat(index); missing != nil {
		return nil, err
	}
	return checkpoint.OpenIndex(index)
}

// openGGUF builds the model of a GGUF file, and calls use to compare or read the weights.
func openGGUF(path string, use func(*model.Model, model.Weights) error) (*model.Model, error) {
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, w, _, err := newModel(f, ShapeOptions{})
	if err != nil {
		return nil, err
	}
	return m, use(m, w)
}
