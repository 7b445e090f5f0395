package release

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/tokenizer/gguf"
)

// ggufRoles are the named tokens of tokenizer_config.json by their names in a GGUF file, in llama.cpp's spelling.
var ggufRoles = map[string]string{
	"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "seperator": "sep_token", "padding": "pad_token",
	"cls": "cls_token", "mask": "mask_token",
}

// ggufSampling are the fields of generation_config.json by the keys of a GGUF file.
var ggufSampling = []struct {
	key, field string
	whole      bool
}{
	{"temp", "temperature", false}, {"top_k", "top_k", true}, {"top_p", "top_p", false}, {"min_p", "min_p", false},
	{"penalty_repeat", "repetition_penalty", false},
}

// ggufTokenizerConfig returns the values of a GGUF file that a folder has in tokenizer_config.json.
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

// ggufTemplates returns the chat template of a file, or a list of named ones if it has several; nil for none.
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

// ggufGeneration returns the values of a GGUF file that a folder has in generation_config.json, nil for none.
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
			said[s.field] = max(0, n) // llama.cpp's -1 is 0 elsewhere: all of them
		case isNumber && !s.whole:
			said[s.field] = float32(x) // as the file has it: fewer digits
		default:
			return nil, fmt.Errorf("%s%s: found %.60v, want a number", prefix, s.key, v)
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
