package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"

	"gonum.org/v1/gonum/stat"
)

// TableOptions are the settings of a table.
type TableOptions struct {
	Models []string `json:"models" help:"recipes, one per row; empty: those with a published result"`
	Seeds  int      `json:"seeds" min:"1" help:"runs of each cell, with the seeds 1, 2, ..."`
	Jobs   int      `json:"jobs" min:"0" help:"runs at the same time, each on one core; 0 for one on each core"`
	Data   string   `json:"data" help:"folder of the tasks' files, for tasks that read files"`
	Out    string   `json:"out" help:"folder of the runs; empty: runs/task"`
	Set    []string `json:"set" help:"settings of all runs, KEY=VALUE, as flags of hippo task run"`
}

// Cell is a model on a task with a seed.
type Cell struct {
	Task, Model string
	Seed        int
	Settings    *Settings
	Result      *Result // nil if it has not been run
}

// Folder returns the folder of the cell's run.
func (c *Cell) Folder(opt *TableOptions) string { return c.Settings.Folder(opt.Out) }

// Cells returns the cells of a table, with the results that exist already.
func Cells(entries []string, opt *TableOptions) ([]*Cell, error) {
	models := opt.Models
	var cells []*Cell
	for _, entry := range entries {
		first, err := Find(entry, "")
		if err != nil {
			return nil, err
		}
		if len(models) == 0 {
			models = published(first.Task)
		}
		for _, name := range models {
			for seed := 1; seed <= opt.Seeds; seed++ {
				s, err := Find(entry, name)
				if err != nil {
					return nil, err
				}
				s.Config.Seed = uint64(seed)
				cell := &Cell{Task: entry, Model: name, Seed: seed, Settings: s}
				if cell.Result, err = ReadResult(cell.Folder(opt)); err != nil && !errors.Is(err, os.ErrNotExist) {
					return nil, err
				}
				cells = append(cells, cell)
			}
		}
	}
	return cells, nil
}

// published returns the recipes of a task that have a published result, or the first one if none has.
func published(t *task.Task) []string {
	var models []string
	for _, r := range Recipes(t) {
		if r.Published != 0 && !strings.HasSuffix(r.Name, "-official") {
			models = append(models, r.Name)
		}
	}
	if len(models) == 0 {
		models = []string{Recipes(t)[0].Name}
	}
	return models
}

// RunCells calls run for each cell without a result, several at a time. run saves the result in the cell's folder.
// After each run, RunCells calls done with the cell and the number of cells left. It skips cells that other processes
// have locked, and returns the locks of those that still have no result in the end. When ctx is done, RunCells starts
// no more runs, and returns the error of ctx once those in flight have returned.
func RunCells(ctx context.Context, cells []*Cell, opt *TableOptions, run func(context.Context, *Cell) error,
	done func(c *Cell, left int)) (held []*disk.LockedError, err error) {
	jobs, left := opt.Jobs, Missing(cells)
	if jobs == 0 {
		jobs = runtime.NumCPU()
	}
	var mu sync.Mutex
	var failed []error
	todo := withoutResult(cells)
	for _, patient := range []bool{false, true} { // the second pass checks whether the holders are alive
		others, next := []*Cell(nil), 0
		held = nil
		var wg sync.WaitGroup
		for range min(jobs, len(todo)) {
			wg.Go(func() {
				for {
					mu.Lock()
					if next == len(todo) || ctx.Err() != nil {
						mu.Unlock()
						return
					}
					c := todo[next]
					next++
					mu.Unlock()
					err := c.run(ctx, opt, patient, run)
					mu.Lock()
					var locked *disk.LockedError
					switch {
					case errors.As(err, &locked):
						others, held = append(others, c), append(held, locked)
					case err != nil:
						failed = append(failed, fmt.Errorf("%s %s, seed %d: %w", c.Task, c.Model, c.Seed, err))
					default:
						left--
						done(c, left)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		todo = others
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return held, errors.Join(failed...)
}

// run computes the result of a cell with the given function, unless another process has computed it or is computing it.
// In the latter case it returns a *disk.LockedError.
func (c *Cell) run(ctx context.Context, opt *TableOptions, patient bool, run func(context.Context, *Cell) error) error {
	made := func() (err error) {
		c.Result, err = ReadResult(c.Folder(opt))
		return err
	}
	if err := made(); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// The process that runs the cell claims it. That may be the child of a table's process that was killed.
	err := disk.Claimed(ctx, disk.Inside(c.Folder(opt)), patient)
	if err == nil {
		if err = run(ctx, c); err != nil && ctx.Err() == nil {
			if held := disk.Claimed(ctx, disk.Inside(c.Folder(opt)), false); held != nil { // another process was faster
				return held
			}
		}
	}
	if again := made(); again == nil || err == nil {
		return again
	}
	return err
}

// Missing returns the number of cells without a result.
func Missing(cells []*Cell) int { return len(withoutResult(cells)) }

// withoutResult returns the cells without a result.
func withoutResult(cells []*Cell) []*Cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c *Cell) bool { return c.Result != nil })
}

// Summary is a model on a task, over all seeds.
type Summary struct {
	Task      string         `json:"task"`
	Model     string         `json:"model"`
	Numbers   bool           `json:"numbers"` // Scores are mean squared errors, and not accuracies in percent
	Scores    []float64      `json:"scores"`
	Mean      float64        `json:"mean"`
	Spread    float64        `json:"spread"` // from the lowest to the highest
	Published float64        `json:"published,omitempty"`
	Where     string         `json:"where,omitempty"`
	Params    int            `json:"params"`
	Seconds   float64        `json:"train_seconds"` // mean
	Extra     []ExtraSummary `json:"extra,omitempty"`

	Count int `json:"-"` // targets of a run
}

// ExtraSummary is a further measurement of the runs of a summary.
type ExtraSummary struct {
	Name      string    `json:"name"`
	Scores    []float64 `json:"scores"`
	Published float64   `json:"published,omitempty"`

	count int
}

// Summarize returns a summary for each model on each task.
func Summarize(cells []*Cell) []Summary {
	var out []Summary
	for _, c := range cells {
		if c.Result == nil {
			continue
		}
		i := slices.IndexFunc(out, func(s Summary) bool { return s.Task == c.Task && s.Model == c.Model })
		if i < 0 {
			i = len(out)
			out = append(out, Summary{
				Task: c.Task, Model: c.Model, Numbers: c.Result.Numbers, Published: c.Result.Published,
				Where: c.Result.Where, Params: c.Result.Params, Count: c.Result.Test.Count,
			})
		}
		out[i].add(c.Result)
	}
	return out
}

// add adds one more result.
func (s *Summary) add(r *Result) {
	s.Scores = append(s.Scores, mainScore(r.Test, s.Numbers))
	for _, x := range r.Extra {
		k := slices.IndexFunc(s.Extra, func(e ExtraSummary) bool { return e.Name == x.Name })
		if k < 0 {
			k = len(s.Extra)
			s.Extra = append(s.Extra, ExtraSummary{Name: x.Name, Published: x.Published, count: x.Count})
		}
		s.Extra[k].Scores = append(s.Extra[k].Scores, mainScore(x.Score, s.Numbers))
	}
	s.Mean = stat.Mean(s.Scores, nil)
	s.Seconds += (r.TrainSeconds - s.Seconds) / float64(len(s.Scores))
	s.Spread = slices.Max(s.Scores) - slices.Min(s.Scores)
}

func mainScore(s train.Score, numbers bool) float64 {
	if numbers {
		return s.Loss
	}
	return s.Accuracy
}

// Also formats the further measurements, with their published results.
func (s *Summary) Also() string {
	var all []string
	for _, x := range s.Extra {
		all = append(all, x.Name+": "+ScoresText(x.Scores, s.Numbers, x.count)+PublishedText(x.Published))
	}
	return strings.Join(all, "; ")
}
