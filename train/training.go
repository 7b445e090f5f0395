// Package train implements the training loop: updates in shards, the learning-rate schedule, the time budget,
// measurements, metrics, checkpoints and resume. A Work is the model that is trained and its data: package text trains
// language models, package labelled trains networks on labelled sequences. Nothing is printed: the functions of Events
// report what happens.
package train

import (
	"fmt"
	"math"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/events"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/optim"
)

// Training is a run in progress: the optimizer, the schedule, the time budget and the measurements. All of it is saved
// in a checkpoint, so that a resumed run makes the same weights, bit for bit, as one that was not stopped.
type Training struct {
	Plan Plan

	work      Work
	opt       *optim.AdamW
	average   *average
	schedule  optim.Schedule
	tape      *autograd.Tape
	sum       *shardSum
	split     *split              // the moments, if several machines keep them, else nil
	islands   *islands            // make the updates, if not nil
	group     *group              // the machines that make the updates together, nil for this one alone
	collected *autograd.Gradients // the gradients that the tape adds to
	precision engine.Precision    // precision of updates
	step      int                 // number of updates made
	savedStep int                 // step of the last checkpoint, 0 for none
	factor    float64             // factor of the learning rate in the last update
	budget    budget
	history   history
	Final     Score // score of the best model, measured as at the end; set when the run has ended

	ev       Events
	metrics  *events.Metrics
	board    *events.Writer
	pace     pace
	started  time.Time     // when this part of the run began, or when it was saved last
	cpu      time.Duration // CPU time of the process at started
	smoothed float64       // training loss
	warned   bool          // warned that it diverges
	overfit  bool          // warned that it overfits

	stepSeconds, evalSeconds float64 // seconds of an update (smoothed) and of the last measurement
}

// history holds the results of a run so far, as saved in a checkpoint.
type history struct {
	Elapsed time.Duration `json:"elapsed_ns"` // of earlier parts of the run
	CPU     time.Duration `json:"cpu_ns"`     // of the process, in earlier parts of the run
	LossSum float64       `json:"loss_sum"`   // sum over the updates since the last point
	LossN   int           `json:"loss_n"`
	Points  []Point       `json:"points"`
	Best    int           `json:"best"`            // index of the best of Points, -1 before the first
	Ended   bool          `json:"ended,omitempty"` // the last point is a final measurement
	Curve   curve         `json:"curve"`           // of training
}

// curve is the smoothed training loss by step.
type curve struct {
	Steps []int     `json:"steps"`
	Loss  []float64 `json:"loss"`
}

// maxCurve is the most points a curve keeps. When there are more, every second one is dropped.
const maxCurve = 2000

func (c *curve) add(step int, loss float64) {
	c.Steps, c.Loss = append(c.Steps, step), append(c.Loss, loss)
	if len(c.Loss) > maxCurve {
		for i := range len(c.Loss) / 2 {
			c.Steps[i], c.Loss[i] = c.Steps[2*i+1], c.Loss[2*i+1]
		}
		c.Steps, c.Loss = c.Steps[:len(c.Loss)/2], c.Loss[:len(c.Loss)/2]
	}
}

// New returns a Training of the model of w, whose parameters must be initialized.
func New(p Plan, w Work) (*Training, error) {
	precision, err := engine.ParsePrecision(p.Precision)
	if err != nil {
		return nil, fmt.Errorf("precision: %w", err)
	}
	o, tape := p.Optim, w.NewTape()
	groups := o.groups(w)
	l := &Training{
		Plan: p, work: w, opt: optim.NewAdamW(tape.Backend(), groups, o.Beta1, o.Beta2, o.Eps, o.Clip),
		schedule: o.schedule(p.Steps), tape: tape, precision: precision,
		budget: newBudget(p.Time, p.Clock), history: history{Best: -1}, smoothed: math.NaN(),
		pace: newPace(), started: time.Now(), cpu: status.CPUTime(),
	}
	l.average = newAverage(p.EMA, l.opt, groups)
	l.sum = newShardSum(l.opt)
	if p.Islands != (Islands{}) {
		l.islands, err = newIslands(l)
	}
	return l, err
}

// NonFiniteError reports that a loss, gradient or weight became NaN or infinite.
type NonFiniteError struct {
	Step  int    // the update that failed, counted from 1
	What  string // "loss", "gradient"
	Value float64
	Where string // the first tensor in which it was seen
}

// Error returns what is not finite and where, with advice.
func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("step %d: the %s became %v, first seen in %s; want finite numbers (a smaller optim.lr, "+
		"a longer optim.warmup or a smaller optim.clip may help)", e.Step, e.What, e.Value, e.Where)
}

// DeviceError reports that the device on which a run computes has failed.
type DeviceError struct {
	Err  error  // of the device
	Out  string // folder of the run
	Step int    // of the run's last checkpoint, 0 for none
}

// Error returns the device's error and the checkpoint from which the run can continue.
func (e *DeviceError) Error() string {
	if e.Step == 0 {
		return fmt.Sprintf("%v; the run has no checkpoint yet", e.Err)
	}
	return fmt.Sprintf("%v; the run has the checkpoint of step %d, from which it continues on this device or another",
		e.Err, e.Step)
}

func (e *DeviceError) Unwrap() error { return e.Err }

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Step makes one update, or one round of islands. It returns the mean loss, in nats per target or as a squared error,
// and the norm of the gradient before clipping or, with islands, of their mean difference. It reads the examples first,
// so that an error in them leaves the run unchanged.
func (l *Training) Step() (loss, norm float64, err error) {
	defer l.budget.count()()
	if l.islands != nil {
		return l.islands.step()
	}
	examples, err := l.work.Read(l.step)
	if err != nil {
		return math.NaN(), math.NaN(), err
	}
	if l.factor = l.schedule.At(l.at()); l.Plan.Rate != nil {
		l.factor = l.Plan.Rate(l.step)
	}
	loss, count, sum, err := l.Gradient(examples)
	if err != nil {
		return loss, math.NaN(), err
	}
	if norm, err = l.apply(sum, l.step, count, l.factor); err != nil {
		return loss, norm, err
	}
	l.step++
	l.average.add(l.step)
	l.history.LossSum, l.history.LossN = l.history.LossSum+loss, l.history.LossN+1
	return loss, norm, nil
}

// apply makes an update from the sum of the gradients of count targets, and makes sum free again.
func (l *Training) apply(sum *autograd.Gradients, step int, count, factor float64) (norm float64, err error) {
	if l.split != nil {
		norm, err = l.split.step(sum, count, factor)
	} else {
		norm = l.opt.Step(sum.Each(), count, factor)
	}
	if err != nil {
		return norm, err
	}
	if !isFinite(norm) {
		name, _ := l.opt.NonFiniteGrad(sum.Each())
		return norm, &NonFiniteError{Step: step + 1, What: "gradient", Value: norm, Where: "the gradient of " + name}
	}
	l.sum.giveBack(sum)
	return norm, nil
}

// shards splits the examples of an update into as many shards as the plan says. They are contiguous, and of equal size
// if their number divides that of the examples. None is empty: there are fewer shards if there are fewer examples.
func (l *Training) shards(examples, step int) []Shard {
	n := min(l.Plan.Shards, examples)
	all := make([]Shard, n)
	for i := range all {
		all[i] = Shard{Step: step, Index: i, First: i * examples / n, End: (i + 1) * examples / n}
	}
	return all
}

// Gradient returns the mean loss of an update, and its gradient times count. Each shard is computed alone, and its
// gradient is weighted by its number of targets, so that sum divided by count is the gradient of the mean over all
// targets. A single shard has weight 1: its loss is that mean already.
func (l *Training) Gradient(examples int) (loss, count float64, sum *autograd.Gradients, err error) {
	ForUpdates(l.tape, l.precision)
	shards := l.shards(examples, l.step)
	l.sum.begin(len(shards))
	if l.group != nil {
		return l.together(shards)
	}
	results := make([]cluster.Result, len(shards))
	for _, s := range shards {
		g := l.sum.take()
		mean, targets, err := l.shard(l.tape, s, len(shards) == 1, g)
		if err != nil {
			return mean, 0, nil, err
		}
		results[s.Index] = cluster.Result{Mean: mean, Weight: targets}
		sum = l.sum.put(s.Index, g)
	}
	loss, count = cluster.Total(results)
	return loss, count, sum, nil
}

// shard adds the gradient of a shard, times weight, to g. It returns the shard's mean loss and weight.
func (l *Training) shard(t *autograd.Tape, s Shard, alone bool,
	g *autograd.Gradients) (mean, weight float64, err error) {
	t.Reset()
	if l.collected != g {
		t.Collect(g)
		l.collected = g
	}
	weigh := func(targets int) float64 {
		if alone {
			return 1
		}
		return float64(targets)
	}
	check := func(loss float64) error {
		if isFinite(loss) {
			return nil
		}
		return &NonFiniteError{Step: s.Step + 1, What: "loss", Value: loss, Where: l.firstNonFinite(t)}
	}
	if l.long() {
		mean, targets, err := l.work.(LongWork).Through(t, s, weigh, check)
		if err == nil {
			l.work.Went(s)
		}
		return mean, weigh(targets), err
	}
	out, targets, err := l.work.Loss(t, s)
	if err != nil {
		return math.NaN(), 0, err
	}
	mean = out.Value()
	if err := check(mean); err != nil {
		return mean, 0, err
	}
	weight = weigh(targets)
	t.BackwardTimes(out, float32(weight))
	l.work.Went(s)
	return mean, weight, nil
}

// long reports whether a shard has several backward passes.
func (l *Training) long() bool {
	w, ok := l.work.(LongWork)
	return ok && w.Long()
}

// firstNonFinite returns the name of the first tensor of a step that holds a NaN or an infinity: of a weight, if one
// does, else of a result.
func (l *Training) firstNonFinite(t *autograd.Tape) string {
	if name, found := l.opt.NonFiniteParam(); found {
		return "the weights " + name
	}
	if where, found := t.FirstNonFinite(); found {
		return where
	}
	return "the loss"
}

// limited reports whether the run ends after the plan's steps, even if time is left.
func (l *Training) limited() bool { return l.budget.limit == 0 || !l.Plan.TimeAlone }

// at returns the run's place in the learning-rate schedule, in steps: by its updates, or by its used time if that is
// further.
func (l *Training) at() float64 {
	at := l.budget.share() * float64(l.Plan.Steps)
	if l.limited() {
		at = max(at, float64(l.step))
	}
	return at
}

// done reports whether all steps are made, all time is used, the last measurement was good enough, or patience is over.
func (l *Training) done() bool {
	if l.measured() && (l.work.Enough(l.Last().Valid) || l.stale()) {
		return true
	}
	return l.limited() && l.step >= l.Plan.Steps || l.budget.share() >= 1
}

// stale reports whether the last Plan.Patience measurements were all no better than the best.
func (l *Training) stale() bool {
	h := &l.history
	return l.Plan.Patience > 0 && h.Best >= 0 && len(h.Points)-1-h.Best >= l.Plan.Patience
}

// TotalSteps returns the number of steps of the run. With a time budget it is an estimate from the speed so far.
func (l *Training) TotalSteps() int {
	most := math.MaxInt
	if l.limited() {
		most = l.Plan.Steps
	}
	switch share := l.budget.share(); {
	case l.budget.limit == 0:
		return most
	case l.done() || share == 0 && !l.limited():
		return l.step
	case share == 0:
		return most
	default:
		return min(most, max(l.step+1, int(math.Round(float64(l.step)/share))))
	}
}

// Tape returns the tape that the run computes on. Between updates it may be used for measurements.
func (l *Training) Tape() *autograd.Tape { return l.tape }

// SetClock replaces the clock that measures the time of updates.
func (l *Training) SetClock(now func() time.Duration) { l.budget.now = now }

// Steps returns the number of updates made.
func (l *Training) Steps() int { return l.step }

// Epochs returns the number of passes over the training examples.
func (l *Training) Epochs() float64 { return float64(l.step) / l.Plan.StepsPerEpoch }

// Points returns the measurements so far.
func (l *Training) Points() []Point { return l.history.Points }

// Last returns the last measurement. There must be one.
func (l *Training) Last() *Point { return &l.history.Points[len(l.history.Points)-1] }

// measured reports whether the model has been measured after the last update.
func (l *Training) measured() bool { return len(l.history.Points) > 0 && l.Last().Step == l.step }

// BestPoint returns the best of Points. ok is false before the first.
func (l *Training) BestPoint() (p Point, ok bool) {
	if l.history.Best < 0 {
		return Point{}, false
	}
	return l.history.Points[l.history.Best], true
}

// Curve returns the smoothed training loss at the logged steps.
func (l *Training) Curve() []float64 { return l.history.Curve.Loss }

// Smoothed returns the smoothed training loss of this part of the run, or NaN before its first update.
func (l *Training) Smoothed() float64 { return l.smoothed }

// Trained returns the time of all updates, by the run's own clock.
func (l *Training) Trained() time.Duration { return l.budget.used }

// Elapsed returns the time of all parts of the run.
func (l *Training) Elapsed() time.Duration { return l.history.Elapsed + time.Since(l.started) }

// CPUTime returns the CPU time of all parts of the run.
func (l *Training) CPUTime() time.Duration { return l.history.CPU + status.CPUTime() - l.cpu }

// rest adds the time so far to the history and starts to count anew.
func (l *Training) rest() {
	l.history.Elapsed, l.history.CPU = l.Elapsed(), l.CPUTime()
	l.started, l.cpu = time.Now(), status.CPUTime()
}
