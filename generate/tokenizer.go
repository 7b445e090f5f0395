package generate

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// gpt2Vocab is the size of GPT-2's vocabulary, that of the released H3 models.
const gpt2Vocab = 50257

// NoTokenizerError says that the folder of a model has no tokenizer.
type NoTokenizerError struct {
	Dir   string
	Vocab int // tokens of the model
}

func (e *NoTokenizerError) Error() string {
	return fmt.Sprintf("%s: found no tokenizer.json, want that of the model's %d tokens", e.Dir, e.Vocab)
}

// LoadTokenizer finds the tokenizer of the model in dir: its tokenizer.json, or GPT-2's where there is none and the
// vocabulary is GPT-2's. One that the model was not trained with is an error, and none a *NoTokenizerError.
func LoadTokenizer(dir string, cfg *model.Config) (tokenizer.Tokenizer, error) {
	tok, err := tokenizer.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if cfg.VocabSize != gpt2Vocab {
			return nil, &NoTokenizerError{dir, cfg.VocabSize}
		}
		tok, err = tokenizer.GPT2(), nil
	}
	if err == nil {
		err = CheckTokenizer(tok, dir, cfg)
	}
	if err != nil {
		return nil, err
	}
	return tok, nil
}

// CheckTokenizer returns an error for a tokenizer that the model in dir was not trained with, as far as that is known.
func CheckTokenizer(tok tokenizer.Tokenizer, dir string, cfg *model.Config) error {
	switch got := tok.Fingerprint(); {
	case cfg.Tokenizer != "" && got != cfg.Tokenizer:
		return fmt.Errorf("%s: found the %s tokenizer %s of %d tokens, want %s, which the model was trained with",
			dir, tok.Kind(), got, tok.VocabSize(), cfg.Tokenizer)
	case cfg.Tokenizer == "" && tok.VocabSize() > cfg.PaddedVocab():
		return fmt.Errorf("%s: found the %s tokenizer of %d tokens, want one for the model's %d", dir, tok.Kind(),
			tok.VocabSize(), cfg.VocabSize)
	}
	return nil
}
