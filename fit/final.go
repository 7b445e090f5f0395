package fit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// Values of the setting for the rows of the final fit.
const (
	finalAll   = "all"   // all rows, after measuring
	finalTrain = "train" // the training set: the measured model is the one that predicts
)

// final fits the model again, on all rows. The rows that were used for choosing and measuring are the latest, which a
// forecast needs most. Settings stay as chosen: a network is trained from the start for as many updates as the best one
// had, a rival keeps its settings. Intervals keep their calibration on the validation set. final returns a function
// that saves the network, nil if the run's network is kept.
func (j *job) final(ctx context.Context, res *Result) (save func() error, err error) {
	p := j.f.plan
	whole := [parts][]segment{validPart: j.valid.parts, testPart: j.test.parts}
	for i, s := range j.f.seqs {
		whole[trainPart] = append(whole[trainPart], segment{i, s.lo, s.hi})
	}
	switch {
	case j.c.Final == finalTrain:
		return nil, nil
	case p.uses() != useNetwork:
		c := p.contender(p.Use)
		if ok, err := c.rival.fit(ctx, j.f, j.f.newWindows(whole[trainPart], trainPart, j.train.stride, j.c.Seed),
			nil); err != nil || !ok {
			return nil, err
		}
		c.Title = c.rival.title(p)
		res.Final = fmt.Sprintf("%s: fitted once more on all rows (--final train leaves that out)", c.Title)
		return nil, c.store()
	case j.c.Time > 0:
		res.Final = "the network has seen the training set only: a final fit on all rows would take more than --time"
		return nil, nil
	}
	best, ok := j.loop.BestPoint()
	if !ok {
		return nil, nil
	}
	j.loop.Note(fmt.Sprintf("final fit on all rows, %d updates as the best network had (--final train leaves it out)",
		best.Step))
	m, f, set, w, err := j.again(ctx, "final", whole, best.Step)
	if err != nil {
		return nil, err
	}
	f.plan.Final, f.plan.Use, f.plan.Contenders = true, p.Use, p.Contenders
	f.plan.Widen, f.plan.Recent, f.plan.Alarm = p.Widen, p.Recent, p.Alarm
	now, _, err := m.score(ctx, f, set.valid)
	if err != nil {
		return nil, err
	}
	if before := j.networkError; !(now <= mostWorse*before) {
		res.Final = fmt.Sprintf("the network has seen the training set only: fitted on all rows, it was worse "+
			"(%s, before %s)", digits(now), digits(before))
		return nil, nil
	}
	res.Final = fmt.Sprintf("the network is trained once more on all rows, for %d updates as the best one had "+
		"(--final train leaves that out); what is measured here is the network before", best.Step)
	return func() error {
		w.Net.Config.Signal.About = f.plan.about()
		if err := train.WriteModel(filepath.Join(j.c.Out, model.BestDir), w); err != nil {
			return err
		}
		return os.RemoveAll(filepath.Join(j.c.Out, refitsDir))
	}, nil
}

// mostWorse is the maximum ratio of the errors on the validation set of the final network, which was trained on it, and
// the measured network.
const mostWorse = 1.05
