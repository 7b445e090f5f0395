package release

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/gguf"
)

// ggufUnused is the type of a token that does not occur in texts.
const ggufUnused = 5

// ggufText is the prefix of the names of the values about tokens.
const ggufText = "tokenizer.ggml."

// ggufVocabulary returns the tokenizer of a file, nil if it has none.
func ggufVocabulary(values map[string]any) (*gguf.Vocabulary, error) {
	if values[ggufText+"tokens"] == nil {
		return nil, nil
	}
	v := &gguf.Vocabulary{}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	note(ggufGet(values, "model", &v.Model))
	note(ggufGet(values, "pre", &v.Pre))
	note(ggufGet(values, "tokens", &v.Tokens))
	note(ggufGet(values, "merges", &v.Merges))
	var scores []float64
	note(ggufGet(values, "scores", &scores))
	for _, s := range scores {
		v.Scores = append(v.Scores, float32(s))
	}
	types, err := ggufInts(values, "token_type")
	note(err)
	for _, t := range types {
		v.Types = append(v.Types, int32(t))
	}
	if v.Types != nil && len(v.Types) != len(v.Tokens) {
		note(fmt.Errorf("%stoken_type: found %d, want one for each of %d tokens", ggufText, len(v.Types),
			len(v.Tokens)))
	}
	v.BOS, err = ggufID(values, "bos_token_id")
	note(err)
	v.EOS, err = ggufID(values, "eos_token_id")
	note(err)
	v.AddBOS, err = ggufSwitch(values, "add_bos_token")
	note(err)
	v.AddEOS, err = ggufSwitch(values, "add_eos_token")
	note(err)
	v.SpacePrefix, err = ggufSwitch(values, "add_space_prefix")
	note(err)
	v.SqueezeSpaces, err = ggufSwitch(values, "remove_extra_whitespaces")
	note(err)
	charsmap, err := ggufInts(values, "precompiled_charsmap")
	note(err)
	for _, b := range charsmap {
		v.Charsmap = append(v.Charsmap, byte(b))
	}
	return v, errors.Join(errs...)
}

// ggufGet sets a variable to the value in a file if there is one.
func ggufGet[T any](values map[string]any, name string, to *T) error {
	v, there := values[ggufText+name]
	if !there {
		return nil
	}
	x, ok := v.(T)
	if !ok {
		return fmt.Errorf("%s%s: found a %T, want a %T", ggufText, name, v, *to)
	}
	*to = x
	return nil
}

// ggufInts returns a list of integers, nil if there is none.
func ggufInts(values map[string]any, name string) ([]int64, error) {
	switch v := values[ggufText+name].(type) {
	case nil:
		return nil, nil
	case []int64:
		return v, nil
	case []uint64:
		out := make([]int64, len(v))
		for i, n := range v {
			out[i] = int64(min(n, math.MaxInt64))
		}
		return out, nil
	default:
		return nil, fmt.Errorf("%s%s: found a %T, want whole numbers", ggufText, name, v)
	}
}

// ggufID returns the id of a token, -1 for none.
func ggufID(values map[string]any, name string) (int32, error) {
	v := values[ggufText+name]
	if v == nil {
		return -1, nil
	}
	n, ok := wholeNumber(v)
	if !ok || n < -1 || n > math.MaxInt32 && n != math.MaxUint32 {
		return -1, fmt.Errorf("%s%s: found %s, want the id of a token", ggufText, name, brief.Value(v))
	}
	if n == math.MaxUint32 { // what llama.cpp writes for none
		n = -1
	}
	return int32(n), nil
}

// ggufSwitch returns a boolean, nil if there is none.
func ggufSwitch(values map[string]any, name string) (*bool, error) {
	if values[ggufText+name] == nil {
		return nil, nil
	}
	var b bool
	err := ggufGet(values, name, &b)
	return &b, err
}

// usedTokens returns the number of tokens without the unused ones at the end, which pad the table.
func usedTokens(v *gguf.Vocabulary) int {
	n := len(v.Tokens)
	for n > 1 && v.Types != nil && v.Types[n-1] == ggufUnused {
		n--
	}
	return n
}

// GGUFTexts holds what a GGUF file contains about texts.
type GGUFTexts struct {
	Tokenizer tokenizer.Tokenizer // nil if the file has none
	Template  string              // of a chat; "" for none
	BOS, EOS  string              // texts of the tokens that start and end a text
	EndIDs    []int32             // the tokens that end a reply

	// TokenizerConfig and Generation are the contents that tokenizer_config.json and generation_config.json would have
	// in a folder: special tokens, chat templates, sampling, the tokens that end a reply. They are nil if empty.
	TokenizerConfig, Generation []byte

	// Published is the content of PublishedFile. It is nil if the file has none or has one of another model.
	Published []byte
}

// ReadGGUFTexts reads the tokenizer, the chat template and the other information about texts of a GGUF file.
func ReadGGUFTexts(path string) (GGUFTexts, error) {
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		return GGUFTexts{}, err
	}
	defer f.Close()
	t, err := ggufTextsOf(f)
	if err != nil {
		return t, brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	return t, nil
}

func ggufTextsOf(f *checkpoint.File) (t GGUFTexts, err error) {
	if k, arch, err := ggufKeysOf(f); err == nil {
		if p, err := k.published(arch); err == nil {
			if _, ok := p.asPublished(k); ok {
				t.Published = []byte(k.values[ggufConfig].(string))
			}
		}
	}
	v, err := ggufVocabulary(f.Values())
	if v == nil || err != nil {
		return t, err
	}
	n := usedTokens(v)
	v.Tokens = v.Tokens[:n]
	if v.Types != nil {
		v.Types = v.Types[:n]
	}
	if len(v.Scores) > n {
		v.Scores = v.Scores[:n]
	}
	text := func(id *int32) string {
		if *id < 0 || int(*id) >= n { // none, or a padding token, which means none
			*id = -1
			return ""
		}
		return v.Tokens[*id]
	}
	t.BOS, t.EOS = text(&v.BOS), text(&v.EOS)
	ends := []int32{v.EOS}
	for _, name := range []string{"eot_token_id", "eom_token_id"} {
		id, err := ggufID(f.Values(), name)
		if err != nil {
			return t, err
		}
		text(&id)
		ends = append(ends, id)
	}
	for _, id := range ends {
		if id >= 0 && !slices.Contains(t.EndIDs, id) {
			t.EndIDs = append(t.EndIDs, id)
		}
	}
	t.Template, _ = f.Values()["tokenizer.chat_template"].(string)
	if t.TokenizerConfig, err = ggufTokenizerConfig(f, v); err != nil {
		return t, err
	}
	if t.Generation, err = ggufGeneration(f, t.EndIDs); err != nil {
		return t, err
	}
	t.Tokenizer, err = gguf.FromVocabulary(*v)
	return t, err
}
