package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/events"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

// ConfigFile is the name of the file in a run's folder that holds the complete configuration.
const ConfigFile = "config.yaml"

// Open creates the run's folder, writes its configuration, and opens the files that are written during the run.
func (l *Training) Open(ev Events) error {
	l.ev = ev
	out := l.Plan.Out
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	text, err := config.Marshal(l.Plan.Config)
	if err != nil {
		return err
	}
	if err := disk.WriteBytes(filepath.Join(out, ConfigFile), text); err != nil {
		return err
	}
	if l.metrics, err = events.OpenMetrics(filepath.Join(out, "metrics.jsonl"), int64(l.step)+1); err != nil {
		return err
	}
	if l.board, err = events.NewWriter(out, int64(l.step)+1, time.Now); err != nil {
		return errors.Join(err, l.metrics.Close())
	}
	l.started, l.cpu, l.pace = time.Now(), status.CPUTime(), newPace()
	return nil
}

// Close closes the files that Open opened.
func (l *Training) Close() error { return errors.Join(l.metrics.Close(), l.board.Close()) }

// Note shows a text to the user.
func (l *Training) Note(text string) {
	if l.ev.Note != nil {
		l.ev.Note(text)
	}
}

// Run makes the remaining updates, measures the model after the last one, draws a last sample text and saves. When ctx
// is done it finishes the update, saves a checkpoint and returns interrupted. It abandons a round of islands unless
// others take part in it. If the device on which it computes fails, the error is a *DeviceError and the last checkpoint
// stays as it is.
func (l *Training) Run(ctx context.Context) (interrupted bool, err error) {
	interrupted, err = l.run(ctx)
	if lost := l.failed(); lost != nil { // which explains all other errors
		return false, &DeviceError{Err: lost, Out: l.Plan.Out, Step: l.savedStep}
	}
	return interrupted, err
}

// failed returns the error of the device on which the run computes, or nil.
func (l *Training) failed() error { return engine.Failure(l.opt.Backend()) }

func (l *Training) run(ctx context.Context) (interrupted bool, err error) {
	if l.islands != nil {
		l.islands.ctx = ctx
	}
	if interrupted, err = l.updates(ctx); err != nil || interrupted {
		return interrupted, err
	}
	measured, err := l.finish(ctx)
	if measured && err == nil && l.Plan.SampleEvery > 0 {
		err = l.sample(ctx)
	}
	if err == nil {
		l.Final = l.Last().Valid
		if best, _ := l.BestPoint(); best.Step != l.step {
			l.Final, err = l.bestInTheEnd(ctx)
		}
	}
	switch {
	case err == nil:
		return false, l.Save()
	case errors.Is(err, ctx.Err()):
		return true, l.Save()
	}
	return false, l.saveUnlessBroken(err)
}

// updates makes the remaining updates, and measures and saves during the run. The measurement after the last update is
// left to finish, so that the checkpoint of that update includes it and a run that is killed before does not write it
// twice.
func (l *Training) updates(ctx context.Context) (interrupted bool, err error) {
	if l.owed() {
		if err := l.measure(ctx, false); err != nil {
			if errors.Is(err, ctx.Err()) {
				return true, l.Save()
			}
			return false, err
		}
	}
	for !l.done() {
		if ctx.Err() != nil {
			return true, l.Save()
		}
		start, first := time.Now(), l.step
		loss, norm, err := l.Step()
		if err != nil {
			if errors.Is(err, ctx.Err()) {
				return true, l.Save()
			}
			return false, l.saveUnlessBroken(err)
		}
		seconds := time.Since(start).Seconds() / float64(l.step-first)
		if math.IsNaN(l.smoothed) {
			l.smoothed, l.stepSeconds = loss, seconds
		}
		l.smoothed += 0.1 * (loss - l.smoothed)
		l.stepSeconds += 0.1 * (seconds - l.stepSeconds)
		l.warn()
		p := l.progress(loss, norm)
		if l.ev.Step != nil {
			l.ev.Step(p)
		}
		if l.due(l.Plan.LogEvery) || l.step == 1 || l.done() {
			if err := l.log(p); err != nil {
				return false, err
			}
		}
		if l.done() {
			break
		}
		if err := l.onTheWay(ctx); err != nil {
			if errors.Is(err, ctx.Err()) { // a measurement or sample was interrupted, which is no error
				return true, l.Save()
			}
			return false, l.saveUnlessBroken(err)
		}
	}
	return false, nil
}

// owed reports whether the model must be measured before the next update: before the first if the plan says so, or
// because the run was stopped during a measurement.
func (l *Training) owed() bool {
	if l.step == 0 {
		return l.Plan.MeasureFirst && !l.measured()
	}
	return l.due(l.Plan.EvalEvery) && !l.measured() && !l.done()
}

// due reports whether the last update, or one in the last round of islands, is a multiple of every.
func (l *Training) due(every int) bool {
	before := l.step - 1
	if l.islands != nil {
		before -= before % l.Plan.Islands.Every
	}
	return every > 0 && l.step/every > before/every
}

// onTheWay measures, samples and saves when it is time to.
func (l *Training) onTheWay(ctx context.Context) error {
	if l.due(l.Plan.EvalEvery) {
		if err := l.measure(ctx, false); err != nil {
			return err
		}
	}
	if l.due(l.Plan.SampleEvery) {
		if err := l.sample(ctx); err != nil {
			return err
		}
	}
	if l.due(l.Plan.SaveEvery) || l.saves() {
		return l.Save()
	}
	return nil
}

// saves reports whether it is time to save, regardless of the plan. If other machines have states of islands, the
// number of rounds decides instead of time, because sending the states costs as much as a meeting.
func (l *Training) saves() bool {
	if l.islands != nil && l.group != nil {
		return len(l.islands.weights) >= mostRounds
	}
	return l.pace.due()
}

// finish measures the model after the last update, unless an earlier part of the run already did. It reports whether it
// measured. If the run ended early after a measurement, that measurement is repeated as a final one.
func (l *Training) finish(ctx context.Context) (measured bool, err error) {
	h := &l.history
	if l.measured() && (h.Ended || !l.stale()) {
		return false, nil
	}
	if l.measured() {
		l.Note(fmt.Sprintf("step %d: the run ends here, "+
			"as the validation loss was no better than at step %d in %d measurements (patience)", l.step,
			h.Points[h.Best].Step, len(h.Points)-1-h.Best))
		before := h.Points[len(h.Points)-1]
		defer func() {
			if err != nil { // nothing has replaced it
				h.Points = append(h.Points, before)
			}
		}()
		h.Points = h.Points[:len(h.Points)-1]
	}
	err = l.measure(ctx, true)
	h.Ended = err == nil
	return true, err
}

// sample draws a sample text. If that fails it writes a note and returns no error, as the training is not affected.
func (l *Training) sample(ctx context.Context) error {
	var text string
	err := l.average.with(func() (err error) {
		text, err = l.Plan.Sample(ctx)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.Note(fmt.Sprintf("step %d: no sample text: %v", l.step, err))
		return nil
	}
	if l.ev.Sample != nil {
		l.ev.Sample(l.step, text)
	}
	line := struct {
		Elapsed float64 `json:"elapsed_s"`
		Sample  string  `json:"sample"`
	}{l.Elapsed().Seconds(), text}
	if err := l.metrics.Append(int64(l.step), line); err != nil {
		return err
	}
	return l.board.Text(int64(l.step), "sample", text)
}

// measure scores the model, records the score and, if it is the best so far, saves the model.
func (l *Training) measure(ctx context.Context, last bool) error {
	start := time.Now()
	l.history.Ended = false
	var score Score
	err := l.average.with(func() (err error) {
		score, err = l.work.Measure(ctx, l.tape, last)
		return err
	})
	if err != nil {
		return err
	}
	if err := l.finite(score.Loss); err != nil {
		return err
	}
	l.evalSeconds = time.Since(start).Seconds()
	before, known := l.BestPoint()
	best := !known
	if known {
		bar := before.Valid
		if last {
			if bar, err = l.bestInTheEnd(ctx); err != nil {
				return err
			}
		}
		best = score.Better(bar)
		l.noteOverfitting(score.Loss, before, last)
	}
	h := &l.history
	p := Point{
		Step: l.step, Epoch: l.Epochs(), Seconds: l.budget.used.Seconds(),
		LR: l.Plan.Optim.LR * l.schedule.At(l.at()), TrainLoss: h.LossSum / float64(max(1, h.LossN)), Valid: score,
	}
	h.LossSum, h.LossN = 0, 0
	h.Points = append(h.Points, p)
	if best {
		h.Best = len(h.Points) - 1
		if l.Plan.KeepBest {
			err := l.average.with(func() error { return WriteModel(filepath.Join(l.Plan.Out, model.BestDir), l.work) })
			if err != nil {
				return err
			}
		}
	}
	return l.tell(p, best)
}

// tell records a measurement.
func (l *Training) tell(p Point, best bool) error {
	line := map[string]float64{
		"epoch": p.Epoch, "elapsed_s": l.Elapsed().Seconds(), "lr": p.LR, "valid_loss": p.Valid.Loss,
	}
	if p.Step > 0 {
		line["train_loss"] = p.TrainLoss
	}
	if p.Valid.Accuracy > 0 {
		line["valid_accuracy"] = p.Valid.Accuracy
	}
	if p.Valid.MAE > 0 {
		line["valid_mae"] = p.Valid.MAE
	}
	if err := l.metrics.Append(int64(l.step), line); err != nil {
		return err
	}
	if err := l.board.Scalar(int64(l.step), "loss/valid", p.Valid.Loss); err != nil {
		return err
	}
	if l.ev.Eval != nil {
		g := l.progress(l.smoothed, 0)
		g.Best, g.MeanLoss = best, p.TrainLoss
		l.ev.Eval(g)
	}
	return nil
}

// bestInTheEnd returns the score of the best checkpoint, measured as at the end of a run.
func (l *Training) bestInTheEnd(ctx context.Context) (Score, error) {
	best, _ := l.BestPoint()
	return l.work.Remeasure(ctx, l.tape, filepath.Join(l.Plan.Out, model.BestDir), best.Valid)
}

// finite returns an error if a validation loss is not finite.
func (l *Training) finite(loss float64) error {
	if isFinite(loss) {
		return nil
	}
	return &NonFiniteError{Step: l.step, What: "validation loss", Value: loss, Where: l.firstNonFinite(l.tape)}
}

// saveUnlessBroken saves the run if err says that the data could not be read. The run is then as it was after the last
// update, and the next start makes the data anew. It returns err, joined with an error of saving.
func (l *Training) saveUnlessBroken(err error) error {
	var lost *data.LostError
	if !errors.As(err, &lost) {
		return err
	}
	if saving := l.Save(); saving != nil {
		return errors.Join(err, saving)
	}
	return fmt.Errorf("%w; step %d is saved, and --resume %s continues from it", err, l.step, l.Plan.Out)
}

// Save writes a checkpoint, from which the run can continue, into the run's folder. It first tries the weights on a few
// examples, before it replaces a checkpoint that works: an update can ruin the weights even if its own loss and
// gradient were finite.
func (l *Training) Save() error {
	defer l.pace.count()()
	if l.islands != nil {
		if err := l.islands.gather(); err != nil {
			return err
		}
	}
	if l.group != nil && l.group.carry != nil {
		if err := l.group.team.Fetch(l.group.carry); err != nil {
			return err
		}
	}
	loss, err := l.work.Try(context.Background(), l.tape)
	var lost *data.LostError
	switch {
	case errors.As(err, &lost): // there are no examples, so check the weights themselves
		if name, bad := l.opt.NonFiniteParam(); bad {
			return &NonFiniteError{Step: l.step, What: "weights", Value: math.NaN(), Where: name}
		}
	case err != nil:
		return err
	default:
		if err := l.finite(loss); err != nil {
			return err
		}
	}
	l.rest()
	dir := filepath.Join(l.Plan.Out, model.LastDir)
	if err := l.write(dir); err != nil {
		return err
	}
	l.savedStep = l.step
	if l.board != nil {
		if err := l.board.Flush(); err != nil {
			return err
		}
	}
	if l.ev.Saved != nil {
		l.ev.Saved(dir, l.step)
	}
	return nil
}

// progress describes an update, given its loss and the norm of its gradient.
func (l *Training) progress(loss, norm float64) Progress {
	h, steps := &l.history, l.TotalSteps()
	p := Progress{
		Step: l.step, Steps: steps, Epoch: l.Epochs(), Loss: loss, MeanLoss: h.LossSum / float64(max(1, h.LossN)),
		ValidLoss: math.NaN(), GradNorm: norm, Elapsed: l.Elapsed(), MemBytes: status.RSS(),
		LR: l.Plan.Optim.LR * l.factor, Guess: l.work.Guess(),
	}
	if len(h.Points) > 0 {
		p.Valid = l.Last().Valid
		p.ValidLoss = p.Valid.Loss
	}
	if l.stepSeconds > 0 {
		left := steps - l.step
		p.TokensPerSec = l.Plan.UnitsPerStep / l.stepSeconds
		seconds := float64(left)*l.stepSeconds + float64(left/l.Plan.EvalEvery)*l.evalSeconds
		p.ETA = time.Duration(seconds * float64(time.Second))
	}
	return p
}

// log writes a line of metrics.
func (l *Training) log(p Progress) error {
	l.history.Curve.add(l.step, l.smoothed)
	line := struct {
		Loss     events.Float `json:"loss"`
		GradNorm events.Float `json:"grad_norm"`
		LR       float64      `json:"lr"`
		Tokens   float64      `json:"tokens_per_s,omitempty"`
		Examples float64      `json:"examples_per_s,omitempty"`
		Elapsed  float64      `json:"elapsed_s"`
		Mem      uint64       `json:"mem_bytes"`
	}{events.Float(p.Loss), events.Float(p.GradNorm), p.LR, p.TokensPerSec, 0, p.Elapsed.Seconds(), p.MemBytes}
	speed := "tokens_per_s"
	if l.Plan.Examples {
		speed, line.Tokens, line.Examples = "examples_per_s", 0, p.TokensPerSec
	}
	err := l.metrics.Append(int64(l.step), line)
	for _, s := range []struct {
		tag string
		v   float64
	}{{"loss/train", p.Loss}, {"grad_norm", p.GradNorm}, {"lr", p.LR}, {speed, p.TokensPerSec}} {
		if err == nil {
			err = l.board.Scalar(int64(l.step), s.tag, s.v)
		}
	}
	return err
}
