package release

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/tokenizer/gguf"
)

// ggufRoles maps the names of special tokens in a GGUF file, in llama.cpp's spelling, to their names in
// tokenizer_config.json.
var ggufRoles = map[string]string{
	"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "seperator": "sep_token", "padding": "pad_token",
	"cls": "cls_token", "mask": "mask_token",
}

// ggufSampling maps keys of a GGUF file to fields of generation_config.json.
var ggufSampling = []struct {
	key, field string
	whole      bool
}{
	{"temp", "temperature", false}, {"top_k", "top_k", true}, {"top_p", "top_p", false}, {"min_p", "min_p", false},
	{"penalty_repeat", "repetition_penalty", false},
}

// ggufTokenizerConfig returns the content of a tokenizer_config.json with the values of a GGUF file.
func ggufTokenizerConfig(f *checkpoint.File, v *gguf.Vocabulary) ([]byte, error) {
	values, said := f.Values(), map[string]any{}
	var more []string
	for _, key := range sortedKeys(values) {
		name, isText := strings.CutPrefix(key, ggufText)
		name, isToken := strings.CutSuffix(name, "_token_id")
		if !isText || !isToken {
			continue
		}
		id, err := ggufID(values, name+"_token_id")
		if err != nil {
			return nil, err
		}
		if id < 0 || int(id) >= len(v.Tokens) {
			continue
		}
		if role := ggufRoles[name]; role != "" {
			said[role] = v.Tokens[id]
		} else if text := v.Tokens[id]; !slices.Contains(more, text) {
			more = append(more, text)
		}
	}
	if len(more) > 0 {
		said["additional_special_tokens"] = more
	}
	for name, flag := range map[string]*bool{"add_bos_token": v.AddBOS, "add_eos_token": v.AddEOS} {
		if flag != nil {
			said[name] = *flag
		}
	}
	source, err := ggufTemplates(values)
	if source != nil {
		said["chat_template"] = source
	}
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(said, "", "  ")
}

// ggufTemplates returns the chat template of a file, a list of named templates if it has several, or nil if it has
// none.
func ggufTemplates(values map[string]any) (any, error) {
	const key = "tokenizer.chat_template"
	var plain string
	switch v := values[key].(type) {
	case nil:
	case string:
		plain = v
	default:
		return nil, fmt.Errorf("%s: found a %T, want a text", key, v)
	}
	type named struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	var all []named
	names, _ := values[key+"s"].([]string)
	for _, name := range names {
		if source, ok := values[key+"."+name].(string); ok && name != "default" {
			all = append(all, named{name, source})
		}
	}
	switch {
	case len(all) > 0 && plain != "":
		return append(all, named{"default", plain}), nil
	case len(all) > 0:
		return all, nil
	case plain != "":
		return plain, nil
	}
	return nil, nil
}

// ggufGeneration returns the content of a generation_config.json with the values of a GGUF file, nil if there are none.
func ggufGeneration(f *checkpoint.File, endIDs []int32) ([]byte, error) {
	const prefix = "general.sampling."
	said := map[string]any{}
	for _, s := range ggufSampling {
		v, ok := f.Values()[prefix+s.key]
		n, isWhole := wholeNumber(v)
		x, isNumber := v.(float64)
		switch {
		case !ok:
		case isWhole:
			said[s.field] = max(0, n) // all tokens: -1 in llama.cpp, 0 elsewhere
		case isNumber && !s.whole:
			said[s.field] = float32(x) // the precision of the file, which needs fewer digits
		default:
			return nil, fmt.Errorf("%s%s: found %s, want a number", prefix, s.key, brief.Value(v))
		}
	}
	if len(said) > 0 {
		said["do_sample"] = true
	}
	switch len(endIDs) {
	case 0:
	case 1:
		said["eos_token_id"] = endIDs[0]
	default:
		said["eos_token_id"] = endIDs
	}
	if len(said) == 0 {
		return nil, nil
	}
	data, err := json.MarshalIndent(said, "", "  ")
	if err != nil { // a number that JSON cannot represent
		return nil, fmt.Errorf("%s*: %w", prefix, err)
	}
	return data, nil
}

// ggufSamplingValues is the inverse of ggufGeneration for sampling.
func ggufSamplingValues(generation []byte) (values []checkpoint.GGUFValue, err error) {
	if generation == nil {
		return nil, nil
	}
	var said map[string]any
	if err := json.Unmarshal(generation, &said); err != nil {
		return nil, fmt.Errorf("generation_config.json: %w", err)
	}
	if sample, ok := said["do_sample"].(bool); ok && !sample {
		said["temperature"] = 0.0
	}
	for _, s := range ggufSampling {
		x, ok := said[s.field].(float64)
		if !ok {
			continue
		}
		v := any(float32(x))
		if s.whole {
			v = int32(x)
		}
		values = append(values, checkpoint.GGUFValue{Key: "general.sampling." + s.key, Value: v})
	}
	return values, nil
}

// ggufTokenKeys lists the keys of the tokens that start and end a text, and of those that end a reply.
var ggufTokenKeys = []string{"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id"}

// maxGGUFEnds is the maximum number of tokens in a file that end a reply.
const maxGGUFEnds = 3

// name sets id to the token whose text is the given one. It leaves id unchanged if text is not exactly one token.
func (o *GGUFOptions) name(id *int32, text string) {
	if ids, err := o.Tokenizer.Encode(nil, []byte(text)); err == nil && len(ids) == 1 {
		*id = ids[0]
	}
}

// ends returns the tokens that end a reply besides eos_token_id: those of the options, then the tokenizer's own.
func (o *GGUFOptions) ends(v *gguf.Vocabulary) (ids []int32) {
	all := o.EndIDs
	if id, ok := o.Tokenizer.EndOfText(); ok {
		all = append(all[:len(all):len(all)], id)
	}
	for _, id := range all {
		if id != v.EOS && !slices.Contains(ids, id) && len(ids) < maxGGUFEnds-1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// ggufTextValues returns the values about tokens, for an embedding with the given number of rows. Rows without a token
// become unused tokens.
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
			v.Scores = append(v.Scores, -10000) // as in llama.cpp's conversion
		}
	}
	if n < rows { // llama.cpp assumes id 11 if the file names none: a padding id is safer, as no text has it
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
