package model

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/nn"
)

// WeightsFile is the name of the weights in a model's folder.
const WeightsFile = "model.safetensors"

// Weights maps the names of a model's parameters to the tensors of a file. Package release does this for the files of
// published models.
type Weights struct {
	File *checkpoint.File
	// Keys maps official names to names in the file. Official names are those of parameters unless Sources is set.
	Keys map[string]string

	// Sources returns the tensors, by official names, that make up a parameter, one after another by rows. If it is
	// nil, each parameter is one tensor of the same name.
	Sources func(parameter string) []Source

	// Made returns the name and shape of the file's tensor that a source was made from, for error messages. It returns
	// false for a source that is itself in the file. Made is nil if all sources are.
	Made func(source string) (name string, shape []int, ok bool)

	// Extra decides about a tensor that is not a parameter. Its arguments are the official name and the key in the
	// file. It returns nil to accept the tensor and an error to reject it. It is not called for tensors that Keys
	// leaves out. If Extra is nil, such tensors are rejected.
	Extra func(name, key string) error
}

// Source is a tensor of a file, or a part of one, whose rows are rows of a parameter.
type Source struct {
	Name     string
	Part, Of int // index among Of equal parts of its rows; Of 0 for all rows
	Share    int // share of the parameter's rows relative to the other sources; 0 for 1
	Stack    int // number of matrices stacked in one tensor with one more axis; 0 for none
}

// of returns the sources of a parameter.
func (w Weights) of(parameter string) []Source {
	if w.Sources == nil {
		return []Source{{Name: parameter}}
	}
	return w.Sources(parameter)
}

// Matched holds the tensors of a parameter, one after another by rows.
type Matched struct {
	Name  string // name of the parameter
	Parts []checkpoint.Tensor
}

// Match finds the tensors of the parameters of m. It leaves out parameters whose tensors are missing or have other
// shapes.
func (w Weights) Match(m nn.Module) []Matched {
	l := &filling{f: w.File, told: map[string]bool{}}
	l.compare(m, w, maps.Clone(w.Keys))
	found := make([]Matched, len(l.names))
	for i, name := range l.names {
		found[i] = Matched{name, l.sources[i]}
	}
	return found
}

// ownWeights returns the weights of a file that this package saved, with the names of the parameters.
func ownWeights(f *checkpoint.File) Weights {
	w := Weights{File: f, Keys: map[string]string{}}
	for _, name := range f.Names() {
		w.Keys[name] = name
	}
	return w
}

// NewFor is New for a file of weights, which must have tensors for all layers.
func NewFor(cfg Config, f *checkpoint.File) (*Model, error) {
	if err := checkFile(f, &cfg); err != nil { // before the layers are built
		return nil, err
	}
	return New(cfg)
}

// AdapterConfigFile is the name of the configuration of an adapter in its folder, as in the PEFT library.
const AdapterConfigFile = "adapter_config.json"

// The folders of a training run that hold checkpoints.
const (
	BestDir = "best"
	LastDir = "last"
)

// Resolve returns the folder that holds the model: dir itself, or dir/best or dir/last of a training run.
func Resolve(dir string) (string, error) {
	if info, err := os.Stat(dir); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s: found a file, want a model's folder with %s and %s (hippo convert makes one from a "+
			".pt file)", dir, ConfigFile, WeightsFile)
	}
	path, err := folderOf(dir, ConfigFile)
	if err != nil || path != "" {
		return path, err
	}
	if err := networkIn(dir); err != nil {
		return "", err
	}
	if adapter, err := folderOf(dir, AdapterConfigFile); err == nil && adapter != "" {
		return "", fmt.Errorf("%s: found an adapter, want a model; hippo merge makes one of both", dir)
	}
	return "", fmt.Errorf("%s: found no %s in it, in %s/ or in %s/; want a model's or a training run's folder", dir,
		ConfigFile, BestDir, LastDir)
}

// folderOf returns the first of dir, dir/best and dir/last that has a file of this name, or "".
func folderOf(dir, name string) (string, error) {
	for _, sub := range []string{"", BestDir, LastDir} {
		path := filepath.Join(dir, sub)
		if err := checkpoint.SettleDir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return path, nil
		}
	}
	return "", nil
}
