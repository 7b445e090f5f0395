// Package gguf converts the values tokenizer.ggml.* of a GGUF file to a tokenizer and back. The meaning of the keys is
// that in llama.cpp (src/llama-vocab.cpp).
package gguf

import (
	"encoding/json"
	"errors"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/hf"
	"github.com/hippo-ssm/hippo/tokenizer/regex"
	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"github.com/hippo-ssm/hippo/tokenizer/trie"
	"slices"
	"strings"
)

// Vocabulary holds the values of a GGUF file about its tokenizer. The comments name the keys after tokenizer.ggml.
type Vocabulary struct {
	Model  string    // model: "gpt2" (byte-level BPE), "llama" (SentencePiece's BPE), "t5" (its unigram) or "rwkv"
	Pre    string    // pre: how byte-level BPE splits a text into words
	Tokens []string  // tokens
	Types  []int32   // token_type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; nil: all normal
	Scores []float32 // scores: for "llama" and "t5"
	Merges []string  // merges: for "gpt2", two tokens separated by a space

	BOS, EOS       int32 // bos_token_id, eos_token_id; -1 for none
	AddBOS, AddEOS *bool // add_bos_token, add_eos_token; nil if the file has none

	SpacePrefix   *bool  // add_space_prefix
	SqueezeSpaces *bool  // remove_extra_whitespaces
	Charsmap      []byte // precompiled_charsmap
}

// llama3Words, qwen2Words, tekkenWords and gpt4oWords are the patterns of published tokenizers, as their authors wrote
// them.
const (
	endings     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	spaceWords  = `\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Words = endings + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaceWords
	qwen2Words  = endings + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaceWords
	qwen35Words = endings + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + spaceWords
	upperLower  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperFirst  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	tekkenWords = upperLower + `|` + upperFirst + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + spaceWords
	gpt4oWords  = upperLower + endings + `?|` + upperFirst + endings + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` +
		spaceWords
)

// ggufPre describes a variant of byte-level BPE.
type ggufPre struct {
	names    string   // separated by spaces
	patterns []string // each splits the pieces that the previous ones left
	whole    bool     // a word that is a token becomes that token, regardless of the merges
	bos      bool     // starts with bos_token_id unless the file specifies otherwise
}

// ggufPres lists the values of tokenizer.ggml.pre, which llama.cpp defines (src/llama-vocab.cpp).
var ggufPres = []ggufPre{
	{"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert mpt olmo jais trillion " +
		"granite-docling exaone4", []string{regex.GPT2Pattern}, false, false},
	{"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", []string{llama3Words}, true, true},
	{"dbrx smaug-bpe glm4 chatglm-bpe", []string{llama3Words}, false, false},
	{"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", []string{qwen2Words}, false,
		false},
	{"qwen35", []string{qwen35Words}, false, false},
	{"tekken", []string{tekkenWords}, true, true},
	{"gpt-4o llama4 kanana2 talkie minimax-m2", []string{gpt4oWords}, false, false},
	{"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", []string{`\p{N}`, regex.GPT2Pattern},
		false,
		false},
	{"falcon", []string{"[\\p{P}$+<=>^~|`]+", regex.GPT2Pattern, `[0-9][0-9][0-9]`}, false, false},
	{"default", []string{`[\p{P}$+<=>^~|]+`, regex.GPT2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`}, false, false},
	{"deepseek-coder", []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`}, false, false},
	{"deepseek-v3 hunyuan-dense joyai-llm hy_v4", []string{`\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`,
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " +
			`?[\p{P}\p{S}]+[\r\n]*|` + spaceWords}, false, false},
}

// FromVocabulary returns the tokenizer of a GGUF file. Missing values have llama.cpp's defaults. The token that ends a
// document is found by its name or, if no name fits, is eos_token_id.
func FromVocabulary(v Vocabulary) (token.Tokenizer, error) {
	t, err := v.tokenizer()
	if err == nil && v.EOS >= 0 {
		if _, ok := t.EndOfText(); !ok {
			err = token.SetEnd(t, &v.EOS)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: GGUF: %w", err)
	}
	return t, nil
}

func (v *Vocabulary) tokenizer() (token.Tokenizer, error) {
	if len(v.Tokens) == 0 || len(v.Tokens) > bpe.MaxIDs {
		return nil, fmt.Errorf("tokens: found %d, want 1 to %d", len(v.Tokens), bpe.MaxIDs)
	}
	if v.Types != nil && len(v.Types) != len(v.Tokens) {
		return nil, fmt.Errorf("token_type: found %d, want one for each of %d tokens", len(v.Types), len(v.Tokens))
	}
	switch v.Model {
	case "gpt2":
		return v.byteLevel()
	case "llama", "t5":
		return v.sentencePiece()
	case trie.Kind:
		return v.longest()
	}
	return nil, fmt.Errorf(`model: found %.60q, want "gpt2", "llama", "t5" or "rwkv"`, v.Model)
}

// kind returns the type of a token.
func (v *Vocabulary) kind(id int) sentencepiece.Kind {
	if v.Types == nil {
		return sentencepiece.Normal
	}
	return sentencepiece.Kind(v.Types[id])
}

// Affixes returns the ids to put before and after a text. bos and eos are the defaults if the file does not specify
// them.
func (v *Vocabulary) Affixes(bos, eos bool) (before, after []int32, err error) {
	take := func(name string, id int32, says *bool, otherwise bool) []int32 {
		if says != nil && !*says || says == nil && (!otherwise || id < 0) {
			return nil
		}
		if id < 0 || int(id) >= len(v.Tokens) {
			err = fmt.Errorf("%s: found %d, want 0 to %d", name, id, len(v.Tokens)-1)
		}
		return []int32{id}
	}
	before = take("bos_token_id", v.BOS, v.AddBOS, bos)
	after = take("eos_token_id", v.EOS, v.AddEOS, eos)
	return before, after, err
}

// longest returns a tokenizer that takes the longest token. Tokens are written like bytes in Python. Only normal tokens
// belong to its vocabulary.
func (v *Vocabulary) longest() (token.Tokenizer, error) {
	tokens := make([]string, len(v.Tokens))
	most := 0
	for id, text := range v.Tokens {
		if v.kind(id) != sentencepiece.Normal {
			continue
		}
		var err error
		if tokens[id], err = trie.Unescape(text, true); err != nil {
			return nil, fmt.Errorf("tokens: id %d: %.60q: %w", id, text, err)
		}
		most = id + 1
	}
	if most == 0 {
		return nil, fmt.Errorf("token_type: found no normal one of %d tokens", len(v.Tokens))
	}
	return trie.New(tokens[:most]), nil
}

// sentencePiece returns a tokenizer of SentencePiece's BPE or unigram.
func (v *Vocabulary) sentencePiece() (token.Tokenizer, error) {
	if len(v.Scores) != len(v.Tokens) {
		return nil, fmt.Errorf("scores: found %d, want one for each of %d tokens", len(v.Scores), len(v.Tokens))
	}
	unigram := v.Model == "t5"
	m := &sentencepiece.Model{Unigram: unigram, Charsmap: v.Charsmap, Escape: true,
		DummyPrefix: v.SpacePrefix == nil || *v.SpacePrefix, Squeeze: v.SqueezeSpaces != nil && *v.SqueezeSpaces}
	for id, text := range v.Tokens {
		kind := v.kind(id)
		if text == "" { // no text gives this token
			text, kind = fmt.Sprintf("[EMPTY_%d]", id), sentencepiece.Unused
		}
		if kind == 0 { // undefined
			kind = sentencepiece.Unused
		}
		m.Fallback = m.Fallback || kind == sentencepiece.Byte
		m.Pieces = append(m.Pieces, sentencepiece.Piece{Text: text, Score: v.Scores[id], Kind: kind})
	}
	before, after, err := v.Affixes(!unigram, unigram)
	if err != nil {
		return nil, err
	}
	return m.Tokenizer(before, after)
}

// byteLevel returns a byte-level BPE tokenizer. It converts the values to a tokenizer.json first, the form in which the
// tokenizer is saved.
func (v *Vocabulary) byteLevel() (token.Tokenizer, error) {
	at := slices.IndexFunc(ggufPres, func(p ggufPre) bool {
		return slices.Contains(strings.Fields(p.names), v.Pre)
	})
	if v.Pre == "" {
		at = slices.IndexFunc(ggufPres, func(p ggufPre) bool { return p.names == "default" })
	}
	if at < 0 {
		var names []string
		for _, p := range ggufPres {
			names = append(names, p.names)
		}
		return nil, fmt.Errorf("pre: found %.60q, want one of %s", v.Pre, strings.Join(names, " "))
	}
	pre := ggufPres[at]
	before, after, err := v.Affixes(pre.bos, false)
	if err != nil {
		return nil, err
	}
	file := &hf.File{Model: hf.Model{IgnoreMerges: pre.whole, Vocab: hf.Vocab{IDs: map[string]int32{}}}}
	for id, text := range v.Tokens {
		if text == "" {
			continue
		}
		if old, ok := file.Model.Vocab.IDs[text]; ok {
			return nil, fmt.Errorf("tokens: ids %d and %d are both %.60q", old, id, text)
		}
		file.Model.Vocab.IDs[text] = int32(id)
		if kind := v.kind(id); kind == sentencepiece.Control || kind == sentencepiece.User ||
			kind == sentencepiece.Unknown {
			file.AddedTokens = append(file.AddedTokens, added.Token{ID: int32(id), Content: text,
				Special: kind != sentencepiece.User})
		}
	}
	for _, text := range v.Merges {
		merge, err := hf.ParseMerge(text)
		if err != nil {
			return nil, fmt.Errorf("merges: %w", err)
		}
		file.Model.Merges = append(file.Model.Merges, merge)
	}
	parts, err := pre.json(before, after, v.Tokens)
	if err != nil {
		return nil, err
	}
	file.Settings = parts
	return hf.Parse(file, nil)
}

// json returns the settings of a tokenizer.json.
func (p *ggufPre) json(before, after []int32, tokens []string) (s bpe.Settings, err error) {
	type object = map[string]any
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	var steps []any
	for _, pattern := range p.patterns {
		steps = append(steps, object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated",
			"invert": false})
	}
	special, single := object{}, []any{}
	add := func(ids []int32) {
		for _, id := range ids {
			special[tokens[id]] = object{"id": tokens[id], "ids": []int32{id}, "tokens": []string{tokens[id]}}
			single = append(single, object{"SpecialToken": object{"id": tokens[id], "type_id": 0}})
		}
	}
	add(before)
	single = append(single, object{"Sequence": object{"id": "A", "type_id": 0}})
	add(after)
	var errs [3]error
	s.PreTokenizer, errs[0] = json.Marshal(object{"type": "Sequence", "pretokenizers": append(steps, byteLevel)})
	s.Decoder, errs[1] = json.Marshal(byteLevel)
	s.PostProcessor = json.RawMessage("null")
	if len(single) > 1 {
		pair := append(slices.Clone(single), object{"Sequence": object{"id": "B", "type_id": 1}})
		s.PostProcessor, errs[2] = json.Marshal(object{"type": "TemplateProcessing", "single": single, "pair": pair,
			"special_tokens": special})
	}
	return s, errors.Join(errs[:]...)
}
