package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/events"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/task"
)

// TaskEvents are functions that a run of a task calls, in its goroutine. Any may be nil.
type TaskEvents struct {
	Start func(r *TaskResult, set *task.Set, resumed int)
	Step  func(TaskProgress)
	Eval  func(TaskPoint)
	Note  func(text string)
	// with the result, new or old, while the folder is still this run's own; its error is the run's
	Done func(r *TaskResult) error
}

// TaskProgress is where a run of a task is.
type TaskProgress struct {
	Step, Steps  int // with a limit of time, Steps is an estimate
	Epoch        float64
	Loss         float64 // of the last steps
	LR           float64
	Elapsed, ETA time.Duration
}

// TaskPoint is a measurement on the way.
type TaskPoint struct {
	Step      int     `json:"step"`
	Epoch     float64 `json:"epoch"`
	Seconds   float64 `json:"seconds"` // of training
	LR        float64 `json:"lr"`
	TrainLoss float64 `json:"train_loss"` // mean since the last point
	Valid     Score   `json:"valid"`
}

// ErrTaskInterrupted is the error of a run that was interrupted: its folder holds what the next run goes on from.
var ErrTaskInterrupted = errors.New("interrupted")

// RunTask trains the model of a configuration on the data of its task, measures it, and writes the folder of the run: the network, what
// it was trained with, the result and a report. A run that was interrupted goes on; one that has ended gives its result again.
// When ctx is done it saves where it is and returns ErrTaskInterrupted.
func RunTask(ctx context.Context, s *TaskSettings, ev TaskEvents) (res *TaskResult, err error) {
	c := s.Config
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Out == "" {
		c.Out = s.Folder("")
	}
	lock, err := claim(c.Out)
	if err != nil {
		return nil, err
	}
	defer unlock(lock, &err)
	if res, err = runTask(ctx, s, c, ev); err == nil && ev.Done != nil {
		err = ev.Done(res)
	}
	return res, err
}

// runTask is RunTask in a folder that is this process's own.
func runTask(ctx context.Context, s *TaskSettings, c TaskConfig, ev TaskEvents) (*TaskResult, error) {
	if done, err := ReadTaskResult(c.Out); err == nil {
		if err := c.same(done.Config); err != nil {
			return nil, fmt.Errorf("%s: found the result of a run with other settings: %w; remove it, or choose another folder with --out", c.Out, err)
		}
		return done, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	set, err := s.Task.Open(ctx, c.Data, s.Options)
	if err != nil {
		return nil, err
	}
	r, err := newTaskRunner(c, s, set, ev)
	if err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	err = r.run(ctx)
	if err := errors.Join(err, r.metrics.Close()); err != nil {
		return nil, err
	}
	return r.result, nil
}

// taskRunner is a run of a task in progress.
type taskRunner struct {
	c         TaskConfig
	settings  *TaskSettings
	set       *task.Set
	ev        TaskEvents
	m         *model.Network
	opt       *optim.AdamW
	schedule  optim.Schedule
	budget    budget
	source    *rand.PCG // saved for earlier versions, whose dropout masks it made
	tape      *autograd.Tape
	grads     *autograd.Gradients // of an update, in the optimizer's order
	precision engine.Precision    // of updates; evaluations are in float32
	batch     taskBatch
	eval      evaluator
	metrics   *events.Metrics
	result    *TaskResult

	taskPlace
	cpu      time.Duration // of the process when this part of the run began
	started  time.Time
	perEpoch int // batches
	every    int // steps between evaluations
	pace     pace
}

// taskPlace is where a run is: what is saved besides weights and moments.
type taskPlace struct {
	Step    int           `json:"step"` // updates made
	Used    time.Duration `json:"trained_ns"`
	Elapsed time.Duration `json:"elapsed_ns"` // of earlier parts of the run
	CPU     time.Duration `json:"cpu_ns"`
	LossSum float64       `json:"loss_sum"` // since the last evaluation
	LossN   int           `json:"loss_n"`
	Curve   []TaskPoint   `json:"curve"`
	Best    int           `json:"best"` // the place in Curve of the best, -1 before the first
	Random  []byte        `json:"random"`
}

func newTaskRunner(c TaskConfig, s *TaskSettings, set *task.Set, ev TaskEvents) (*taskRunner, error) {
	if set.Train.Len() == 0 || set.Test.Len() == 0 {
		return nil, fmt.Errorf("task %s: found %d examples to train on and %d to test on, want some", c.Task, set.Train.Len(), set.Test.Len())
	}
	m, err := model.NewNetwork(c.network(set))
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", c.Task, err)
	}
	if most := m.MaxLength(); most > 0 && set.MaxLength > most {
		return nil, fmt.Errorf("task %s: found sequences of %d positions, but the model takes at most %d (a layer's l_max, or model.max_position_embeddings)", c.Task, set.MaxLength, most)
	}
	if lengths, vary := set.Train.(task.Lengths); vary {
		for i := range set.Train.Len() {
			if err := m.Takes(lengths.Length(i)); err != nil {
				return nil, fmt.Errorf("task %s: %w", c.Task, err)
			}
		}
	}
	if free, known := status.FreeMemory(); known && c.Memory != memoryIgnore {
		if err := weightsFit(m.NumParams(), free); err != nil {
			return nil, fmt.Errorf("task %s: %w", c.Task, err)
		}
	}
	m.Init(c.Seed)
	precision, err := engine.ParsePrecision(c.Precision)
	if err != nil {
		return nil, fmt.Errorf("precision: %w", err)
	}
	r := &taskRunner{
		pace: newPace(),
		c:    c, settings: s, set: set, ev: ev, m: m, tape: autograd.NewTape(), precision: precision,
		budget: newBudget(c.Time, c.Clock),
	}
	r.source = rand.NewPCG(c.Seed, 0x647270)
	r.batch.set = set
	size := c.BatchSize
	if c.MicroBatch > 0 {
		size = c.MicroBatch
	}
	r.eval = evaluator{set: set, tape: r.tape, size: size}
	r.perEpoch = (set.Train.Len() + c.BatchSize - 1) / c.BatchSize
	total := c.Epochs * r.perEpoch
	o := c.Optim
	o.Warmup += int(math.Round(o.WarmupEpochs * float64(r.perEpoch)))
	r.schedule = o.schedule(total)
	r.opt = optim.NewAdamW(o.groups(m), o.Beta1, o.Beta2, o.Eps, o.Clip)
	r.grads = autograd.NewGradients(r.opt.Tensors()...)
	r.tape.Collect(r.grads)
	r.every = max(1, total/20)
	if c.EvalEvery > 0 {
		r.every = max(1, int(math.Round(c.EvalEvery*float64(r.perEpoch))))
	}
	r.Best = -1
	r.result = newTaskResult(c, s, set, m.NumParams())
	return r, nil
}

// open makes the folder of the run, or takes up the run that is there.
func (r *taskRunner) open() error {
	out := r.c.Out
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	if err := r.restore(); err != nil {
		return err
	}
	text, err := config.Marshal(&r.c)
	if err != nil {
		return err
	}
	if err := disk.WriteBytes(filepath.Join(out, ConfigFile), text); err != nil {
		return err
	}
	if r.metrics, err = events.OpenMetrics(filepath.Join(out, "metrics.jsonl"), int64(r.Step)+1); err != nil {
		return err
	}
	r.started, r.pace, r.cpu = time.Now(), newPace(), status.CPUTime()
	r.budget.used = r.Used
	if r.ev.Start != nil {
		r.ev.Start(r.result, r.set, r.Step)
	}
	for _, note := range r.set.Notes {
		r.note(note)
	}
	return nil
}

func (r *taskRunner) note(text string) {
	if r.ev.Note != nil {
		r.ev.Note(text)
	}
}

// total is the number of updates of the whole run; with a limit of time, what the limit makes of it so far.
func (r *taskRunner) total() int {
	all := r.c.Epochs * r.perEpoch
	if share := r.budget.share(); share > 0 && r.Step > 0 {
		all = min(all, int(float64(r.Step)/share))
	}
	return all
}

// done tells whether the run has made its updates or used its time.
func (r *taskRunner) done() bool {
	return r.Step >= r.c.Epochs*r.perEpoch || r.budget.share() >= 1
}

// progress is how far the run is, from 0 to 1: by updates, or by time where that ends it earlier.
func (r *taskRunner) progress() float64 {
	return max(float64(r.Step)/float64(r.c.Epochs*r.perEpoch), r.budget.share())
}

func (r *taskRunner) run(ctx context.Context) error {
	var order [][]int
	epoch := -1
	for !r.done() {
		if e := r.Step / r.perEpoch; e != epoch {
			epoch, order = e, epochOrder(r.set.Train, r.c.BatchSize, r.c.Seed, e)
		}
		if ctx.Err() != nil {
			return r.interrupted()
		}
		if err := r.update(order[r.Step%r.perEpoch]); err != nil {
			return err
		}
		if r.Step%r.every == 0 || r.done() {
			stop, err := r.measure(ctx)
			if err != nil && errors.Is(err, ctx.Err()) {
				return r.interrupted()
			}
			if err != nil || stop {
				if err != nil {
					return err
				}
				break
			}
		}
		if r.pace.due() {
			if err := r.save(); err != nil {
				return err
			}
		}
	}
	return r.finish(ctx)
}

func (r *taskRunner) interrupted() error {
	if err := r.save(); err != nil {
		return err
	}
	return ErrTaskInterrupted
}

// update makes one update on the examples with the given indices.
func (r *taskRunner) update(indices []int) error {
	defer r.budget.count()()
	t := r.tape
	t.Record(true)
	t.SetPrecision(r.precision)
	loss, count, err := r.gradient(indices)
	if err != nil {
		return err
	}
	lr := r.schedule.At(r.progress() * float64(r.c.Epochs*r.perEpoch))
	if norm := r.opt.Step(r.grads.Each(), count, lr); math.IsNaN(norm) || math.IsInf(norm, 0) {
		name, _ := r.opt.NonFiniteGrad(r.grads.Each())
		return &NonFiniteError{Step: r.Step + 1, What: "gradient", Value: norm, Where: "the gradient of " + name}
	}
	r.Step++
	r.LossSum, r.LossN = r.LossSum+loss, r.LossN+1
	if r.ev.Step != nil {
		total := r.total()
		elapsed := r.elapsed()
		p := TaskProgress{
			Step: r.Step, Steps: total, Epoch: float64(r.Step) / float64(r.perEpoch), Loss: r.LossSum / float64(r.LossN),
			LR: lr * r.c.Optim.LR, Elapsed: elapsed,
		}
		p.ETA = time.Duration(float64(elapsed) / float64(r.Step) * float64(total-r.Step))
		r.ev.Step(p)
	}
	return nil
}

func (r *taskRunner) elapsed() time.Duration { return r.Elapsed + time.Since(r.started) }

// measure scores the network on the way and keeps the best. It tells whether the accuracy asked for is reached.
func (r *taskRunner) measure(ctx context.Context) (stop bool, err error) {
	split := r.set.Valid
	if split == nil {
		split = r.set.Test
	}
	score, err := r.eval.score(ctx, r.m, split, r.c.EvalLimit)
	if err != nil {
		return false, err
	}
	if math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0) {
		return false, &NonFiniteError{Step: r.Step, What: "validation loss", Value: score.Loss, Where: firstNonFinite(r.opt, r.tape)}
	}
	p := TaskPoint{
		Step: r.Step, Epoch: float64(r.Step) / float64(r.perEpoch), Seconds: r.budget.used.Seconds(), Valid: score,
		TrainLoss: r.LossSum / float64(max(1, r.LossN)), LR: r.c.Optim.LR * r.schedule.At(r.progress()*float64(r.c.Epochs*r.perEpoch)),
	}
	r.LossSum, r.LossN = 0, 0
	r.Curve = append(r.Curve, p)
	if r.Best < 0 || score.Better(r.Curve[r.Best].Valid) {
		r.Best = len(r.Curve) - 1
		if r.set.Valid != nil {
			if err := checkpoint.WriteDirAtomic(filepath.Join(r.c.Out, model.BestDir), r.m.Save); err != nil {
				return false, err
			}
		}
	}
	line := map[string]any{"epoch": p.Epoch, "seconds": p.Seconds, "lr": p.LR, "train_loss": p.TrainLoss, "valid": p.Valid}
	if err := r.metrics.Append(int64(r.Step), line); err != nil {
		return false, err
	}
	if r.ev.Eval != nil {
		r.ev.Eval(p)
	}
	return r.c.Stop > 0 && !r.set.Numbers && score.Accuracy >= r.c.Stop, nil
}
