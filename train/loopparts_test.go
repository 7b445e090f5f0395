package train

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
)

// TestShardsOfAnUpdate checks that shards are contiguous and not empty, that their sizes differ by at most one, and
// that there are as many as the plan says or, if fewer, as there are examples.
func TestShardsOfAnUpdate(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		for examples := 1; examples <= 20; examples++ {
			l := &Training{Plan: Plan{Shards: n}, step: 5}
			shards := l.shards(examples, l.step)
			if len(shards) != min(n, examples) {
				t.Fatalf("%d shards of %d examples: found %d", n, examples, len(shards))
			}
			at := 0
			for i, s := range shards {
				size := s.End - s.First
				if s.Step != 5 || s.Index != i || s.First != at || size < examples/len(shards) ||
					size > (examples+len(shards)-1)/len(shards) {
					t.Fatalf("%d shards of %d examples: shard %d is %+v, want it from %d", n, examples, i, s, at)
				}
				at = s.End
			}
			if at != examples {
				t.Fatalf("%d shards of %d examples end at %d", n, examples, at)
			}
		}
	}
}

// TestGradientFormula checks that the loss is the mean over all targets, and the gradient is that of the loss times the
// number of targets. The toy's loss is the mean of (w - y)² over two numbers, so its gradient is w - y, weighted by
// targets. A single shard has weight 1, and no targets count as one.
func TestGradientFormula(t *testing.T) {
	for name, c := range map[string]struct {
		shards int
		count  func(Shard) int
		long   bool
	}{
		"one": {shards: 1}, "two": {shards: 2}, "four": {shards: 4},
		"uneven":     {shards: 4, count: func(s Shard) int { return 5 * s.Index }},
		"none":       {shards: 2, count: func(Shard) int { return 0 }},
		"long":       {shards: 3, long: true},
		"one, long":  {shards: 1, long: true, count: func(Shard) int { return 9 }},
		"one, of 9":  {shards: 1, count: func(Shard) int { return 9 }},
		"one, empty": {shards: 1, count: func(Shard) int { return 0 }},
	} {
		p, w := toyPlan(t), newToy()
		p.Shards, w.count, w.long = c.shards, c.count, c.long
		l, err := New(p, w)
		if err != nil {
			t.Fatal(err)
		}
		loss, count, sum, err := l.Gradient(w.examples)
		if err != nil {
			t.Fatal(err)
		}
		total, wantLoss, want := 0.0, 0.0, make([]float64, 2)
		shards := l.shards(w.examples, l.step)
		for _, s := range shards {
			n := float64(w.targets(s))
			if len(shards) == 1 {
				n = 1
			}
			total += n
			for i, y := range w.wanted(s) {
				diff := float64(w.w.Elements()[i]) - float64(y)
				wantLoss += n * diff * diff / 2
				want[i] += n * diff
			}
		}
		if total == 0 {
			total = 1
		}
		if count != total || math.Abs(loss-wantLoss/total) > 1e-6 {
			t.Errorf("%s: loss %v of %v, want %v of %v", name, loss, count, wantLoss/total, total)
		}
		for i, g := range sum.Each()[0].Elements() {
			if math.Abs(float64(g)-want[i]) > 1e-5 {
				t.Errorf("%s: gradient %v at %d, want %v", name, g, i, want[i])
			}
		}
		if !slices.Equal(w.went, shards) {
			t.Errorf("%s: the shards %v went, want %v", name, w.went, shards)
		}
	}
}

// TestStepErrors checks that a failed update changes nothing and that its error names the step and the tensor that is
// not finite. A successful one makes one update, counts its time and its loss, and uses the learning rate of the
// schedule or, if set, of the plan.
func TestStepErrors(t *testing.T) {
	inf := float32(math.Inf(1))
	for name, c := range map[string]struct {
		change func(l *Training, w *toy)
		want   NonFiniteError
	}{
		"weights": {func(_ *Training, w *toy) { w.w.CopyFrom([]float32{inf, 1}) },
			NonFiniteError{What: "loss", Value: math.Inf(1), Where: "the weights w"}},
		"long": {func(_ *Training, w *toy) { w.w.CopyFrom([]float32{inf, 1}); w.long = true },
			NonFiniteError{What: "loss", Value: math.Inf(1), Where: "the weights w"}},
		// Four shards whose weighted gradients overflow float32, although their losses do not.
		"gradient": {func(l *Training, w *toy) {
			l.Plan.Shards = 4
			w.w.CopyFrom([]float32{1.8e19, 1})
			w.count = func(Shard) int { return math.MaxInt64 }
		},
			NonFiniteError{What: "gradient", Value: math.Inf(1), Where: "the gradient of w"}},
	} {
		p, w := toyPlan(t), newToy()
		l, err := New(p, w)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
		c.change(l, w)
		_, _, err = l.Step()
		var got *NonFiniteError
		if !errors.As(err, &got) || got.Step != 2 || got.What != c.want.What || got.Where != c.want.Where ||
			isFinite(got.Value) {
			t.Errorf("%s: found the error %v, want that of %+v at step 2", name, err, c.want)
		} else if text := err.Error(); !strings.HasPrefix(text, "step 2: the "+c.want.What+" became ") ||
			!strings.Contains(text, "first seen in "+c.want.Where) {
			t.Errorf("%s: the error is %q", name, text)
		}
		if l.Steps() != 1 || l.history.LossN != 1 {
			t.Errorf("%s: there are %d updates and %d losses, want 1", name, l.Steps(), l.history.LossN)
		}
	}
	p, w := toyPlan(t), newToy()
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	l.SetClock(clock(0))
	sum := 0.0
	// two steps of warmup, then linear to 0 at step ten
	for step, factor := range []float64{0.5, 1, 1, 7. / 8, 6. / 8} {
		loss, norm, err := l.Step()
		if err != nil {
			t.Fatal(err)
		}
		sum += loss
		if math.Abs(l.factor-factor) > 1e-12 || norm <= 0 {
			t.Errorf("update %d has the factor %v and the norm %v, want %v", step+1, l.factor, norm, factor)
		}
		if l.Trained() != time.Duration(step+1)*time.Second {
			t.Errorf("after %d updates of a second %v are counted", step+1, l.Trained())
		}
	}
	if math.Abs(l.history.LossSum-sum) > 1e-12 || l.history.LossN != 5 {
		t.Errorf("the losses are %v of %d, want %v of 5", l.history.LossSum, l.history.LossN, sum)
	}
	l.Plan.Rate = func(step int) float64 { return float64(step) / 100 }
	if _, _, err := l.Step(); err != nil || l.factor != 0.05 {
		t.Errorf("with a rate of its own the factor is %v: %v, want 0.05", l.factor, err)
	}
	if _, err := New(Plan{Precision: "float7"}, w); err == nil || !strings.HasPrefix(err.Error(), "precision: ") {
		t.Errorf("an unknown precision: found the error %v", err)
	}
}

// TestPrecisionOfUpdates checks that updates use the plan's precision and record on the tape, and that measurements use
// float32 and do not record.
func TestPrecisionOfUpdates(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Precision = "bf16"
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Step(); err != nil {
		t.Fatal(err)
	}
	if tape := l.Tape(); tape.Precision().String() != "bf16" || !tape.Recording() || !tape.TakesAside() {
		t.Errorf("after an update the tape computes in %v and records: %v", tape.Precision(), tape.Recording())
	}
	ForMeasuring(l.Tape())
	if tape := l.Tape(); tape.Precision().String() != "float32" || tape.Recording() {
		t.Errorf("for measurements the tape computes in %v and records: %v", tape.Precision(), tape.Recording())
	}
}

// TestEnds checks when a run is over, how many steps it has, and its place in the schedule, by updates and by time.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		l     Training
		done  bool
		total int
		at    float64
	}{
		"no update":       {Training{Plan: Plan{Steps: 10}}, false, 10, 0},
		"some":            {Training{Plan: Plan{Steps: 10}, step: 4}, false, 10, 4},
		"all":             {Training{Plan: Plan{Steps: 10}, step: 10}, true, 10, 10},
		"time, none used": {Training{Plan: Plan{Steps: 10}, budget: budget{limit: 8}}, false, 10, 0},
		"time, a quarter": {Training{Plan: Plan{Steps: 10}, step: 2, budget: budget{limit: 8, used: 2}}, false, 8,
			2.5},
		"time, slower": {Training{Plan: Plan{Steps: 100}, step: 2, budget: budget{limit: 8, used: 2}}, false, 8,
			25},
		"time, faster": {Training{Plan: Plan{Steps: 10}, step: 6, budget: budget{limit: 8, used: 2}}, false, 10,
			6},
		"time, nearly over": {Training{Plan: Plan{Steps: 10}, step: 5, budget: budget{limit: 100, used: 99}}, false,
			6, 9.9},
		"time over": {Training{Plan: Plan{Steps: 10}, step: 5, budget: budget{limit: 8, used: 9}}, true, 5,
			10},
		"steps over": {Training{Plan: Plan{Steps: 10}, step: 10, budget: budget{limit: 8, used: 2}}, true, 10,
			10},
		"time alone, none": {Training{Plan: Plan{Steps: 10, TimeAlone: true}, budget: budget{limit: 8}}, false, 0, 0},
		"time alone, faster": {Training{Plan: Plan{Steps: 10, TimeAlone: true}, step: 60, budget: budget{limit: 8,
			used: 4}}, false, 120, 5},
		"time alone, past": {Training{Plan: Plan{Steps: 10, TimeAlone: true}, step: 60, budget: budget{limit: 8,
			used: 8}}, true, 60, 10},
		"alone without time": {Training{Plan: Plan{Steps: 10, TimeAlone: true}, step: 10}, true, 10, 10},
		"one point, good enough": {Training{Plan: Plan{Steps: 10}, step: 4, history: history{Points: []Point{{Step: 4,
			Valid: Score{Loss: -1}}}}}, true, 10, 4},
		"patience": {Training{Plan: Plan{Steps: 10, Patience: 1}, step: 4,
			history: history{Best: 0, Points: []Point{{Step: 2}, {Step: 4}}}}, true, 10, 4},
		"patience left": {Training{Plan: Plan{Steps: 10, Patience: 2}, step: 4,
			history: history{Best: 0, Points: []Point{{Step: 2}, {Step: 4}}}}, false, 10, 4},
		"patience, updates later": {Training{Plan: Plan{Steps: 10, Patience: 1}, step: 5,
			history: history{Best: 0, Points: []Point{{Step: 2}, {Step: 4}}}}, false, 10, 5},
		"no patience": {Training{Plan: Plan{Steps: 10}, step: 4,
			history: history{Best: 0, Points: []Point{{Step: 2}, {Step: 4}}}}, false, 10, 4},
		"patience without a best": {Training{Plan: Plan{Steps: 10, Patience: 1}, step: 4,
			history: history{Best: -1, Points: []Point{{Step: 2}, {Step: 4}}}}, false, 10, 4},
	} {
		l := c.l
		l.work = newToy()
		if got := l.done(); got != c.done {
			t.Errorf("%s: over: %v, want %v", name, got, c.done)
		}
		if got := l.TotalSteps(); got != c.total {
			t.Errorf("%s: %d steps in all, want %d", name, got, c.total)
		}
		if got := l.at(); math.Abs(got-c.at) > 1e-12 {
			t.Errorf("%s: at %v of the schedule, want %v", name, got, c.at)
		}
	}
}

// TestProgressFormula checks that speed is units divided by smoothed seconds, and that the remaining time is that of
// updates and their measurements.
func TestProgressFormula(t *testing.T) {
	w := newToy()
	w.guess = 9
	l := &Training{Plan: Plan{Steps: 100, EvalEvery: 8, UnitsPerStep: 64, StepsPerEpoch: 40, Optim: Optim{LR: 0.3}},
		work: w, step: 30, factor: 0.5, stepSeconds: 0.25, evalSeconds: 3,
		history: history{LossSum: 12, LossN: 8}, started: time.Now()}
	p := l.progress(1.5, 2.5)
	if p.Step != 30 || p.Steps != 100 || p.Epoch != 0.75 || p.Loss != 1.5 || p.MeanLoss != 1.5 || p.GradNorm != 2.5 ||
		p.LR != 0.15 || p.Guess != 9 || p.TokensPerSec != 256 || !math.IsNaN(p.ValidLoss) || p.MemBytes == 0 {
		t.Errorf("found %+v", p)
	}
	if want := time.Duration((70*0.25 + 8*3) * float64(time.Second)); p.ETA != want {
		t.Errorf("%v are left, want %v: 70 updates and 8 measurements", p.ETA, want)
	}
	l.history.LossSum, l.history.LossN, l.stepSeconds = 7, 0, 0
	l.history.Points = []Point{{Valid: Score{Loss: 3}}, {Valid: Score{Loss: 4}}}
	if p := l.progress(1, 1); p.ValidLoss != 4 || p.Valid.Loss != 4 || p.ETA != 0 || p.TokensPerSec != 0 ||
		p.MeanLoss != 7 {
		t.Errorf("before the first update of a run that goes on: found %+v", p)
	}
	l.history.Elapsed, l.history.CPU = time.Hour, 2*time.Hour
	if p := l.progress(1, 1); p.Elapsed < time.Hour || p.Elapsed > time.Hour+time.Minute {
		t.Errorf("%v have gone, want an hour", p.Elapsed)
	}
	if cpu := l.CPUTime(); cpu < 2*time.Hour || cpu > 3*time.Hour {
		t.Errorf("the processor has worked for %v, want two hours", cpu)
	}
	l.started = time.Now().Add(-time.Minute)
	l.cpu = -time.Minute
	l.rest()
	if e, c := l.history.Elapsed, l.history.CPU; e < time.Hour+time.Minute || e > time.Hour+2*time.Minute ||
		c < 2*time.Hour+time.Minute || c > 3*time.Hour || time.Since(l.started) > time.Minute/2 || l.cpu < 0 {
		t.Errorf("after a rest %v and %v are counted, since %v and %v", e, c, l.started, l.cpu)
	}
}

// TestSmoothing checks that the loss and the seconds of an update are smoothed with weight 0.1, from the first update
// of this part of the run on.
func TestSmoothing(t *testing.T) {
	p, w := toyPlan(t), newToy()
	l, _ := start(t, p, w)
	want := math.NaN()
	var curve []float64
	l.ev.Step = func(g Progress) {
		if math.IsNaN(want) {
			want = g.Loss
		}
		want += (g.Loss - want) / 10
		if math.Abs(l.Smoothed()-want) > 1e-9 {
			t.Errorf("step %d: the smoothed loss is %v, want %v", g.Step, l.Smoothed(), want)
		}
		if g.Step == 1 || g.Step%4 == 0 || g.Step == 10 {
			curve = append(curve, want)
		}
		if l.stepSeconds <= 0 {
			t.Errorf("step %d took %v seconds", g.Step, l.stepSeconds)
		}
	}
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.Curve(); len(got) != len(curve) || math.Abs(got[2]-curve[2]) > 1e-9 ||
		math.Abs(got[3]-curve[3]) > 1e-9 {
		t.Errorf("the curve is %v, want %v", got, curve)
	}
	if !slices.Equal(l.history.Curve.Steps, []int{1, 4, 8, 10}) {
		t.Errorf("the curve is of the steps %v", l.history.Curve.Steps)
	}
}

// TestCurveIsThinned checks that a curve of too many points keeps every second one, including the last.
func TestCurveIsThinned(t *testing.T) {
	var c curve
	for i := range maxCurve {
		c.add(i, float64(i)/2)
	}
	if len(c.Steps) != maxCurve || len(c.Loss) != maxCurve {
		t.Fatalf("found %d points of %d, want all", len(c.Steps), maxCurve)
	}
	c.add(maxCurve, maxCurve/2)
	if len(c.Steps) != maxCurve/2 || len(c.Loss) != maxCurve/2 {
		t.Fatalf("found %d points, want half of %d", len(c.Steps), maxCurve)
	}
	for i, step := range c.Steps {
		if step != 2*i+1 || c.Loss[i] != float64(step)/2 {
			t.Fatalf("point %d is of step %d, want %d", i, step, 2*i+1)
		}
	}
}

// TestBudget checks that only counted time uses up a budget, by its clock, and that no share is used without a limit.
func TestBudget(t *testing.T) {
	b := budget{limit: 10 * time.Second, now: clock(0)}
	for i := 1; i <= 12; i++ {
		b.count()()
		if b.used != time.Duration(i)*time.Second || b.share() != min(1, float64(i)/10) {
			t.Errorf("after %d s: %v are used, the share is %v", i, b.used, b.share())
		}
	}
	if (&budget{used: time.Hour}).share() != 0 {
		t.Error("a run without a limit has used a share of it")
	}
	wall, cpu := newBudget(time.Second, WallClock), newBudget(time.Second, cpuClock)
	stopWall, stopCPU := wall.count(), cpu.count()
	time.Sleep(60 * time.Millisecond)
	stopWall()
	stopCPU()
	if wall.used < 60*time.Millisecond || wall.used > 50*time.Second || cpu.used >= wall.used {
		t.Errorf("asleep, %v of wall time and %v of the processor are counted", wall.used, cpu.used)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, cores := range []int{1, 3} {
		runtime.GOMAXPROCS(cores)
		from, share, to := status.CPUTime(), cpuShare(), status.CPUTime()
		if share < from/time.Duration(cores) || share > to/time.Duration(cores) {
			t.Errorf("on %d cores the share of %v to %v is %v", cores, from, to, share)
		}
	}
	before := cpu.now()
	for x, at := 1.0, time.Now(); time.Since(at) < 100*time.Millisecond; {
		x = math.Sqrt(x + 1)
	}
	if worked := cpu.now() - before; worked <= 0 || worked > 50*time.Second {
		t.Errorf("at work, %v of the processor are counted", worked)
	}
}

// TestAverageIsMeasured checks that the averages are measured, sampled and kept, and that training continues from the
// weights.
func TestAverageIsMeasured(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.EMA, p.Steps = 0.9, 4
	var measured string
	w.score = func(int) (Score, error) {
		measured = fmt.Sprint(w.w.Elements())
		return Score{Loss: 1}, nil
	}
	l, _ := start(t, p, w)
	want, n := []float64{3, -2}, 0
	l.ev.Step = func(g Progress) {
		n++
		keep := min(0.9, float64(1+n)/float64(10+n))
		for i, x := range w.w.Elements() {
			want[i] += (1 - keep) * (float64(x) - want[i])
		}
	}
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	averages, weights := l.average.values[0].Elements(), fmt.Sprint(w.w.Elements())
	for i, x := range averages {
		if math.Abs(float64(x)-want[i]) > 1e-5 {
			t.Errorf("average %d is %v, want %v", i, x, want[i])
		}
	}
	if measured != fmt.Sprint(averages) || measured == weights {
		t.Errorf("measured with %s, want the averages %v, not the weights %s", measured, averages, weights)
	}
	average := fmt.Sprint(averages)
	l.TakeAverage()
	if got := fmt.Sprint(w.w.Elements()); got != average {
		t.Errorf("the model has %s, want the averages %s", got, average)
	}
	l.average = nil
	l.TakeAverage()
	if got := fmt.Sprint(w.w.Elements()); got != average {
		t.Errorf("without averages the model has %s", got)
	}
}
