// Package text trains language models on text: what a run is configured by, its texts, chats and tokens, the model and
// its loss, samples, and how well trained models predict a text. Package train has the loop.
package text

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// Config is everything a training run depends on. The same names are the keys of the YAML file, the flags, and, in
// capitals with the prefix HIPPO_, the environment variables.
type Config struct {
	Preset string `json:"preset" help:"where to start: a model shape with settings that suit it"`
	Out    string `json:"out" help:"folder of the run; empty: the first free one of runs/PRESET, runs/PRESET-2, ..."`
	Seed   uint64 `json:"seed" help:"seed of everything random"`

	// Precision leaves weights, states, sums and evaluations in float32.
	Precision string `json:"precision" enum:"float32,bf16" help:"of the operands of matrix products while training"`

	Memory string `json:"memory" enum:"check,ignore" help:"check: refuse a run that needs more than there is"`

	// Init is a folder, a run, a file or the name of a published model. Its shape and tokenizer are taken, too.
	Init        string   `json:"init" help:"model to begin with, in place of random weights"`
	InitWeights string   `json:"init_weights" help:"fingerprint of the weights of init; filled in, or compared"`
	Freeze      []string `json:"freeze" help:"parameters that are not trained, by names and patterns"`
	Base        Base     `json:"base,omitzero" config:"-"` // the model that Init names

	Data          []string `json:"data" help:"files (also .gz, .zst, .jsonl), folders, globs, -; empty: Moby Dick"`
	Valid         []string `json:"valid" help:"validation text, likewise; empty: cut off the end of the data"`
	ValidFraction float64  `json:"valid_fraction" help:"part of the data kept for validation when valid is empty"`
	TextField     string   `json:"text_field" help:"field of a JSONL line that holds the text"`
	// Documents is join where a run of an earlier version does not say it.
	Documents string `json:"documents" enum:",apart,join" help:"apart: none sees another; join: one text; empty: apart"`
	Template  string `json:"template" help:"of chats in the data: a file, a folder or chatml; empty: that of init"`
	Tokenizer string `json:"tokenizer" help:"bytes, chars, dna, gpt2, or path of a tokenizer.json or GGUF file"`
	Binary    bool   `json:"binary" help:"take data that does not look like text, with the bytes tokenizer"`
	Cache     string `json:"cache" help:"folder of tokenized data; empty: the user's; none: memory"`
	// CacheLimit makes what was used longest ago go first.
	CacheLimit string `json:"cache_limit" help:"most in the cache, such as 20GB; empty: half of its disk's room"`

	smoke bool              // see Smoke
	chat  map[string][]byte // of release.ChatTexts, of the checkpoint that a run goes on from; nil before there is one

	Model model.Config `json:"model" help:"shape of the model"`
	Train Loop         `json:"train" help:"the loop"`
	Optim train.Optim  `json:"optim" help:"AdamW and the learning rate"`
	LoRA  LoRA         `json:"lora" help:"an adapter that is trained in place of the model of init"`
}

// Loop says how long and on what batches to train, and what to do on the way.
type Loop struct {
	Steps     int `json:"steps" min:"1" help:"updates; with train.time what optim.warmup is a part of"`
	BatchSize int `json:"batch_size" min:"1" help:"sequences of a shard, which are computed together"`
	SeqLen    int `json:"seq_len" min:"1" help:"tokens of a sequence"`
	Shards    int `json:"shards" min:"1" help:"shards of an update, whose gradients are added in a fixed tree"`
	// CarryState carries recurrent states for good, keys and values of attention for seq_len positions.
	CarryState bool `json:"carry_state" help:"read the text in order, with the state carried from step to step"`
	// Chunk keeps no more activations than those of a chunk. Gradients exact computes each chunk twice.
	Chunk        int    `json:"chunk" min:"0" help:"tokens of a sequence that are held at once; 0: all"`
	Gradients    string `json:"gradients" enum:",exact,stopped" help:"between chunks; empty: exact"`
	Recompute    bool   `json:"recompute" help:"hold activations of one layer at a time, and compute them again"`
	EvalEvery    int    `json:"eval_every" min:"1" help:"steps between evaluations"`
	EvalTokens   int    `json:"eval_tokens" min:"1" help:"validation tokens on the way; the last one takes all"`
	SampleEvery  int    `json:"sample_every" min:"0" help:"steps between sample texts; 0 for none"`
	SamplePrompt string `json:"sample_prompt" help:"what samples continue; empty: the validation text"`
	SampleTokens int    `json:"sample_tokens" min:"1" help:"tokens of a sample text"`
	// SaveEvery is a bound: where steps are slow, a checkpoint is saved every few seconds or minutes, too, at a cost of
	// at most a twentieth of the time.
	SaveEvery int `json:"save_every" min:"1" help:"steps between checkpoints, and minutes at most"`
	LogEvery  int `json:"log_every" min:"1" help:"steps between lines of metrics.jsonl"`
	// Patience and EMA go by the validation loss and the weights of evaluations.
	Patience int     `json:"patience" min:"0" help:"evaluations with no better loss that end the run; 0: none do"`
	EMA      float64 `json:"ema" min:"0" max:"0.999999" help:"decay of the average of weights that is kept; 0: none"`

	// Time ends a run whatever Steps says. Evaluations, samples and checkpoints do not count. The learning rate follows
	// the share of it that is gone.
	Time time.Duration `json:"time" min:"0s" help:"end after this time of training alone, such as 2m; 0s for none"`
	// Clock cpu is the CPU time of the process divided by its cores, which a busy machine does not change.
	Clock string `json:"clock" enum:"wall,cpu" help:"measures train.time: wall, or CPU time divided by cores"`

	// Accumulation is what Shards was called.
	Accumulation int `json:"accumulation,omitempty" config:"old" min:"1" help:"earlier name of train.shards"`
}

// settle gives settings of earlier versions their names of today, and those that they did not have their values.
func (c *Config) settle() {
	c.Train.settle()
	c.LoRA.settle()
}

func (t *Loop) settle() {
	if t.Accumulation > 0 {
		t.Shards, t.Accumulation = t.Accumulation, 0
	}
}

// UnmarshalJSON reads settings that this version or an earlier one has saved.
func (t *Loop) UnmarshalJSON(text []byte) error {
	type plain Loop
	if err := json.Unmarshal(text, (*plain)(t)); err != nil {
		return err
	}
	t.settle()
	return nil
}

// Validate gives settings of earlier versions their names of today, and returns every problem of the configuration at
// once, as a config.Problems.
func (c *Config) Validate() error {
	c.settle()
	var p config.Problems
	shape := c.Model
	if shape.VocabSize == 0 {
		shape.VocabSize = 256 // the tokenizer decides later
	}
	p.AddUnder("model.", shape.Validate())
	if !(c.ValidFraction > 0 && c.ValidFraction < 1) && len(c.Valid) == 0 {
		p.Addf("valid_fraction", "found %g, want a number between 0 and 1, or valid text in valid", c.ValidFraction)
	}
	train.CheckPrecision(&p, c.Precision)
	if _, err := data.ParseSize(c.CacheLimit); err != nil {
		p.Addf("cache_limit", "%v", err)
	}
	if c.Binary && c.Tokenizer != "bytes" {
		p.Addf("binary", "found true with the tokenizer %s, want tokenizer bytes", c.Tokenizer)
	}
	p.OneOf("memory", cmp.Or(c.Memory, train.MemoryCheck), train.MemoryChoices)
	t := c.Train
	for _, f := range []struct {
		key string
		v   int
	}{
		{"train.steps", t.Steps}, {"train.batch_size", t.BatchSize}, {"train.seq_len", t.SeqLen},
		{"train.shards", t.Shards},
		{"train.eval_every", t.EvalEvery}, {"train.eval_tokens", t.EvalTokens}, {"train.save_every", t.SaveEvery},
		{"train.log_every", t.LogEvery}, {"train.sample_tokens", t.SampleTokens},
	} {
		if f.v < 1 {
			p.Addf(f.key, "found %d, want at least 1", f.v)
		}
	}
	if t.BatchSize > 0 && t.SeqLen > maxShard/t.BatchSize {
		p.Addf("train.batch_size, train.seq_len",
			"found %d, %d, want at most %d tokens in a shard (train.shards adds several)", t.BatchSize,
			t.SeqLen, maxShard)
	} else if n := t.BatchSize * t.SeqLen; n > 0 && t.Shards > maxUpdate/n {
		p.Addf("train.shards", "found %d of %d tokens, want at most %d tokens in an update", t.Shards, n, maxUpdate)
	}
	t.checkChunks(&p)
	if t.Time < 0 {
		p.Addf("train.time", "found %v, want a duration such as 2m, or 0s for no limit", t.Time)
	}
	p.OneOf("train.clock", cmp.Or(t.Clock, train.WallClock), train.Clocks)
	c.Optim.Validate(&p)
	c.LoRA.validate(c, &p)
	return p.Err()
}

// maxShard bounds the tokens of a shard: no machine has memory for the activations of so many.
const (
	maxShard  = 1 << 24
	maxUpdate = 1 << 26
)

// sampling is how sample texts are drawn while training.
func (c *Config) sampling() sample.Options {
	return sample.Options{Temperature: 0.6, TopK: 40, Seed: c.Seed}
}
