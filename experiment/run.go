package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// Events are callbacks of a run, called in its goroutine. Any may be nil.
type Events struct {
	Start func(r *Result, set *task.Set, resumed int)
	Step  func(train.Progress)
	Eval  func(train.Progress)
	Note  func(text string)
}

// ErrInterrupted is returned by a run that was interrupted: the next run in its folder resumes it.
var ErrInterrupted = errors.New("interrupted")

// Run trains the model of a configuration on the data of its task, measures it, and writes the folder of the run: the
// network, its settings, the result and a report. An interrupted run is resumed; for a finished one the saved result is
// returned. When ctx is done, Run saves a checkpoint and returns ErrInterrupted.
func Run(ctx context.Context, s *Settings, ev Events) (res *Result, err error) {
	c := s.Config
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Out == "" {
		c.Out = s.Folder("")
	}
	err = train.InFolder(ctx, c.Out, func(ctx context.Context) error {
		if res, err = runHere(ctx, s, c, ev); err != nil {
			return err
		}
		return res.WriteReport()
	})
	return res, err
}

// Trial prepares a run as Run does, and calls do to try the training. Nothing is saved.
func Trial(ctx context.Context, s *Settings, ev Events, do func(*labelled.Work, *train.Training) error) (err error) {
	c := s.Config
	if err := c.Check(); err != nil {
		return err
	}
	set, err := s.Task.Open(ctx, c.Data, s.Options)
	if err != nil {
		return err
	}
	if c.Out, err = os.MkdirTemp("", "hippo-trial-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Out)) }()
	w, loop, err := labelled.Open(c.Config, &c, set, nil)
	if err != nil {
		return fmt.Errorf("task %s: %w", c.Task, err)
	}
	if ev.Start != nil {
		ev.Start(newResult(c, s, set, w.Net.NumParams()), set, 0)
	}
	return do(w, loop)
}

// runHere is Run in a folder that this process has locked.
func runHere(ctx context.Context, s *Settings, c Config, ev Events) (*Result, error) {
	if done, err := ReadResult(c.Out); err == nil {
		if err := c.same(done.Config); err != nil {
			return nil, fmt.Errorf("%s: found the result of a run with other settings: %w; remove it, "+
				"or choose another folder with --out", c.Out, err)
		}
		return done, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	set, err := s.Task.Open(ctx, c.Data, s.Options)
	if err != nil {
		return nil, err
	}
	same := func(saved []byte) error {
		before := Config{Config: labelled.Default()}
		if err := json.Unmarshal(saved, &before); err != nil {
			return err
		}
		before.Settle()
		if err := c.same(before); err != nil {
			return fmt.Errorf("%s: found an unfinished run with other settings: %w; remove it, "+
				"or choose another folder with --out", c.Out, err)
		}
		return nil
	}
	w, loop, err := labelled.Open(c.Config, &c, set, same)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", c.Task, err)
	}
	r := &run{work: w, loop: loop, settings: s, c: c, result: newResult(c, s, set, w.Net.NumParams())}
	if err := loop.Open(train.Events{Step: ev.Step, Eval: ev.Eval, Note: ev.Note}); err != nil {
		return nil, err
	}
	if ev.Start != nil {
		ev.Start(r.result, set, loop.Steps())
	}
	for _, note := range set.Notes {
		loop.Note(note)
	}
	if err := errors.Join(r.finish(ctx), loop.Close()); err != nil {
		return nil, err
	}
	return r.result, nil
}

// run is a run of a task in progress.
type run struct {
	work     *labelled.Work
	loop     *train.Training
	c        Config
	settings *Settings
	result   *Result
}

// finish completes the training, then writes the result.
func (r *run) finish(ctx context.Context) error {
	interrupted, err := r.work.Train(ctx, r.loop)
	if err == nil && !interrupted {
		err = r.measure(ctx)
		interrupted = err != nil && errors.Is(err, ctx.Err())
	}
	switch {
	case interrupted:
		return ErrInterrupted
	case err != nil:
		return err
	}
	return r.conclude()
}

// measure tests the network that did best on the validation examples, or the last one if there are none.
func (r *run) measure(ctx context.Context) (err error) {
	if r.result.Valid, err = r.work.TakeBest(r.loop); err != nil {
		return err
	}
	if r.result.Test, err = r.work.Score(ctx, r.loop.Tape(), r.work.Set.Test); err != nil {
		return err
	}
	if err := r.extras(ctx); err != nil {
		return err
	}
	return r.forecasts(ctx)
}

// conclude writes the result.
func (r *run) conclude() error {
	res := r.result
	res.Curve, res.Steps, res.Epochs = r.loop.Points(), r.loop.Steps(), r.loop.Epochs()
	res.TrainSeconds, res.Seconds, res.CPUSeconds = r.loop.Trained().Seconds(), r.loop.Elapsed().Seconds(),
		r.loop.CPUTime().Seconds()
	res.Date = time.Now().UTC().Format(time.RFC3339)
	if err := res.settlePublished(r.settings); err != nil {
		return err
	}
	return res.write(r.c.Out)
}

// extras runs the further measurements of the task.
func (r *run) extras(ctx context.Context) error {
	for _, x := range r.work.Set.Extra {
		if most := r.work.Net.MaxLength(); most > 0 && r.work.Longest(x.Split) > most {
			r.loop.Note(fmt.Sprintf("%s: not measured, since the model takes at most %d positions", x.Name, most))
			continue
		}
		undo := func() {}
		if x.DtScale > 0 {
			undo = r.work.Net.ScaleDt(x.DtScale)
		}
		score, err := r.work.Score(ctx, r.loop.Tape(), x.Split)
		undo()
		if err != nil {
			return fmt.Errorf("%s: %w", x.Name, err)
		}
		r.result.Extra = append(r.result.Extra, ExtraScore{
			Name: x.Name, Score: score, Published: x.PublishedOf(r.c.Recipe),
		})
	}
	return nil
}
