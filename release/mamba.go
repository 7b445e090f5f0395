package release

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// mamba is the family of Mamba and Mamba-2 (arXiv:2312.00752, arXiv:2405.21060) and of hippo's own models without MLPs,
// which use its names. The tensors of Mamba-2 show neither its number of groups nor the position of its norm: one group
// and a norm after the gate are assumed.
var mamba = family{
	hasConfig: isMambaConfig,
	config:    parseMambaConfig,
	hasNames:  isMambaNames,
	names:     mambaNames,
	table:     mambaTable,
	infer:     mambaInfer,
}

// mambaTable is the official name of the embedding's weights.
const mambaTable = "backbone.embedding.weight"

// isMambaNames reports whether the names are those of the family, whose final norm is called norm_f.
func isMambaNames(names []string) bool {
	return slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "backbone.norm_f.") })
}

// mambaNames maps the official parameter names to the names in a file. They are the same, or those of the transformers
// library, which has "backbone.embeddings." instead of "backbone.embedding.". It is an error if two names of the file
// map to one.
func mambaNames(names []string) (map[string]string, error) {
	out := make(map[string]string, len(names))
	for _, inFile := range names {
		name := inFile
		if rest, ok := strings.CutPrefix(name, "backbone.embeddings."); ok {
			name = "backbone.embedding." + rest
		}
		if err := addName(out, name, inFile); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mambaConfig is the config.json of Mamba or Mamba-2 in the form of the official release (MambaConfig of mamba_ssm, as
// written by save_pretrained).
type mambaConfig struct {
	DModel    int                        `json:"d_model"`
	NLayer    int                        `json:"n_layer"`
	VocabSize int                        `json:"vocab_size"`
	PadVocab  *int                       `json:"pad_vocab_size_multiple"`
	RMSNorm   *bool                      `json:"rms_norm"`
	SSM       map[string]json.RawMessage `json:"ssm_cfg"`
	AttnIdx   []int                      `json:"attn_layer_idx"`
	Inner     int                        `json:"d_intermediate"`
	Tied      *bool                      `json:"tie_embeddings"`
}

// isMambaConfig reports whether a configuration has the form of Mamba's own release.
func isMambaConfig(data []byte) bool {
	var c struct {
		RMSNorm any `json:"rms_norm"`
	}
	return json.Unmarshal(data, &c) == nil && c.RMSNorm != nil
}

// officialOptions maps each field of ssm_cfg to the option of the mixer that it sets, or to "" if it affects only the
// release's implementation or the start of training.
var officialOptions = map[string]string{
	"d_state": "d_state", "d_conv": "d_conv", "expand": "expand", "dt_rank": "dt_rank", "headdim": "headdim",
	"ngroups": "ngroups", "norm_before_gate": "norm_before_gate", "rmsnorm": "rmsnorm", "bias": "bias",
	"conv_bias": "conv_bias", "dt_min": "dt_min", "dt_max": "dt_max",
	"chunk_size": "", "use_fast_path": "", "use_mem_eff_path": "",
	"dt_init": "", "dt_scale": "", "dt_init_floor": "", "A_init_range": "",
}

// parseMambaConfig parses a config.json of Mamba or Mamba-2. If a setting is not supported, the error names the field.
func parseMambaConfig(data []byte) (model.Config, error) {
	c := model.DefaultConfig()
	var o mambaConfig
	if err := json.Unmarshal(data, &o); err != nil {
		return c, err
	}
	c.Norm, c.MLP, c.EmbedDropout, c.AttnDropout = model.NormRMS, model.MLPNone, 0, 0
	c.VocabSize = o.VocabSize
	c.UntiedHead = o.Tied != nil && !*o.Tied
	switch {
	case o.Inner != 0:
		return c, fmt.Errorf("d_intermediate: found %d, want 0: blocks without an MLP", o.Inner)
	case len(o.AttnIdx) > 0:
		return c, fmt.Errorf("attn_layer_idx: found %v, want none in a Mamba model", o.AttnIdx)
	}
	if o.RMSNorm != nil && !*o.RMSNorm {
		c.Norm = model.NormLayer
	}
	c.DModel, c.NLayer = o.DModel, o.NLayer
	set(&c.PadVocab, o.PadVocab)
	kind, fields := "mamba", maps.Clone(o.SSM)
	if layer, ok := fields["layer"]; ok {
		delete(fields, "layer")
		name, ok := map[string]string{`"Mamba1"`: "mamba", `"Mamba2"`: "mamba2"}[string(layer)]
		if !ok {
			return c, fmt.Errorf(`ssm_cfg.layer: found %s, want "Mamba1" or "Mamba2"`, layer)
		}
		kind = name
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := officialOptions[field]; !ok {
			return c, fmt.Errorf("ssm_cfg.%s: found %s, want this field left out", field, fields[field])
		}
	}
	if kind == "mamba2" {
		fields = withHeadDim(fields, "headdim", c.DModel)
	}
	var err error
	c.Mixer, err = mambaEntry(kind, fields, officialOptions)
	return c, err
}

// officialHeadDim is the default number of channels of a Mamba-2 head in configurations of its release.
const officialHeadDim = 64

// withHeadDim adds the official default head size of Mamba-2, 64, unless fields has another. It removes the field if 64
// is also the mixer's default for this width.
func withHeadDim(fields map[string]json.RawMessage, key string, dModel int) map[string]json.RawMessage {
	out := map[string]json.RawMessage{key: json.RawMessage("64"), "expand": json.RawMessage("2")}
	maps.Copy(out, fields)
	expand, err := strconv.Atoi(string(out["expand"]))
	if err == nil && string(out[key]) == "64" && expand*dModel >= 4*64 {
		delete(out, key)
	}
	return out
}

// mambaEntry returns the entry of a list of layers for a mixer with the options in fields, without those that equal the
// mixer's defaults.
func mambaEntry(kind string, fields map[string]json.RawMessage, options map[string]string) (string, error) {
	defaults := mixerDefaults(kind)
	var pairs []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		option := options[field]
		if option == "" {
			continue
		}
		text := strings.Trim(string(fields[field]), `"`)
		if option == "dt_rank" && text == "auto" {
			text = "0"
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			text = strconv.FormatFloat(f, 'g', -1, 64) // in the form of the defaults
		}
		switch text {
		case defaults[option], "null":
			continue
		}
		if strings.ContainsAny(text, "(),=*{}[]") {
			return "", fmt.Errorf("%s: found %s, want a number or a truth value", field, text)
		}
		pairs = append(pairs, option+"="+text)
	}
	return entryOf(kind, pairs), nil
}

// mambaInfer infers the configuration from the tensors.
func mambaInfer(t tensors, _ int) (model.Config, error) {
	c := model.DefaultConfig()
	c.Norm, c.MLP, c.EmbedDropout, c.AttnDropout = model.NormRMS, model.MLPNone, 0, 0
	fail := func(name string, want string) (model.Config, error) {
		return c, fmt.Errorf("found shape %v of %s, want %s", t.shape(name), name, want)
	}
	table := t.embedding(mambaTable)
	if len(table) != 2 {
		name := mambaTable
		if t.shape(name) == nil {
			name = headName
		}
		return fail(name, "two axes")
	}
	c.VocabSize, c.DModel = table[0], table[1]
	if t.shape("backbone.norm_f.bias") != nil {
		c.Norm = model.NormLayer
	}
	var err error
	if c.NLayer, err = t.layers(func(int, string, []int) {}); err != nil {
		return c, err
	}
	at := func(name string) string { return "backbone.layers.0.mixer." + name }
	conv, out, aLog := t.shape(at("conv1d.weight")), t.shape(at("out_proj.weight")), t.shape(at("A_log"))
	switch {
	case len(conv) != 3:
		return fail(at("conv1d.weight"), "three axes")
	case len(out) != 2 || out[1] < 1 || c.DModel < 1 || out[1]%c.DModel != 0:
		return fail(at("out_proj.weight"), "two axes, the last a multiple of d_model")
	}
	options := map[string]any{"d_conv": conv[2], "expand": out[1] / c.DModel}
	if t.shape(at("conv1d.bias")) == nil {
		options["conv_bias"] = false
	}
	if t.shape(at("in_proj.bias")) != nil {
		options["bias"] = true
	}
	kind := "mamba"
	switch {
	case len(aLog) == 2:
		dt := t.shape(at("dt_proj.weight"))
		if len(dt) != 2 {
			return fail(at("dt_proj.weight"), "two axes")
		}
		options["d_state"], options["dt_rank"] = aLog[1], dt[1]
		if dt[1] == (c.DModel+15)/16 {
			options["dt_rank"] = 0
		}
	case len(aLog) == 1 && aLog[0] > 0:
		kind = "mamba2"
		options["headdim"], options["d_state"] = out[1]/aLog[0], (conv[0]-out[1])/2
		if t.shape(at("norm.weight")) == nil {
			options["rmsnorm"] = false
		}
	default:
		return fail(at("A_log"), "one axis or two")
	}
	fields := map[string]json.RawMessage{}
	for name, v := range options {
		fields[name] = json.RawMessage(fmt.Sprint(v))
	}
	if kind == "mamba2" {
		fields = withHeadDim(fields, "headdim", c.DModel)
	}
	c.Mixer, err = mambaEntry(kind, fields, officialOptions)
	return c, err
}
