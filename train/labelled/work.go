package labelled

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// Work implements train.Work for a network on labelled sequences.
type Work struct {
	Config Config
	Set    *task.Set
	Net    *model.Network

	perEpoch int // updates per epoch
	epoch    int // epoch of order
	order    [][]int
	indices  []int // examples of this update
	size     int   // sequences that are computed together
	batch    batch
	tally    tally
}

var _ train.Work = (*Work)(nil)

// Open starts a run, or continues the one whose last checkpoint is in the folder c.Out. all points to all settings of
// the run, including c, which are saved with it. same compares the settings of a checkpoint, given as JSON, with them
// and returns an error if they differ. Open returns the work and the loop that trains it.
func Open(c Config, all any, set *task.Set, same func(saved []byte) error) (w *Work, l *train.Training, err error) {
	if set.Train.Len() == 0 || set.Test.Len() == 0 {
		return nil, nil, fmt.Errorf("found %d examples to train on and %d to test on, want some", set.Train.Len(),
			set.Test.Len())
	}
	net, err := c.choose(set)
	if err != nil {
		return nil, nil, err
	}
	w = &Work{
		Config: c, Set: set, Net: net, epoch: -1, size: (c.BatchSize + c.Shards - 1) / c.Shards,
		perEpoch: (set.Train.Len() + c.BatchSize - 1) / c.BatchSize, batch: batch{set: set},
	}
	s, err := train.ReadSaved(c.Out, train.LabelledKind, checkpoint.RecoverDir)
	if errors.Is(err, fs.ErrNotExist) {
		net.Init(c.Seed)
		c.use(net)
		l, err = train.New(w.plan(all), w)
		return w, l, err
	}
	if err != nil {
		return nil, nil, err
	}
	if err := same(s.Config); err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(c.Out, model.LastDir)
	err = checkpoint.ReadDir(dir, func() (err error) {
		if err := net.LoadSaved(dir); err != nil {
			return err
		}
		c.use(net)
		if l, err = train.New(w.plan(all), w); err != nil {
			return err
		}
		if err := s.Within(dir, l.Plan.Steps); err != nil {
			return err
		}
		return l.Restore(s, dir)
	})
	return w, l, err
}

// choose returns the network for a set. If Faster is set and the network does not fit on the device or is not faster
// there, it sets Device to nil and chooses the processor.
func (c *Config) choose(set *task.Set) (*model.Network, error) {
	net, err := newNetwork(c, set)
	if c.Device == nil || c.Faster == nil {
		return net, err
	}
	use, told, err := train.OnDevice(err, c.Network(set).Model, c.Device)
	if err != nil {
		return nil, err
	}
	if c.Faster(told); use {
		return net, nil
	}
	c.Device = nil
	return newNetwork(c, set)
}

// use moves an initialized network to the device.
func (c *Config) use(net *model.Network) {
	if c.Device != nil {
		net.Use(c.Device)
	}
}

// newNetwork returns the network for a set. It returns an error if the network cannot process the set's sequences or
// there is too little memory.
func newNetwork(c *Config, set *task.Set) (*model.Network, error) {
	m, err := model.NewNetwork(c.Network(set))
	if err != nil {
		return nil, err
	}
	if most := m.MaxLength(); most > 0 && set.MaxLength > most {
		return nil, fmt.Errorf("found sequences of %d positions, but the model takes at most %d (a layer's l_max, "+
			"or model.max_position_embeddings)", set.MaxLength, most)
	}
	if lengths, vary := set.Train.(task.Lengths); vary {
		for i := range set.Train.Len() {
			if err := m.Takes(lengths.Length(i)); err != nil {
				return nil, err
			}
		}
	}
	if free, known := train.FreeMemory(c.Device); known && c.Memory != train.MemoryIgnore {
		n := m.NumParams()
		params := train.ParamCount{All: n, Trained: n, Values: 4 * n}
		if err := train.WeightsFit(params, c.Shards, free); err != nil {
			return nil, err
		}
		if most := leastActivations(m) * set.MaxLength; params.Bytes(c.Shards)+most > int(free.Bytes) {
			return nil, &train.MemoryError{Need: params.Bytes(c.Shards) + most, Weights: params.Bytes(c.Shards),
				Activations: most, Free: free, Advice: fmt.Sprintf("the longest sequence has %d positions: "+
					"shorter ones (hippo fit: --length N learns them in pieces) need less", set.MaxLength)}
		}
	}
	return m, nil
}

// leastActivations returns a lower bound of the bytes that training keeps for a position: the input and, for each
// layer, the results of the norm, the mixer's products and its output.
func leastActivations(m *model.Network) int {
	return 4 * (m.Config.Channels + 8*m.Config.Model.DModel*len(m.Blocks))
}

// plan returns the plan of the training loop.
func (w *Work) plan(all any) train.Plan {
	c := &w.Config
	o := c.Optim
	o.Warmup += int(math.Round(o.WarmupEpochs * float64(w.perEpoch)))
	p := train.Plan{
		Kind: train.LabelledKind, Config: all, Out: c.Out, Seed: c.Seed, Precision: c.Precision, Shards: c.Shards,
		Optim: o.Optim, Steps: cmp.Or(c.Steps, c.Epochs*w.perEpoch), Time: c.Time, Clock: c.Clock,
		StepsPerEpoch: float64(w.perEpoch), UnitsPerStep: float64(c.BatchSize), Examples: true,
		KeepBest: w.Set.Valid != nil, Patience: c.Patience, EMA: c.EMA,
	}
	p.EvalEvery = max(1, p.Steps/20)
	if c.EvalEvery > 0 {
		p.EvalEvery = max(1, int(math.Round(c.EvalEvery*float64(w.perEpoch))))
	}
	p.LogEvery = p.EvalEvery
	return p
}

// Estimate is the time and memory that a run needs, measured by some of its updates.
type Estimate struct {
	Params      int     `json:"params"`
	Steps       int     `json:"steps"`
	StepSeconds float64 `json:"step_s"`
	RunSeconds  float64 `json:"run_s"`        // without evaluations
	Memory      uint64  `json:"memory_bytes"` // of the process, with the data
}

// Estimate makes three updates, in memory only, and measures the last two. The first one also allocates memory.
func (w *Work) Estimate(l *train.Training) (Estimate, error) {
	var start time.Time
	const measured = 2
	for i := range 1 + measured {
		if i == 1 {
			start = time.Now()
		}
		if _, _, err := l.Step(); err != nil {
			return Estimate{}, err
		}
	}
	e := Estimate{Params: w.Net.NumParams(), StepSeconds: time.Since(start).Seconds() / measured, Memory: status.RSS(),
		Steps: l.Plan.Steps}
	e.RunSeconds = float64(e.Steps) * e.StepSeconds
	if limit := l.Plan.Time.Seconds(); limit > 0 {
		e.RunSeconds = min(e.RunSeconds, limit)
	}
	return e, nil
}

// NewTape returns a tape on the network's engine.
func (w *Work) NewTape() *autograd.Tape { return w.Net.NewTape() }

// Params visits the parameters of the network.
func (w *Work) Params(prefix string, visit nn.Visitor) { w.Net.Params(prefix, visit) }

// Read finds the examples of an update in the order of the epoch.
func (w *Work) Read(step int) (examples int, err error) {
	if e := step / w.perEpoch; e != w.epoch {
		w.epoch, w.order = e, epochOrder(w.Set.Train, w.Config.BatchSize, w.Config.Seed, e)
	}
	w.indices = w.order[step%w.perEpoch]
	return len(w.indices), nil
}

// Loss returns the loss of a shard: cross-entropy, squared error or, with levels, pinball loss.
func (w *Work) Loss(t *autograd.Tape, s train.Shard) (loss *tensor.Tensor, count int, err error) {
	if err := w.batch.fill(w.Set.Train, w.indices[s.First:s.End]); err != nil {
		return nil, 0, err
	}
	w.batch.train(w.Config.Seed, s)
	_, loss = w.forward(t, &w.batch)
	return loss, w.batch.count, nil
}

// Went does nothing: no state is carried to the next step.
func (w *Work) Went(train.Shard) {}

// watched returns the examples that are measured during the run.
func (w *Work) watched() task.Split {
	if w.Set.Valid == nil {
		return w.Set.Test
	}
	return w.Set.Valid
}

// Try returns the loss on one batch.
func (w *Work) Try(ctx context.Context, t *autograd.Tape) (float64, error) {
	s, err := w.score(ctx, t, w.watched(), w.size)
	return s.Loss, err
}

// Measure scores the network on the validation examples or, if there are none, the test examples.
func (w *Work) Measure(ctx context.Context, t *autograd.Tape, _ bool) (train.Score, error) {
	return w.score(ctx, t, w.watched(), w.Config.EvalLimit)
}

// Remeasure returns the given score: all measurements are made in the same way.
func (w *Work) Remeasure(_ context.Context, _ *autograd.Tape, _ string, score train.Score) (train.Score, error) {
	return score, nil
}

// Enough reports whether a score reaches the accuracy Config.Stop.
func (w *Work) Enough(s train.Score) bool {
	return w.Config.Stop > 0 && !w.Set.Numbers && s.Accuracy >= w.Config.Stop
}

// Guess returns the loss of a model for which all classes are equally probable, or +Inf if targets are numbers.
func (w *Work) Guess() float64 {
	if w.Set.Numbers {
		return math.Inf(1)
	}
	return math.Log(float64(w.Set.Outputs))
}

// SaveModel writes the network.
func (w *Work) SaveModel(dir string) error { return w.Net.Save(dir) }

// Place returns nil: the number of updates determines which examples come next.
func (w *Work) Place(string) (any, error) { return nil, nil }

// Return does nothing: Read receives the number of the update.
func (w *Work) Return([]byte, string) error { return nil }

// TakeBest loads the weights that scored best on the validation examples in a run, and returns their score. Without
// validation examples it takes the average of the weights, if there is one, and returns nil.
func (w *Work) TakeBest(l *train.Training) (*train.Score, error) {
	best, ok := l.BestPoint()
	if w.Set.Valid == nil || !ok {
		l.TakeAverage()
		return nil, nil
	}
	dir := filepath.Join(w.Config.Out, model.BestDir)
	return &best.Valid, checkpoint.ReadDir(dir, func() error { return w.Net.LoadSaved(dir) }, model.WeightsFile)
}

// Score measures the network on all examples of a split.
func (w *Work) Score(ctx context.Context, t *autograd.Tape, split task.Split) (train.Score, error) {
	return w.score(ctx, t, split, 0)
}

// Forecast returns the network's forecast of one example and the truth, as rows of Set.Outputs numbers. known holds the
// preceding input rows, of Set.Channels numbers each.
func (w *Work) Forecast(ctx context.Context, t *autograd.Tape, split task.Split,
	i int) (known, truth, forecast []float32, err error) {
	if _, err := w.score(ctx, t, task.Part(split, i, 1), 0); err != nil {
		return nil, nil, nil, err
	}
	b := &w.batch
	return b.in.Values[:(b.lengths[0]-b.asked[0])*w.Set.Channels], b.numbers, w.tally.out, nil
}

// Longest returns the length of the longest sequence of a split.
func (w *Work) Longest(split task.Split) int {
	most := 0
	var ex task.Example
	for i := range split.Len() {
		split.Example(i, &ex)
		most = max(most, w.batch.length(&ex), len(ex.Second))
	}
	return most
}

// Train runs the loop that Open returned, and adds a note if the training diverged.
func (w *Work) Train(ctx context.Context, l *train.Training) (interrupted bool, err error) {
	interrupted, err = l.Run(ctx)
	if err != nil || interrupted {
		return interrupted, err
	}
	if err := l.Diverged(l.Final.Loss); err != nil { // no error, as the score shows it too
		l.Note(err.Error())
	}
	return false, nil
}

// KeepAsBest replaces the saved best network by the current one. It has the same weights but more information, such as
// how wide its intervals have to be.
func (w *Work) KeepAsBest() error {
	return train.WriteModel(filepath.Join(w.Config.Out, model.BestDir), w)
}
