package token

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// EndOfTextToken is the text of the token that separates documents. Tokenizers that have the token (see
// Tokenizer.EndOfText) encode the text as one token. Others encode it as plain characters.
const EndOfTextToken = "<|endoftext|>"

// FileName is the name of the file in a model's folder that holds its tokenizer.
const FileName = "tokenizer.json"

// Section is the part of a tokenizer.json that Hugging Face's format does not have: kinds of tokenizers that it does
// not support, and properties that it does not describe.
type Section struct {
	Kind     string `json:"kind,omitempty"` // "" for a tokenizer in Hugging Face's format
	Alphabet string `json:"alphabet,omitempty"`

	Model  []byte  `json:"model,omitempty"`  // file of SentencePiece or of RWKV
	Before []int32 `json:"before,omitempty"` // ids around a text
	After  []int32 `json:"after,omitempty"`

	End *int32 `json:"end_of_text,omitempty"` // token that ends a document, if its name does not show it
}

// WriteFile writes the content of Save to a file with any name.
func WriteFile(path string, tok Tokenizer) error {
	own, ok := tok.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return fmt.Errorf("tokenizer: %s: found a tokenizer of another package, want one of this", path)
	}
	data, err := own.Marshal()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o777)
	}
	if err == nil {
		err = disk.Replace(path, func(f *os.File) error {
			_, err := f.Write(data)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("tokenizer: save: %w", err)
	}
	return nil
}

// MarshalSection returns the content of a tokenizer.json for a kind that Hugging Face's format does not have.
func MarshalSection(section Section) ([]byte, error) {
	data, err := json.Marshal(map[string]Section{"hippo": section})
	return append(data, '\n'), err
}

// Save implements Save for all tokenizers. Readers never see a partial file.
func Save(dir string, tok Tokenizer) error { return WriteFile(filepath.Join(dir, FileName), tok) }

// SetEnd sets the token that ends a document, for tokenizers whose tokens' names do not show it.
func SetEnd(tok Tokenizer, end *int32) error {
	if *end < 0 || int(*end) >= tok.VocabSize() {
		return fmt.Errorf("end_of_text: found %d, want 0 to %d", *end, tok.VocabSize()-1)
	}
	if t, ok := tok.(interface{ SetEnd(id *int32) }); ok {
		t.SetEnd(end)
	}
	return nil
}

// CheckAffixes returns an error if an id is not below n.
func CheckAffixes(before, after []int32, n int) error {
	for _, id := range slices.Concat(before, after) {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("post_processor: id %d, want 0 to %d", id, n-1)
		}
	}
	return nil
}

// Affixes returns the ids that the tokenizer's file puts before and after a text for a model, such as the token that
// starts a text: the post_processor of a tokenizer.json, add_bos_token and add_eos_token of a GGUF file. Both are empty
// for tokenizers that add none. Encode does not add them.
func Affixes(tok Tokenizer) (before, after []int32) {
	if t, ok := tok.(interface {
		Affixes() (before, after []int32)
	}); ok {
		before, after = t.Affixes()
	}
	return slices.Clone(before), slices.Clone(after)
}
