package fit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// refitsDir is the folder of a run's retrained networks while the run has not ended.
const refitsDir = "refits"

// mostRefits is the maximum number of refits.
const mostRefits = 1000

// refit measures forecasts of the test part by networks that are retrained every c.Refit origins, with all data known
// by then. The origins of the test part are divided into groups by time. The network of the run forecasts the first
// group. Before each other group, a network is trained from the start. Its validation part is the last rows before the
// group, as many as in the run, and its training part all rows before these. Scales, the linear forecast and the widths
// of intervals come from these parts only.
func (j *job) refit(ctx context.Context) (all []Errors, err error) {
	p, every := j.f.plan, j.c.Refit
	groups, err := j.f.refits(&j.c)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("refitted every %d origins", every)
	sums := [2][]*errorSum{p.newSums("network, " + name), p.newSums("linear, " + name)}
	linear := true
	for n, divided := range groups {
		m, f, set := j.m, j.f, &sets{valid: j.valid, train: j.train}
		if n == 0 {
			set.test = f.newWindows(divided[testPart], testPart, j.c.stride(p), j.c.Seed)
		} else {
			j.loop.Note(fmt.Sprintf("refit %d of %d: a network for the next %d origins", n, len(groups)-1, j.c.Refit))
			if m, f, set, _, err = j.again(ctx, strconv.Itoa(n), divided, 0); err != nil {
				return nil, fmt.Errorf("refit %d: %w", n, err)
			}
			if j.c.Intervals != learntIntervals {
				if _, err = m.calibrate(ctx, set.valid); err != nil {
					return nil, err
				}
			}
		}
		indices := some(set.test.Len(), max(1, measureWindows*set.test.Len()/max(measureWindows, j.test.Len())))
		if err := m.by(nil).sum(ctx, f, set.test, indices, sums[0], nil); err != nil {
			return nil, err
		}
		l := &Contender{Name: "linear", rival: &nlinear{}}
		if ok, _ := l.rival.fit(ctx, f, set.train, set.valid); !ok || !linear {
			linear = false
			continue
		}
		if err := l.measureOff(ctx, m, set.valid); err != nil {
			return nil, err
		}
		if err := m.by(l).sum(ctx, f, set.test, indices, sums[1], nil); err != nil {
			return nil, err
		}
	}
	for k := range sums[0] {
		all = append(all, sums[0][k].errors())
		if linear {
			all = append(all, sums[1][k].errors())
		}
	}
	return all, os.RemoveAll(filepath.Join(j.c.Out, refitsDir))
}

// sets holds the windows of the parts.
type sets struct{ train, valid, test *windows }

func setsOf(s *task.Set) sets {
	return sets{s.Train.(*windows), s.Valid.(*thinned).windows, s.Test.(*windows)}
}

// refits returns the parts of the data for each retraining. The first ones are those of the run. Each test part has the
// origins up to the next retraining.
func (f *frame) refits(c *Config) (all [][parts][]segment, err error) {
	divided, _, err := f.divide(c)
	if err != nil {
		return nil, err
	}
	p, apart := f.plan, c.Refit*c.stride(f.plan) // distance in rows
	first := map[int]segment{}
	held := map[int]int{}
	most := 0 // number of origins
	for _, s := range divided[validPart] {
		held[s.seq] = s.hi - s.lo
	}
	for _, s := range divided[testPart] {
		s.lo = max(s.lo, f.seqs[s.seq].lo+p.Lookback)
		if s.hi-s.lo >= p.Horizon {
			first[s.seq] = s
			most = max(most, s.hi-s.lo-p.Horizon+1)
		}
	}
	if most > mostRefits*apart {
		return nil, fmt.Errorf("refit: found %d origins in the test part, want more of them between refits than %d, "+
			"so that there are at most %d", most, c.Refit, mostRefits)
	}
	for from := 0; from < most; from += apart {
		var now [parts][]segment
		for i, seq := range f.seqs {
			s, ok := first[i]
			if !ok { // too short to be forecast, also later
				for part := range now {
					for _, other := range divided[part] {
						if other.seq == i && part != testPart {
							now[part] = append(now[part], other)
						}
					}
				}
				continue
			}
			at := min(s.lo+from, s.hi)
			border := max(seq.lo, at-held[i])
			for part, one := range [parts]segment{
				{i, seq.lo, border}, {i, border, at}, {i, at, min(s.hi, at+apart-c.stride(p)+p.Horizon)},
			} {
				if one.hi > one.lo && (part != testPart || one.hi-one.lo >= p.Horizon) {
					now[part] = append(now[part], one)
				}
			}
		}
		all = append(all, now)
	}
	return all, nil
}

// again trains a network on data that is divided differently. If updates is above 0, it trains for that many updates
// and takes the last state. Otherwise it takes the best state on the validation set.
func (j *job) again(ctx context.Context, name string, divided [parts][]segment, updates int) (*Model, *frame, *sets,
	*labelled.Work, error) {
	plan := *j.f.plan
	plan.Columns, plan.Linear, plan.Widen, plan.Recent = slices.Clone(plan.Columns), nil, nil, 0
	plan.Contenders, plan.Use = nil, ""
	f := &frame{plan: &plan, rows: j.f.rows, seqs: j.f.seqs}
	var before *linear
	if updates > 0 {
		before = j.f.plan.Linear
	}
	set, err := f.learnable(&j.c, divided, before)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	parts := setsOf(set)
	c := j.work.Config
	c.Out = filepath.Join(j.c.Out, refitsDir, name)
	if updates > 0 {
		perEpoch := max(1, (set.Train.Len()+c.BatchSize-1)/c.BatchSize)
		c.Epochs = max(1, (updates+perEpoch/2)/perEpoch)
		c.EvalEvery, c.EvalLimit = float64(c.Epochs), 1 // it is not used for choosing
		set.Valid = nil
	}
	w, loop, err := labelled.Open(c, &j.c, set, func([]byte) error { return nil }) // the run has compared it already
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if err := loop.Open(train.Events{Step: j.ev.Step}); err != nil {
		return nil, nil, nil, nil, err
	}
	defer loop.Close()
	if interrupted, err := w.Train(ctx, loop); err != nil || interrupted {
		if err == nil {
			err = context.Cause(ctx)
		}
		return nil, nil, nil, nil, err
	}
	if _, err := w.TakeBest(loop); err != nil {
		return nil, nil, nil, nil, err
	}
	m, err := newModel(w.Net, &plan)
	return m, f, &parts, w, err
}
