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

// refitsDir is the folder of the networks of a run that are trained anew, as long as it has not ended.
const refitsDir = "refits"

// mostRefits is the limit on refits.
const mostRefits = 1000

// refit measures forecasts of the test part by networks that are retrained every c.Refit origins, with all that is
// known by then: the origins of the test part are divided in time, and before each group of them but the first, which
// the network of the run forecasts, a network is trained from the start. The last rows before the group are its
// validation part, as many as those of the run, and all rows before these its training part: scales, the linear
// forecast and the widths of intervals come from them alone.
func (j *job) refit(ctx context.Context) (all []Errors, err error) {
	p, every := j.f.plan, j.c.Refit
	groups, err := j.f.refits(&j.c)
	if err != nil {
		return nil, err
	}
	var sums [2][]*errorSum // of the network, and of the linear forecast
	for k := range p.targets() {
		name := fmt.Sprintf("refitted every %d origins", every)
		sums[0] = append(sums[0], p.newErrorSum("network, "+name, k))
		sums[1] = append(sums[1], p.newErrorSum("linear, "+name, k))
	}
	linear := true
	for n, divided := range groups {
		m, f, set := j.m, j.f, &sets{valid: j.valid, train: j.train}
		if n == 0 {
			set.test = f.newWindows(divided[testPart], testPart, j.c.stride(p), j.c.Seed)
		} else if m, f, set, err = j.again(ctx, n, len(groups), divided); err != nil {
			return nil, err
		}
		indices := some(set.test.Len(), max(1, measureWindows*set.test.Len()/max(measureWindows, j.test.Len())))
		var guesses []*guesser
		l := f.fitLinear(set.train, set.valid)
		if linear = linear && l != nil; linear {
			g := &guesser{guess: f.guessLinear(l)}
			if err := g.fit(ctx, f, set.valid); err != nil {
				return nil, err
			}
			guesses = append(guesses, g)
		}
		if err := m.sum(ctx, f, set.test, indices, guesses, sums[:], nil); err != nil {
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

// sets are the windows of the parts.
type sets struct{ train, valid, test *windows }

func setsOf(s *task.Set) sets {
	return sets{s.Train.(*windows), s.Valid.(*thinned).windows, s.Test.(*windows)}
}

// refits are the parts of data at each time that a network is trained anew, the first of which are those of the run. In
// each the test part has the origins up to the next time.
func (f *frame) refits(c *Config) (all [][parts][]segment, err error) {
	divided, _, err := f.divide(c)
	if err != nil {
		return nil, err
	}
	p, apart := f.plan, c.Refit*c.stride(f.plan) // rows
	first := map[int]segment{}
	held := map[int]int{}
	most := 0 // origins
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
			if !ok { // too short to be forecast, and not longer later
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

// again trains a network for the n-th group of origins.
func (j *job) again(ctx context.Context, n, of int, divided [parts][]segment) (*Model, *frame, *sets, error) {
	plan := *j.f.plan
	plan.Columns, plan.Linear, plan.Widen, plan.Recent = slices.Clone(plan.Columns), nil, nil, 0
	f := &frame{plan: &plan, rows: j.f.rows, seqs: j.f.seqs}
	set, err := f.learnable(&j.c, divided)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("refit %d: %w", n, err)
	}
	j.loop.Note(fmt.Sprintf("refit %d of %d: a network for the next %d origins", n, of-1, j.c.Refit))
	c := j.work.Config
	c.Out = filepath.Join(j.c.Out, refitsDir, strconv.Itoa(n))
	w, loop, err := labelled.Open(c, &j.c, set, func([]byte) error { return nil }) // which the run has compared
	if err != nil {
		return nil, nil, nil, err
	}
	if err := loop.Open(train.Events{Step: j.ev.Step}); err != nil {
		return nil, nil, nil, err
	}
	defer loop.Close()
	if interrupted, err := w.Train(ctx, loop); err != nil || interrupted {
		if err == nil {
			err = context.Cause(ctx)
		}
		return nil, nil, nil, err
	}
	if _, err := w.TakeBest(loop); err != nil {
		return nil, nil, nil, err
	}
	m, err := newModel(w.Net, &plan)
	if err != nil {
		return nil, nil, nil, err
	}
	parts := setsOf(set)
	if j.c.Intervals != learntIntervals {
		_, err = m.calibrate(ctx, parts.valid)
	}
	return m, f, &parts, err
}
