package release

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
)

// A GGUF file is a whole model: its values are the configuration (ggufConfig) and the tokenizer (ReadGGUFTexts), and its
// tensors have names of their own, the same for all families, and some of them other shapes and values than published
// (ggufWeights). What is what is told by the conversion of llama.cpp (conversion/*.py).

// ggufArch is how the models of one value of general.architecture are laid out.
type ggufArch struct {
	config func(k *ggufKeys) (mixer string)
	layer  []ggufTensor // of each layer
}

// ggufTensor is a tensor of a GGUF file, by its name behind "blk.N.", and the parameter that it holds, by its name
// behind "backbone.layers.N.".
type ggufTensor struct {
	name, param string
	form        ggufForm
}

// ggufForm is how a tensor differs from the parameter.
type ggufForm int

const (
	ggufSame         ggufForm = iota
	ggufSqueeze               // (channels, 1, taps) is (channels, taps)
	ggufColumn                // (n) is (n, 1)
	ggufGroups                // (n) is (groups, n/groups)
	ggufNegExp                // a is -exp(a)
	ggufNegExpColumn          // both of the last
)

// ggufTop are the tensors that are not of a layer.
var ggufTop = []ggufTensor{
	{"token_embd.weight", mambaTable, ggufSame},
	{"output_norm.weight", "backbone.norm_f.weight", ggufSame},
	{ggufHead, headName, ggufSame},
}

// ggufHead is the name of the head's weights. A head that shares the embedding's is left out.
const ggufHead = "output.weight"

// ggufArchs are the architectures that are read, by name.
var ggufArchs = map[string]ggufArch{
	"mamba": {ggufMamba, []ggufTensor{
		{"attn_norm.weight", "norm.weight", ggufSame},
		{"ssm_in.weight", "mixer.in_proj.weight", ggufSame},
		{"ssm_conv1d.weight", "mixer.conv1d.weight", ggufSqueeze},
		{"ssm_conv1d.bias", "mixer.conv1d.bias", ggufSame},
		{"ssm_x.weight", "mixer.x_proj.weight", ggufSame},
		{"ssm_dt.weight", "mixer.dt_proj.weight", ggufSame},
		{"ssm_dt.bias", "mixer.dt_proj.bias", ggufSame},
		{"ssm_a", "mixer.A_log", ggufNegExp},
		{"ssm_d", "mixer.D", ggufSame},
		{"ssm_out.weight", "mixer.out_proj.weight", ggufSame},
	}},
	"mamba2": {ggufMamba2, []ggufTensor{
		{"attn_norm.weight", "norm.weight", ggufSame},
		{"ssm_in.weight", "mixer.in_proj.weight", ggufSame},
		{"ssm_conv1d.weight", "mixer.conv1d.weight", ggufSqueeze},
		{"ssm_conv1d.bias", "mixer.conv1d.bias", ggufSame},
		{"ssm_dt.bias", "mixer.dt_bias", ggufSame},
		{"ssm_a", "mixer.A_log", ggufNegExpColumn},
		{"ssm_d", "mixer.D", ggufColumn},
		{"ssm_norm.weight", "mixer.norm.weight", ggufGroups},
		{"ssm_out.weight", "mixer.out_proj.weight", ggufSame},
	}},
}

// tensors are all tensors of a model of so many layers, with their full names.
func (a ggufArch) tensors(layers int) []ggufTensor {
	all := slices.Clone(ggufTop)
	for i := range layers {
		for _, t := range a.layer {
			all = append(all, ggufTensor{fmt.Sprintf("blk.%d.%s", i, t.name),
				fmt.Sprintf("backbone.layers.%d.%s", i, t.param), t.form})
		}
	}
	return all
}

// IsGGUF tells by its first bytes whether a path is that of a GGUF file.
func IsGGUF(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "GGUF"
}

// ggufConfig finds the configuration of a model in the values of a GGUF file. Their sizes are those of a file that may
// be hostile: nothing is made of them but numbers.
func ggufConfig(f *checkpoint.File) (model.Config, error) {
	c := model.DefaultConfig()
	if err := model.CheckTensors(f); err != nil {
		return c, err
	}
	k, arch, err := ggufKeysOf(f)
	if err == nil {
		c, err = k.config(arch)
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return c, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	return c, nil
}

// ggufWeights finds the weights of a model in a GGUF file.
func ggufWeights(f *checkpoint.File) (model.Weights, error) {
	k, arch, err := ggufKeysOf(f)
	if err != nil {
		return model.Weights{}, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	layers := min(k.size("block_count", 1), len(f.Names())) // no more than the file can have
	keys, known := map[string]string{}, map[string]bool{}
	var others []*checkpoint.Tensor
	var errs []error
	for _, t := range arch.tensors(layers) {
		x, there := f.Tensor(t.name)
		if !there && t.name == ggufHead {
			continue
		}
		keys[t.param], known[t.name] = t.name, true
		if !there {
			continue // the name is for the error
		}
		other, err := t.form.parameter(x, k.sizeOr("ssm.group_count", 1, 1))
		if err != nil {
			errs = append(errs, err)
		}
		others = append(others, other)
	}
	for _, name := range f.Names() {
		if !known[name] {
			keys[name] = name
		}
	}
	if len(errs) > 0 {
		return model.Weights{}, brief.Error(fmt.Errorf("%s: %w", f.Path(), errors.Join(errs...)))
	}
	return model.Weights{File: f.With(others), Keys: keys}, nil
}

// parameter is what a tensor holds, in the form that published models have. One of another shape stays as it is, so
// that the error tells the shape that was found.
func (form ggufForm) parameter(x *checkpoint.Tensor, groups int) (*checkpoint.Tensor, error) {
	y := *x
	axes := len(x.Shape)
	switch {
	case form == ggufSqueeze && axes == 2:
		y.Shape = []int{x.Shape[0], 1, x.Shape[1]}
	case form == ggufGroups && axes == 2 && x.Shape[0] == groups:
		y.Shape = []int{x.Elements()}
	case (form == ggufColumn || form == ggufNegExpColumn) && axes == 2 && x.Shape[1] == 1:
		y.Shape = x.Shape[:1]
	}
	if form != ggufNegExp && form != ggufNegExpColumn {
		return &y, nil
	}
	a, err := x.Float32()
	if err != nil {
		return x, err
	}
	for i, v := range a {
		if !(v < 0) {
			return x, fmt.Errorf("%s: found %v at element %d of %d, want numbers below 0: -exp(A_log)", x.Name, v, i, len(a))
		}
		a[i] = logOf(-v)
	}
	y = checkpoint.NewTensor(x.Name, y.Shape, a)
	return &y, nil
}

// unknownArch is the error for an architecture that is not read.
func unknownArch(name string) error {
	return fmt.Errorf("general.architecture: found %q, want one of %s", name, strings.Join(sortedKeys(ggufArchs), ", "))
}
