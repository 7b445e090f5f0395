package bpe

import (
	"bytes"
	"encoding/json"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/token"
)

// Settings holds the parts of a tokenizer.json that Save writes unchanged.
type Settings struct {
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`

	Vocab []string `json:"-"` // text of each id in model.vocab; "" for ids that are not in it
}

// Save writes dir/tokenizer.json: one line for gpt2, Hugging Face's format for bpe.
func (t *Tokenizer) Save(dir string) error { return token.Save(dir, t) }

func (t *Tokenizer) Marshal() ([]byte, error) {
	if t.Type == "gpt2" {
		return token.MarshalSection(token.Section{Kind: t.Type})
	}
	return t.HuggingFace()
}

// HuggingFace returns the tokenizer in Hugging Face's format, with the layout of that library: one line for each token
// and each merge, in the order of ids and ranks.
func (t *Tokenizer) HuggingFace() ([]byte, error) {
	var w jsonWriter
	w.text("{\n  \"version\": \"1.0\",\n")
	if t.end != nil {
		w.text("  \"hippo\": ")
		w.value(token.Section{End: t.end})
		w.text(",\n")
	}
	w.text("  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ")
	w.value(append([]added.Token{}, t.Added...)) // not nil, which would become null
	for _, field := range []struct {
		name  string
		value json.RawMessage
	}{
		{"normalizer", t.File.Normalizer},
		{"pre_tokenizer", t.File.PreTokenizer},
		{"post_processor", t.File.PostProcessor},
		{"decoder", t.File.Decoder},
	} {
		w.text(",\n  \"" + field.name + "\": ")
		w.value(field.value) // nil becomes null
	}
	w.text(",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n" +
		"    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n" +
		"    \"byte_fallback\": false,\n    \"ignore_merges\": ")
	w.value(t.Words != nil)
	w.text(",\n    \"vocab\": {")
	separator := "\n      "
	for id, text := range t.File.Vocab {
		if text == "" {
			continue
		}
		w.text(separator)
		w.value(text)
		w.text(": ")
		w.value(id)
		separator = ",\n      "
	}
	w.text("\n    },\n    \"merges\": [")
	separator = "\n      "
	for _, pair := range t.Merges {
		w.text(separator)
		w.value(t.File.Vocab[pair[0]] + " " + t.File.Vocab[pair[1]])
		separator = ",\n      "
	}
	w.text("\n    ]\n  }\n}\n")
	return w.buf.Bytes(), w.err
}

// jsonWriter writes pieces of JSON and keeps the first error.
type jsonWriter struct {
	buf bytes.Buffer
	err error
}

func (w *jsonWriter) text(s string) { w.buf.WriteString(s) }

func (w *jsonWriter) value(v any) {
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil && w.err == nil {
		w.err = err
	}
	w.buf.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n")))
}
