package release

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
)

// A GGUF file is a whole model: its values are the configuration (ggufPublished) and the tokenizer (ReadGGUFTexts), and
// its tensors have names of their own, the same for all families, and some of them other shapes and values than
// published (ggufParameters). The meanings follow llama.cpp's conversion (conversion/*.py).

// ggufArch is how the models of one value of general.architecture are read.
type ggufArch struct {
	// model says what the values mean: the layers of the model, and what its tensors are called.
	model func(k *ggufKeys, p *published)
	heads bool // A and D have one number for each head, as in Mamba-2
}

// ggufArchs are the architectures that are read, by name.
var ggufArchs = map[string]ggufArch{
	"mamba":         {ggufMamba, false},
	"mamba2":        {ggufMamba2, true},
	"jamba":         {ggufJamba, false},
	"falcon-h1":     {ggufFalconH1, true},
	"granitehybrid": {ggufGranite, true},
	"nemotron_h":    {ggufNemotronH, true},
	"lfm2":          {ggufLFM2, true},
	"lfm2moe":       {ggufLFM2, true},

	"nemotron_h_moe": {ggufNemotronH, true},
}

// ggufHead is the name of the head's weights. A head that shares the embedding's is left out.
const ggufHead = "output.weight"

// ggufNames are the names of the tensors of a model, whose layers have these norms and mixers.
func ggufNames(layer []rename, mixers map[string][]rename) hfNames {
	return hfNames{embedding: []string{"token_embd."}, norm: "output_norm.", head: ggufHead, layers: "blk.",
		layer: layer, mixers: mixers}
}

// ggufMambaNames are the names of the tensors of either Mamba.
var ggufMambaNames = []rename{
	to("in_proj.", "ssm_in."), to("conv1d.", "ssm_conv1d."), to("x_proj.", "ssm_x."), to("dt_proj.", "ssm_dt."),
	to("dt_bias", "ssm_dt.bias"), to("A_log", "ssm_a"), to("D", "ssm_d"), to("norm.", "ssm_norm."),
	to("dt_norm.", "ssm_dt_norm."), to("b_norm.", "ssm_b_norm."), to("c_norm.", "ssm_c_norm."),
	to("out_proj.", "ssm_out."),
}

// ggufForm is how a tensor of a GGUF file differs from the parameter that it holds.
type ggufForm struct {
	squeeze bool // (channels, 1, taps) is (channels, taps)
	column  bool // (n) is (n, 1)
	groups  bool // (n) is (groups, n/groups)
	negExp  bool // a is -exp(a)
	heads   int  // number of heads whose components i and i + half a head are adjacent; 0 for none
}

// form is that of the tensor of a name.
func (a ggufArch) form(name string) ggufForm {
	part := name
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		_, part, _ = strings.Cut(rest, ".")
	}
	switch part {
	case "ssm_conv1d.weight", "shortconv.conv.weight":
		return ggufForm{squeeze: true}
	case "ssm_a":
		return ggufForm{negExp: true, column: a.heads}
	case "ssm_d":
		return ggufForm{column: a.heads}
	case "ssm_norm.weight":
		return ggufForm{groups: true}
	}
	return ggufForm{}
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

// ggufPublished finds the configuration of a model, and what its tensors are called, in the values of a GGUF file.
// Their sizes are those of a file that may be hostile: nothing is made of them but numbers.
func ggufPublished(f *checkpoint.File) (p published, err error) {
	if err := model.CheckTensors(f); err != nil {
		return p, err
	}
	k, arch, err := ggufKeysOf(f)
	if err == nil {
		p, err = k.published(arch)
	}
	if err == nil {
		err = p.config.Validate()
	}
	if err != nil {
		return p, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	return p, nil
}

// ggufParameters is a GGUF file whose tensors have the shapes and values of the parameters that they hold.
func ggufParameters(f *checkpoint.File) (*checkpoint.File, error) {
	k, arch, err := ggufKeysOf(f)
	errs := []error{err}
	var others []*checkpoint.Tensor
	for _, name := range f.Names() {
		if err != nil {
			break
		}
		form := arch.form(name)
		form.heads = k.interleaved(name)
		if form != (ggufForm{}) {
			x, _ := f.Tensor(name)
			y, err := form.parameter(x, k.sizeOr("ssm.group_count", 0, 1))
			others, errs = append(others, y), append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	return f.With(others), nil
}

// parameter is what a tensor holds, in the form that published models have. One of another shape stays as it is, so
// that the error tells the shape that was found.
func (form ggufForm) parameter(x *checkpoint.Tensor, groups int) (*checkpoint.Tensor, error) {
	if form.heads > 0 {
		return inHalves(x, form.heads)
	}
	y := *x
	axes := len(x.Shape)
	switch {
	case form.squeeze && axes == 2:
		y.Shape = []int{x.Shape[0], 1, x.Shape[1]}
	case form.groups && axes == 2 && x.Shape[0] == groups:
		y.Shape = []int{x.Elements()}
	case form.column && axes == 2 && x.Shape[1] == 1:
		y.Shape = x.Shape[:1]
	}
	if !form.negExp {
		return &y, nil
	}
	a, err := x.Float32()
	if err != nil {
		return x, err
	}
	for i, v := range a {
		if !(v < 0) {
			return x, fmt.Errorf("%s: found %v at element %d of %d, want numbers below 0: -exp(A_log)", x.Name, v, i,
				len(a))
		}
		a[i] = float32(math.Log(float64(-v)))
	}
	y = checkpoint.NewTensor(x.Name, y.Shape, a)
	return &y, nil
}

// inHalves puts the rows of heads into the order of their components.
func inHalves(x *checkpoint.Tensor, heads int) (*checkpoint.Tensor, error) {
	rows := x.Shape[0]
	if rows%(2*heads) != 0 {
		return x, nil
	}
	width, half := len(x.Data)/rows, rows/heads/2
	data := make([]byte, len(x.Data))
	err := x.UseData(func(from []byte) {
		for j := range rows {
			first, i := j-j%(2*half), j%(2*half)
			copy(data[(first+i%2*half+i/2)*width:][:width], from[j*width:])
		}
	})
	return &checkpoint.Tensor{Name: x.Name, DType: x.DType, Shape: x.Shape, Data: data}, err
}

// stored is the inverse of parameter: it changes values and returns their shape in a file.
func (form ggufForm) stored(shape []int, values []float32, groups int) []int {
	if form.negExp {
		for i, v := range values {
			values[i] = float32(-math.Exp(float64(v)))
		}
	}
	switch {
	case form.squeeze:
		return []int{shape[0], shape[2]}
	case form.groups:
		return []int{groups, shape[0] / groups}
	case form.column:
		return []int{shape[0], 1}
	}
	return shape
}

// unknownArch is the error for an architecture that is not read.
func unknownArch(name string, f *checkpoint.File) error {
	known := sortedKeys(ggufArchs)
	meant := config.DidYouMean(name, known)
	if nearest := nearestArch(f); meant == "" && nearest != "" {
		meant = " (the nearest by its tensors is " + nearest + ")"
	}
	return fmt.Errorf("general.architecture: found %q, want one of %s%s", name, strings.Join(known, ", "), meant)
}

// nearestArch is the architecture that has the most of the kinds of tensors that a file has, and the fewest others; ""
// where no mixer is like one that is read.
func nearestArch(f *checkpoint.File) string {
	has := map[string]bool{}
	for _, name := range f.Names() {
		part := name[strings.LastIndex(strings.TrimSuffix(strings.TrimSuffix(name, ".weight"), ".bias"), ".")+1:]
		part, _, _ = strings.Cut(part, ".")
		has[part] = true
		if strings.Contains(name, ".shortconv.") {
			has["shortconv"] = true
		}
	}
	best, most := "", -100
	for _, arch := range sortedKeys(ggufMarks) {
		n := 0
		for _, mark := range strings.Fields(ggufMarks[arch]) {
			if has[mark] {
				n += 2
			} else {
				n -= 3
			}
		}
		if n > most {
			best, most = arch, n
		}
	}
	if !has["ssm_a"] && !has["shortconv"] {
		return ""
	}
	return best
}

// ggufMarks are the kinds of tensors that distinguish architectures.
var ggufMarks = map[string]string{
	"mamba": "ssm_a ssm_x ssm_dt", "mamba2": "ssm_a ssm_norm", "jamba": "ssm_a ssm_x ssm_dt ssm_b_norm attn_q ffn_down",
	"falcon-h1": "ssm_a attn_q ffn_gate", "granitehybrid": "ssm_a ssm_norm attn_q ffn_gate",
	"nemotron_h": "ssm_a ssm_norm attn_q ffn_up", "lfm2": "shortconv attn_q attn_q_norm ffn_gate",
	"lfm2moe": "shortconv attn_q attn_q_norm ffn_gate_exps", "nemotron_h_moe": "ssm_a ssm_norm attn_q ffn_up_exps",
}
