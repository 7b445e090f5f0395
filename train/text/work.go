package text

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// Work implements train.Work for a language model: each token is predicted from those before it.
type Work struct {
	Config Config
	Model  *model.Model
	Data   *Dataset

	params  train.ParamCount
	loader  *data.Loader
	carried []*model.State // with CarryState: states of the sequences after the last update; nil before the first
	begins  bool           // the sequences of this update begin with new states
	coming  map[int][]byte // states of shards that are received in part
	prompt  samplePrompt
	sampled string            // the last sample text
	texts   map[string][]byte // files of release.ChatFiles, from the model that the run started from
	modules map[string]string // names of matrices in the files of that model, if an adapter is trained
	inputs  []int32           // inputs of an update
	targets []int32
	borders [][]int // document borders in each sequence of the update
	copies  copies  // for Train.Recompute
}

var _ train.Work = (*Work)(nil)

// New returns the work of training on d a model of the configuration's shape, freshly initialized or with the weights
// of the model that Init names. If vocab_size is 0 it is set to the tokenizer's.
func New(cfg Config, d *Dataset) (*Work, error) {
	if err := cfg.begun(); err != nil {
		return nil, err
	}
	cfg.Documents = cmp.Or(cfg.Documents, documentsApart)
	tr, err := newTrainer(cfg, d, func(m *model.Model) error {
		if cfg.Init != "" {
			if err := cfg.Base.fill(m, cfg.InitWeights, &cfg.LoRA); err != nil {
				return err
			}
			return cfg.LoRA.begin(m, cfg.Seed)
		}
		m.Init(cfg.Seed)
		return nil
	})
	if err != nil {
		return nil, err
	}
	tr.Config.Base, tr.Config.InitWeights = cfg.Base, cfg.Base.Weights
	if tr.texts, err = cfg.chatTexts(); err != nil {
		return nil, err
	}
	tr.texts, err = withEnds(tr.texts, cfg.ReplyEnd, d.Tokenizer)
	return tr, err
}

// newTrainer returns a Work whose parameters get their values from start.
func newTrainer(cfg Config, d *Dataset, start func(*model.Model) error) (*Work, error) {
	cfg.settle()
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
	if err := cfg.Train.chunked(m); err != nil {
		return nil, err
	}
	if err := start(m); err != nil {
		return nil, err
	}
	params, err := cfg.freeze(m)
	if err != nil {
		return nil, err
	}
	modules, err := cfg.modules(m)
	if err != nil {
		return nil, err
	}
	if cfg.Device != nil {
		m.Use(cfg.Device)
	}
	mode := data.Shuffle
	if cfg.Train.CarryState {
		mode = data.Stream
	}
	loader, err := data.NewLoader(d.Train, data.LoaderOptions{
		BatchSize: cfg.Train.sequences(), SeqLen: cfg.Train.SeqLen, Seed: cfg.Seed, Mode: mode,
	})
	if err != nil {
		return nil, fmt.Errorf("training text: %w", err)
	}
	if d.Valid.Len() < 2 {
		return nil, fmt.Errorf("validation text: found %d tokens, want at least 2; "+
			"give more text or a larger valid_fraction", d.Valid.Len())
	}
	if n, _, err := d.Valid.Targets(); err != nil {
		return nil, err
	} else if n == 0 {
		return nil, fmt.Errorf("validation text: found nothing in %d tokens that counts, want a reply, "+
			"or documents of two tokens; give more text or a larger valid_fraction", d.Valid.Len())
	}
	cfg.Train.countSteps(loader.TokensPerEpoch())
	tr := &Work{
		Config: cfg, Model: m, Data: d, params: params, loader: loader, modules: modules,
	}
	tr.makeRoom()
	tr.choosePrompt()
	return tr, nil
}

// makeRoom allocates the inputs, targets and borders of an update.
func (tr *Work) makeRoom() {
	n := tr.Config.Train.tokensPerStep()
	tr.inputs, tr.targets = make([]int32, n), make([]int32, n)
	tr.borders = make([][]int, tr.Config.Train.sequences())
}

// Begin returns the loop that trains the model.
func (tr *Work) Begin() (*train.Training, error) { return train.New(tr.plan(), tr) }

// FindLR runs the learning-rate range test with updates of a run of this configuration, see [train.FindLR].
func (c Config) FindLR(ctx context.Context, n int, told func(train.LRPoint)) (*train.LRRange, error) {
	d, err := c.OpenData(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	tr, err := New(c, d)
	if err != nil {
		return nil, err
	}
	return train.FindLR(ctx, n, tr.plan(), tr, told)
}

// plan returns the plan of the training loop.
func (tr *Work) plan() train.Plan {
	c := &tr.Config
	t := &c.Train
	epoch := t.tokensPerStep()
	if tr.loader != nil {
		epoch = tr.loader.TokensPerEpoch()
	}
	return train.Plan{
		Kind: train.LanguageKind, Config: c, Out: c.Out, Seed: c.Seed, Precision: c.Precision, Shards: t.Shards,
		Islands: t.plan(), Split: t.Moments == momentsSplit, Optim: c.Optim, Steps: t.Steps, Time: t.Time,
		Clock: t.Clock, TimeAlone: true,
		StepsPerEpoch: float64(epoch) / float64(t.tokensPerStep()),
		UnitsPerStep:  float64(t.tokensPerStep()),
		EvalEvery:     t.EvalEvery, LogEvery: t.LogEvery, SaveEvery: t.SaveEvery, KeepBest: true,
		MeasureFirst: c.Init != "", Sample: tr.SampleText, SampleEvery: t.SampleEvery, Patience: t.Patience, EMA: t.EMA,
	}
}

// NewTape returns a tape on the model's engine.
func (tr *Work) NewTape() *autograd.Tape { return tr.Model.NewTape() }

// Params visits the parameters of the model, and those of its adapter.
func (tr *Work) Params(prefix string, visit nn.Visitor) {
	tr.Model.Params(prefix, visit)
	if a := tr.Model.Adapter(); a != nil {
		a.Params(prefix, visit)
	}
}

// Read reads the sequences of the next update.
func (tr *Work) Read(int) (examples int, err error) {
	c := &tr.Config.Train
	if tr.loader == nil { // the leader reads, and Take stores its rows
		return c.sequences(), nil
	}
	anew, err := tr.next()
	for i := range tr.borders {
		tr.borders[i] = tr.loader.Borders(i)
	}
	if tr.begins = c.CarryState && (anew || tr.carried == nil); err == nil && tr.begins {
		tr.carried = newStates(tr.Model, c.sequences())
	}
	return c.sequences(), err
}

// rows returns the rows of a shard: one for each document in each of its sequences.
func (tr *Work) rows(s train.Shard) *model.Rows {
	rows := &model.Rows{}
	var seeds []uint64
	for k, seed := range engine.RowSeeds(tr.Config.Seed, s.Step, s.First, s.End-s.First) {
		var state *model.State
		if tr.carried != nil {
			state = tr.carried[s.First+k]
		}
		before := rows.Count()
		state = rows.AddDocuments(tr.Model, tr.Config.Train.SeqLen, tr.borders[s.First+k], state)
		if state != nil {
			tr.carried[s.First+k] = state
		}
		for piece := range rows.Count() - before {
			seeds = append(seeds, engine.PieceSeed(seed, piece))
		}
	}
	rows.Train(seeds...)
	return rows
}

// Loss returns the cross-entropy of a shard.
func (tr *Work) Loss(t *autograd.Tape, s train.Shard) (loss *tensor.Tensor, count int, err error) {
	c := &tr.Config.Train
	hidden := tr.Model.Forward(t, tr.inputs[s.First*c.SeqLen:s.End*c.SeqLen], tr.rows(s))
	targets := tr.targets[s.First*c.SeqLen : s.End*c.SeqLen]
	return tr.Model.Loss(t, hidden, targets), countAsked(targets), nil
}

// Went detaches the states of a shard from the tape.
func (tr *Work) Went(s train.Shard) {
	if tr.carried == nil {
		return
	}
	for _, state := range tr.carried[s.First:s.End] {
		state.Detach()
		state.Keep(tr.Config.Train.SeqLen) // attention sees one sequence back, recurrent states all of the text
	}
}

// Evaluate returns the mean loss on the first limit validation tokens, or on all if limit is 0, in windows of the
// training length.
func (tr *Work) Evaluate(ctx context.Context, t *autograd.Tape, limit int) (float64, error) {
	s, err := tr.evaluate(ctx, t, tr.Model, limit)
	return s.Loss, err
}

func (tr *Work) evaluate(ctx context.Context, t *autograd.Tape, m *model.Model, limit int) (train.Score, error) {
	tokens, err := tr.Data.Valid, error(nil)
	if limit > 0 {
		if tokens, err = firstAsked(tokens, limit); err != nil {
			return train.Score{}, err
		}
	}
	c := &tr.Config.Train
	if c.Recompute && t.Bytes() == 0 { // windows shorter than the sequences of updates would leave useless buffers
		t = m.NewTape()
		defer runtime.GC()
	}
	r, err := Evaluate(ctx, m, tokens, EvalOptions{SeqLen: c.SeqLen, BatchSize: c.BatchSize, Chunk: c.Chunk, tape: t})
	return train.Score{Loss: r.Loss, Count: r.Tokens}, err
}

// Try returns the loss on one sequence of the validation text.
func (tr *Work) Try(ctx context.Context, t *autograd.Tape) (float64, error) {
	return tr.Evaluate(ctx, t, tr.Config.Train.SeqLen)
}

// Measure returns the loss on eval_tokens validation tokens or, at the end, on all.
func (tr *Work) Measure(ctx context.Context, t *autograd.Tape, last bool) (train.Score, error) {
	limit := tr.Config.Train.EvalTokens
	if last && !tr.Config.smoke {
		limit = 0
	}
	return tr.evaluate(ctx, t, tr.Model, limit)
}

// Remeasure returns the loss of the best checkpoint on all validation text, or +Inf if there is no checkpoint.
func (tr *Work) Remeasure(ctx context.Context, t *autograd.Tape, dir string, score train.Score) (train.Score, error) {
	if wholeText := tr.Config.Train.EvalTokens+1 >= tr.Data.Valid.Len(); wholeText || tr.Config.smoke {
		return score, nil
	}
	best, err := tr.loadBest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return train.Score{Loss: math.Inf(1)}, nil
	}
	if err != nil {
		return train.Score{}, err
	}
	return tr.evaluate(ctx, t, best, 0)
}

// Enough returns false: a language model trains until the end.
func (tr *Work) Enough(train.Score) bool { return false }

// Guess returns the loss of a model for which all tokens are equally probable.
func (tr *Work) Guess() float64 { return math.Log(float64(tr.Config.Model.PaddedVocab())) }

// SaveModel writes the configuration, weights, tokenizer and chat files of the model. If an adapter is trained, it
// writes only the adapter.
func (tr *Work) SaveModel(dir string) error {
	if tr.Config.LoRA.Rank > 0 {
		return tr.saveAdapter(dir)
	}
	if err := tr.Model.Save(dir); err != nil {
		return err
	}
	if err := release.WriteChatTexts(dir, tr.texts); err != nil {
		return err
	}
	return tr.Data.Tokenizer.Save(dir)
}

// languagePlace is the result of Place.
type languagePlace struct {
	Data      data.Cursor `json:"data"`
	Tokenizer string      `json:"tokenizer_fingerprint"`
	Sample    string      `json:"sample"`
	Carried   bool        `json:"carried_state"`
}

// Place returns the place in the text, and writes the states that are carried over to dir.
func (tr *Work) Place(dir string) (any, error) {
	place := languagePlace{
		Data: tr.loader.Cursor(), Tokenizer: tr.Data.Tokenizer.Fingerprint(), Sample: tr.sampled,
		Carried: tr.carried != nil,
	}
	if !place.Carried {
		return place, nil
	}
	return place, train.WriteTensors(filepath.Join(dir, carriedFile), carriedTensors(tr.carried))
}

// Return goes back to a place in the same text.
func (tr *Work) Return(place []byte, dir string) (err error) {
	path := filepath.Join(dir, train.TrainerFile)
	var p languagePlace
	if err := json.Unmarshal(place, &p); err != nil {
		return brief.Error(fmt.Errorf("%s: work: %w", path, err))
	}
	if got := tr.Data.Tokenizer.Fingerprint(); got != p.Tokenizer {
		return fmt.Errorf("%s: found a checkpoint of tokenizer %s, the run now has %s (%s); want the same", dir,
			p.Tokenizer, got, tr.Data.Tokenizer.Kind())
	}
	if err := tr.loader.Seek(p.Data); err != nil {
		return fmt.Errorf("%s: the run cannot be resumed with other data: %w", path, err)
	}
	tr.sampled = p.Sample
	if p.Carried {
		c := &tr.Config.Train
		at := p.Data.Position * c.SeqLen
		tr.carried, err = readCarried(filepath.Join(dir, carriedFile), tr.Model, c.sequences(), at)
	}
	return err
}

// sequences returns the number of training sequences of an update.
func (c *Loop) sequences() int { return c.BatchSize * c.Shards }

// tokensPerStep returns the number of training tokens of an update.
func (c *Loop) tokensPerStep() int { return c.sequences() * c.SeqLen }
