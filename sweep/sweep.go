// Package sweep searches for good settings. It trains with random settings (Bergstra and Bengio, JMLR 13, 2012), either
// all trials to the end or by successive halving, and ranks the trials by their score on validation data. It knows
// neither models nor data: the caller provides a function that makes a trial. The record is saved after every trial, so
// that an interrupted sweep can resume.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/train"
)

// File is the name of a sweep's record in its folder.
const File = "sweep.json"

// Plan describes a sweep.
type Plan struct {
	Command []string `json:"command"` // what each trial runs, with its settings added
	Over    []string `json:"over"`    // see ParseRange
	Halving string   `json:"halving"` // see ParseBudget; empty for trials that all train to the end
	Trials  int      `json:"trials"`
	Eta     int      `json:"eta"` // one of Eta trials goes on to the next round
	Seed    uint64   `json:"seed"`
}

// Trial is one training run and its settings.
type Trial struct {
	Number   int          `json:"trial"` // from 1
	Round    int          `json:"round"` // of halving, from 1
	Settings []Setting    `json:"settings"`
	Budget   *Setting     `json:"budget,omitempty"`
	Out      string       `json:"out"`             // the folder of the run
	Score    *train.Score `json:"score,omitempty"` // the best on validation data; nil if it failed
	Error    string       `json:"error,omitempty"`
	Seconds  float64      `json:"seconds"`
}

// Record is the content of a sweep's file.
type Record struct {
	Plan   Plan    `json:"plan"`
	Trials []Trial `json:"trials"` // that have ended, in the order in which they ended
}

// Runner makes a trial and returns its best score on validation data. If it fails before ctx is done, the error is
// recorded and the sweep continues.
type Runner func(ctx context.Context, t Trial) (train.Score, error)

// mostFailures is the number of failed trials that end a sweep in which none has succeeded.
const mostFailures = 3

// Events are callbacks of a sweep.
type Events struct {
	Trial func(t Trial, of int)          // before each trial that this process makes; of is the number of all trials
	Wait  func(held []*disk.LockedError) // when the next round needs trials that other processes are making
}

// Run makes the trials of a plan that are not in the record in the folder out and that no other process has, on any
// machine that shares the folder: see disk.Claim. It returns the record, and which processes are still making trials of
// the last round.
func Run(ctx context.Context, out string, p Plan, run Runner, ev Events) (*Record, []*disk.LockedError, error) {
	space, rounds, budget, err := p.parse()
	if err == nil {
		err = os.MkdirAll(out, 0o777)
	}
	if err != nil {
		return nil, nil, err
	}
	r, err := open(out, p)
	if err != nil {
		return nil, nil, err
	}
	trials := draws(space, p.Trials, p.Seed)
	of := 0
	for i := range rounds {
		rounds[i].trials = min(rounds[i].trials, len(trials))
		of += rounds[i].trials
	}
	numbers := make([]int, len(trials)) // trials that take part in a round
	for i := range numbers {
		numbers[i] = i + 1
	}
	for i, round := range rounds {
		var all []Trial
		for _, n := range numbers {
			t := Trial{Number: n, Round: i + 1, Settings: trials[n-1],
				Out: filepath.Join(out, fmt.Sprintf("trial-%03d", n))}
			if budget != nil {
				b := budget.share(round.share)
				t.Budget, t.Out = &b, fmt.Sprintf("%s-round-%d", t.Out, i+1)
			}
			all = append(all, t)
		}
		for waits := false; ; waits = true {
			held, err := disk.EachFree(all, func(t Trial, patient bool) error {
				return r.take(ctx, out, t, patient, run, func() { ev.Trial(t, of) })
			})
			if last := i+1 == len(rounds); err != nil || last || len(held) == 0 {
				if err == nil {
					err = r.read(out)
				}
				if err != nil || last {
					return r, held, err
				}
				break
			}
			if !waits {
				ev.Wait(held)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}
		best := r.Ranking(i + 1)
		numbers = numbers[:0]
		for _, t := range best[:min(rounds[i+1].trials, len(best))] {
			numbers = append(numbers, t.Number)
		}
	}
	return r, nil, nil
}

// pause is how long a process waits before it checks again which trials others have finished.
const pause = time.Second

// parse returns the parts of a plan, or all its problems.
func (p *Plan) parse() (space []Range, rounds []rung, budget *Budget, err error) {
	var problems []error
	seen := map[string]bool{}
	for _, text := range p.Over {
		r, err := ParseRange(text)
		if err == nil && seen[r.Setting] {
			err = fmt.Errorf("over: found %s twice, want each setting once", r.Setting)
		}
		seen[r.Setting] = true
		space, problems = append(space, r), append(problems, err)
	}
	if len(space) == 0 {
		problems = append(problems, errors.New("over: found no setting, want one or more, such as optim.lr=1e-4..1e-2"))
	}
	if p.Trials < 1 || p.Trials > 10000 {
		problems = append(problems, fmt.Errorf("trials: found %d, want 1 to 10000", p.Trials))
	}
	if p.Eta < 2 {
		problems = append(problems, fmt.Errorf("eta: found %d, want 2 or more", p.Eta))
	}
	rounds = []rung{{p.Trials, 1}}
	if p.Halving != "" && p.Eta >= 2 {
		b, err := ParseBudget(p.Halving)
		if err == nil && seen[b.Setting] {
			err = fmt.Errorf("halving: found %s, which is also searched", b.Setting)
		}
		problems = append(problems, err)
		budget, rounds = &b, rungs(p.Trials, p.Eta)
	}
	return space, rounds, budget, errors.Join(problems...)
}

// open reads the record in a folder, or starts one.
func open(out string, p Plan) (*Record, error) {
	r := &Record{Plan: p}
	if err := r.read(out); err != nil {
		return nil, err
	}
	if !slices.Equal(r.Plan.Command, p.Command) || !slices.Equal(r.Plan.Over, p.Over) ||
		r.Plan.Halving != p.Halving || r.Plan.Seed != p.Seed || r.Plan.Eta != p.Eta ||
		r.Plan.Trials != p.Trials && p.Halving != "" {
		return nil, fmt.Errorf("%s: found a sweep with other settings: %+v, now %+v; remove it, or choose another "+
			"folder with --out", filepath.Join(out, File), r.Plan, p)
	}
	r.Plan = p // the sweep continues if there are more trials
	return r, nil
}

// read reads the record in a folder, to which other processes may have added trials. If there is no record, r stays as
// it is.
func (r *Record) read(out string) error {
	now := Record{Plan: r.Plan}
	err := disk.ReadJSON(filepath.Join(out, File), &now)
	if err == nil {
		*r = now
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// has reports whether a trial has ended.
func (r *Record) has(t Trial) bool {
	return slices.ContainsFunc(r.Trials, func(o Trial) bool { return o.Number == t.Number && o.Round == t.Round })
}

// take makes a trial unless the record has it. If another process has the trial, the error is a *disk.LockedError.
func (r *Record) take(ctx context.Context, out string, t Trial, patient bool, run Runner, started func()) error {
	if r.has(t) {
		return nil
	}
	return disk.Claim(ctx, t.Out, patient, func(ctx context.Context) error {
		if err := r.read(out); err != nil || r.has(t) { // another process may have made it meanwhile
			return err
		}
		started()
		start := time.Now()
		score, err := run(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.Seconds = time.Since(start).Seconds()
		if err == nil && math.IsNaN(score.Loss) {
			err = errors.New("the validation loss is no number")
		}
		if err == nil {
			t.Score = &score
		} else {
			t.Error = err.Error()
		}
		return r.add(ctx, out, t, err)
	})
}

// add adds a trial to the record in the folder, to which other processes may add theirs. failed is the error of the
// trial.
func (r *Record) add(ctx context.Context, out string, t Trial, failed error) error {
	for {
		err := disk.Claim(ctx, filepath.Join(out, File), true, func(context.Context) error {
			plan := r.Plan
			if err := r.read(out); err != nil {
				return err
			}
			r.Plan.Trials = max(plan.Trials, r.Plan.Trials)
			if failed != nil && len(r.Trials)+1 >= mostFailures && len(r.Ranking(1)) == 0 {
				return fmt.Errorf("the first %d trials failed, the last one with: %w", len(r.Trials)+1, failed)
			}
			r.Trials = append(r.Trials, t)
			return disk.WriteJSON(filepath.Join(out, File), r)
		})
		var held *disk.LockedError
		if !errors.As(err, &held) {
			return err
		}
		select {
		case <-time.After(pause / 20):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Ranking returns the trials of a round that did not fail, the best first.
func (r *Record) Ranking(round int) (all []Trial) {
	for _, t := range r.Trials {
		if t.Round == round && t.Score != nil {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b Trial) int {
		switch {
		case a.Score.Better(*b.Score):
			return -1
		case b.Score.Better(*a.Score):
			return 1
		}
		return cmp.Compare(a.Number, b.Number)
	})
	return all
}

// Last returns the number of the last round with a result, or 0 if there is none.
func (r *Record) Last() int {
	last := 0
	for _, t := range r.Trials {
		if t.Score != nil {
			last = max(last, t.Round)
		}
	}
	return last
}
