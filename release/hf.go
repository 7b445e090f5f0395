package release

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
)

// hfFamily describes how to read a family that is published in the layout of the transformers library. Its
// configuration has a model_type and determines the tensors. Each family is a file of this package.
type hfFamily struct {
	tied bool // the head shares the embedding's weights by default
	// options returns a new struct with the fields that the family reads, set to the defaults of the Python class.
	options func() hfOptions
}

// hfOptions holds the fields of a configuration.
type hfOptions interface {
	// model returns the shape of the model that the fields describe, and the names of its tensors. Errors are recorded
	// in common.
	model(common *hfCommon) published
}

// published describes a published model.
type published struct {
	config model.Config
	names  hfNames   // without an embedding if the names in the file identify the family
	forms  ggufForms // forms of the tensors of a GGUF file
	mtp    string    // mixer of the head that predicts one more token, if the family may have one
}

// hfFamilies maps values of model_type to families.
var hfFamilies = map[string]hfFamily{
	"bamba":            bamba,
	"falcon_h1":        falconH1,
	"falcon_mamba":     falconMamba,
	"gpt2":             gpt2,
	"granitemoehybrid": granite,
	"jamba":            jamba,
	"kimi_linear":      kimiLinear,
	"lfm2":             lfm2,
	"lfm2_moe":         lfm2MoE,
	"llama":            llama,
	"mamba":            hfMamba,
	"mamba2":           hfMamba2,
	"mistral":          mistral,
	"nemotron_h":       nemotronH,
	"qwen3_5":          qwen35,
	"qwen3_5_moe":      qwen35MoE,
	"qwen3_next":       qwen3Next,
	"olmo_hybrid":      olmoHybrid,
	"qwen2":            qwen2,
	"qwen3":            qwen3,
	"recurrent_gemma":  recurrentGemma,
	"rwkv7":            rwkv7,
	"xlstm":            xLSTM,
	"zamba2":           zamba2,
}

// hfCommon holds the fields with the same meaning in all families.
type hfCommon struct {
	Type      string `json:"model_type"`
	Hidden    int    `json:"hidden_size"`
	Layers    int    `json:"num_hidden_layers"`
	VocabSize int    `json:"vocab_size"`
	Tied      *bool  `json:"tie_word_embeddings"`
	TiedToo   *bool  `json:"tie_embedding"` // LFM2's name for it
	Positions int    `json:"max_position_embeddings"`

	// Text holds the fields of the language model of a model that also accepts pictures. It is nil if they are not
	// separate.
	Text *json.RawMessage `json:"text_config"`

	hfRotary

	err error // the first error
}

// failf records an error unless there is one already.
func (c *hfCommon) failf(format string, args ...any) published {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
	return published{}
}

// hfType returns the model_type of a configuration of the transformers library, or "" for other configurations.
func hfType(data []byte) string {
	var c struct {
		Type any `json:"model_type"`
	}
	if json.Unmarshal(data, &c) != nil || c.Type == nil {
		return "" // the parser of another family reports the error
	}
	return fmt.Sprint(c.Type)
}

// hfFamilyOf returns the family of a model_type, which may also be that of a language model within a larger model.
func hfFamilyOf(name string) (f hfFamily, ok bool) {
	f, ok = hfFamilies[strings.TrimSuffix(name, textSuffix)]
	return f, ok
}

// textSuffix is the suffix of the model_type of a language model that is part of a model for text and pictures.
const textSuffix = "_text"

// isHF reports whether a model_type is supported.
func isHF(name string) bool {
	_, ok := hfFamilyOf(name)
	return ok
}

// readHF parses a configuration of the transformers library.
func readHF(data []byte) (published, error) {
	family, _ := hfFamilyOf(hfType(data))
	var common hfCommon
	options := family.options()
	for _, dst := range []any{&common, options} {
		if err := json.Unmarshal(data, dst); err != nil {
			return published{}, err
		}
	}
	if common.Text != nil {
		for _, dst := range []any{&common, options} {
			if err := json.Unmarshal(*common.Text, dst); err != nil {
				return published{}, fmt.Errorf("text_config: %w", err)
			}
		}
	}
	m := options.model(&common)
	if common.err != nil {
		return published{}, common.err
	}
	c := &m.config
	tied := family.tied
	set(&tied, common.TiedToo)
	set(&tied, common.Tied)
	c.DModel, c.VocabSize, c.PadVocab, c.UntiedHead = common.Hidden, common.VocabSize, 1, !tied
	c.EmbedDropout, c.AttnDropout = 0, 0
	return m, nil
}

// newHFConfig returns the configuration with which all families start.
func newHFConfig(layers []string, mlp string, eps float64) model.Config {
	c := model.DefaultConfig()
	c.Layers, c.MLP, c.Norm, c.LayerNormEpsilon = joinLayers(layers), mlp, model.NormRMS, eps
	return c
}

// joinLayers returns the entries as a list of layers, with equal neighbors joined.
func joinLayers(entries []string) string {
	var out []string
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n] == entries[0] {
			n++
		}
		part := entries[0]
		if n > 1 {
			part = fmt.Sprintf("%s*%d", part, n)
		}
		out, entries = append(out, part), entries[n:]
	}
	return strings.Join(out, ",")
}

// open builds the model for a file of weights and finds its tensors. If the file has no weights for an untied head, the
// head shares the embedding's weights.
func (p published) open(f *checkpoint.File) (*model.Model, model.Weights, error) {
	named := len(p.names.embedding) > 0
	if _, ok := f.Tensor(cmp.Or(p.names.head, headName)); named && !ok {
		p.config.UntiedHead = false
	}
	m, err := model.NewFor(p.config, f)
	if err != nil {
		return nil, model.Weights{}, err
	}
	if named {
		p.names = p.names.in(f)
		if f, err = p.names.formed(f); err != nil {
			return nil, model.Weights{}, err
		}
		return m, p.names.weights(m, f), nil
	}
	w, err := Weights(f)
	return m, w, err
}

// Families returns the supported values of model_type, in order.
func Families() []string { return slices.Sorted(maps.Keys(hfFamilies)) }

// unknownType returns the error for an unsupported family.
func unknownType(name string, data []byte) error {
	known := Families()
	if nearest := nearestType(data); nearest != "" {
		return fmt.Errorf("model_type: found %q, which is not read; want one of %s (the nearest by the fields of this "+
			"configuration is %s), or none: a config.json of H3's, Mamba's or HyenaDNA's own release", name,
			strings.Join(known, ", "), nearest)
	}
	return fmt.Errorf("model_type: found %q, which is not read; want one of %s%s, or none: a config.json of H3's, "+
		"Mamba's or HyenaDNA's own release", name, strings.Join(known, ", "), config.DidYouMean(name, known))
}

// nearestType returns the family that reads the most fields of a configuration, "" if none reads any specific field.
func nearestType(data []byte) string {
	var found map[string]json.RawMessage
	if json.Unmarshal(data, &found) != nil {
		return ""
	}
	best, most := "", 0
	for _, name := range Families() {
		n := 0
		for field := range fieldsOf(reflect.TypeOf(hfFamilies[name].options()).Elem()) {
			if _, ok := found[field]; ok {
				n++
			}
		}
		if n > most {
			best, most = name, n
		}
	}
	return best
}

// fieldsOf returns the names of the fields of a struct in JSON.
func fieldsOf(t reflect.Type) map[string]bool {
	names := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			maps.Copy(names, fieldsOf(f.Type))
			continue
		}
		names[f.Tag.Get("json")] = true
	}
	return names
}
