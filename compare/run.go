package compare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// Result is the outcome of a run. A run that diverged has the reason in Diverged, and no losses.
type Result struct {
	Model     string   `json:"model"`
	Seed      uint64   `json:"seed"`
	Steps     int      `json:"steps"`
	Tokens    int      `json:"tokens"`
	Seconds   float64  `json:"train_s"` // training time, by the clock of the comparison
	TrainLoss *float64 `json:"train_loss,omitempty"`
	ValidLoss *float64 `json:"valid_loss,omitempty"`
	Diverged  string   `json:"diverged,omitempty"`
	Test      *Test    `json:"test,omitempty"` // nil without a test text
}

// Test holds the scores of a model on the test text.
type Test struct {
	Text     string  `json:"text"`
	Loss     float64 `json:"loss"` // nats per token
	BitsByte float64 `json:"bits_per_byte"`
	Word     float64 `json:"word_perplexity"` // per word, where white space separates words
	GPT2     float64 `json:"gpt2_perplexity"` // per token of GPT-2, whatever the model's tokens
}

// Events are callbacks of a comparison. Any may be nil.
type Events struct {
	// Run is called before a run trains, and returns the callbacks for its training.
	Run func(name string, seed uint64, number, runs int) train.Events
	// Finished is called with the result of a run. before reports that the result was saved before this call of
	// Comparison.Run.
	Finished func(r Result, before bool)
}

// Runs returns the number of runs.
func (c *Comparison) Runs() int { return len(c.Models) * c.Options.Seeds }

// Run trains the models that are not trained yet, in folders below Options.Out. It returns the results in the order of
// the models and seeds, and which processes are making the other runs. Any number of processes may share Out: each
// takes runs that no other process has. When ctx is done, Run saves the current run and returns ctx's error with the
// results so far. If Out is "", all folders are removed at the end.
func (c *Comparison) Run(ctx context.Context, ev Events) (runs []Result, held []*disk.LockedError, err error) {
	out := c.Options.Out
	if out == "" {
		if out, err = os.MkdirTemp("", "hippo-compare-"); err != nil {
			return nil, nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	}
	all, err := c.planned(out)
	if err != nil {
		return nil, nil, err
	}
	held, err = disk.EachFree(all, func(p *planned, patient bool) error { return c.take(ctx, p, patient, ev) })
	return done(all), held, err
}

// planned is a run of a comparison.
type planned struct {
	model, number int // index of the model, and number of the run among all runs, from 1
	cfg           text.Config
	result        *Result // nil until the run is made
}

// planned returns all runs. All models are trained with one seed before the next seed, so that an early end leaves a
// table.
func (c *Comparison) planned(out string) (all []*planned, err error) {
	folders := c.folders()
	for i := range c.Options.Seeds {
		for k, e := range c.Models {
			cfg := e.Config
			cfg.Seed = c.Options.Seed + uint64(i)
			cfg.Out = filepath.Join(out, folders[k], fmt.Sprintf("seed-%d", cfg.Seed))
			if err := cfg.Anywhere(); err != nil {
				return nil, err
			}
			all = append(all, &planned{model: k, number: len(all) + 1, cfg: cfg})
		}
	}
	return all, nil
}

// done returns the results of the runs that have one, in the order of the models and seeds.
func done(all []*planned) (runs []Result) {
	slices.SortStableFunc(all, func(a, b *planned) int { return a.model - b.model })
	for _, p := range all {
		if p.result != nil {
			runs = append(runs, *p.result)
		}
	}
	return runs
}

// take makes a run unless it has been made. If another process has the run, the error is a *disk.LockedError.
func (c *Comparison) take(ctx context.Context, p *planned, patient bool, ev Events) error {
	r, before, err := c.readResult(p.cfg)
	if err == nil && !before {
		err = disk.Claim(ctx, disk.Inside(p.cfg.Out), patient, func(ctx context.Context) error {
			if r, before, err = c.readResult(p.cfg); err != nil || before { // another process may have made it
				return err
			}
			var events train.Events
			name := c.Models[p.model].Name
			if ev.Run != nil {
				events = ev.Run(name, p.cfg.Seed, p.number, c.Runs())
			}
			r, err = c.trainOne(ctx, name, p.cfg, events)
			return err
		})
	}
	if err != nil {
		return err
	}
	if p.result = &r; ev.Finished != nil {
		ev.Finished(r, before)
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// folders returns distinct folder names for the models.
func (c *Comparison) folders() []string {
	var names []string
	for _, e := range c.Models {
		base := notInNames.ReplaceAllString(e.Name, "_")
		name := base
		for n := 2; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		names = append(names, name)
	}
	return names
}

// resultFile is the name of the result in a run's folder.
const resultFile = "result.json"

// Saved is the content of result.json in a run's folder: a result and its settings.
type Saved struct {
	Run      Result         `json:"run"`
	Params   int            `json:"params"`
	Baseline *data.Baseline `json:"baseline,omitempty"` // on the validation text
	train.Origin
	Config text.Config `json:"config"`
}

// readResult reads the result in the folder of a run, if there is one. A result of other settings is an error.
func (c *Comparison) readResult(cfg text.Config) (r Result, found bool, err error) {
	path := filepath.Join(cfg.Out, resultFile)
	var s Saved
	err = disk.ReadJSON(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	if err := sameSettings(path, s.Config, cfg); err != nil {
		return s.Run, true, err
	}
	if s.Run.Diverged == "" && (s.Run.Test != nil) != (len(c.Options.Test) > 0) {
		return s.Run, true, fmt.Errorf("%s: found a run with the test text %t, want another --out or the same --test",
			path, s.Run.Test != nil)
	}
	return s.Run, true, nil
}

// sameSettings returns an error if a folder holds a run of other settings.
func sameSettings(path string, before, now text.Config) error {
	before.Out, before.Memory = now.Out, now.Memory // the folder may have been moved
	if d := config.Diff(&before, &now); len(d) > 0 {
		return fmt.Errorf("%s: found a run of other settings (%s), want another --out or the same settings",
			path, strings.Join(d, "; "))
	}
	return nil
}

// trainOne trains one model, or resumes the training in its folder, and saves the result there.
func (c *Comparison) trainOne(ctx context.Context, name string, cfg text.Config, ev train.Events) (Result, error) {
	run := text.Run
	last := filepath.Join(cfg.Out, model.LastDir)
	if _, err := os.Stat(last); !errors.Is(err, fs.ErrNotExist) {
		before, err := text.ReadRun(cfg.Out)
		if err == nil {
			err = sameSettings(last, before, cfg)
		}
		if err != nil {
			return Result{}, err
		}
		run = text.Resume
	}
	res, err := run(ctx, cfg, ev)
	r := Result{Model: name, Seed: cfg.Seed, Steps: res.Step, Tokens: res.Tokens, Seconds: res.Trained.Seconds()}
	var broke *train.NonFiniteError
	var diverged *train.DivergedError
	switch {
	case errors.As(err, &broke):
		r.Diverged = fmt.Sprintf("step %d: the %s became %v", broke.Step, broke.What, broke.Value)
	case errors.As(err, &diverged):
		r.Diverged = fmt.Sprintf("step %d: the training loss became %.4g", res.Step, diverged.Loss)
	case err != nil:
		return r, err
	case res.Interrupted:
		return r, ctx.Err()
	default:
		r.ValidLoss = &res.ValidLoss
		if !math.IsNaN(res.Loss) { // NaN if all updates were made before the run was resumed
			r.TrainLoss = &res.Loss
		}
		if r.Test, err = c.test(ctx, cfg.Out); err != nil {
			return r, err
		}
	}
	params, err := cfg.Model.CountParams()
	if err != nil {
		return r, err
	}
	return r, disk.WriteJSON(filepath.Join(cfg.Out, resultFile), Saved{r, params, c.counted, train.Here(), cfg})
}

// test scores the network in the folder of a run on the test text, if there is one.
func (c *Comparison) test(ctx context.Context, dir string) (*Test, error) {
	o := &c.Options
	if len(o.Test) == 0 {
		return nil, nil
	}
	e := &text.ModelEval{Options: text.ModelEvalOptions{
		Data: o.Test, TextField: o.TextField, Cache: o.Cache, CacheLimit: o.CacheLimit, BatchSize: 8, Per: "gpt2"}}
	reports, err := e.Run(ctx, []string{dir})
	if err != nil {
		return nil, fmt.Errorf("test: %w", err)
	}
	r := reports[0]
	return &Test{strings.Join(o.Test, " "), r.Loss, r.BitsByte, r.WordPerplex, r.Per.Perplexity}, nil
}
