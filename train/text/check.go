package text

import (
	"cmp"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train"
)

// Check returns every problem that prevents a new run from starting and can be found before any text is read: those of
// Validate, a missing text or tokenizer, a folder that is in use.
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
	if _, err := c.chatTexts(); err != nil {
		p.Add(err)
	}
	if c.Init == "" || c.Tokenizer != "" { // a base without a tokenizer was reported before
		vocab := checkTokenizer(&p, c.Tokenizer)
		if c.Model.VocabSize > 0 && c.Model.VocabSize < vocab {
			p.Add(tooFewTokens(c.Model.VocabSize, c.Tokenizer, vocab))
		}
	}
	p.Add(c.checkFreeze())
	p.Add(c.checkFree())
	return p.Err()
}

// Fits returns an error if a run needs more memory than is free (a *train.MemoryError), or its sequences are longer
// than the model takes. vocab is the size of the tokenizer's vocabulary.
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

// checkFreeze returns the problems of the patterns of Freeze. An invalid shape is not reported here.
func (c *Config) checkFreeze() error {
	if len(c.Freeze) == 0 && c.LoRA.Rank == 0 {
		return nil
	}
	m, err := model.New(c.shape(1))
	if err != nil {
		return nil
	}
	_, err = c.freeze(m)
	return err
}

// freeze freezes the parameters that are not to be trained, and counts all parameters and the trained ones.
func (c *Config) freeze(m *model.Model) (n train.ParamCount, err error) {
	if c.LoRA.Rank > 0 {
		return c.LoRA.adapt(m)
	}
	n.All = m.NumParams()
	n.Values = 4 * n.All
	if n.Trained = n.All; len(c.Freeze) == 0 {
		return n, nil
	}
	if err := m.Freeze(c.Freeze); err != nil {
		return n, err
	}
	if n.Trained = m.NumParams(); n.Trained == 0 {
		return n, fmt.Errorf("freeze: found %q, which leaves no parameter to be trained", c.Freeze)
	}
	return n, nil
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

// checkTokenizer returns the size of a tokenizer's vocabulary, or 0 if it is unknown until the text is read.
func checkTokenizer(p *config.Problems, spec string) int {
	if spec == "chars" {
		return 0
	}
	tok, err := release.ParseTokenizer(spec)
	if err != nil {
		p.Add(err)
		return 0
	}
	return tok.VocabSize()
}

// notSet is a value of vocab_size that no setting can have.
const notSet = math.MinInt

// Load builds a configuration from its layers, each of which overrides the one before: the preset, a YAML file, HIPPO_
// variables, flags. It reports all problems of all layers at once. A preset's vocab_size is that of its tokenizer: if
// the layers name another tokenizer but no vocab_size, the tokenizer decides. Load does not look for the model that
// init names.
func Load(opt config.Options) (Config, error) {
	preset, _, _ := asked(opt)
	return load(opt, preset, nil, false)
}

// asked returns the preset and the base model that the layers name, "" for none, and reports whether they ask for an
// adapter. It ignores problems, as load reports them.
func asked(opt config.Options) (preset, init string, adapter bool) {
	c := tiny()
	c.Preset = ""
	_ = config.Load(&c, opt)
	return c.Preset, c.Init, c.LoRA.Rank > 0
}

// load is Load for the preset that the layers name, "" for the default, and a base to start from, nil for none. If no
// preset is named, the base's shape replaces the default preset's.
func load(opt config.Options, preset string, b *Base, adapter bool) (Config, error) {
	var p config.Problems
	base, err := Preset(cmp.Or(preset, defaultPreset))
	known := err == nil
	if !known {
		p.Add(err)
		if base, err = Preset(defaultPreset); err != nil {
			return base, err
		}
	}
	c := base
	if b != nil {
		if c.Tokenizer = ""; preset == "" {
			c.Model = b.shape
		}
		b.rates(&c.Optim, adapter)
	}
	c.Model.VocabSize = notSet
	p.Add(config.Load(&c, opt))
	switch {
	case c.Model.VocabSize != notSet:
	case b != nil:
		c.Model.VocabSize = b.shape.VocabSize
	case c.Tokenizer != base.Tokenizer:
		c.Model.VocabSize = 0
	default:
		c.Model.VocabSize = base.Model.VocabSize
	}
	if b != nil {
		p.Add(c.take(b))
	}
	if !known { // problems of the shape depend on the preset
		shape := c.Model
		c.Model = base.Model
		p.Add(c.Validate())
		c.Model = shape
	} else {
		p.Add(c.Validate())
	}
	return c, p.Err()
}

// LoadNew is Load for the settings of a new run, and includes the problems that Check reports. If they name a base
// model, in init, find must return its folder or file.
func LoadNew(opt config.Options, find func(name string) (path string, err error)) (Config, error) {
	preset, name, adapter := asked(opt)
	var b *Base
	if name != "" {
		path, err := find(name)
		if err != nil {
			return Config{}, fmt.Errorf("init: %w", err)
		}
		if b, err = openBase(name, path); err != nil {
			return Config{}, err
		}
	}
	c, err := load(opt, preset, b, adapter)
	var p config.Problems
	p.Add(err)
	p.Add(c.CheckInputs())
	return c, p.Err()
}
