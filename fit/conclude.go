package fit

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/train"
)

// conclude measures the best network by the validation part, and writes the result and the report.
func (j *job) conclude(ctx context.Context) (*Result, error) {
	if _, err := j.work.TakeBest(j.loop); err != nil {
		return nil, err
	}
	p, f := j.f.plan, j.f
	res := &Result{
		Task: p.Task, Config: j.c, Plan: p, Rows: f.rows.n, Series: len(f.seqs), Divided: j.how, Notes: f.notes,
		Params: j.work.Net.NumParams(), Model: j.work.Net.Config.Model.Layers, Curve: j.loop.Points(),
		Steps:   j.loop.Steps(),
		Epochs:  j.loop.Epochs(),
		Windows: [3]int{j.train.Len(), j.valid.Len(), j.test.Len()}, Maker: train.ThisMaker(),
	}
	err := j.compete(ctx)
	if err != nil {
		return nil, err
	}
	if p.predictsClass() {
		err = j.classes(ctx, res)
	} else {
		err = j.numbers(ctx, res)
	}
	if err != nil {
		return nil, err
	}
	used := j.m.by(p.contender(p.uses()))
	if res.Importance, err = used.importance(ctx, j.valid, j.c.Importance, &res.Notes); err != nil {
		return nil, err
	}
	if res.Scales, err = j.timeScales(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		res.Notes = append(res.Notes, "the report has no time scales: "+err.Error())
	}
	save, err := j.final(ctx, res)
	if err != nil {
		return nil, err
	}
	if m, err := j.m.Use(""); err == nil {
		res.Choice = m.Choice()
	}
	j.work.Net.Config.Signal.About = p.about()
	if err := j.work.KeepAsBest(); err != nil {
		return nil, err
	}
	res.TrainSeconds, res.Seconds = j.loop.Trained().Seconds(), j.loop.Elapsed().Seconds()
	res.CPUSeconds = j.loop.CPUTime().Seconds()
	res.Date = time.Now().UTC().Format(time.RFC3339)
	if err := res.write(j.c.Out); err != nil {
		return nil, err
	}
	if save != nil { // after the result: a run that ends before it measures the network of the training set again
		err = save()
	}
	return res, errors.Join(err, res.WriteReport())
}

// classes measures the network and its rivals as classifiers.
func (j *job) classes(ctx context.Context, res *Result) error {
	counts := j.f.counts(j.train)
	if err := j.settleWeights(ctx, counts, &res.Notes); err != nil {
		return err
	}
	for i, c := range j.f.plan.contenders() {
		s, err := j.m.by(c).classes(ctx, j.f, j.test, counts)
		if err != nil {
			return err
		}
		if s.Name = c.Title; i == 0 {
			res.Classes = s
			if s.Floor = s.floor(s.Classes[slices.Index(counts, slices.Max(counts))]); s.Floor != "" {
				j.loop.Note(s.Floor)
			}
		} else {
			res.Rivals = append(res.Rivals, s)
		}
	}
	return nil
}

// numbers calibrates the intervals of a network and measures it beside simple forecasts.
func (j *job) numbers(ctx context.Context, res *Result) (err error) {
	if j.c.Intervals != learntIntervals {
		if res.Calibration, err = j.m.calibrate(ctx, j.valid); err != nil {
			return err
		}
		for i := range res.Calibration {
			if text := res.Calibration[i].few(j.f.plan); text != "" {
				res.Notes = append(res.Notes, text)
				j.loop.Note(text)
			}
		}
	}
	if j.f.plan.Task == Anomaly {
		share, _ := strconv.ParseFloat(j.c.Alarms, 64)
		for _, c := range j.f.plan.contenders() {
			if c.Alarm, err = j.m.by(c).alarm(ctx, j.f, j.valid, share); err != nil {
				return err
			}
		}
		j.f.plan.Alarm = j.f.plan.contenders()[0].Alarm
	}
	if p := j.f.plan; p.Task == Forecast && j.c.Intervals == recentIntervals {
		if p.Recent = min(recentRows, j.valid.longest()); p.Recent < p.Horizon {
			p.Recent = 0
		}
	}
	for _, c := range j.f.plan.contenders() {
		m, calibrated := j.m.by(c), res.Calibration
		if m.rival != nil {
			calibrated = nil
		}
		past, err := m.backTests(ctx, j.f, j.valid, j.test)
		if err != nil {
			return err
		}
		errs, err := m.numbers(ctx, j.f, j.test, c.Title, past, calibrated)
		if err != nil {
			return err
		}
		res.Errors = append(res.Errors, errs...)
		if c.Name == j.f.plan.uses() && j.f.plan.Task == Forecast {
			if res.Forecasts, err = m.examples(ctx, j.f, j.test, past); err != nil {
				return err
			}
		}
	}
	if j.c.Refit > 0 {
		again, err := j.refit(ctx)
		if err != nil {
			return err
		}
		res.Errors = append(res.Errors, again...)
	}
	slices.SortStableFunc(res.Errors, func(a, b Errors) int { // those of one target together
		names := j.f.plan.TargetNames()
		return slices.Index(names, a.Target) - slices.Index(names, b.Target)
	})
	return nil
}
