// Package train is the loop of training: updates in shards, the schedule, the budget of time, measurements, metrics,
// checkpoints and resume. A Work is what is trained and on what: package text has language models, package labelled
// networks on labelled sequences. Nothing is printed: the functions of Events report what happens.
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

// Training is a run in progress, of whatever work: the optimizer, the schedule, the budget of time,
// what has been measured. All of it is saved in a checkpoint, so that a resumed run makes the same
// weights, bit for bit, as one that was not stopped.
type Training struct {
	Plan Plan

	work      Work
	opt       *optim.AdamW
	average   *average
	schedule  optim.Schedule
	tape      *autograd.Tape
	sum       *shardSum
	split     *split              // the moments, where several machines keep them; nil for all here
	islands   *islands            // that make the updates; nil for none
	group     *group              // of the machines that make the updates together; nil for this one alone
	collected *autograd.Gradients // by the tape
	precision engine.Precision    // of updates
	step      int                 // updates made
	savedStep int                 // of the last checkpoint, 0 for none
	factor    float64             // of the learning rate, in the last of them
	budget    budget
	history   history
	Final     Score // of the best model, as scores are in the end; set when the run has ended

	ev       Events
	metrics  *events.Metrics
	board    *events.Writer
	pace     pace
	started  time.Time     // when this part of the run began, or when it was saved last
	cpu      time.Duration // of the process at that time
	smoothed float64       // training loss
	warned   bool          // warned that it diverges
	overfit  bool          // warned that it overfits

	stepSeconds, evalSeconds float64 // of an update (smoothed) and of the last measurement
}

// history holds the results of a run so far, as they are saved.
type history struct {
	Elapsed time.Duration `json:"elapsed_ns"` // of earlier parts of the run
	CPU     time.Duration `json:"cpu_ns"`     // of the process, in these
	LossSum float64       `json:"loss_sum"`   // of the updates since the last point
	LossN   int           `json:"loss_n"`
	Points  []Point       `json:"points"`
	Best    int           `json:"best"`            // the place of the best among Points, -1 before the first
	Ended   bool          `json:"ended,omitempty"` // the last point was measured as it is in the end
	Curve   curve         `json:"curve"`           // of training
}

// curve is a smoothed training loss by step.
type curve struct {
	Steps []int     `json:"steps"`
	Loss  []float64 `json:"loss"`
}

// maxCurve is the most points a curve keeps; beyond it every second one goes.
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

// New prepares to train the model of a work, whose parameters have their values.
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

// NonFiniteError says that training broke down: a loss, gradient or weight became NaN or infinite.
type NonFiniteError struct {
	Step  int    // the update that could not be made, counted from 1
	What  string // "loss", "gradient"
	Value float64
	Where string // the tensor in which it was seen first
}

// Error says what is not finite, and where.
func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("step %d: the %s became %v, first seen in %s; want finite numbers (a smaller optim.lr, "+
		"a longer optim.warmup or a smaller optim.clip may help)", e.Step, e.What, e.Value, e.Where)
}

// DeviceError says that the device on which a run computes has failed.
type DeviceError struct {
	Err  error  // of the device
	Out  string // folder of the run
	Step int    // of its last checkpoint, 0 for none
}

// Error says what has failed, and what is left of the run.
func (e *DeviceError) Error() string {
	if e.Step == 0 {
		return fmt.Sprintf("%v; the run has no checkpoint yet", e.Err)
	}
	return fmt.Sprintf("%v; the run has the checkpoint of step %d, from which it continues on this device or another",
		e.Err, e.Step)
}

func (e *DeviceError) Unwrap() error { return e.Err }

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Step makes one update, or a round of islands, and returns its mean loss, in nats per target or as a squared error,
// and the norm of the gradient before clipping, or of the mean of what islands have moved by. Its examples are read
// first, so that what is wrong with them leaves the run as it was.
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

// apply makes an update by the sum of its gradients, which are of count targets, and takes them back.
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

// shards are the parts of an update of so many examples: as many as the plan says, contiguous, and of equal size where
// their number divides that of the examples. None is empty.
func (l *Training) shards(examples, step int) []Shard {
	n := min(l.Plan.Shards, examples)
	all := make([]Shard, n)
	for i := range all {
		all[i] = Shard{Step: step, Index: i, First: i * examples / n, End: (i + 1) * examples / n}
	}
	return all
}

// gradient returns the mean loss of an update, and its gradient times count. Each shard is computed alone, and its
// gradient counts as often as it has targets, so that the gradient divided by count is that of the mean over all
// targets. A single shard counts as one: its loss is that mean already.
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

// shard adds the gradient of a shard, times the weight that it returns, to g, and returns the shard's mean loss.
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

// long reports whether a shard has several backwards.
func (l *Training) long() bool {
	w, ok := l.work.(LongWork)
	return ok && w.Long()
}

// firstNonFinite names the first tensor of a step that holds a NaN or an infinity: a weight, if one does, else a
// result.
func (l *Training) firstNonFinite(t *autograd.Tape) string {
	if name, found := l.opt.NonFiniteParam(); found {
		return "the weights " + name
	}
	if where, found := t.FirstNonFinite(); found {
		return where
	}
	return "the loss"
}

// limited reports whether the plan's steps end the run, be it before its time is used.
func (l *Training) limited() bool { return l.budget.limit == 0 || !l.Plan.TimeAlone }

// at is where the run is in the schedule of the learning rate, in steps: by its updates, or by its time where that ends
// it earlier.
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

// stale reports whether so many measurements in a row were no better than the best as the plan has patience for.
func (l *Training) stale() bool {
	h := &l.history
	return l.Plan.Patience > 0 && h.Best >= 0 && len(h.Points)-1-h.Best >= l.Plan.Patience
}

// totalSteps is how many steps the run has, of one with a budget of time as its speed so far tells.
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

// Tape is what the run computes on, between its updates free for measurements.
func (l *Training) Tape() *autograd.Tape { return l.tape }

// SetClock replaces the clock that measures the time of updates.
func (l *Training) SetClock(now func() time.Duration) { l.budget.now = now }

// Steps is the number of updates made.
func (l *Training) Steps() int { return l.step }

// Epochs is the number of passes over the training examples.
func (l *Training) Epochs() float64 { return float64(l.step) / l.Plan.StepsPerEpoch }

// Points are the measurements so far.
func (l *Training) Points() []Point { return l.history.Points }

// last is the last measurement. There must be one.
func (l *Training) Last() *Point { return &l.history.Points[len(l.history.Points)-1] }

// measured reports whether the model has been measured after the last update.
func (l *Training) measured() bool { return len(l.history.Points) > 0 && l.Last().Step == l.step }

// BestPoint is the best of Points; ok is false before the first.
func (l *Training) BestPoint() (p Point, ok bool) {
	if l.history.Best < 0 {
		return Point{}, false
	}
	return l.history.Points[l.history.Best], true
}

// Curve is the smoothed training loss of the lines of metrics.
func (l *Training) Curve() []float64 { return l.history.Curve.Loss }

// Smoothed is the training loss of this part of the run, smoothed; NaN before its first update.
func (l *Training) Smoothed() float64 { return l.smoothed }

// Trained is the time of all updates, by the run's own clock.
func (l *Training) Trained() time.Duration { return l.budget.used }

// Elapsed is the time of all parts of the run.
func (l *Training) Elapsed() time.Duration { return l.history.Elapsed + time.Since(l.started) }

// CPUTime is the time of the processor in all parts of the run.
func (l *Training) CPUTime() time.Duration { return l.history.CPU + status.CPUTime() - l.cpu }

// rest starts to count time anew, with that so far kept.
func (l *Training) rest() {
	l.history.Elapsed, l.history.CPU = l.Elapsed(), l.CPUTime()
	l.started, l.cpu = time.Now(), status.CPUTime()
}
