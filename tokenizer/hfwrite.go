package tokenizer

import (
	"bytes"
	"encoding/json"
)

// hfSettings holds the parts that Save repeats verbatim.
type hfSettings struct {
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`

	vocab []string // the text of each id in model.vocab; "" for those not in it
}

// Save writes the file of the kind: a line for gpt2, Hugging Face's format for bpe.
func (t *bpe) Save(dir string) error { return save(dir, t) }

func (t *bpe) marshal() ([]byte, error) {
	if t.kind == "gpt2" {
		return marshalOwn(ownSection{Kind: t.kind})
	}
	return t.huggingFace()
}

// huggingFace is the tokenizer in Hugging Face's format, laid out as that library does: a line for each token and
// each merge, in the order of their ids and ranks.
func (t *bpe) huggingFace() ([]byte, error) {
	var w jsonWriter
	w.text("{\n  \"version\": \"1.0\",\n")
	if t.end != nil {
		w.text("  \"hippo\": ")
		w.value(ownSection{End: t.end})
		w.text(",\n")
	}
	w.text("  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ")
	w.value(append([]hfAdded{}, t.added...)) // not nil, which would be written as null
	for _, field := range []struct {
		name  string
		value json.RawMessage
	}{
		{"normalizer", t.file.Normalizer},
		{"pre_tokenizer", t.file.PreTokenizer},
		{"post_processor", t.file.PostProcessor},
		{"decoder", t.file.Decoder},
	} {
		w.text(",\n  \"" + field.name + "\": ")
		w.value(field.value) // nil is written as null
	}
	w.text(",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n" +
		"    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n" +
		"    \"byte_fallback\": false,\n    \"ignore_merges\": ")
	w.value(t.words != nil)
	w.text(",\n    \"vocab\": {")
	separator := "\n      "
	for id, text := range t.file.vocab {
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
	for _, pair := range t.merges {
		w.text(separator)
		w.value(t.file.vocab[pair[0]] + " " + t.file.vocab[pair[1]])
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
