// Package text trains language models on text. It has the configuration of a run, its texts, chats and tokens, the
// model and its loss, and samples, and measures how well trained models predict a text. Package train has the training
// loop.
package text

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// Config holds everything that a training run depends on. The same names are the keys of the YAML file, the flags and,
// in capitals with the prefix HIPPO_, the environment variables.
type Config struct {
	Preset string `json:"preset" help:"model shape with matching settings to start from"`
	Out    string `json:"out" help:"folder of the run; empty: the first free of runs/PRESET, runs/PRESET-2, ..."`
	Seed   uint64 `json:"seed" help:"seed of all random numbers"`

	// Precision does not affect weights, states, sums and evaluations, which stay in float32.
	Precision string `json:"precision" enum:"float32,bf16" help:"precision of matrix products in training"`

	Memory string `json:"memory" enum:"check,ignore" help:"check: refuse a run that exceeds free memory"`

	// Init is a folder, a run, a file or the name of a published model. The run also takes its shape and tokenizer.
	Init        string   `json:"init" help:"model to start from, in place of random weights"`
	InitWeights string   `json:"init_weights" help:"fingerprint of the weights of init; set by the run, or compared"`
	Freeze      []string `json:"freeze" help:"parameters to freeze, by names and patterns"`
	Base        Base     `json:"base,omitzero" config:"-"` // the model that Init names

	Data          []string `json:"data" help:"files (also .gz, .zst, .jsonl), folders, globs, -; empty: Moby Dick"`
	Valid         []string `json:"valid" help:"validation text, as data; empty: the end of the data"`
	ValidFraction float64  `json:"valid_fraction" help:"fraction of the data for validation if valid is empty"`
	TextField     string   `json:"text_field" help:"text field of a JSONL line"`
	// Documents is join for a run of an earlier version that does not set it.
	Documents string `json:"documents" enum:",apart,join" help:"apart: separate texts; join: one text; empty: apart"`
	Template  string `json:"template" help:"chat template: a file, a folder or chatml; empty: the one of init"`
	ReplyEnd  string `json:"reply_end" help:"text that ends a reply, if the chat template writes none"`
	Tokenizer string `json:"tokenizer" help:"bytes, chars, dna, gpt2, or path of a tokenizer.json or GGUF file"`
	Binary    bool   `json:"binary" help:"accept binary data, with the bytes tokenizer"`
	Cache     string `json:"cache" help:"folder of tokenized data; empty: the user's cache; none: memory"`
	// CacheLimit evicts the least recently used files first.
	CacheLimit string `json:"cache_limit" help:"size limit of the cache, such as 20GB; empty: half of the free space"`

	// Team holds the machines that make the updates together, with this machine as their leader; nil for this machine
	// alone.
	Team *cluster.Team `json:"-" config:"-"`
	// AnyBits admits machines that round differently. The bits of the weights are then not reproducible.
	AnyBits bool `json:"-" config:"-"`

	// Device is the engine of the graphics card that computes the run, or nil for the processor.
	Device engine.Backend `json:"-" config:"-"`

	smoke   bool // see Smoke
	members int  // number of machines of the run that this one joins
	// chat holds the chat files of the checkpoint that a run continues from (release.ChatTexts); nil without a
	// checkpoint.
	chat map[string][]byte

	Model model.Config `json:"model" help:"shape of the model"`
	Train Loop         `json:"train" help:"the loop"`
	Optim train.Optim  `json:"optim" help:"AdamW and the learning rate"`
	LoRA  LoRA         `json:"lora" help:"train an adapter in place of the model of init"`
}

// Loop holds the settings of the training loop: how long and on what batches to train, and what to do during the run.
type Loop struct {
	Steps int `json:"steps" min:"1" help:"updates; with train.time only the scale of optim.warmup"`
	// Epochs sets Steps when the run starts, since that requires the text's length.
	Epochs    float64 `json:"epochs" min:"0" help:"passes over the training text, in place of steps; 0: steps"`
	BatchSize int     `json:"batch_size" min:"1" help:"sequences of a shard, computed together"`
	SeqLen    int     `json:"seq_len" min:"1" help:"tokens of a sequence"`
	Shards    int     `json:"shards" min:"1" help:"shards of an update; their gradients are added in a fixed order"`
	// Islands each have a part of the shards. Results are the same on any number of machines.
	Islands         int     `json:"islands" min:"0" help:"islands that train alone between meetings (DiLoCo); 0: none"`
	Every           int     `json:"every" min:"1" help:"updates of islands between two meetings"`
	IslandPrecision string  `json:"island_precision" enum:"float32,bf16,int8" help:"of what islands send"`
	OuterLR         float64 `json:"outer_lr" help:"learning rate of meetings"`
	OuterMomentum   float64 `json:"outer_momentum" help:"Nesterov momentum of meetings"`
	// Moments "split" saves (n-2)/n of the moments' memory on n machines, so none on two.
	Moments string `json:"moments" enum:"all,split" help:"all machines keep all moments, or two each part"`
	// CarryState carries recurrent states without limit, and keys and values of attention for seq_len positions.
	CarryState bool `json:"carry_state" help:"read the text in order and carry the state from step to step"`
	// Chunk limits memory to the activations of one chunk. Gradients "exact" computes each chunk twice.
	Chunk        int    `json:"chunk" min:"0" help:"tokens of a sequence in memory at once; 0: all"`
	Gradients    string `json:"gradients" enum:",exact,stopped" help:"between chunks; empty: exact"`
	Recompute    bool   `json:"recompute" help:"store activations of one layer at a time and recompute them"`
	EvalEvery    int    `json:"eval_every" min:"1" help:"steps between evaluations"`
	EvalTokens   int    `json:"eval_tokens" min:"1" help:"validation tokens of an evaluation; the last one takes all"`
	SampleEvery  int    `json:"sample_every" min:"0" help:"steps between sample texts; 0 for none"`
	SamplePrompt string `json:"sample_prompt" help:"prompt of sample texts; empty: from the validation text"`
	SampleTokens int    `json:"sample_tokens" min:"1" help:"tokens of a sample text"`
	// SaveEvery is an upper bound: if steps are slow, a checkpoint is also saved every few seconds or minutes, at a
	// cost of at most a twentieth of the time.
	SaveEvery int `json:"save_every" min:"1" help:"steps between checkpoints, and minutes at most"`
	LogEvery  int `json:"log_every" min:"1" help:"steps between lines of metrics.jsonl"`
	// Patience compares the validation losses of evaluations. EMA sets the weights that are evaluated.
	Patience int     `json:"patience" min:"0" help:"end after this many evaluations without a better loss; 0: never"`
	EMA      float64 `json:"ema" min:"0" max:"0.999999" help:"decay of the average of weights to save; 0: none"`

	// Time ends a run regardless of Steps. Evaluations, samples and checkpoints do not count. The learning-rate
	// schedule follows the used share of the time.
	Time time.Duration `json:"time" min:"0s" help:"end after this training time, such as 2m; 0s: no limit"`
	// Clock "cpu" is the CPU time of the process divided by its cores. Other load on the machine does not affect it.
	Clock string `json:"clock" enum:"wall,cpu" help:"clock of train.time: wall time, or CPU time divided by cores"`

	// Accumulation is an earlier name of Shards.
	Accumulation int `json:"accumulation,omitempty" config:"old" min:"1" help:"earlier name of train.shards"`
}

// settle converts settings of earlier versions to their current names, and sets the defaults of settings that those
// versions lacked.
func (c *Config) settle() {
	c.Train.settle()
	c.LoRA.settle()
}

func (t *Loop) settle() {
	if t.Accumulation > 0 {
		t.Shards, t.Accumulation = t.Accumulation, 0
	}
	t.Moments = cmp.Or(t.Moments, momentsAll)
	if t.Every == 0 {
		t.Every, t.IslandPrecision, t.OuterLR, t.OuterMomentum = 100, engine.Float32.String(), 0.7, 0.9
	}
}

// UnmarshalJSON decodes settings that this version or an earlier one has saved.
func (t *Loop) UnmarshalJSON(text []byte) error {
	type plain Loop
	if err := json.Unmarshal(text, (*plain)(t)); err != nil {
		return err
	}
	t.settle()
	return nil
}

// Validate converts settings of earlier versions to their current names, and returns all problems of the configuration,
// as a config.Problems.
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
	p.AtLeast("train.steps", t.Steps, 1)
	if !(t.Epochs >= 0 && t.Epochs <= maxEpochs) {
		p.Addf("train.epochs", "found %g, want a number from 0 (for train.steps) to %g", t.Epochs, maxEpochs)
	}
	p.AtLeast("train.batch_size", t.BatchSize, 1)
	p.AtLeast("train.seq_len", t.SeqLen, 1)
	p.AtLeast("train.shards", t.Shards, 1)
	p.AtLeast("train.eval_every", t.EvalEvery, 1)
	p.AtLeast("train.eval_tokens", t.EvalTokens, 1)
	p.AtLeast("train.save_every", t.SaveEvery, 1)
	p.AtLeast("train.log_every", t.LogEvery, 1)
	p.AtLeast("train.sample_tokens", t.SampleTokens, 1)
	if t.BatchSize > 0 && t.SeqLen > maxShard/t.BatchSize {
		p.Addf("train.batch_size, train.seq_len",
			"found %d, %d, want at most %d tokens in a shard (train.shards adds several)", t.BatchSize,
			t.SeqLen, maxShard)
	} else if n := t.BatchSize * t.SeqLen; n > 0 && t.Shards > maxUpdate/n {
		p.Addf("train.shards", "found %d of %d tokens, want at most %d tokens in an update", t.Shards, n, maxUpdate)
	}
	p.OneOf("train.moments", t.Moments, []string{momentsAll, momentsSplit})
	t.checkIslands(&p)
	t.checkChunks(&p)
	if t.Time < 0 {
		p.Addf("train.time", "found %v, want a duration such as 2m, or 0s for no limit", t.Time)
	}
	p.OneOf("train.clock", cmp.Or(t.Clock, train.WallClock), train.Clocks)
	c.Optim.Validate(&p)
	c.LoRA.validate(c, &p)
	return p.Err()
}

// Values of Loop.Moments.
const (
	momentsAll   = "all"
	momentsSplit = "split"
)

// maxEpochs is the most passes over a text, so that the number of updates does not overflow.
const maxEpochs = 1e6

// maxShard is the most tokens of a shard: no machine has memory for the activations of more. maxUpdate is the most of
// an update.
const (
	maxShard  = 1 << 24
	maxUpdate = 1 << 26
)

// sampling returns the options for sample texts during training.
func (c *Config) sampling() sample.Options {
	return sample.Options{Temperature: 0.6, TopK: 40, Seed: c.Seed}
}
