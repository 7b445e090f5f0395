package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// The names of an adapter's files, as in the PEFT library.
const (
	AdapterConfigFile  = model.AdapterConfigFile
	AdapterWeightsFile = "adapter_model.safetensors"
)

// Adapter is a folder with low-rank changes of a model's matrices, in the layout of the PEFT library, or a GGUF file
// with such changes. In a folder, the metadata of the weights also describes the base model.
type Adapter struct {
	Dir     string
	Name    string // of the base, as it was given: a path or the name of a published model; "" if unknown
	Path    string // of the base; "" if unknown
	Weights string // model.Model.WeightsFingerprint of the base; "" if unknown

	Rank    int
	Alpha   float64
	Dropout float64 // before A, in training

	config adapterConfig
	arch   string // architecture of a GGUF file; "" for a folder
}

// adapterConfig is adapter_config.json with the fields of PEFT that hippo uses.
type adapterConfig struct {
	Type         string             `json:"peft_type"`
	Task         string             `json:"task_type"`
	Base         *string            `json:"base_model_name_or_path"`
	R            int                `json:"r"`
	Alpha        float64            `json:"lora_alpha"`
	Dropout      float64            `json:"lora_dropout"`
	Targets      any                `json:"target_modules"`
	Bias         string             `json:"bias"`
	Inference    bool               `json:"inference_mode"`
	RSLoRA       bool               `json:"use_rslora"`
	DoRA         bool               `json:"use_dora"`
	InitWeights  any                `json:"init_lora_weights"`
	ModulesSaved []string           `json:"modules_to_save"`
	RankPattern  map[string]int     `json:"rank_pattern"`
	AlphaPattern map[string]float64 `json:"alpha_pattern"`
}

// Keys of the metadata of an adapter's weights.
const (
	metaBasePath    = "base_path"
	metaBaseWeights = "base_weights"
)

// IsAdapter reports whether a path is a folder with an adapter or of a run that trains one, or a GGUF file with one.
func IsAdapter(dir string) bool {
	_, err := ResolveAdapter(dir)
	return err == nil
}

// ResolveAdapter returns the folder of an adapter: dir itself, or dir/best or dir/last of a training run. For a GGUF
// file with an adapter it returns the path itself.
func ResolveAdapter(dir string) (string, error) {
	if isGGUFAdapter(dir) {
		return dir, nil
	}
	for _, sub := range []string{"", model.BestDir, model.LastDir} {
		path := filepath.Join(dir, sub)
		if err := checkpoint.SettleDir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if info, err := os.Stat(filepath.Join(path, AdapterConfigFile)); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: found no %s in it, in %s/ or in %s/; want the folder of an adapter, or of a run of "+
		"hippo train --lora.rank", dir, AdapterConfigFile, model.BestDir, model.LastDir)
}

// ReadAdapter reads the description of an adapter from its files, but not its values.
func ReadAdapter(dir string) (*Adapter, error) {
	dir, err := ResolveAdapter(dir)
	if err != nil {
		return nil, err
	}
	a := &Adapter{Dir: dir}
	if IsGGUF(dir) {
		return a, a.readGGUF()
	}
	err = checkpoint.ReadDir(dir, func() error { return a.read() }, AdapterConfigFile, AdapterWeightsFile)
	return a, err
}

// read reads adapter_config.json and the metadata of the weights.
func (a *Adapter) read() error {
	path := filepath.Join(a.Dir, AdapterConfigFile)
	text, err := disk.ReadText(path, disk.MaxText)
	if err != nil {
		return err
	}
	a.config = adapterConfig{}
	if err := json.Unmarshal(text, &a.config); err != nil {
		return brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	if err := a.config.check(); err != nil {
		return brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	a.Rank, a.Alpha, a.Dropout = a.config.R, a.config.Alpha, a.config.Dropout
	if a.config.Base != nil {
		a.Name = *a.config.Base
	}
	f, err := checkpoint.OpenSafetensors(filepath.Join(a.Dir, AdapterWeightsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	meta := f.Metadata()
	a.Path, a.Weights = meta[metaBasePath], meta[metaBaseWeights]
	return nil
}

// check returns an error for unsupported settings of a configuration.
func (c *adapterConfig) check() error {
	var p config.Problems
	if c.Type != "LORA" {
		p.Addf("peft_type", "found %q, want LORA", c.Type)
	}
	if c.R < 1 || c.R > 1<<16 {
		p.Addf("r", "found %d, want 1 to %d", c.R, 1<<16)
	}
	if !isScale(c.Alpha) {
		p.Addf("lora_alpha", "found %g, want a number above 0", c.Alpha)
	}
	for name, alpha := range c.AlphaPattern {
		if !isScale(alpha) {
			p.Addf("alpha_pattern", "found %g for %s, want a number above 0", alpha, name)
		}
	}
	if c.Bias != "" && c.Bias != "none" {
		p.Addf("bias", "found %q, want none: trained biases are not read", c.Bias)
	}
	for _, f := range []struct {
		key string
		on  bool
	}{{"use_dora", c.DoRA}, {"modules_to_save", len(c.ModulesSaved) > 0}} {
		if f.on {
			p.Addf(f.key, "is set, which is not read: want LoRA of linear layers alone")
		}
	}
	return p.Err()
}

func isScale(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// scale returns the scale of a module's change with the given rank.
func (c *adapterConfig) scale(module string, rank int) (float64, error) {
	alpha := c.Alpha
	for pattern, a := range c.AlphaPattern {
		is, err := regexp.Compile(`^(?:.*\.)?(?:` + pattern + `)$`) // as PEFT does
		if err != nil {
			return 0, fmt.Errorf("alpha_pattern: %w", err)
		}
		if is.MatchString(module) {
			alpha = a
		}
	}
	if c.RSLoRA { // arXiv:2312.03732
		return alpha / math.Sqrt(float64(rank)), nil
	}
	return alpha / float64(rank), nil
}

// peftPrefix is the prefix of the names of PEFT's tensors, before the names of the wrapped model.
const peftPrefix = "base_model.model."

// SaveAdapter writes the adapter of a model into a folder, which must exist. a describes the base as far as it is
// known. modules maps names of matrices to the names to write instead, see ModuleNames.
func SaveAdapter(dir string, m *model.Model, a Adapter, modules map[string]string) error {
	adapter := m.Adapter()
	if adapter == nil {
		return errors.New("found a model without an adapter, want one with")
	}
	var names []string
	var tensors []checkpoint.Tensor
	for _, c := range adapter.Changes {
		module := c.Module()
		if other, ok := modules[c.Name]; ok {
			module = other
		}
		names = append(names, module)
		for _, part := range []struct {
			name string
			x    interface {
				Shape() []int
				Len() int
				CopyTo([]float32) int
			}
		}{{"lora_A", c.A}, {"lora_B", c.B}} {
			values := make([]float32, part.x.Len())
			part.x.CopyTo(values)
			name := peftPrefix + module + "." + part.name + ".weight"
			tensors = append(tensors, checkpoint.NewTensor(name, part.x.Shape(), values))
		}
	}
	meta := map[string]string{"format": "pt", "producer": "hippo", metaBasePath: a.Path, metaBaseWeights: a.Weights}
	err := disk.WriteFile(filepath.Join(dir, AdapterWeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, meta)
	})
	if err != nil {
		return err
	}
	c := adapterConfig{
		Type: "LORA", Task: "CAUSAL_LM", Base: &a.Name, R: a.Rank, Alpha: a.Alpha, Dropout: a.Dropout, Targets: names,
		Bias: "none", Inference: true, InitWeights: true, RankPattern: map[string]int{},
		AlphaPattern: map[string]float64{},
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteBytes(filepath.Join(dir, AdapterConfigFile), append(text, '\n'))
}

// ModuleNames returns the names of the matrices of m, without ".weight", in the files of the model at a path, which
// must have the same shape. It includes only matrices that are whole tensors in those files. PEFT's adapters for the
// model use these names.
func ModuleNames(m *model.Model, path string) (names map[string]string, err error) {
	_, _, err = withModel(path, func(_ *model.Model, w model.Weights) error {
		names = map[string]string{}
		for _, p := range m.Products() {
			if sources := sourcesOf(w, p.Name); len(sources) == 1 && isWhole(sources[0]) {
				if key, ok := w.Keys[sources[0].Name]; ok {
					names[p.Name] = strings.TrimSuffix(key, ".weight")
				}
			}
		}
		return nil
	})
	return names, err
}

// sourcesOf returns the tensors that make up a parameter.
func sourcesOf(w model.Weights, parameter string) []model.Source {
	if w.Sources == nil {
		return []model.Source{{Name: parameter}}
	}
	return w.Sources(parameter)
}

// isWhole reports whether a source is all of a tensor.
func isWhole(s model.Source) bool { return s.Of <= 1 && s.Stack == 0 }
