package token

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// EndOfTextToken is the text of the token that separates documents. In text it is one token for the tokenizers that
// have it (see Tokenizer.EndOfText), and plain characters for the others.
const EndOfTextToken = "<|endoftext|>"

// FileName is the name under which a tokenizer is saved in a model's folder.
const FileName = "tokenizer.json"

// Section is what tokenizer.json holds for the kinds that Hugging Face's format does not have, and of what that
// format does not say.
type Section struct {
	Kind     string `json:"kind,omitempty"` // "" for one of Hugging Face's format
	Alphabet string `json:"alphabet,omitempty"`

	Model  []byte  `json:"model,omitempty"`  // the file of SentencePiece or of RWKV
	Before []int32 `json:"before,omitempty"` // the ids around a text
	After  []int32 `json:"after,omitempty"`

	End *int32 `json:"end_of_text,omitempty"` // the token that ends a document, where its name does not tell
}

// WriteFile writes what Save writes to a file of any name.
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

// MarshalSection is the content of the file of a kind that Hugging Face's format does not have.
func MarshalSection(section Section) ([]byte, error) {
	data, err := json.Marshal(map[string]Section{"hippo": section})
	return append(data, '\n'), err
}

// Save implements Save for all tokenizers. A reader never sees half a file.
func Save(dir string, tok Tokenizer) error { return WriteFile(filepath.Join(dir, FileName), tok) }

// SetEnd sets the token that ends a document, where its name does not tell.
func SetEnd(tok Tokenizer, end *int32) error {
	if *end < 0 || int(*end) >= tok.VocabSize() {
		return fmt.Errorf("end_of_text: found %d, want 0 to %d", *end, tok.VocabSize()-1)
	}
	if t, ok := tok.(interface{ SetEnd(id *int32) }); ok {
		t.SetEnd(end)
	}
	return nil
}

// CheckAffixes tells of an id that is not among n.
func CheckAffixes(before, after []int32, n int) error {
	for _, id := range slices.Concat(before, after) {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("post_processor: id %d, want 0 to %d", id, n-1)
		}
	}
	return nil
}

// Affixes returns the ids that the tokenizer's file puts before and after a text that a model is given, such as the
// token that starts a text: the post_processor of a tokenizer.json, add_bos_token and add_eos_token of a GGUF file.
// Both are empty for tokenizers that put none. Encode does not add them.
func Affixes(tok Tokenizer) (before, after []int32) {
	if t, ok := tok.(interface {
		Affixes() (before, after []int32)
	}); ok {
		before, after = t.Affixes()
	}
	return slices.Clone(before), slices.Clone(after)
}
