package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Run trains a model as cfg says, from the start. It makes the folder of the run, which must not hold one already. When
// ctx is done it finishes the step, saves a checkpoint and returns with Interrupted set and no error.
func Run(ctx context.Context, cfg Config, ev Events) (res Result, err error) {
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
	defer unlock(lock, &err)
	d, err := cfg.OpenData(ctx, nil)
	if err != nil {
		return Result{}, err
	}
	defer d.Close()
	if err := cfg.Anywhere(); err != nil {
		return Result{}, err
	}
	tr, err := NewTrainer(cfg, d)
	if err != nil {
		return Result{}, err
	}
	return tr.run(ctx, ev)
}

// Resume continues the run in folder cfg.Out from its last checkpoint. cfg is what ReadRun gave, with changes where the
// user wants them (more steps, say).
func Resume(ctx context.Context, cfg Config, ev Events) (res Result, err error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	lock, err := claim(cfg.Out)
	if err != nil {
		return Result{}, err
	}
	defer unlock(lock, &err)
	tok, err := cfg.runTokenizer()
	if err != nil {
		return Result{}, err
	}
	if cfg.chat, err = release.ChatTexts(filepath.Join(cfg.Out, model.LastDir)); err != nil {
		return Result{}, err
	}
	d, err := cfg.OpenData(ctx, tok)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; where the text is now, --data (or --valid) says: a run goes by its content, not by "+
			"its name", err)
	}
	if err != nil {
		return Result{}, err
	}
	defer d.Close()
	tr, err := resumed(cfg, d)
	if err != nil {
		return Result{}, err
	}
	return tr.run(ctx, ev)
}

// ReadRun reads the configuration of the run in folder out, to be changed before the run is resumed.
func ReadRun(out string) (Config, error) {
	_, c, err := readRun(out, checkpoint.SettleDir) // it leaves files alone that another process may be writing
	return c, err
}

// readRun reads the state and the configuration of a run. recover is as in readSaved.
func readRun(out string, recover func(dir string) error) (*saved, Config, error) {
	s, err := readSaved(out, languageKind, recover)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: found no checkpoint to resume from (%s), want the folder of a training run", out,
			filepath.Join(out, model.LastDir, trainerFile))
	}
	if err != nil {
		return nil, Config{}, err
	}
	var c Config
	if err := s.config(out, &c); err != nil {
		return nil, Config{}, err
	}
	if c.Train.Time == 0 {
		if err := s.within(filepath.Join(out, model.LastDir), c.Train.Steps); err != nil {
			return nil, Config{}, err
		}
	}
	c.Out, c.Documents = out, cmp.Or(c.Documents, documentsJoin)
	return s, c, nil
}

// RunTokenizer is the tokenizer that the run in folder out was trained with.
func RunTokenizer(out string) (tokenizer.Tokenizer, error) {
	return tokenizer.Load(filepath.Join(out, model.LastDir))
}

// resumed makes the trainer of the run in folder cfg.Out as its last checkpoint has it. The shapes of the model are
// compared with the weights before there is memory for more than those.
func resumed(cfg Config, d *Dataset) (tr *Trainer, err error) {
	s, _, err := readRun(cfg.Out, checkpoint.RecoverDir)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cfg.Out, model.LastDir)
	err = checkpoint.ReadDir(dir, func() error {
		tr, err = newTrainer(cfg, d, func(m *model.Model) error {
			if err := cfg.loadLast(m, dir); err != nil {
				return err
			}
			return cfg.checkMemory(d.Tokenizer.VocabSize()) // of a shape that the weights have: for the rest of the run
		})
		if err != nil {
			return err
		}
		tr.Config.Base = cfg.Base
		if tr.texts, err = release.ChatTexts(dir); err != nil {
			return err
		}
		return tr.restore(s, dir)
	})
	return tr, err
}

// run makes the updates that are left, the last measurement and the run card.
func (tr *Trainer) run(ctx context.Context, ev Events) (res Result, err error) {
	if err := tr.Open(ev); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	for _, note := range append(tr.Data.Notes, tr.Data.documentsNote()...) {
		tr.Note(note)
	}
	if ev.Start != nil {
		ev.Start(Start{
			Out: tr.Config.Out, Params: tr.params.all, Trained: tr.params.trained, Base: tr.Config.Base.Name,
			Tokenizer: tr.Data.Tokenizer.Kind(),
			Vocab:     tr.Data.Tokenizer.VocabSize(), DataName: tr.Data.Name, TrainTokens: tr.Data.Train.Len(),
			ValidTokens: tr.Data.Valid.Len(), Steps: tr.stepsInAll(), Resumed: tr.step,
		})
	}
	interrupted, err := tr.Training.Run(ctx)
	if err != nil || interrupted {
		res := tr.result(math.NaN())
		res.Interrupted = interrupted && err == nil
		return res, err
	}
	return tr.finish(ctx)
}

// maybeSample draws a sample text on the way when it is time to.
func (tr *Trainer) maybeSample(ctx context.Context) error {
	if every := tr.Config.Train.SampleEvery; every == 0 || tr.step%every != 0 {
		return nil
	}
	return tr.sample(ctx)
}

// sample draws a sample text. If that fails there is a note and no error: the training is none the worse for it.
func (tr *Trainer) sample(ctx context.Context) error {
	var text string
	err := tr.average.with(func() (err error) {
		text, err = tr.SampleText(ctx)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tr.Note(fmt.Sprintf("step %d: no sample text: %v", tr.step, err))
		return nil
	}
	tr.sampled = text
	if tr.ev.Sample != nil {
		tr.ev.Sample(tr.step, text)
	}
	line := struct {
		Elapsed float64 `json:"elapsed_s"`
		Sample  string  `json:"sample"`
	}{tr.Elapsed().Seconds(), text}
	if err := tr.metrics.Append(int64(tr.step), line); err != nil {
		return err
	}
	return tr.board.Text(int64(tr.step), "sample", text)
}

// finish measures the whole validation text, draws a last sample and writes the run card.
func (tr *Trainer) finish(ctx context.Context) (Result, error) {
	measured, err := tr.Finish(ctx)
	if measured && err == nil && tr.Config.Train.SampleEvery > 0 {
		err = tr.sample(ctx)
	}
	res := tr.result(tr.lastLoss())
	if err == nil {
		if res.BestLoss = res.ValidLoss; res.BestStep != tr.step {
			var best Score
			best, err = tr.bestInTheEnd(ctx)
			res.BestLoss = best.Loss
		}
	}
	if err != nil && errors.Is(err, ctx.Err()) {
		res := tr.result(math.NaN())
		res.Interrupted = true
		return res, tr.Save()
	}
	if err == nil {
		err = tr.Save()
	} else {
		err = tr.saveUnlessBroken(err)
	}
	if err != nil {
		return res, err
	}
	res.Remarks = tr.remarks(&res)
	for _, text := range res.Remarks {
		tr.Note(text)
	}
	if err := disk.WriteBytes(filepath.Join(tr.Config.Out, CardFile), tr.card(res)); err != nil {
		return res, err
	}
	if err := tr.Diverged(res.BestLoss); err != nil {
		return res, err
	}
	return res, tr.useless(res.BestLoss)
}

// lastLoss is the validation loss that was measured last, NaN before the first.
func (tr *Trainer) lastLoss() float64 {
	if len(tr.history.Points) == 0 {
		return math.NaN()
	}
	return tr.last().Valid.Loss
}

func (tr *Trainer) result(valid float64) Result {
	res := Result{
		Out: tr.Config.Out, Prompt: tr.prompt.text, Step: tr.step, Loss: tr.smoothed, ValidLoss: valid,
		BestLoss: math.Inf(1), Tokens: tr.step * tr.Config.Train.tokensPerStep(), Elapsed: tr.Elapsed(),
		Trained: tr.budget.used,
	}
	if best, ok := tr.BestPoint(); ok {
		res.BestLoss, res.BestStep = best.Valid.Loss, best.Step
	}
	return res
}
