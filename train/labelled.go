package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/tensor"
)

// LabelledKind is the kind of the checkpoints of Labelled.
const LabelledKind = "labelled network"

// LabelledConfig is how a network is trained on labelled sequences.
type LabelledConfig struct {
	Out       string `json:"out" help:"folder of the run; empty: runs/task/TASK/RECIPE-seedN"`
	Seed      uint64 `json:"seed" help:"of all that is random but the data, whose seed is an option of the task"`
	Precision string `json:"precision" enum:"float32,bf16" help:"of the operands of matrix products while training"`
	Memory    string `json:"memory" enum:"check,ignore" help:"check: refuse what needs more than there is; ignore: try"`

	Epochs    int     `json:"epochs" min:"1" help:"passes over the training examples"`
	BatchSize int     `json:"batch_size" min:"1" help:"sequences of an update"`
	Shards    int     `json:"shards" min:"1" help:"parts of an update, computed in turn to save memory"`
	EvalEvery float64 `json:"eval_every" min:"0" help:"epochs between evaluations; 0 for twenty in all"`
	EvalLimit int     `json:"eval_limit" min:"0" help:"examples scored on the way; 0 for all"`
	// Time: the learning rate follows the share of it that is gone.
	Time  time.Duration `json:"time" min:"0s" help:"end after this time of training, such as 30m; 0s for none"`
	Clock string        `json:"clock" enum:"wall,cpu" help:"measures time: wall, or CPU time divided by cores"`
	Stop  float64       `json:"stop" min:"0" help:"end at this validation accuracy in percent; 0 for never"`

	Pool      string        `json:"pool" enum:"mean,last,cls" help:"what the head sees: mean, last or class token"`
	Positions string        `json:"positions" enum:"none,learned" help:"as attention without its own needs them"`
	Model     model.Config  `json:"model" help:"shape of the backbone; vocab_size is the task's"`
	Optim     LabelledOptim `json:"optim" help:"AdamW and the learning rate"`

	// MicroBatch is how Shards was given: by the sequences of one.
	MicroBatch int `json:"micro_batch,omitempty" config:"old" min:"0" help:"earlier form of shards: sequences of one"`
}

// LabelledOptim is Optim with a warmup that is counted in epochs.
type LabelledOptim struct {
	Optim
	WarmupEpochs float64 `json:"warmup_epochs" min:"0" help:"epochs of linear warmup, besides the steps of warmup"`
}

// DefaultLabelled is what settings start from.
func DefaultLabelled() LabelledConfig {
	c := LabelledConfig{
		Seed: 1, Precision: "float32", Memory: memoryCheck, Epochs: 10, BatchSize: 32, Shards: 1, Clock: wallClock,
		Pool: "mean", Positions: "none",
		Model: model.DefaultConfig(),
		Optim: LabelledOptim{Optim: Optim{
			LR: 1e-3, SSMLR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, DecayRule: "matrices",
			Schedule: "cosine",
		}},
	}
	c.Model.EmbedDropout, c.Model.AttnDropout = 0, 0
	return c
}

// Settle gives settings of earlier versions their form of today.
func (c *LabelledConfig) Settle() {
	if c.MicroBatch > 0 {
		c.Shards, c.MicroBatch = max(1, (c.BatchSize+c.MicroBatch-1)/c.MicroBatch), 0
	}
}

// Validate returns every problem of the configuration at once that can be told without the data.
func (c *LabelledConfig) Validate() error {
	c.Settle()
	var p config.Problems
	for _, f := range []struct {
		key string
		v   int
	}{{"epochs", c.Epochs}, {"batch_size", c.BatchSize}} {
		if f.v < 1 {
			p.Addf(f.key, "found %d, want at least 1", f.v)
		}
	}
	if c.Shards < 1 || c.Shards > c.BatchSize {
		p.Addf("shards", "found %d, want 1 to batch_size %d", c.Shards, c.BatchSize)
	}
	if c.EvalEvery < 0 {
		p.Addf("eval_every", "found %g, want 0 (for twenty evaluations) or more", c.EvalEvery)
	}
	if c.Time < 0 {
		p.Addf("time", "found %v, want a duration such as 30m, or 0s for no limit", c.Time)
	}
	checkOneOf(&p, "clock", c.Clock, clocks)
	checkOneOf(&p, "pool", c.Pool, model.Pools)
	if c.Positions != "none" && c.Positions != "learned" {
		p.Addf("positions", "found %q, want none or learned", c.Positions)
	}
	checkPrecision(&p, c.Precision)
	c.Optim.validate(&p)
	p.AddUnder("model.", c.Model.ValidateEncoder())
	return p.Err()
}

// Network is the shape of the model for labelled sequences.
func (c *LabelledConfig) Network(s *task.Set) model.NetworkConfig {
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

// channels are the channels of a set as a network keeps them.
func channels(of []task.Channel) []model.Channel {
	var out []model.Channel
	for _, c := range of {
		out = append(out, model.Channel(c))
	}
	return out
}

// Labelled is the work of a network on labelled sequences, with the loop that does it.
type Labelled struct {
	*Training
	Config LabelledConfig
	Set    *task.Set
	Net    *model.Network

	perEpoch int // updates
	epoch    int // of order
	order    [][]int
	indices  []int // of the examples of this update
	size     int   // sequences that are computed together
	batch    labelledBatch
	tally    tally
}

var _ Work = (*Labelled)(nil)

// OpenLabelled begins a run, or takes up the one whose last checkpoint is in the folder c.Out. all points to all
// settings of the run, c among them, which are saved with it. same compares the settings of a checkpoint, as JSON, with
// them: what differs is an error.
func OpenLabelled(c LabelledConfig, all any, set *task.Set, same func(saved []byte) error) (*Labelled, error) {
	if set.Train.Len() == 0 || set.Test.Len() == 0 {
		return nil, fmt.Errorf("found %d examples to train on and %d to test on, want some", set.Train.Len(),
			set.Test.Len())
	}
	net, err := newNetwork(&c, set)
	if err != nil {
		return nil, err
	}
	w := &Labelled{
		Config: c, Set: set, Net: net, epoch: -1, size: (c.BatchSize + c.Shards - 1) / c.Shards,
		perEpoch: (set.Train.Len() + c.BatchSize - 1) / c.BatchSize, batch: labelledBatch{set: set},
	}
	s, err := readSaved(c.Out, LabelledKind, checkpoint.RecoverDir)
	if errors.Is(err, fs.ErrNotExist) {
		net.Init(c.Seed)
		w.Training, err = NewTraining(w.plan(all), w)
		return w, err
	}
	if err != nil {
		return nil, err
	}
	if err := same(s.Config); err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Out, model.LastDir)
	return w, checkpoint.ReadDir(dir, func() (err error) {
		if err := net.LoadSaved(dir); err != nil {
			return err
		}
		if w.Training, err = NewTraining(w.plan(all), w); err != nil {
			return err
		}
		if err := s.within(dir, w.Plan.Steps); err != nil {
			return err
		}
		return w.restore(s, dir)
	})
}

// newNetwork makes the network for a set, if it can take it and there is memory for it.
func newNetwork(c *LabelledConfig, set *task.Set) (*model.Network, error) {
	m, err := model.NewNetwork(c.Network(set))
	if err != nil {
		return nil, err
	}
	if most := m.MaxLength(); most > 0 && set.MaxLength > most {
		return nil, fmt.Errorf("found sequences of %d positions, but the model takes at most %d (a layer's l_max, or "+
			"model.max_position_embeddings)", set.MaxLength, most)
	}
	if lengths, vary := set.Train.(task.Lengths); vary {
		for i := range set.Train.Len() {
			if err := m.Takes(lengths.Length(i)); err != nil {
				return nil, err
			}
		}
	}
	if free, known := status.FreeMemory(); known && c.Memory != memoryIgnore {
		n := m.NumParams()
		return m, weightsFit(paramCount{n, n, 4 * n}, c.Shards, free)
	}
	return m, nil
}

// plan is the plan of the run's loop.
func (w *Labelled) plan(all any) Plan {
	c := &w.Config
	o := c.Optim
	o.Warmup += int(math.Round(o.WarmupEpochs * float64(w.perEpoch)))
	p := Plan{
		Kind: LabelledKind, Config: all, Out: c.Out, Seed: c.Seed, Precision: c.Precision, Shards: c.Shards,
		Optim: o.Optim, Steps: c.Epochs * w.perEpoch, Time: c.Time, Clock: c.Clock, StepsPerEpoch: float64(w.perEpoch),
		UnitsPerStep: float64(c.BatchSize), Examples: true, KeepBest: w.Set.Valid != nil,
	}
	p.EvalEvery = max(1, p.Steps/20)
	if c.EvalEvery > 0 {
		p.EvalEvery = max(1, int(math.Round(c.EvalEvery*float64(w.perEpoch))))
	}
	p.LogEvery = p.EvalEvery
	return p
}

// NewTape returns a tape on the engine of the network.
func (w *Labelled) NewTape() *autograd.Tape { return w.Net.NewTape() }

// Params visits the parameters of the network.
func (w *Labelled) Params(prefix string, visit nn.Visitor) { w.Net.Params(prefix, visit) }

// Read finds the examples of an update in the order of their epoch.
func (w *Labelled) Read(step int) (examples int, err error) {
	if e := step / w.perEpoch; e != w.epoch {
		w.epoch, w.order = e, epochOrder(w.Set.Train, w.Config.BatchSize, w.Config.Seed, e)
	}
	w.indices = w.order[step%w.perEpoch]
	return len(w.indices), nil
}

// Loss is the cross-entropy or the squared error of a shard.
func (w *Labelled) Loss(t *autograd.Tape, s Shard) (loss *tensor.Tensor, count int, err error) {
	if err := w.batch.fill(w.Set.Train, w.indices[s.First:s.End]); err != nil {
		return nil, 0, err
	}
	w.batch.train(w.Config.Seed, s)
	_, loss = w.forward(t, &w.batch)
	return loss, w.batch.count, nil
}

// Went does nothing: no state is carried to the next step.
func (w *Labelled) Went(Shard) {}

// watched are the examples that are measured on the way.
func (w *Labelled) watched() task.Split {
	if w.Set.Valid == nil {
		return w.Set.Test
	}
	return w.Set.Valid
}

// Try is the loss on one batch.
func (w *Labelled) Try(ctx context.Context, t *autograd.Tape) (float64, error) {
	s, err := w.score(ctx, t, w.watched(), w.size)
	return s.Loss, err
}

// Measure scores the network on the validation examples, or the test's where there are none.
func (w *Labelled) Measure(ctx context.Context, t *autograd.Tape, _ bool) (Score, error) {
	return w.score(ctx, t, w.watched(), w.Config.EvalLimit)
}

// Remeasure is the score that the best network had: all are measured alike.
func (w *Labelled) Remeasure(_ context.Context, _ *autograd.Tape, _ string, score Score) (Score, error) {
	return score, nil
}

// Enough tells whether a score is as high as the configuration asks for.
func (w *Labelled) Enough(s Score) bool {
	return w.Config.Stop > 0 && !w.Set.Numbers && s.Accuracy >= w.Config.Stop
}

// Guess is the loss of a model for which all classes are equally probable. There is none for numbers.
func (w *Labelled) Guess() float64 {
	if w.Set.Numbers {
		return math.Inf(1)
	}
	return math.Log(float64(w.Set.Outputs))
}

// SaveModel writes the network.
func (w *Labelled) SaveModel(dir string) error { return w.Net.Save(dir) }

// Place is empty: the number of updates says which examples come next.
func (w *Labelled) Place(string) (any, error) { return nil, nil }

// Return does nothing: Read is told the number of the update.
func (w *Labelled) Return([]byte, string) error { return nil }

// TakeBest gives the network the weights that did best on the validation examples, and returns their score; nil where
// there are no validation examples.
func (w *Labelled) TakeBest() (*Score, error) {
	best, ok := w.BestPoint()
	if w.Set.Valid == nil || !ok {
		return nil, nil
	}
	dir := filepath.Join(w.Config.Out, model.BestDir)
	return &best.Valid, checkpoint.ReadDir(dir, func() error { return w.Net.LoadSaved(dir) }, model.WeightsFile)
}

// Score measures the network on all examples of a split.
func (w *Labelled) Score(ctx context.Context, split task.Split) (Score, error) {
	return w.score(ctx, w.tape, split, 0)
}

// Forecast returns the network's forecast of one example, and the truth: rows of Set.Outputs numbers. known are the
// rows of Set.Channels numbers that were given before.
func (w *Labelled) Forecast(ctx context.Context, split task.Split,
	i int) (known, truth, forecast []float32, err error) {
	if _, err := w.score(ctx, w.tape, task.Part(split, i, 1), 0); err != nil {
		return nil, nil, nil, err
	}
	b := &w.batch
	return b.in.Values[:(b.lengths[0]-b.asked[0])*w.Set.Channels], b.numbers, w.tally.out, nil
}

// Longest is the length of the longest sequence of a split.
func (w *Labelled) Longest(split task.Split) int {
	most := 0
	var ex task.Example
	for i := range split.Len() {
		split.Example(i, &ex)
		most = max(most, w.batch.length(&ex), len(ex.Second))
	}
	return most
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
