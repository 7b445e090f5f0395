package fit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// Events are callbacks of a run, called in its goroutine. Any may be nil.
type Events struct {
	Start func(about Start)
	Step  func(train.Progress)
	Eval  func(train.Progress)
	Note  func(text string)
}

// Start describes a run when it starts.
type Start struct {
	Plan    *Plan
	Rows    int
	Series  int
	Params  int
	Windows [3]int // in training, validation and test
	Resumed int    // number of the update from which it continues
}

// ErrInterrupted reports that a run was interrupted. The next run in its folder resumes it.
var ErrInterrupted = errors.New("interrupted")

// Default networks.
const (
	causalLayers   = "s4d*3"
	forecastLayers = "s4d*2"
	smallLayers    = "s4d*1" // for forecasts from few windows
	fillLayers     = "s4d(bidirectional=true)*2"
)

// Run trains a network on data, compares it with simple forecasts, and writes the folder of the run: the network, the
// result and a report. It resumes an interrupted run, and returns the saved result of a finished one. stdin is read for
// the data "-".
func Run(ctx context.Context, c Config, stdin io.Reader, ev Events) (res *Result, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Out == "" {
		c.Out = Folder(&c)
	}
	err = train.InFolder(ctx, c.Out, func(ctx context.Context) error {
		res, err = runHere(ctx, c, stdin, ev)
		return err
	})
	return res, err
}

// Folder returns the default folder of a run.
func Folder(c *Config) string {
	name := filepath.Base(c.Data[0])
	name = strings.TrimSuffix(name, filepath.Ext(name))
	if name == "-" || name == "" || name == "." || name == string(filepath.Separator) {
		name = "data"
	}
	if len(c.Target) > 0 {
		name += "-" + strings.Join(c.Target, "-")
	}
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_.+=,", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if len(clean) > 80 {
		clean = clean[:80]
	}
	folder := "fit"
	if c.Task == Forecast {
		folder = "forecast"
	}
	return filepath.Join("runs", folder, clean)
}

// runHere is like Run, in a folder that this process has locked.
func runHere(ctx context.Context, c Config, stdin io.Reader, ev Events) (*Result, error) {
	if done, err := ReadResult(c.Out); err == nil {
		if err := c.same(&done.Config); err != nil {
			return nil, fmt.Errorf("%s: found the result of a run with other settings: %w; remove it, "+
				"or choose another folder with --out", c.Out, err)
		}
		return done, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := read(ctx, &c, stdin)
	if err != nil {
		return nil, err
	}
	res, err := learn(ctx, c, f, ev)
	return res, errors.Join(err, f.rows.close())
}

// Trial prepares a run of c like Run, and lets do try the training. Nothing is saved.
func Trial(ctx context.Context, c Config, stdin io.Reader, ev Events,
	do func(*labelled.Work, *train.Training) error) (err error) {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Out, err = os.MkdirTemp("", "hippo-trial-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Out)) }()
	f, err := read(ctx, &c, stdin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.rows.close()) }()
	j, err := prepare(&c, f, ev)
	if err != nil {
		return err
	}
	j.start()
	return do(j.work, j.loop)
}

// read reads the data of a run and decides the task.
func read(ctx context.Context, c *Config, stdin io.Reader) (*frame, error) {
	r, err := openTable(c, stdin)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s, err := newRoles(c, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Data[0], err)
	}
	f, err := load(ctx, c, r, s, c.Out)
	if err != nil {
		return nil, err
	}
	if err := f.settle(c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Data[0], err), f.rows.close())
	}
	return f, nil
}

// job is a run in progress.
type job struct {
	work *labelled.Work
	loop *train.Training
	c    Config
	f    *frame
	m    *Model
	ev   Events
	sets
	how string // how the data was divided

	networkError float64 // of the network on the validation set
}

// learn trains and measures.
func learn(ctx context.Context, c Config, f *frame, ev Events) (*Result, error) {
	j, err := prepare(&c, f, ev)
	if err != nil {
		return nil, err
	}
	if f.plan.Contenders, err = f.fitRivals(ctx, j.train, j.valid); err != nil {
		return nil, err
	}
	if err := f.plan.checkUse(c.Use); err != nil {
		return nil, err
	}
	if err := j.loop.Open(train.Events{Step: ev.Step, Eval: ev.Eval, Note: ev.Note}); err != nil {
		return nil, err
	}
	j.start()
	res, err := j.finish(ctx)
	return res, errors.Join(err, j.loop.Close())
}

// start reports the start of the run.
func (j *job) start() {
	f := j.f
	if j.ev.Start != nil {
		j.ev.Start(Start{f.plan, f.rows.n, len(f.seqs), j.work.Net.NumParams(),
			[3]int{j.train.Len(), j.valid.Len(), j.test.Len()}, j.loop.Steps()})
	}
	f.notes = append(f.notes, "the data is divided "+j.how)
	if j.ev.Note != nil {
		for _, note := range f.notes {
			j.ev.Note(note)
		}
	}
}

// prepare divides the data and creates the network and its training loop, or resumes the unfinished run in the folder.
func prepare(c *Config, f *frame, ev Events) (*job, error) {
	divided, how, err := f.divide(c)
	var set *task.Set
	if err == nil {
		err = f.chooseLog(c, divided)
	}
	if err == nil {
		set, err = f.learnable(c, divided, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Data[0], err)
	}
	asked := *c
	c.choose(f.plan, set)
	w, loop, err := labelled.Open(c.Config, &asked, set, func(saved []byte) error {
		before := DefaultConfig()
		if err := json.Unmarshal(saved, &before); err != nil {
			return err
		}
		if err := asked.same(&before); err != nil {
			return fmt.Errorf("%s: found an unfinished run with other settings: %w; remove it, "+
				"or choose another folder with --out", c.Out, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m, err := newModel(w.Net, f.plan)
	if err != nil {
		return nil, err
	}
	return &job{work: w, loop: loop, c: asked, f: f, m: m, ev: ev, sets: setsOf(set), how: how}, nil
}

// learnable returns the data in the form for package train, using the scales and the linear forecast of its training
// part. The linear forecast has the ridges of before, unless that is nil.
func (f *frame) learnable(c *Config, divided [parts][]segment, before *linear) (*task.Set, error) {
	if err := f.measure(divided[trainPart]); err != nil {
		return nil, err
	}
	if err := f.checkFar(); err != nil {
		return nil, err
	}
	set, err := f.set(c, divided)
	if err == nil {
		err = f.weigh(c.ClassWeights, set)
	}
	if err == nil && f.plan.Task == Forecast && c.Base == "linear" {
		f.plan.Linear = f.fitLinear(set.Train.(*windows), set.Valid.(*thinned).windows, before)
		set.About = f.plan.about()
	}
	return set, err
}

// Default numbers of updates and examples.
const (
	usualUpdates = 600
	mostEpochs   = 100
	usualBatch   = 32
	smallBatch   = 8 // for data with few windows
	usualWidth   = 32
	smallWidth   = 16
	fewWindows   = 400
)

// layers returns the layers of the network for a task.
func (c *Config) layers(task string) string {
	switch {
	case c.Model.Layers != "":
		return c.Model.Layers
	case task == Forecast:
		return forecastLayers
	case task == Fill:
		return fillLayers
	}
	return causalLayers
}

// choose sets the options that the user has not set.
func (c *Config) choose(p *Plan, set *task.Set) {
	if small := set.Train.Len() < fewWindows; p.Task == Forecast && small {
		c.Model.Layers = cmp.Or(c.Model.Layers, smallLayers)
		c.Model.DModel = cmp.Or(c.Model.DModel, smallWidth)
	}
	c.Model.Layers, c.Model.DModel = c.layers(p.Task), cmp.Or(c.Model.DModel, usualWidth)
	if c.BatchSize == 0 {
		c.BatchSize = usualBatch
		if set.Train.Len() < 20*usualBatch {
			c.BatchSize = smallBatch
		}
	}
	perEpoch := max(1, (set.Train.Len()+c.BatchSize-1)/c.BatchSize)
	if c.Epochs == 0 {
		c.Epochs = min(mostEpochs, max(1, (usualUpdates+perEpoch-1)/perEpoch))
	}
	if c.Optim.Warmup == 0 && c.Optim.WarmupEpochs == 0 {
		c.Optim.Warmup = min(50, cmp.Or(c.Steps, c.Epochs*perEpoch)/10)
	}
}

// same returns an error that names the settings in which two runs differ, except for settings that do not affect the
// result.
func (c *Config) same(other *Config) error {
	if !slices.Equal(c.Data, other.Data) {
		return fmt.Errorf("the data %q, now %q", other.Data, c.Data)
	}
	before := *other
	before.Out, before.Memory = c.Out, c.Memory
	if diff := config.Diff(&before, c); len(diff) > 0 {
		return fmt.Errorf("%s", strings.Join(diff, ", "))
	}
	return nil
}

// finish completes the training, then writes the result.
func (j *job) finish(ctx context.Context) (*Result, error) {
	interrupted, err := j.work.Train(ctx, j.loop)
	if err == nil && !interrupted {
		var res *Result
		if res, err = j.conclude(ctx); err == nil {
			return res, nil
		}
		interrupted = errors.Is(err, ctx.Err()) && ctx.Err() != nil
	}
	if interrupted {
		return nil, ErrInterrupted
	}
	return nil, err
}

// rowsText formats a number of rows.
func rowsText(n int) string { return status.Count(float64(n)) + " rows" }
