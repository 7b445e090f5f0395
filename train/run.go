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

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/events"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

// ConfigFile is the name of the complete configuration in a run's folder.
const ConfigFile = "config.yaml"

// Run trains a model as cfg says, from the start. It makes the folder of the run, which must not hold one already. When ctx
// is done it finishes the step, saves a checkpoint and returns with Interrupted set and no error.
func Run(ctx context.Context, cfg Config, ev Events) (res Result, err error) {
	if err := cfg.Check(); err != nil {
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
	tok, err := RunTokenizer(cfg.Out)
	if err != nil {
		return Result{}, err
	}
	d, err := cfg.OpenData(ctx, tok)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; where the text is now, --data (or --valid) says: a run goes by its content, not by its name", err)
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

// runner is one part of a run, from its start or resume to its end.
type runner struct {
	*Trainer
	ev       Events
	metrics  *events.Metrics
	board    *events.Writer
	started  time.Time
	smoothed float64 // training loss
	warned   bool    // that it diverges
	overfit  bool    // said

	pace pace

	stepSeconds, evalSeconds float64 // of an update (smoothed) and of the last evaluation, for speed and time left
}

func (tr *Trainer) run(ctx context.Context, ev Events) (res Result, err error) {
	r := &runner{Trainer: tr, ev: ev, started: time.Now(), smoothed: math.NaN(), pace: newPace()}
	if err := r.open(); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, r.metrics.Close(), r.board.Close()) }()
	for _, note := range tr.Data.Notes {
		r.note(note)
	}
	if ev.Start != nil {
		ev.Start(Start{
			Out: tr.Config.Out, Params: tr.Model.NumParams(), Tokenizer: tr.Data.Tokenizer.Kind(), Vocab: tr.Data.Tokenizer.VocabSize(),
			DataName: tr.Data.Name, TrainTokens: tr.Data.Train.Len(), ValidTokens: tr.Data.Valid.Len(), Steps: tr.stepsInAll(), Resumed: tr.step,
		})
	}
	interrupted, err := r.loop(ctx)
	if err != nil {
		return r.result(math.NaN()), r.saveUnlessBroken(err)
	}
	if interrupted {
		res := r.result(math.NaN())
		res.Interrupted = true
		return res, nil
	}
	return r.finish(ctx)
}

// open makes the folder of the run and the files that it writes as it goes.
func (r *runner) open() error {
	out := r.Config.Out
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	text, err := config.Marshal(&r.Config)
	if err != nil {
		return err
	}
	if err := disk.WriteBytes(filepath.Join(out, ConfigFile), text); err != nil {
		return err
	}
	if r.metrics, err = events.OpenMetrics(filepath.Join(out, "metrics.jsonl"), int64(r.step)+1); err != nil {
		return err
	}
	r.board, err = events.NewWriter(out, int64(r.step)+1, time.Now)
	return err
}

// loop makes the steps that are left. It reports whether ctx ended it first.
func (r *runner) loop(ctx context.Context) (interrupted bool, err error) {
	c := r.Config.Train
	for !r.done() {
		if ctx.Err() != nil {
			return true, r.save()
		}
		start := time.Now()
		loss, norm, err := r.Step()
		if err != nil {
			return false, err
		}
		if math.IsNaN(r.smoothed) {
			r.smoothed, r.stepSeconds = loss, time.Since(start).Seconds()
		}
		r.smoothed += 0.1 * (loss - r.smoothed)
		r.stepSeconds += 0.1 * (time.Since(start).Seconds() - r.stepSeconds)
		r.warn()
		p := r.progress(loss, norm)
		if r.ev.Step != nil {
			r.ev.Step(p)
		}
		if r.step%c.LogEvery == 0 || r.step == 1 || r.done() {
			if err := r.log(p); err != nil {
				return false, err
			}
		}
		if err := r.onTheWay(ctx, p); err != nil {
			if errors.Is(err, ctx.Err()) { // an evaluation or sample was cut short, which is no error
				return true, r.save()
			}
			return false, err
		}
	}
	return false, nil
}

// onTheWay evaluates, samples and saves when it is time to. All that belongs to the last step is left to finish, so that a
// checkpoint of the last step has its measurements: a run killed before it does not write them twice.
func (r *runner) onTheWay(ctx context.Context, p Progress) error {
	c := r.Config.Train
	if r.step%c.EvalEvery == 0 && !r.done() {
		if err := r.evaluate(ctx, p); err != nil {
			return err
		}
	}
	if c.SampleEvery > 0 && r.step%c.SampleEvery == 0 && !r.done() {
		if err := r.sample(ctx); err != nil {
			return err
		}
	}
	if (r.step%c.SaveEvery == 0 || r.pace.due()) && !r.done() {
		return r.save()
	}
	return nil
}

// evaluate measures the model on the way.
func (r *runner) evaluate(ctx context.Context, p Progress) error {
	start := time.Now()
	loss, err := r.validLoss(ctx, r.Config.Train.EvalTokens)
	if err != nil {
		return err
	}
	r.evalSeconds = time.Since(start).Seconds()
	if r.overfits(loss, r.best) && !r.overfit {
		r.overfit = true
		r.note(fmt.Sprintf("step %d: the validation loss rises, from %.4f at step %d to %.4f, while the training "+
			"loss, %.4f, falls: the model overfits",
			r.step, r.best, r.bestStep, loss, r.smoothed))
	}
	return r.measured(p, loss, loss < r.best)
}

// evaluateAll measures the model in the end, on all validation text, by which it is then known whether it or an earlier
// one is best.
func (r *runner) evaluateAll(ctx context.Context) error {
	loss, err := r.validLoss(ctx, 0)
	if err != nil {
		return err
	}
	best, err := r.bestOnAll(ctx)
	if err != nil {
		return err
	}
	return r.measured(r.progress(r.smoothed, 0), loss, loss < best)
}

// measured records a validation loss and, where it is the best, keeps the model.
func (r *runner) measured(p Progress, loss float64, best bool) error {
	r.lastValid, p.ValidLoss, p.Best = loss, loss, best
	p.Elapsed = r.total()
	if best {
		r.best, r.bestStep = loss, r.step
		if err := r.SaveModel(filepath.Join(r.Config.Out, model.BestDir)); err != nil {
			return err
		}
	}
	r.history.addValid(r.step, loss)
	if err := r.metrics.Append(int64(r.step), map[string]any{"valid_loss": loss}); err != nil {
		return err
	}
	if err := r.board.Scalar(int64(r.step), "loss/valid", loss); err != nil {
		return err
	}
	if r.ev.Eval != nil {
		r.ev.Eval(p)
	}
	return nil
}

// sample draws a sample text. One that cannot be drawn is told, and is no error: the training is none the worse for it.
func (r *runner) sample(ctx context.Context) error {
	text, err := r.SampleText(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.note(fmt.Sprintf("step %d: no sample text: %v", r.step, err))
		return nil
	}
	r.history.Sample = text
	if r.ev.Sample != nil {
		r.ev.Sample(r.step, text)
	}
	return r.board.Text(int64(r.step), "sample", text)
}

// validLoss is Evaluate with an error for a loss that is not finite.
func (r *runner) validLoss(ctx context.Context, limit int) (float64, error) {
	loss, err := r.Evaluate(ctx, limit)
	if err == nil && (math.IsNaN(loss) || math.IsInf(loss, 0)) {
		err = &NonFiniteError{Step: r.step, What: "validation loss", Value: loss, Where: firstNonFinite(r.opt, r.tape)}
	}
	return loss, err
}

// saveUnlessBroken saves what there is when the data is gone, which the next start makes anew: the trainer is as it
// was after the last update. It returns err, and what came of saving.
func (r *runner) saveUnlessBroken(err error) error {
	var lost *data.LostError
	if !errors.As(err, &lost) {
		return err
	}
	if saving := r.save(); saving != nil {
		return errors.Join(err, saving)
	}
	return fmt.Errorf("%w; step %d is saved, and --resume %s goes on from there", err, r.step, r.Config.Out)
}

// save tries the weights on a few validation tokens before they take the place of a checkpoint that works: an update can
// ruin them though its own loss and gradient were finite.
func (r *runner) save() error {
	defer r.pace.count()()
	_, err := r.validLoss(context.Background(), r.Config.Train.SeqLen)
	var lost *data.LostError
	if errors.As(err, &lost) { // nothing to try them on: the weights themselves must do
		err = nil
		if name, bad := r.opt.NonFiniteParam(); bad {
			err = &NonFiniteError{Step: r.step, What: "weights", Value: math.NaN(), Where: name}
		}
	}
	if err != nil {
		return err
	}
	r.elapsed, r.started = r.total(), time.Now()
	dir := filepath.Join(r.Config.Out, model.LastDir)
	if err := r.Save(dir); err != nil {
		return err
	}
	if err := r.board.Flush(); err != nil {
		return err
	}
	if r.ev.Saved != nil {
		r.ev.Saved(dir, r.step)
	}
	return nil
}

// finish measures the whole validation text, draws a last sample and writes the run card.
func (r *runner) finish(ctx context.Context) (Result, error) {
	var err error
	if !r.history.measured(r.step) { // else an earlier part of the run got as far as this
		err = r.evaluateAll(ctx)
		if err == nil && r.Config.Train.SampleEvery > 0 {
			err = r.sample(ctx)
		}
	}
	res := r.result(r.lastValid)
	if err == nil {
		if res.BestLoss = r.lastValid; r.bestStep != r.step {
			res.BestLoss, err = r.bestOnAll(ctx)
		}
	}
	if err != nil && errors.Is(err, ctx.Err()) {
		res := r.result(math.NaN())
		res.Interrupted = true
		return res, r.save()
	}
	if err == nil {
		err = r.save()
	} else {
		err = r.saveUnlessBroken(err)
	}
	if err != nil {
		return res, err
	}
	res.Remarks = r.remarks(&res)
	for _, text := range res.Remarks {
		r.note(text)
	}
	if err := disk.WriteBytes(filepath.Join(r.Config.Out, CardFile), r.card(res)); err != nil {
		return res, err
	}
	if r.diverged() {
		return res, &DivergedError{Loss: r.trainLoss(), Guess: r.guess(), LR: r.Config.Optim.LR, Best: res.BestLoss,
			BestStep: res.BestStep}
	}
	return res, nil
}

// total is the time of all parts of the run.
func (r *runner) total() time.Duration { return r.elapsed + time.Since(r.started) }

func (r *runner) progress(loss, norm float64) Progress {
	c, steps := r.Config.Train, r.stepsInAll()
	p := Progress{
		Step: r.step, Steps: steps, Loss: loss, ValidLoss: r.lastValid, GradNorm: norm, Elapsed: r.total(), MemBytes: status.RSS(),
		LR: r.Config.Optim.LR * r.factor, Guess: r.guess(),
	}
	if r.stepSeconds > 0 {
		left := steps - r.step
		p.TokensPerSec = float64(c.tokensPerStep()) / r.stepSeconds
		p.ETA = time.Duration((float64(left)*r.stepSeconds + float64(left/c.EvalEvery)*r.evalSeconds) * float64(time.Second))
	}
	return p
}

func (r *runner) log(p Progress) error {
	r.history.addTrain(r.step, r.smoothed)
	err := r.metrics.Append(int64(r.step), struct {
		Loss         events.Float `json:"loss"`
		GradNorm     events.Float `json:"grad_norm"`
		LR           float64      `json:"lr"`
		TokensPerSec float64      `json:"tokens_per_s"`
		Elapsed      float64      `json:"elapsed_s"`
		Mem          uint64       `json:"mem_bytes"`
	}{events.Float(p.Loss), events.Float(p.GradNorm), p.LR, p.TokensPerSec, p.Elapsed.Seconds(), p.MemBytes})
	for _, s := range []struct {
		tag string
		v   float64
	}{{"loss/train", p.Loss}, {"grad_norm", p.GradNorm}, {"lr", p.LR}, {"tokens_per_s", p.TokensPerSec}} {
		if err == nil {
			err = r.board.Scalar(int64(r.step), s.tag, s.v)
		}
	}
	return err
}

func (r *runner) note(text string) {
	if r.ev.Note != nil {
		r.ev.Note(text)
	}
}

func (r *runner) result(valid float64) Result {
	return Result{
		Out: r.Config.Out, Prompt: r.prompt.text, Step: r.step, Loss: r.smoothed, ValidLoss: valid, BestLoss: r.best,
		BestStep: r.bestStep,
		Tokens:   r.step * r.Config.Train.tokensPerStep(), Elapsed: r.total(), Trained: r.budget.used,
	}
}
