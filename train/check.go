package train

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Check returns every problem that keeps a new run from starting and that can be told before any text is read: those of
// Validate, text and tokenizers that are not there, a folder that is taken.
func (c *Config) Check() error {
	var p config.Problems
	p.Add(c.Validate())
	p.Add(c.CheckInputs())
	return p.Err()
}

// CheckInputs is Check without Validate.
func (c *Config) CheckInputs() error {
	var p config.Problems
	checkTexts(&p, c.Data, c.Valid)
	if vocab := checkTokenizer(&p, c.Tokenizer); vocab > 0 && c.Model.VocabSize > 0 && c.Model.VocabSize < vocab {
		p.Add(tooFewTokens(c.Model.VocabSize, c.Tokenizer, vocab))
	}
	p.Add(c.checkFree())
	return p.Err()
}

// Fits returns an error if a run needs more memory than there is (a *MemoryError), or its sequences are longer than the
// model takes. vocab is the size of the tokenizer's vocabulary.
func (c *Config) Fits(vocab int) error {
	if err := c.checkMemory(vocab); err != nil {
		return err
	}
	m, err := model.New(c.shape(vocab))
	if err != nil {
		return err
	}
	if err := fits(m, c.Train.SeqLen, c.Train.CarryState); err != nil {
		return fmt.Errorf("train.seq_len: %w", err)
	}
	return nil
}

func tooFewTokens(size int, tokenizer string, vocab int) error {
	return fmt.Errorf("model.vocab_size: found %d, but the %s tokenizer has %d tokens", size, tokenizer, vocab)
}

func checkTexts(p *config.Problems, text, valid []string) {
	for _, err := range data.Check(text, data.SourceOptions{}) {
		p.Add(err)
	}
	for _, err := range data.Check(valid, data.SourceOptions{}) {
		p.Add(fmt.Errorf("validation text: %w", err))
	}
}

// checkTokenizer returns the size of a tokenizer's vocabulary, 0 where that is not known before the text is read.
func checkTokenizer(p *config.Problems, spec string) int {
	if spec == "chars" {
		return 0
	}
	tok, err := tokenizer.Parse(spec)
	if err != nil {
		p.Add(err)
		return 0
	}
	return tok.VocabSize()
}

// notSet is a value of vocab_size that no setting can have.
const notSet = math.MinInt

// Load builds a configuration from its layers, each stronger than the one before: the preset, a YAML file, HIPPO_
// variables, flags. All problems of all layers are reported at once. A preset's vocab_size is that of its tokenizer:
// where the layers name another tokenizer and no vocab_size, the tokenizer decides.
func Load(opt config.Options) (Config, error) {
	first := tiny() // only to learn which preset the layers ask for; its problems come again below
	_ = config.Load(&first, opt)
	var p config.Problems
	base, err := Preset(first.Preset)
	known := err == nil
	if !known {
		p.Add(err)
		if base, err = Preset("tiny"); err != nil {
			return base, err
		}
	}
	c := base
	c.Model.VocabSize = notSet
	p.Add(config.Load(&c, opt))
	if c.Model.VocabSize == notSet {
		if c.Model.VocabSize = base.Model.VocabSize; c.Tokenizer != base.Tokenizer {
			c.Model.VocabSize = 0
		}
	}
	if !known { // what is wrong with its shape depends on the preset
		shape := c.Model
		c.Model = base.Model
		p.Add(c.Validate())
		c.Model = shape
	} else {
		p.Add(c.Validate())
	}
	return c, p.Err()
}

// LoadNew is Load of the settings of a new run, with all that Check says.
func LoadNew(opt config.Options) (Config, error) {
	c, err := Load(opt)
	var p config.Problems
	p.Add(err)
	p.Add(c.CheckInputs())
	return c, p.Err()
}
