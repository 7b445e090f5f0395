package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// gpt2Vocab is the size of GPT-2's vocabulary, which the released H3 models use.
const gpt2Vocab = 50257

// NoTokenizerError reports that a model comes without a tokenizer.
type NoTokenizerError struct {
	Path  string // folder or file of the model
	Vocab int    // number of the model's tokens
	Other string // file in the folder with a tokenizer that is not supported; "" for none
}

// Error reports where the tokenizer was expected and which commands work without it.
func (e *NoTokenizerError) Error() string {
	what := tokenizer.FileName
	if IsGGUF(e.Path) {
		what = errNoTokens.Error()
	}
	if e.Other != "" {
		what = fmt.Sprintf("%s, which is read, but %s, which is not", what, e.Other)
	}
	return fmt.Sprintf("%s: found no %s, want that of the model's %d tokens (hippo verify, hippo info and hippo "+
		"generate --ids do without)", e.Path, what, e.Vocab)
}

// tiktokenName is the file of tokens in Kimi's releases. The rules that split a text into words are in a program.
const tiktokenName = "tiktoken.model"

// errNoTokens names the missing values of a GGUF file without a tokenizer.
var errNoTokens = errors.New(ggufText + "tokens in it")

// Tokenizer reads the tokenizer of a model that LoadDir can read: from its folder or from inside its GGUF file.
func Tokenizer(path string) (tokenizer.Tokenizer, error) {
	if !IsGGUF(path) {
		return tokenizer.Load(path)
	}
	t, err := ReadGGUFTexts(path)
	if err == nil && t.Tokenizer == nil {
		err = fmt.Errorf("%s: found no %w, want a file with a tokenizer", path, errNoTokens)
	}
	return t.Tokenizer, err
}

// LoadTokenizer returns the tokenizer of the model at a path, like Tokenizer. If there is none and the vocabulary is
// GPT-2's, it returns GPT-2's. It is an error if the model was trained with another tokenizer. If there is none, the
// error is a *NoTokenizerError.
func LoadTokenizer(path string, cfg *model.Config) (tokenizer.Tokenizer, error) {
	tok, err := Tokenizer(path)
	switch none := errors.Is(err, fs.ErrNotExist); {
	case none && cfg.VocabSize == gpt2Vocab:
		tok, err = tokenizer.GPT2(), nil
	case none || errors.Is(err, errNoTokens):
		missing := &NoTokenizerError{Path: path, Vocab: cfg.VocabSize}
		if _, err := os.Stat(filepath.Join(path, tiktokenName)); err == nil {
			missing.Other = tiktokenName
		}
		err = missing
	}
	if err == nil {
		err = CheckTokenizer(tok, path, cfg)
	}
	if err != nil {
		return nil, err
	}
	return tok, nil
}

// CheckTokenizer returns an error if the model at a path is known to have been trained with another tokenizer.
func CheckTokenizer(tok tokenizer.Tokenizer, path string, cfg *model.Config) error {
	switch got := tok.Fingerprint(); {
	case cfg.Tokenizer != "" && got != cfg.Tokenizer:
		return fmt.Errorf("%s: found the %s tokenizer %s of %d tokens, want %s, which the model was trained with",
			path, tok.Kind(), got, tok.VocabSize(), cfg.Tokenizer)
	case cfg.Tokenizer == "" && tok.VocabSize() > cfg.PaddedVocab():
		return fmt.Errorf("%s: found the %s tokenizer of %d tokens, want one for the model's %d", path, tok.Kind(),
			tok.VocabSize(), cfg.VocabSize)
	}
	return nil
}

// ParseTokenizer returns the tokenizer that a user names, like tokenizer.Parse, or the one inside a GGUF file.
func ParseTokenizer(spec string) (tokenizer.Tokenizer, error) {
	if IsGGUF(spec) {
		return Tokenizer(spec)
	}
	return tokenizer.Parse(spec)
}

// FindTokenizer returns the tokenizer that a user names, like ParseTokenizer, or that of a training run's folder.
func FindTokenizer(spec string) (tokenizer.Tokenizer, error) {
	tok, err := ParseTokenizer(spec)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, resolveErr := model.Resolve(spec); resolveErr == nil {
			return tokenizer.Load(dir)
		}
	}
	return tok, err
}
