// Package labelled trains networks on labelled sequences. Labels are classes or numbers, one for each sequence or for
// each position. Package task has the data, package train the training loop.
package labelled

import (
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
)

// Config holds the settings for training a network on labelled sequences.
type Config struct {
	Out       string `json:"out" help:"folder of the run; empty: runs/task/TASK/RECIPE-seedN"`
	Seed      uint64 `json:"seed" help:"seed of training; the seed of the data is an option of the task"`
	Precision string `json:"precision" enum:"float32,bf16" help:"precision of matrix products in training"`
	Memory    string `json:"memory" enum:"check,ignore" help:"check: refuse a run that exceeds free memory"`

	Epochs    int     `json:"epochs" min:"1" help:"passes over the training examples"`
	Steps     int     `json:"steps" min:"0" help:"updates; 0: as many as epochs says"`
	BatchSize int     `json:"batch_size" min:"1" help:"sequences of an update"`
	Shards    int     `json:"shards" min:"1" help:"parts of an update, computed one by one to save memory"`
	EvalEvery float64 `json:"eval_every" min:"0" help:"epochs between evaluations; 0: twenty evaluations"`
	EvalLimit int     `json:"eval_limit" min:"0" help:"examples scored during the run; 0: all"`
	// Time, if not 0, drives the learning-rate schedule by its used share.
	Time  time.Duration `json:"time" min:"0s" help:"end after this training time, such as 30m; 0s: no limit"`
	Clock string        `json:"clock" enum:"wall,cpu" help:"clock of time: wall time, or CPU time divided by cores"`
	Stop  float64       `json:"stop" min:"0" help:"end at this validation accuracy in percent; 0: never"`
	// Patience and EMA work as in training on text.
	Patience int     `json:"patience" min:"0" help:"end after this many evaluations without a better score; 0: never"`
	EMA      float64 `json:"ema" min:"0" max:"0.999999" help:"decay of the average of weights to save; 0: none"`

	Pool      string       `json:"pool" enum:"mean,last,cls" help:"input of the head: mean, last or class token"`
	Positions string       `json:"positions" enum:"none,learned" help:"position embeddings, for attention"`
	Model     model.Config `json:"model" help:"shape of the backbone; vocab_size is the task's"`
	Optim     Optim        `json:"optim" help:"AdamW and the learning rate"`

	// Device is the engine of the graphics card that computes the run, or nil for the processor.
	Device engine.Backend `json:"-" config:"-"`
	// Faster, if not nil, restricts the use of the device: it computes only if the network fits and a layer takes less
	// time there than on the processor. Faster is called with the reason for the choice.
	Faster func(told string) `json:"-" config:"-"`

	// MicroBatch is an earlier form of Shards: the number of sequences of a shard.
	MicroBatch int `json:"micro_batch,omitempty" config:"old" min:"0" help:"earlier form of shards: sequences of one"`
}

// Optim is train.Optim with an additional warmup that is counted in epochs.
type Optim struct {
	train.Optim
	WarmupEpochs float64 `json:"warmup_epochs" min:"0" help:"epochs of linear warmup, added to the steps of warmup"`
}

// Default returns the default settings.
func Default() Config {
	c := Config{
		Seed: 1, Precision: "float32", Memory: train.MemoryCheck, Epochs: 10, BatchSize: 32, Shards: 1,
		Clock: train.WallClock,
		Pool:  "mean", Positions: "none",
		Model: model.DefaultConfig(),
		Optim: Optim{Optim: train.Optim{
			LR: 1e-3, SSMLR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, DecayRule: "matrices",
			Schedule: "cosine",
		}},
	}
	c.Model.EmbedDropout, c.Model.AttnDropout = 0, 0
	return c
}

// Settle converts settings of earlier versions to their current form.
func (c *Config) Settle() {
	if c.MicroBatch > 0 {
		c.Shards, c.MicroBatch = max(1, (c.BatchSize+c.MicroBatch-1)/c.MicroBatch), 0
	}
}

// Validate returns an error that lists every problem of the configuration that can be found without the data.
func (c *Config) Validate() error {
	c.Settle()
	var p config.Problems
	own := *c // parts with checks of their own are checked below
	own.Model, own.Optim.Optim = Default().Model, Default().Optim.Optim
	p.Add(config.Check(own))
	if c.Shards > max(1, c.BatchSize) {
		p.Addf("shards", "found %d, want at most batch_size %d", c.Shards, c.BatchSize)
	}
	c.Optim.Validate(&p)
	p.AddUnder("model.", c.Model.ValidateEncoder())
	return p.Err()
}

// Network returns the shape of the network for a set.
func (c *Config) Network(s *task.Set) model.NetworkConfig {
	n := model.NetworkConfig{
		Model: c.Model, Vocab: s.Vocab, Channels: s.Channels, Outputs: s.Outputs, Everywhere: s.Everywhere,
		Pairs: s.Pairs, Pool: c.Pool, Steps: s.Steps,
	}
	if len(s.Inputs)+len(s.Results)+len(s.Classes)+len(s.About) > 0 {
		n.Signal = &model.Signal{
			Inputs: channels(s.Inputs), Outputs: channels(s.Results), Classes: s.Classes, About: s.About,
		}
	}
	if c.Positions == "learned" && n.Model.MaxPositions == 0 {
		n.Model.MaxPositions = s.MaxLength
		if c.Pool == "cls" && !s.Everywhere {
			n.Model.MaxPositions++
		}
	}
	return n
}

// channels converts the channels of a set to those of a network.
func channels(of []task.Channel) []model.Channel {
	var out []model.Channel
	for _, c := range of {
		out = append(out, model.Channel(c))
	}
	return out
}
