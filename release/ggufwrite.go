package release

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/gguf"
)

// GGUFOptions say how WriteGGUF writes a model.
type GGUFOptions struct {
	Type      checkpoint.DType    // of the matrices: F32, F16 or Q8_0; with Q8_0, rows not divisible by 32 are F16
	Name      string              // general.name
	Tokenizer tokenizer.Tokenizer // nil for none, which llama.cpp does not load
	Template  string              // of chats; "" for none
	BOS, EOS  string              // tokens that start and end a text; "" for those of Tokenizer
	EndIDs    []int32             // tokens that end a reply; a file has at most maxGGUFEnds
	Sampling  []byte              // content of generation_config.json; nil for none
}

// ggufFileTypes are the values of general.file_type.
var ggufFileTypes = map[checkpoint.DType]uint32{checkpoint.F32: 0, checkpoint.F16: 1, checkpoint.Q8_0: 7}

// WriteGGUF writes a Mamba or Mamba-2 model as a GGUF file that llama.cpp runs. If llama.cpp cannot run the model, the
// error says why. The same model yields the same bytes.
func WriteGGUF(w io.Writer, m *model.Model, o GGUFOptions) error {
	fileType, ok := ggufFileTypes[o.Type]
	if !ok {
		return fmt.Errorf("type: found %s, want F32, F16 or Q8_0", o.Type)
	}
	if m.Adapter() != nil {
		return errors.New("found a model with an adapter, want one without: hippo merge makes it")
	}
	s, err := ggufShapeOf(m)
	if err != nil {
		return fmt.Errorf("llama.cpp cannot run this model: %w", err)
	}
	values := []checkpoint.GGUFValue{
		{Key: "general.architecture", Value: s.arch}, {Key: "general.type", Value: "model"},
		{Key: "general.name", Value: o.Name}, {Key: "general.file_type", Value: fileType},
		{Key: "general.quantization_version", Value: uint32(2)},
	}
	values = append(values, s.values...)
	if o.Tokenizer != nil {
		texts, err := ggufTextValues(o, m.Config.PaddedVocab())
		if err != nil {
			return err
		}
		values = append(values, texts...)
	}
	tensors, err := s.tensors(m, o.Type)
	if err != nil {
		return err
	}
	return checkpoint.WriteGGUF(w, values, tensors)
}

// ggufShape is the shape of a model in a GGUF file.
type ggufShape struct {
	arch   string
	groups int
	values []checkpoint.GGUFValue
	names  hfNames
}

// ggufShapeOf returns the architecture of a model. llama.cpp's mixers have no options: any difference is an error.
func ggufShapeOf(m *model.Model) (s ggufShape, err error) {
	c := &m.Config
	plan, err := c.Plan()
	if err != nil {
		return s, err
	}
	if err := ggufMixers(m); err != nil {
		return s, err
	}
	scaled := func(x float64) bool { return x != 0 && x != 1 }
	switch {
	case slices.ContainsFunc(plan, func(entry string) bool { return entry != plan[0] }):
		return s, errors.New("found layers of several kinds, want mamba or mamba2 alone")
	case m.Blocks[0].MLP != nil:
		return s, errors.New("mlp: found one in each layer, want none")
	case c.Norm != model.NormRMS:
		return s, fmt.Errorf("norm: found %s, want %s", c.Norm, model.NormRMS)
	case c.MaxPositions != 0:
		return s, errors.New("max_position_embeddings: found learned positions, want none")
	case scaled(c.EmbedScale), scaled(c.LogitScale), c.LogitCap != 0:
		return s, errors.New("found a multiplier or a cap of embedding or logits, want none")
	}
	kind, o, err := mixerOptions(plan[0])
	if err != nil {
		return s, err
	}
	s.arch, s.groups = kind, 1
	s.names = ggufNames([]rename{to("norm.", "attn_norm.")}, map[string][]rename{kind: ggufMambaNames})
	inner := o.size("d_inner")
	if inner == 0 {
		inner = o.size("expand") * c.DModel
	}
	if inner != 2*c.DModel {
		return s, fmt.Errorf("found %d inner channels, want %d, twice d_model", inner, 2*c.DModel)
	}
	eps, hasNorm := o.number("norm_eps"), kind == "mamba2"
	rank := o.size("dt_rank")
	if kind == "mamba2" {
		headDim := o.size("headdim")
		if headDim == 0 {
			headDim = min(64, inner/4)
		}
		s.groups, rank = o.size("ngroups"), inner/headDim
	} else {
		if rank == 0 {
			rank = (c.DModel + 15) / 16
		}
		hasNorm = o.text("bcdt_norm") == "rms"
		if hasNorm {
			o.take("bcdt_norm")
		}
	}
	if hasNorm && eps != c.LayerNormEpsilon {
		return s, fmt.Errorf("norm_eps: found %g, want %g, that of the other norms", eps, c.LayerNormEpsilon)
	}
	if s.groups == 1 {
		o.take("grouped_norm")
	}
	conv, state := o.size("d_conv"), o.size("d_state")
	o.take("dt_min", "dt_max", "conv_bias") // options for the start of training; a missing bias is one of zeros
	if err := o.rest(); err != nil {
		return s, err
	}
	add := func(key string, v any) {
		s.values = append(s.values, checkpoint.GGUFValue{Key: kind + "." + key, Value: v})
	}
	add("context_length", uint32(1<<20)) // as in llama.cpp's conversion: no maximum length
	add("embedding_length", uint32(c.DModel))
	add("feed_forward_length", uint32(0))
	add("attention.head_count", uint32(0))
	add("block_count", uint32(len(plan)))
	add("ssm.conv_kernel", uint32(conv))
	add("ssm.inner_size", uint32(inner))
	add("ssm.state_size", uint32(state))
	add("ssm.time_step_rank", uint32(rank))
	add("attention.layer_norm_rms_epsilon", float32(c.LayerNormEpsilon))
	if kind == "mamba2" {
		add("ssm.group_count", uint32(s.groups))
	} else {
		add("ssm.dt_b_c_rms", hasNorm)
	}
	return s, nil
}

// entryOptions are the remaining options of a mixer, and their defaults.
type entryOptions struct{ values, defaults map[string]string }

// mixerOptions returns the name and the options of an entry of a list of layers.
func mixerOptions(entry string) (kind string, o entryOptions, err error) {
	kind, given, err := model.ParseEntry(entry)
	o = entryOptions{mixerDefaults(kind), mixerDefaults(kind)}
	maps.Copy(o.values, given)
	return kind, o, err
}

func (o entryOptions) text(key string) string { return o.values[key] }

func (o entryOptions) take(keys ...string) {
	for _, key := range keys {
		delete(o.values, key)
	}
}

// number returns an option, 0 if there is none. The mixer has checked it.
func (o entryOptions) number(key string) float64 {
	x, err := strconv.ParseFloat(o.values[key], 64)
	if err != nil {
		return 0
	}
	o.take(key)
	return x
}

func (o entryOptions) size(key string) int { return int(o.number(key)) }

// rest returns an error if remaining options differ from their defaults.
func (o entryOptions) rest() error {
	var errs []error
	for _, key := range sortedKeys(o.values) {
		if v := o.values[key]; v != o.defaults[key] {
			errs = append(errs, fmt.Errorf("%s: found %s, want %s", key, v, o.defaults[key]))
		}
	}
	return errors.Join(errs...)
}

// tensors are those of the file.
func (s ggufShape) tensors(m *model.Model, to checkpoint.DType) (out []checkpoint.Tensor, err error) {
	arch := ggufArchs[s.arch]
	add := func(name string, shape []int, values []float32) {
		form, kind := arch.form(name), to
		matrix := form == (ggufForm{}) && len(shape) == 2
		switch {
		case !matrix:
			kind = checkpoint.F32
		case to == checkpoint.Q8_0 && shape[1]%32 != 0:
			kind = checkpoint.F16
		}
		y, failed := checkpoint.ConvertTensor(name, kind, form.stored(shape, values, s.groups), values)
		out, err = append(out, y), errors.Join(err, failed)
	}
	has := map[string]bool{}
	for _, x := range m.Tensors() {
		values, failed := x.Float32()
		err = errors.Join(err, failed)
		name := s.names.sources(m, x.Name)[0].Name
		has[name] = true
		add(name, x.Shape, values)
	}
	for _, x := range out { // llama.cpp requires a bias of the filter, if only of zeros
		name, isFilter := strings.CutSuffix(x.Name, ".ssm_conv1d.weight")
		if name += ".ssm_conv1d.bias"; isFilter && !has[name] {
			add(name, x.Shape[:1], make([]float32, x.Shape[0]))
		}
	}
	return out, err
}

// ggufTextValues returns the values about tokens, for a table of the given number of rows. Rows without a token become
// unused tokens.
func ggufTextValues(o GGUFOptions, rows int) ([]checkpoint.GGUFValue, error) {
	v, err := gguf.VocabularyOf(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	o.name(&v.BOS, o.BOS)
	o.name(&v.EOS, o.EOS)
	n := len(v.Tokens)
	if n > rows {
		return nil, fmt.Errorf("tokenizer: found %d tokens, want at most the %d rows of the embedding", n, rows)
	}
	for id := n; id < rows; id++ {
		v.Tokens, v.Types = append(v.Tokens, gguf.UnusedToken(id)), append(v.Types, ggufUnused)
		if v.Scores != nil {
			v.Scores = append(v.Scores, -10000) // as llama.cpp's conversion
		}
	}
	if n < rows { // llama.cpp assumes id 11 if the file names none: a padding id, which no text has, is safer
		if v.EOS < 0 {
			v.EOS = int32(n)
		}
		if v.BOS < 0 {
			v.BOS = int32(n)
		}
	}
	var values []checkpoint.GGUFValue
	add := func(key string, v any) {
		values = append(values, checkpoint.GGUFValue{Key: ggufText + key, Value: v})
	}
	add("model", v.Model)
	if v.Pre != "" {
		add("pre", v.Pre)
	}
	add("tokens", v.Tokens)
	add("token_type", v.Types)
	if v.Scores != nil {
		add("scores", v.Scores)
	} else {
		add("merges", append([]string{}, v.Merges...))
	}
	for i, id := range append([]int32{v.BOS, v.EOS}, o.ends(&v)...) {
		if id >= 0 {
			add(ggufTokenKeys[i], uint32(id))
		}
	}
	for _, flag := range []struct {
		key string
		v   *bool
	}{{"add_bos_token", v.AddBOS}, {"add_eos_token", v.AddEOS}, {"add_space_prefix", v.SpacePrefix},
		{"remove_extra_whitespaces", v.SqueezeSpaces}} {
		if flag.v != nil {
			add(flag.key, *flag.v)
		}
	}
	if len(v.Charsmap) > 0 {
		add("precompiled_charsmap", v.Charsmap)
	}
	if o.Template != "" {
		values = append(values, checkpoint.GGUFValue{Key: "tokenizer.chat_template", Value: o.Template})
	}
	sampling, err := ggufSamplingValues(o.Sampling)
	return append(values, sampling...), err
}
