package text

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// Run trains a model as cfg says, from the start. It creates the folder of the run, which must not hold a run already.
// When ctx is done it finishes the step, saves a checkpoint and returns with Interrupted set and no error.
func Run(ctx context.Context, cfg Config, ev train.Events) (res Result, err error) {
	if err := errors.Join(cfg.begun(), cfg.Check()); err != nil {
		return Result{}, err
	}
	if err := cfg.checkMemory(cfg.likelyVocab()); err != nil {
		return Result{}, err
	}
	lock, err := cfg.claimNew()
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	d, err := cfg.OpenData(ctx, nil)
	if err != nil {
		return Result{}, err
	}
	defer d.Close()
	if err := cfg.Anywhere(); err != nil {
		return Result{}, err
	}
	tr, err := New(cfg, d)
	if err != nil {
		return Result{}, err
	}
	r, err := begin(tr)
	if err != nil {
		return Result{}, err
	}
	return r.run(ctx, ev)
}

// Resume continues the run in folder cfg.Out from its last checkpoint. cfg is the result of ReadRun, with changes that
// the user wants, such as more steps.
func Resume(ctx context.Context, cfg Config, ev train.Events) (res Result, err error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	lock, err := train.Claim(cfg.Out)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	tok, err := cfg.runTokenizer()
	if err != nil {
		return Result{}, err
	}
	if cfg.chat, err = release.FolderTexts(filepath.Join(cfg.Out, model.LastDir)); err != nil {
		return Result{}, err
	}
	d, err := cfg.OpenData(ctx, tok)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf(
			"%w; where the text is now, --data (or --valid) says: a run goes by its content, not by its name", err)
	}
	if err != nil {
		return Result{}, err
	}
	defer d.Close()
	r, err := resumed(cfg, d)
	if err != nil {
		return Result{}, err
	}
	return r.run(ctx, ev)
}

// ReadRun reads the configuration of the run in folder out, to be changed before the run is resumed.
func ReadRun(out string) (Config, error) {
	_, c, err := readRun(out, checkpoint.SettleDir) // leaves files alone that another process may be writing
	return c, err
}

// readRun reads the state and the configuration of a run. recover is as in train.ReadSaved.
func readRun(out string, recover func(dir string) error) (*train.Saved, Config, error) {
	s, err := train.ReadSaved(out, train.LanguageKind, recover)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: found no checkpoint to resume from (%s), want the folder of a training run", out,
			filepath.Join(out, model.LastDir, train.TrainerFile))
	}
	if err != nil {
		return nil, Config{}, err
	}
	var c Config
	if err := s.Settings(out, &c); err != nil {
		return nil, Config{}, err
	}
	if c.Train.Time == 0 {
		if err := s.Within(filepath.Join(out, model.LastDir), c.Train.Steps); err != nil {
			return nil, Config{}, err
		}
	}
	c.Out, c.Documents = out, cmp.Or(c.Documents, documentsJoin)
	return s, c, nil
}

// RunTokenizer returns the tokenizer of the run in folder out.
func RunTokenizer(out string) (tokenizer.Tokenizer, error) {
	return tokenizer.Load(filepath.Join(out, model.LastDir))
}

// resumed restores the run in folder cfg.Out from its last checkpoint. It compares the shapes of the model with the
// weights before it allocates memory for more than the weights.
func resumed(cfg Config, d *Dataset) (r *run, err error) {
	s, _, err := readRun(cfg.Out, checkpoint.RecoverDir)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cfg.Out, model.LastDir)
	err = checkpoint.ReadDir(dir, func() error {
		tr, err := newTrainer(cfg, d, func(m *model.Model) error {
			if err := cfg.loadLast(m, dir); err != nil {
				return err
			}
			// the shape fits the weights: check memory for the rest of the run
			return cfg.checkMemory(d.Tokenizer.VocabSize())
		})
		if err != nil {
			return err
		}
		tr.Config.Base = cfg.Base
		if tr.texts, err = release.FolderTexts(dir); err != nil {
			return err
		}
		if r, err = begin(tr); err != nil {
			return err
		}
		return r.loop.Restore(s, dir)
	})
	return r, err
}

// Result describes the outcome of a run.
type Result struct {
	Out         string
	Prompt      string // prompt of the sample texts, which the model's tokenizer can encode
	Step        int
	Loss        float64       // mean of the last steps
	ValidLoss   float64       // on all validation text, NaN if the run did not end
	BestLoss    float64       // lowest validation loss of the run, on all validation text if the run ended
	BestStep    int           // the step of BestLoss
	Remarks     []string      // messages on the outcome for the user: that the model overfits, has learnt nothing
	Tokens      int           // training tokens
	Elapsed     time.Duration // time of all parts of the run
	Trained     time.Duration // time of updates alone, by train.clock
	Interrupted bool
	Chat        bool // whether it was trained on replies in chats
}

// run is a training run in progress: a loop and the language model that it trains.
type run struct {
	loop *train.Training
	work *Work
}

// begin returns a run of a work.
func begin(tr *Work) (*run, error) {
	loop, err := tr.Begin()
	r := &run{loop, tr}
	if err == nil && tr.Config.Team != nil {
		err = tr.Lead(loop, tr.Config.Team)
	}
	return r, err
}

// run makes the remaining updates, the last measurement and the run card.
func (r *run) run(ctx context.Context, ev train.Events) (res Result, err error) {
	if err := r.loop.Open(ev); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, r.loop.Close()) }()
	w := r.work
	for _, note := range append(w.Data.Notes, w.Data.documentsNote()...) {
		r.loop.Note(note)
	}
	if ev.Start != nil {
		ev.Start(train.Start{
			Out: w.Config.Out, Params: w.params.All, Trained: w.params.Trained, Base: w.Config.Base.Name,
			Tokenizer: w.Data.Tokenizer.Kind(), Vocab: w.Data.Tokenizer.VocabSize(), DataName: w.Data.Name,
			TrainTokens: w.Data.Train.Len(), ValidTokens: w.Data.Valid.Len(), Steps: r.loop.TotalSteps(),
			Resumed: r.loop.Steps(),
		})
	}
	interrupted, err := r.loop.Run(ctx)
	res = r.result()
	if res.Interrupted = interrupted && err == nil; err != nil || interrupted {
		return res, err
	}
	res.ValidLoss, res.BestLoss = r.loop.Last().Valid.Loss, r.loop.Final.Loss
	res.Remarks = r.remarks(&res)
	for _, text := range res.Remarks {
		r.loop.Note(text)
	}
	if err := disk.WriteBytes(filepath.Join(w.Config.Out, CardFile), r.card(res)); err != nil {
		return res, err
	}
	if err := r.loop.Diverged(res.BestLoss); err != nil {
		return res, err
	}
	return res, r.useless(res.BestLoss)
}

// result returns the result of a run that has not ended.
func (r *run) result() Result {
	w := r.work
	res := Result{
		Out: w.Config.Out, Prompt: w.prompt.text, Step: r.loop.Steps(), Loss: r.loop.Smoothed(), ValidLoss: math.NaN(),
		BestLoss: math.Inf(1), Tokens: r.loop.Steps() * w.Config.Train.tokensPerStep(), Elapsed: r.loop.Elapsed(),
		Trained: r.loop.Trained(), Chat: w.Data.Train.Given(),
	}
	if best, ok := r.loop.BestPoint(); ok {
		res.BestLoss, res.BestStep = best.Valid.Loss, best.Step
	}
	return res
}
