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

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// Result is the outcome of a run. A run that diverged has no losses, but the reason.
type Result struct {
	Model     string   `json:"model"`
	Seed      uint64   `json:"seed"`
	Steps     int      `json:"steps"`
	Tokens    int      `json:"tokens"`
	Seconds   float64  `json:"train_s"` // by the clock of the comparison
	TrainLoss *float64 `json:"train_loss,omitempty"`
	ValidLoss *float64 `json:"valid_loss,omitempty"`
	Diverged  string   `json:"diverged,omitempty"`
}

// Events are callbacks of a comparison. Any may be nil.
type Events struct {
	// Run is called before a run trains, and returns the callbacks for its training.
	Run func(name string, seed uint64, number, runs int) train.Events
	// Finished is called with the result of a run. before is set if it was saved by an earlier call of Comparison.Run.
	Finished func(r Result, before bool)
}

// Runs returns the number of runs.
func (c *Comparison) Runs() int { return len(c.Models) * c.Options.Seeds }

// Run trains the models that are not trained yet, in folders below Options.Out, and returns the results in the order of
// the models and seeds. When ctx is done, it saves the current run and returns ctx's error with the results so far. If
// Out is "", all folders are removed at the end.
func (c *Comparison) Run(ctx context.Context, ev Events) (runs []Result, err error) {
	out := c.Options.Out
	if out == "" {
		if out, err = os.MkdirTemp("", "hippo-compare-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	}
	lock, err := disk.ClaimDir(out)
	if err != nil {
		return nil, fmt.Errorf("out: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	folders := c.folders()
	done := make([][]Result, len(c.Models))
	flat := func() []Result { return slices.Concat(done...) }
	for i := range c.Options.Seeds { // all models have one seed before the next, so that an early end leaves a table
		for k, e := range c.Models {
			cfg := e.Config
			cfg.Seed = c.Options.Seed + uint64(i)
			cfg.Out = filepath.Join(out, folders[k], fmt.Sprintf("seed-%d", cfg.Seed))
			if err := cfg.Anywhere(); err != nil {
				return flat(), err
			}
			r, before, err := readResult(cfg)
			if err == nil && !before {
				var events train.Events
				if ev.Run != nil {
					events = ev.Run(e.Name, cfg.Seed, i*len(c.Models)+k+1, c.Runs())
				}
				r, err = trainOne(ctx, e.Name, cfg, events)
			}
			if err != nil {
				return flat(), err
			}
			done[k] = append(done[k], r)
			if ev.Finished != nil {
				ev.Finished(r, before)
			}
		}
	}
	return flat(), nil
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

// Saved is the content of result.json in a run's folder: a result and the settings behind it.
type Saved struct {
	Run    Result `json:"run"`
	Params int    `json:"params"`
	train.Origin
	Config text.Config `json:"config"`
}

// readResult reads the result in the folder of a run, if there is one. It must be one of the same settings.
func readResult(cfg text.Config) (r Result, found bool, err error) {
	path := filepath.Join(cfg.Out, resultFile)
	var s Saved
	err = disk.ReadJSON(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	return s.Run, true, sameSettings(path, s.Config, cfg)
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
func trainOne(ctx context.Context, name string, cfg text.Config, ev train.Events) (Result, error) {
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
		if !math.IsNaN(res.Loss) { // else all updates were made before the run was resumed
			r.TrainLoss = &res.Loss
		}
	}
	params, err := cfg.Model.CountParams()
	if err != nil {
		return r, err
	}
	return r, disk.WriteJSON(filepath.Join(cfg.Out, resultFile), Saved{r, params, train.Here(), cfg})
}
