// Package compare trains models of equal size for equal time on the same text, and ranks them by their losses. Progress
// is reported through Events.
package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/train/text"
)

// Options are the common settings of a comparison, named as in train.Config.
type Options struct {
	Time  time.Duration `json:"time" min:"1ms" help:"training time of each run"`
	Clock string        `json:"clock" enum:"wall,cpu" help:"clock of the training time: see train.clock"`

	Params int     `json:"params" min:"0" help:"parameters of each model, reached by its width; 0: those of the first"`
	Equal  float64 `json:"equal" min:"0" max:"20" help:"percent by which parameters may differ; 0: nearest width"`
	Seeds  int     `json:"seeds" min:"1" help:"runs of each model, with one seed each; the table has means and spread"`
	Seed   uint64  `json:"seed" help:"the first seed"`

	Set []string `json:"set" help:"settings of all models, as KEY=VALUE: optim.lr=1e-3,train.batch_size=8"`
	Out string   `json:"out" help:"folder of runs and results, for resuming with the same command; empty: none"`

	Data          []string `json:"data" help:"text, as for train; empty: the built-in Moby Dick"`
	Valid         []string `json:"valid" help:"validation text; empty cuts it off the end of the data"`
	Test          []string `json:"test" help:"text that finished models are scored on; empty: none"`
	ValidFraction float64  `json:"valid_fraction" help:"share of the data used for validation when valid is empty"`
	TextField     string   `json:"text_field" help:"field of a JSONL line that holds the text"`
	Tokenizer     string   `json:"tokenizer" help:"bytes, chars, dna, gpt2, or the path of a tokenizer.json"`
	Cache         string   `json:"cache" help:"folder of tokenized data; empty: the user's; none: keep it in memory"`
	CacheLimit    string   `json:"cache_limit" help:"size limit of the cache, such as 20GB; empty: see train"`
	Precision     string   `json:"precision" enum:"float32,bf16" help:"of the operands of matrix products in training"`
	Memory        string   `json:"memory" enum:"check,ignore" help:"check: refuse models that need too much memory"`
}

// DefaultOptions returns the text, tokenizer and precision of a model, and two minutes of wall time.
func DefaultOptions(first text.Config) Options {
	return Options{
		Time: 2 * time.Minute, Clock: "wall", Seeds: 1, Seed: first.Seed, Data: first.Data, Valid: first.Valid,
		ValidFraction: first.ValidFraction, TextField: first.TextField, Tokenizer: first.Tokenizer,
		Cache: first.Cache, CacheLimit: first.CacheLimit, Precision: first.Precision, Memory: first.Memory,
	}
}

// Check returns all problems of a comparison of the given models that can be found before any text is read.
func (o *Options) Check(models []Entrant) error {
	var p config.Problems
	if slices.Contains(slices.Concat(o.Data, o.Valid, o.Test), "-") {
		p.Addf("data", "found -, want files: every run reads the text again, which standard input cannot repeat")
	}
	text := o.text()
	p.Add(text.CheckInputs())
	if text.Data = o.Test; len(o.Test) > 0 {
		p.AddUnder("test: ", text.CheckInputs())
	}
	settings, err := o.settings()
	p.Add(err)
	if err != nil {
		settings = nil
	}
	for _, e := range models {
		_, err := o.configure(e.Config, settings, 0)
		p.AddTo(e.Name, err)
	}
	return p.Err()
}

// text returns a configuration with the text and its tokenizer only.
func (o *Options) text() text.Config {
	return text.Config{
		Data: o.Data, Valid: o.Valid, TextField: o.TextField, Tokenizer: o.Tokenizer, Cache: o.Cache,
	}
}

// Comparison trains models of equal size for equal time on the same text.
type Comparison struct {
	Options Options
	Models  []Entrant // with all settings but seed and folder
	Params  []int     // number of parameters of each model

	counted *data.Baseline // computed by Text, nil before
}

// New prepares a comparison. It applies the options to every model and chooses the width that yields the number of
// parameters. It reports all errors before anything is trained.
func New(models []Entrant, o Options) (*Comparison, error) {
	if err := o.Check(models); err != nil {
		return nil, err
	}
	var p config.Problems
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	c := &Comparison{Options: o}
	text := o.text()
	vocab, err := text.VocabSize()
	if err != nil {
		return nil, err
	}
	for _, e := range models {
		cfg, n, err := c.prepare(e.Config, settings, vocab)
		if err != nil {
			p.AddTo(e.Name, err)
			continue
		}
		if c.Options.Params == 0 {
			c.Options.Params = n
		}
		c.Models, c.Params = append(c.Models, Entrant{e.Name, cfg}), append(c.Params, n)
	}
	return c, p.Err()
}

// settings parses Set.
func (o *Options) settings() (map[string]string, error) {
	values := map[string]string{}
	var p config.Problems
	for _, pair := range o.Set {
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || !strings.HasPrefix(key, "train.") && !strings.HasPrefix(key, "optim.") {
			p.Addf("set", "found %q, want KEY=VALUE with a key of train or optim, such as optim.lr=1e-3", pair)
		} else if key == "train.time" || key == "train.clock" {
			p.Addf("set", "found %q, want --%s", pair, strings.TrimPrefix(key, "train."))
		}
		values[key] = value
	}
	return values, p.Err()
}

// never is a number of steps that no run reaches.
const never = math.MaxInt32

// configure returns a model's configuration with the common settings, but not its final width. If vocab is 0, it is not
// known yet.
func (o *Options) configure(cfg text.Config, settings map[string]string, vocab int) (text.Config, error) {
	if cfg.Init != "" && cfg.Tokenizer != o.Tokenizer {
		return cfg, fmt.Errorf("tokenizer: found %s, want %s, with which the model was trained (--tokenizer)",
			o.Tokenizer, cfg.Tokenizer)
	}
	cfg.Data, cfg.Valid, cfg.ValidFraction, cfg.TextField = o.Data, o.Valid, o.ValidFraction, o.TextField
	cfg.Tokenizer, cfg.Cache, cfg.CacheLimit = o.Tokenizer, o.Cache, o.CacheLimit
	cfg.Precision, cfg.Memory = o.Precision, o.Memory
	cfg.Train.EvalEvery, cfg.Train.SampleEvery = never, 0 // only the end is measured
	cfg.Train.Time, cfg.Train.Clock = o.Time, o.Clock
	cfg.Model.VocabSize, cfg.Model.Tokenizer = vocab, ""
	var p config.Problems
	p.Add(config.Pairs(&cfg, settings))
	p.Add(cfg.Validate())
	return cfg, p.Err()
}

// closeEnough is the relative difference in parameters up to which a width is left unchanged.
const closeEnough = 0.05

// prepare returns a model's final configuration and its number of parameters.
func (c *Comparison) prepare(cfg text.Config, settings map[string]string, vocab int) (text.Config, int, error) {
	o := &c.Options
	cfg, err := o.configure(cfg, settings, vocab)
	if err != nil {
		return cfg, 0, err
	}
	var n int
	if o.Params == 0 || cfg.Init != "" {
		n, err = cfg.Model.CountParams()
	} else {
		within := closeEnough
		if o.Equal > 0 {
			within = o.Equal / 100
		}
		cfg.Model, n, err = cfg.Model.FitWidth(o.Params, within)
		if off := math.Abs(float64(n)/float64(o.Params) - 1); err == nil && o.Equal > 0 && off > within {
			err = fmt.Errorf("found %d parameters at the nearest width, want %d within %g %%: "+
				"a shape without an MLP has few widths; --params %d suits it", n, o.Params, o.Equal, n)
		}
	}
	if off := n - o.Params; err == nil && cfg.Init != "" && o.Params > 0 && max(off, -off) > o.Params/20 {
		err = fmt.Errorf("found %d parameters, whose number its weights settle, want about %d as the others have: "+
			"name it first, or say --params %d", n, o.Params, n)
	}
	if err != nil {
		return cfg, n, err
	}
	return cfg, n, cfg.Fits(vocab)
}
