package hippo

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// gpt2Vocab is the size of GPT-2's vocabulary, that of the released H3 models.
const gpt2Vocab = 50257

// tokenizerFor finds the tokenizer of the model in dir: its tokenizer.json, or GPT-2's where there is none and the
// vocabulary is GPT-2's. One that the model was not trained with is an error.
func tokenizerFor(dir string, cfg *model.Config) (tokenizer.Tokenizer, error) {
	tok, err := release.Tokenizer(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if cfg.VocabSize != gpt2Vocab {
			return nil, fmt.Errorf("%s: found no tokenizer.json, want that of the model's %d tokens (hippo verify, "+
				"hippo info and hippo generate --ids do without)", dir, cfg.VocabSize)
		}
		tok, err = tokenizer.GPT2(), nil
	}
	if err != nil {
		return nil, err
	}
	switch got := tok.Fingerprint(); {
	case cfg.Tokenizer != "" && got != cfg.Tokenizer:
		return nil, fmt.Errorf("%s: found the %s tokenizer %s of %d tokens, want %s, which the model was trained with",
			dir, tok.Kind(), got, tok.VocabSize(), cfg.Tokenizer)
	case cfg.Tokenizer == "" && tok.VocabSize() > cfg.PaddedVocab():
		return nil, fmt.Errorf("%s: found the %s tokenizer of %d tokens, want one for the model's %d", dir, tok.Kind(),
			tok.VocabSize(), cfg.VocabSize)
	}
	return tok, nil
}
