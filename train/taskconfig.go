package train

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// TaskConfig is everything a run of a task depends on: the defaults, then what the recipe says, then what the user changes.
type TaskConfig struct {
	Task   string `json:"task" config:"-"`   // with options that are not at their defaults, such as induction(length=40)
	Recipe string `json:"recipe" config:"-"` // the name of the recipe

	Data      string `json:"data" help:"folder of the task's files, for tasks that read some"`
	Out       string `json:"out" help:"folder of the run; empty: runs/task/TASK/RECIPE-seedN"`
	Seed      uint64 `json:"seed" help:"of everything random but the data, which has a seed of its own among the task's options"`
	Precision string `json:"precision" enum:"float32,bf16" help:"of the operands of matrix products while training"`
	Memory    string `json:"memory" enum:"check,ignore" help:"check: refuse a model whose weights need more memory than there is; ignore: try all the same"`

	Epochs     int           `json:"epochs" min:"1" help:"passes over the training examples"`
	BatchSize  int           `json:"batch_size" min:"1" help:"sequences of an update"`
	MicroBatch int           `json:"micro_batch" min:"0" help:"sequences at a time, to save memory; 0 for the whole batch"`
	EvalEvery  float64       `json:"eval_every" min:"0" help:"epochs between evaluations, or a part of one; 0 for twenty evaluations"`
	EvalLimit  int           `json:"eval_limit" min:"0" help:"examples of an evaluation on the way; 0 for all. The last one takes all"`
	Time       time.Duration `json:"time" min:"0s" help:"end after so much time of training, such as 30m; the learning rate follows the share of it that is gone; 0s for none"`
	Clock      string        `json:"clock" enum:"wall,cpu" help:"what time is measured by: wall, or cpu, the CPU time of the process divided by its cores"`
	Stop       float64       `json:"stop" min:"0" help:"end as soon as the validation accuracy, in percent, is as high; 0 for never"`

	Pool      string       `json:"pool" enum:"mean,last,cls" help:"what the head sees of a sequence: the mean of its positions, the last, or a token put before it"`
	Positions string       `json:"positions" enum:"none,learned" help:"learned positions, as attention needs where it has none of its own"`
	Model     model.Config `json:"model" help:"shape of the backbone; vocab_size is the task's"`
	Optim     TaskOptim    `json:"optim" help:"AdamW and the learning rate"`
}

// TaskOptim is Optim with a warmup that is counted in epochs.
type TaskOptim struct {
	Optim
	WarmupEpochs float64 `json:"warmup_epochs" min:"0" help:"epochs of linear warmup, besides the steps of warmup"`
}

// defaultTask is what a recipe starts from.
func defaultTask() TaskConfig {
	c := TaskConfig{
		Seed: 1, Precision: engine.Float32.String(), Memory: memoryCheck, Epochs: 10, BatchSize: 32, Clock: wallClock,
		Pool: "mean", Positions: "none",
		Model: model.DefaultConfig(),
		Optim: TaskOptim{Optim: Optim{
			LR: 1e-3, SSMLR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, DecayRule: "matrices", Schedule: "cosine",
		}},
	}
	c.Model.EmbedDropout, c.Model.AttnDropout = 0, 0
	return c
}

// TaskSettings is the configuration of a task by its recipe, before the user's changes, with the values of the task's options.
type TaskSettings struct {
	Task    *task.Task
	Recipe  task.Recipe
	Options any // what Task.Options gives, with values; nil where it has none
	Config  TaskConfig
}

// FindTask reads NAME or NAME(OPTION=VALUE,...) and the name of a recipe, "" for the first one. Settings of the recipe that are options
// of the task set those that the entry does not. All problems of both come at once; the settings are then those without
// what is wrong.
func FindTask(entry, recipe string) (*TaskSettings, error) {
	s := &TaskSettings{Config: defaultTask()}
	name, given, err := model.ParseEntry(entry)
	if err != nil {
		return s, fmt.Errorf("task: %w", err)
	}
	t, err := task.Find(name)
	if err != nil {
		return s, err
	}
	var p config.Problems
	r, err := t.Recipe(recipe)
	p.Add(err)
	s, err = recipeSettings(t, r, given)
	p.Add(err)
	return s, p.Err()
}

// recipeSettings are those of a task's recipe, with options of the task that are given. They come with an error too, without what is
// wrong.
func recipeSettings(t *task.Task, recipe task.Recipe, given map[string]string) (*TaskSettings, error) {
	s := &TaskSettings{Task: t, Recipe: recipe, Config: defaultTask()}
	name := t.Name
	var p config.Problems
	options := map[string]string{}
	known := map[string]bool{}
	if t.Options != nil {
		s.Options = t.Options()
		for _, o := range config.Describe(s.Options) {
			known[o.Key] = true
		}
	}
	settings := map[string]string{}
	for _, pair := range s.Recipe.Settings {
		key, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok:
			p.Addf("recipe "+s.Recipe.Name+" of "+name, "found %q, want KEY=VALUE", pair)
		case known[key]:
			options[key] = value
		default:
			settings[key] = value
		}
	}
	p.AddTo("recipe "+s.Recipe.Name+" of "+name, config.Pairs(&s.Config, settings))
	for key, value := range given {
		options[key] = value
	}
	switch {
	case s.Options != nil:
		p.AddTo("task "+name, config.Pairs(s.Options, options))
	case len(given) > 0:
		p.Addf("task "+name, "found options, but it has none")
	}
	s.Config.Task, s.Config.Recipe = s.entry(), s.Recipe.Name
	return s, p.Err()
}

// OpenTask makes or reads the data of the run that c is the configuration of.
func OpenTask(ctx context.Context, c *TaskConfig) (*task.Set, error) {
	s, err := FindTask(c.Task, c.Recipe)
	if err != nil {
		return nil, err
	}
	return s.Task.Open(ctx, c.Data, s.Options)
}

// entry is the task with its options that are not at their defaults.
func (s *TaskSettings) entry() string {
	if s.Options == nil {
		return s.Task.Name
	}
	var set []string
	defaults := config.Describe(s.Task.Options())
	for i, o := range config.Describe(s.Options) {
		if o.Value != defaults[i].Value {
			set = append(set, o.Key+"="+o.Value)
		}
	}
	if len(set) == 0 {
		return s.Task.Name
	}
	return s.Task.Name + "(" + strings.Join(set, ",") + ")"
}

// Validate returns every problem of the configuration at once that can be told without the data.
func (c *TaskConfig) Validate() error {
	var p config.Problems
	for _, f := range []struct {
		key string
		v   int
	}{{"epochs", c.Epochs}, {"batch_size", c.BatchSize}} {
		if f.v < 1 {
			p.Addf(f.key, "found %d, want at least 1", f.v)
		}
	}
	if c.MicroBatch < 0 || c.MicroBatch > c.BatchSize {
		p.Addf("micro_batch", "found %d, want 0 (for the whole batch) to batch_size %d", c.MicroBatch, c.BatchSize)
	}
	if c.EvalEvery < 0 {
		p.Addf("eval_every", "found %g, want 0 (for twenty evaluations) or more", c.EvalEvery)
	}
	if c.Time < 0 {
		p.Addf("time", "found %v, want a duration such as 30m, or 0s for no limit", c.Time)
	}
	if !slices.Contains(clocks, c.Clock) {
		p.Addf("clock", "found %q, want one of %q", c.Clock, clocks)
	}
	if !slices.Contains(model.Pools, c.Pool) {
		p.Addf("pool", "found %q, want one of %q", c.Pool, model.Pools)
	}
	if c.Positions != "none" && c.Positions != "learned" {
		p.Addf("positions", "found %q, want none or learned", c.Positions)
	}
	if c.Precision != engine.Float32.String() && c.Precision != engine.BF16.String() {
		p.Addf("precision", "found %q, want float32 or bf16", c.Precision)
	}
	c.Optim.validate(&p)
	var inner config.Problems
	inner.Add(c.Model.ValidateEncoder())
	for _, line := range inner {
		p = append(p, "model."+line)
	}
	return p.Err()
}

// network is the shape of the model for the data of a task.
func (c *TaskConfig) network(s *task.Set) model.NetworkConfig {
	n := model.NetworkConfig{
		Model: c.Model, Vocab: s.Vocab, Channels: s.Channels, Outputs: s.Outputs, Everywhere: s.Everywhere, Pairs: s.Pairs, Pool: c.Pool,
	}
	if len(s.Inputs)+len(s.Results)+len(s.Classes) > 0 {
		n.Signal = &model.Signal{Inputs: channels(s.Inputs), Outputs: channels(s.Results), Classes: s.Classes}
	}
	if c.Positions == "learned" && n.Model.MaxPositions == 0 {
		n.Model.MaxPositions = s.MaxLength
		if c.Pool == "cls" && !s.Everywhere {
			n.Model.MaxPositions++
		}
	}
	return n
}

// channels are the channels of a task as a network keeps them.
func channels(of []task.Channel) []model.Channel {
	var out []model.Channel
	for _, c := range of {
		out = append(out, model.Channel(c))
	}
	return out
}
