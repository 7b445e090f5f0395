package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/optim"
)

// Trainer is a run in progress: the model, the optimizer and the place in the data. All of
// it is saved in a checkpoint, so that a resumed run makes the same weights, bit for bit, as one that was not stopped.
type Trainer struct {
	Config Config
	Model  *model.Model
	Data   *Dataset

	opt       *optim.AdamW
	schedule  optim.Schedule
	loader    *data.Loader
	tape      *autograd.Tape
	grads     *autograd.Gradients // of an update, in the optimizer's order
	precision engine.Precision    // of updates; evaluations are in float32
	source    *rand.PCG           // saved for earlier versions, whose dropout masks it made
	carried   []*model.State      // with CarryState: those of the sequences after the last batch
	step      int                 // updates made
	factor    float64             // of the learning rate, in the last of them
	budget    budget              // of time, where the run has one
	prompt    samplePrompt

	best      float64 // lowest validation loss so far, +Inf before the first
	bestStep  int     // at this step
	lastValid float64
	history   history
	elapsed   time.Duration // of earlier parts of the run
	inputs    []int32       // of all micro-batches of an update
	targets   []int32
}

// NewTrainer makes a model of the configuration's shape, freshly initialized, and prepares to train it on d. When the
// configuration leaves vocab_size to the tokenizer it is filled in.
func NewTrainer(cfg Config, d *Dataset) (*Trainer, error) {
	return newTrainer(cfg, d, func(m *model.Model) error {
		m.Init(cfg.Seed)
		return nil
	})
}

// newTrainer is NewTrainer with a function that gives the parameters their values.
func newTrainer(cfg Config, d *Dataset, start func(*model.Model) error) (*Trainer, error) {
	vocab := d.Tokenizer.VocabSize()
	if cfg.Model.VocabSize == 0 {
		cfg.Model.VocabSize = vocab
	}
	if cfg.Model.VocabSize < vocab {
		return nil, tooFewTokens(cfg.Model.VocabSize, d.Tokenizer.Kind(), vocab)
	}
	cfg.Model.Tokenizer = d.Tokenizer.Fingerprint()
	m, err := model.New(cfg.Model)
	if err != nil {
		return nil, err
	}
	if err := fits(m, cfg.Train.SeqLen, cfg.Train.CarryState); err != nil {
		return nil, fmt.Errorf("train.seq_len: %w", err)
	}
	if err := start(m); err != nil {
		return nil, err
	}
	mode := data.Shuffle
	if cfg.Train.CarryState {
		mode = data.Stream
	}
	loader, err := data.NewLoader(d.Train, data.LoaderOptions{
		BatchSize: cfg.Train.BatchSize, SeqLen: cfg.Train.SeqLen, Seed: cfg.Seed, Mode: mode,
	})
	if err != nil {
		return nil, fmt.Errorf("training text: %w", err)
	}
	if d.Valid.Len() < 2 {
		return nil, fmt.Errorf("validation text: found %d tokens, want at least 2; give more text or a larger valid_fraction", d.Valid.Len())
	}
	precision, err := engine.ParsePrecision(cfg.Precision)
	if err != nil {
		return nil, fmt.Errorf("precision: %w", err)
	}
	o := cfg.Optim
	source := rand.NewPCG(cfg.Seed, 0x647270) // any other stream than that of the initialization
	n := cfg.Train.tokensPerStep()
	tr := &Trainer{
		Config: cfg, Model: m, Data: d, loader: loader, tape: autograd.NewTape(), precision: precision, source: source,
		opt:      optim.NewAdamW(o.groups(m), o.Beta1, o.Beta2, o.Eps, o.Clip),
		schedule: o.schedule(cfg.Train.Steps), best: math.Inf(1), lastValid: math.NaN(),
		budget: newBudget(cfg.Train.Time, cfg.Train.Clock), inputs: make([]int32, n), targets: make([]int32, n),
	}
	tr.grads = autograd.NewGradients(tr.opt.Tensors()...)
	tr.tape.Collect(tr.grads)
	tr.choosePrompt()
	return tr, nil
}

// NonFiniteError says that training broke down: a loss, gradient or weight became NaN or infinite.
type NonFiniteError struct {
	Step  int    // the update that could not be made, counted from 1
	What  string // "loss", "gradient"
	Value float64
	Where string // the tensor in which it was seen first
}

// Error says what broke down and where, and which settings may help.
func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("step %d: the %s became %v, first seen in %s; want finite numbers (a smaller optim.lr, a longer optim.warmup or a smaller optim.clip may help)",
		e.Step, e.What, e.Value, e.Where)
}

// Step makes one update and returns its mean loss, in nats per token, and the norm of the gradient before clipping. Its
// batches are read first, so that a *data.LostError leaves the trainer as it was.
func (tr *Trainer) Step() (loss, norm float64, err error) {
	defer tr.budget.count()()
	c := &tr.Config.Train
	t := tr.tape
	t.Record(true)
	t.SetPrecision(tr.precision)
	resets, err := tr.read()
	if err != nil {
		return math.NaN(), math.NaN(), err
	}
	for i, reset := range resets {
		part, err := tr.micro(i, reset, 1/float32(c.Accumulation))
		if err != nil {
			return part, math.NaN(), err
		}
		loss += part / float64(c.Accumulation)
	}
	tr.factor = tr.rate()
	norm = tr.opt.Step(tr.grads.Each(), 1, tr.factor)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		name, _ := tr.opt.NonFiniteGrad(tr.grads.Each())
		return loss, norm, &NonFiniteError{Step: tr.step + 1, What: "gradient", Value: norm, Where: "the gradient of " + name}
	}
	tr.step++
	return loss, norm, nil
}

// read reads the micro-batches of the next update. For each it tells whether a carried state begins anew.
func (tr *Trainer) read() (resets []bool, err error) {
	at := tr.loader.Cursor()
	for i := range tr.Config.Train.Accumulation {
		inputs, targets := tr.batch(i)
		reset, err := tr.loader.Next(inputs, targets)
		if err != nil {
			return nil, errors.Join(err, tr.loader.Seek(at))
		}
		resets = append(resets, reset)
	}
	return resets, nil
}

// batch is what read has read of a micro-batch.
func (tr *Trainer) batch(i int) (inputs, targets []int32) {
	n := tr.Config.Train.BatchSize * tr.Config.Train.SeqLen
	return tr.inputs[i*n:][:n], tr.targets[i*n:][:n]
}

// micro adds scale times the gradient of a micro-batch and returns its loss.
func (tr *Trainer) micro(i int, reset bool, scale float32) (float64, error) {
	c, t := &tr.Config.Train, tr.tape
	inputs, targets := tr.batch(i)
	t.Reset()
	if c.CarryState && (reset || tr.carried == nil) {
		tr.carried = newStates(tr.Model, c.BatchSize)
	}
	rows := &model.Rows{}
	for k := range c.BatchSize {
		var s *model.State
		if tr.carried != nil {
			s = tr.carried[k]
		}
		rows.Add(c.SeqLen, s)
	}
	rows.Train(engine.RowSeeds(tr.Config.Seed, tr.step, i*c.BatchSize, c.BatchSize)...)
	hidden := tr.Model.Forward(t, inputs, rows)
	out := tr.Model.Loss(t, hidden, targets)
	var loss [1]float32
	out.CopyTo(loss[:])
	if v := float64(loss[0]); math.IsNaN(v) || math.IsInf(v, 0) {
		return v, &NonFiniteError{Step: tr.step + 1, What: "loss", Value: v, Where: firstNonFinite(tr.opt, tr.tape)}
	}
	t.BackwardFrom(out, []float32{scale})
	for _, s := range tr.carried {
		s.Detach()
		s.Keep(c.SeqLen) // attention sees one sequence back, the recurrent states all of the text
	}
	return float64(loss[0]), nil
}

// firstNonFinite names the first tensor of a step that holds a NaN or an infinity: a weight, if one does, else a result.
func firstNonFinite(opt *optim.AdamW, tape *autograd.Tape) string {
	if name, found := opt.NonFiniteParam(); found {
		return "the weights " + name
	}
	if where, found := tape.FirstNonFinite(); found {
		return where
	}
	return "the loss"
}

// rate is the factor of the learning rate for the next update.
func (tr *Trainer) rate() float64 {
	if tr.budget.limit > 0 {
		return tr.schedule.At(tr.budget.share() * float64(tr.Config.Train.Steps))
	}
	return tr.schedule.Factor(tr.step)
}

// done reports whether all steps are made or, in a run with a budget of time, all of it is used.
func (tr *Trainer) done() bool {
	if tr.budget.limit > 0 {
		return tr.budget.used >= tr.budget.limit
	}
	return tr.step >= tr.Config.Train.Steps
}

// stepsInAll is how many steps the run has, of one with a budget of time as its speed so far tells.
func (tr *Trainer) stepsInAll() int {
	switch share := tr.budget.share(); {
	case tr.budget.limit == 0:
		return tr.Config.Train.Steps
	case tr.done() || share == 0:
		return tr.step
	default:
		return max(tr.step+1, int(math.Round(float64(tr.step)/share)))
	}
}

// Steps is the number of updates made.
func (tr *Trainer) Steps() int { return tr.step }

// Evaluate is the mean loss on at most limit validation tokens (0 for all), in windows of the training length.
func (tr *Trainer) Evaluate(ctx context.Context, limit int) (float64, error) {
	tokens := tr.Data.Valid
	if limit > 0 && limit+1 < tokens.Len() {
		tokens = tokens.Slice(0, limit+1)
	}
	r, err := Evaluate(ctx, tr.Model, tokens, EvalOptions{SeqLen: tr.Config.Train.SeqLen, BatchSize: tr.Config.Train.BatchSize, tape: tr.tape})
	return r.Loss, err
}

// tokensPerStep is the number of training tokens of one update.
func (c *Loop) tokensPerStep() int { return c.BatchSize * c.SeqLen * c.Accumulation }
