package tokenizer

import (
	"encoding/json"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/pretokenize"
	"slices"
	"testing"
)

// This file makes small tokenizer.json files in the forms of published models.

type object = map[string]any

// vocabulary numbers tokens, written in byte characters, in order.
func vocabulary(tokens ...string) object {
	v := object{}
	for i, token := range tokens {
		v[token] = i
	}
	return v
}

// byteTokens returns the characters of the bytes. If only is "utf-8", it omits bytes that never occur in UTF-8.
func byteTokens(only string) []string {
	var tokens []string
	for _, b := range pretokenize.ByteOrder {
		if only != "utf-8" || b < 0xc0 || 0xc1 < b && b < 0xf5 {
			tokens = append(tokens, string(pretokenize.ByteChar[b]))
		}
	}
	return tokens
}

func addedJSON(id int, content string) object {
	return object{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
		"normalized": false, "special": true}
}

func splitStep(pattern string) object {
	return object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false}
}

func byteLevel(useRegex bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": useRegex}
}

// neoxStyle returns a small file in the form of GPT-NeoX's, which Mamba's models use. Two special tokens come first,
// bytes that do not occur in UTF-8 are missing, runs of spaces are added tokens, and the normalizer is NFC.
func neoxStyle() object {
	tokens := slices.Concat([]string{EndOfTextToken, "<|padding|>"}, byteTokens("utf-8"), []string{"ab", "Ġab", "ĠĠ"})
	n := len(tokens)
	return object{
		"version": "1.0", "truncation": nil, "padding": nil,
		"added_tokens": []any{addedJSON(0, EndOfTextToken), addedJSON(1, "<|padding|>"), addedJSON(n, "    "),
			addedJSON(n+1, "   "), addedJSON(n+2, "  ")},
		"normalizer": object{"type": "NFC"},
		"pre_tokenizer": object{
			"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
		},
		"post_processor": object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
		"decoder":        object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
		"model": object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil,
			"fuse_unk":           false, "vocab": vocabulary(tokens...), "merges": []any{"Ġ Ġ", "a b", "Ġ ab"},
		},
	}
}

// llama3Style returns a file with a Split step, merges as pairs, and words that are tokens without a merge.
func llama3Style() object {
	tokens := slices.Concat(byteTokens(""), []string{"he", "ll", "hell", "hello", "Ġworld", "123"})
	return object{
		"added_tokens": []any{addedJSON(262, "<|begin|>"), addedJSON(263, "<|end_of_text|>"), addedJSON(264,
			"<|end|>")},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []any{
			splitStep(
				`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
					`\s*[\r\n]+|\s+(?!\S)|\s+`),
			byteLevel(false),
		}},
		"decoder": byteLevel(true),
		"model": object{
			"type": "BPE", "byte_fallback": false, "ignore_merges": true, "vocab": vocabulary(tokens...),
			"merges": []any{[]any{"h", "e"}, []any{"l", "l"}, []any{"he", "ll"}, []any{"hell", "o"}},
		},
	}
}

// deepseekStyle returns a file with three Split steps.
func deepseekStyle(t testing.TB) object {
	var steps []any
	for _, pattern := range knownSplits(t)["deepseek"].Patterns {
		steps = append(steps, splitStep(pattern))
	}
	return object{
		"added_tokens": []any{addedJSON(257, "<｜begin▁of▁sentence｜>")},
		"normalizer":   object{"type": "Sequence", "normalizers": []any{}},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": append(steps,
			byteLevel(false))},
		"decoder": object{"type": "Sequence", "decoders": []any{byteLevel(false)}},
		"model": object{"type": "BPE", "vocab": vocabulary(append(byteTokens(""), "ab", "<｜begin▁of▁sentence｜>")...),
			"merges": []any{"a b"}},
	}
}

// prefixStyle returns a file with add_prefix_space and a model without a type.
func prefixStyle() object {
	step := byteLevel(true)
	step["add_prefix_space"] = true
	return object{
		"added_tokens":  []any{addedJSON(257, EndOfTextToken)},
		"pre_tokenizer": step,
		"model":         object{"vocab": vocabulary(append(byteTokens(""), "Ġa")...), "merges": []any{"Ġ a"}},
	}
}

// fallback returns a small file in the form of Llama 2's: BPE over characters, spaces as ▁, bytes for unknown
// characters.
func fallback() object {
	tokens := []string{"<unk>", "<s>", "</s>"}
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
	}
	return object{
		"added_tokens": []any{addedJSON(0, "<unk>"), addedJSON(1, "<s>"), addedJSON(2, "</s>")},
		"normalizer": object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": "▁"},
			object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}},
		"decoder": object{"type": "Sequence", "decoders": []any{
			object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "},
			object{"type": "ByteFallback"}, object{"type": "Fuse"},
			object{"type": "Strip", "content": " ", "start": 1, "stop": 0}}},
		"model": object{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
			"vocab":  vocabulary(append(tokens, "▁", "a", "b", "ab", "▁ab", "▁▁")...),
			"merges": []any{"a b", "▁ ab", "▁ ▁"}},
	}
}

func toJSON(t testing.TB, file any) []byte {
	t.Helper()
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parseTest(t testing.TB, file object) Tokenizer {
	t.Helper()
	tok, err := parseFile(toJSON(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
