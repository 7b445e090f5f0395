package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestRunInOrder: what a run does, and when: measurements, samples, checkpoints and lines of metrics, with those of the
// end.
func TestRunInOrder(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.SampleEvery, p.SaveEvery, p.MeasureFirst = 5, 4, true
	p.Sample = func(context.Context) (string, error) { return fmt.Sprint("text ", w.run.step), nil }
	var losses []float64
	l, happened := start(t, p, w)
	step, eval := l.ev.Step, l.ev.Eval
	l.ev.Step = func(g Progress) {
		step(g)
		losses = append(losses, g.Loss)
	}
	l.ev.Eval = func(g Progress) {
		eval(g)
		if g.GradNorm != 0 || g.Loss != l.smoothed && g.Step > 0 || g.MeanLoss != l.Last().TrainLoss {
			t.Errorf("a measurement tells %+v", g)
		}
	}
	if interrupted, err := l.Run(t.Context()); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	sameList(t, "the run", *happened, []string{"eval 0: 1, the best", "step 1", "step 2", "step 3",
		"eval 3: 0.25, the best", "step 4", "saved 4 in last", "step 5", "sample 5: text 5", "step 6",
		"eval 6: 0.1429, the best", "step 7", "step 8", "saved 8 in last", "step 9", "eval 9: 0.1, the best", "step 10",
		"eval 10: 0.09091, the best", "sample 10: text 10", "saved 10 in last"})
	if !slices.Equal(w.measured, []bool{false, false, false, false, true}) {
		t.Errorf("measured as in the end: %v, want the last alone", w.measured)
	}
	if l.Final.Loss != 1./11 {
		t.Errorf("the final score is %v, want 1/11", l.Final.Loss)
	}
	var lines []string
	for _, line := range metricsOf(t, p.Out) {
		var keys []string
		for key := range line {
			if key != "time" && key != "step" && key != "elapsed_s" {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		lines = append(lines, fmt.Sprint(line["step"], " ", strings.Join(keys, " ")))
	}
	update, valid := "grad_norm loss lr mem_bytes tokens_per_s", "epoch lr train_loss valid_loss"
	sameList(t, "metrics", lines, []string{"0 epoch lr valid_loss", "1 " + update, "3 " + valid, "4 " + update,
		"5 sample", "6 " + valid, "8 " + update, "9 " + valid, "10 " + update, "10 " + valid, "10 sample"})
	if l.Epochs() != 2.5 {
		t.Errorf("10 updates are %v epochs of 4", l.Epochs())
	}
	for i, point := range l.Points() {
		step := []int{0, 3, 6, 9, 10}[i]
		if point.Step != step || point.Epoch != float64(step)/4 {
			t.Errorf("point %d is of step %d and epoch %v, want %d", i, point.Step, point.Epoch, step)
		}
		if want := 0.1 * l.schedule.At(float64(step)); point.LR != want {
			t.Errorf("point %d has the rate %v, want %v", i, point.LR, want)
		}
		mean := 0.0
		if i > 0 {
			before := l.Points()[i-1].Step
			for _, loss := range losses[before:step] {
				mean += loss / float64(step-before)
			}
		}
		if math.Abs(point.TrainLoss-mean) > 1e-9 {
			t.Errorf("point %d has the training loss %v, want %v", i, point.TrainLoss, mean)
		}
	}
	if text, err := os.ReadFile(filepath.Join(p.Out, ConfigFile)); err != nil || !strings.Contains(string(text), "toy") {
		t.Errorf("the configuration: %s, %v", text, err)
	}
	board := ""
	files, err := filepath.Glob(filepath.Join(p.Out, "events.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"loss/train", "grad_norm", "lr", "tokens_per_s", "loss/valid", "sample", "text 5"} {
		board += fmt.Sprint(tag, " ", strings.Count(string(text), tag), "; ")
	}
	if want := "loss/train 4; grad_norm 4; lr 4; tokens_per_s 4; loss/valid 5; sample 2; text 5 1; "; board != want {
		t.Errorf("events have %s want %s", board, want)
	}
	first, more := start(t, p, w)
	first.history.Points, first.history.Best = l.Points()[:1], 0
	first.Plan.Steps = 1
	if _, err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameList(t, "measured before the first update already", (*more)[:1], []string{"step 1"})
	again, more := start(t, p, w)
	again.step, again.history = l.step, l.history
	if interrupted, err := again.Run(t.Context()); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	sameList(t, "a run that was over", *more, []string{"saved 10 in last"})
	again.started, again.cpu = time.Now().Add(-time.Hour), -time.Hour
	if err := errors.Join(again.Close(), again.Open(Events{})); err != nil {
		t.Fatal(err)
	}
	if again.Elapsed()-again.history.Elapsed > time.Minute || again.CPUTime()-again.history.CPU > time.Minute {
		t.Errorf("before it was opened, the run took %v", again.Elapsed())
	}
}

// TestNothingToTell: a run without samples, epochs and listeners works; examples are told as examples.
func TestNothingToTell(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Examples = true
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	w.run = l
	if err := l.Open(Events{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.score = func(step int) (Score, error) { return Score{Loss: 1, Accuracy: float64(step) / 16, MAE: 0.5}, nil }
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Note("heard by nobody")
	speeds, scores := 0, 0
	for _, line := range metricsOf(t, p.Out) {
		if line["examples_per_s"] != nil && line["tokens_per_s"] == nil {
			speeds++
		}
		if a, ok := line["valid_accuracy"].(float64); ok && a*16 == line["step"].(float64) && line["valid_mae"] == 0.5 {
			scores++
		}
	}
	if speeds != 4 || scores != 4 { // at 1, 4, 8, 10 and at 3, 6, 9, 10
		t.Errorf("found %d lines of examples and %d of scores, want 4 of each", speeds, scores)
	}
	if best, ok := l.BestPoint(); !ok || best.Step != 10 {
		t.Errorf("the best point is %v, want that of the highest accuracy", best)
	}
}

// TestPatience: a run ends after so many measurements in a row that are no better than the best, measures anew as in
// the end, and says why. Its final score is that of the best model, measured as in the end.
func TestPatience(t *testing.T) {
	for patience, want := range map[int][]string{
		0: {"eval 3: 0.5, the best", "eval 6: 0.6", "eval 9: 0.5", "eval 12: 0.7", "eval 15: 0.4, the best",
			"eval 18: 0.5", "eval 20: 0.6", "saved 20 in last"},
		2: {"eval 3: 0.5, the best", "eval 6: 0.6", "eval 9: 0.5", "note step 9: the run ends here, as the validation loss " +
			"was no better than at step 3 in 2 measurements (patience)", "eval 9: 0.5, the best", "saved 9 in last"},
		1: {"eval 3: 0.5, the best", "eval 6: 0.6", "note step 6: the run ends here, as the validation loss was no better than at " +
			"step 3 in 1 measurements (patience)", "eval 6: 0.6", "saved 6 in last"},
		4: {"eval 3: 0.5, the best", "eval 6: 0.6", "eval 9: 0.5", "eval 12: 0.7", "eval 15: 0.4, the best",
			"eval 18: 0.5", "eval 20: 0.6", "saved 20 in last"},
	} {
		p, w := toyPlan(t), newToy()
		p.Steps, p.Patience, p.KeepBest = 20, patience, true
		losses := map[int]float64{3: 0.5, 6: 0.6, 9: 0.5, 12: 0.7, 15: 0.4, 18: 0.5, 20: 0.6}
		w.score = func(step int) (Score, error) { return Score{Loss: losses[step]}, nil }
		l, happened := start(t, p, w)
		if interrupted, err := l.Run(t.Context()); interrupted || err != nil {
			t.Fatal(interrupted, err)
		}
		sameList(t, fmt.Sprint("patience ", patience), without(*happened, "step"), want)
		final := 0.401 // that of step 15, as it is in the end
		switch patience {
		case 1:
			final = 0.501
		case 2:
			final = 0.5 // the last, which is better than 0.501
		}
		if math.Abs(l.Final.Loss-final) > 1e-12 {
			t.Errorf("patience %d: the final loss is %v, want %v", patience, l.Final.Loss, final)
		}
		if patience == 2 {
			continue // the last measurement is the best, so that there is patience again
		}
		again, more := start(t, p, w)
		again.step, again.history = l.step, l.history
		if interrupted, err := again.Run(t.Context()); interrupted || err != nil {
			t.Fatal(interrupted, err)
		}
		sameList(t, "a run that was over", *more, want[len(want)-1:])
	}
}

// TestPatienceLater: the note counts from the best.
func TestPatienceLater(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Steps, p.Patience = 20, 2
	losses := map[int]float64{3: 0.5, 6: 0.4, 9: 0.5, 12: 0.7}
	w.score = func(step int) (Score, error) { return Score{Loss: losses[step]}, nil }
	l, happened := start(t, p, w)
	l.history.Ended = true // an earlier end, of fewer steps
	if interrupted, err := l.Run(t.Context()); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	sameList(t, "patience after the second", without(*happened, "step"), []string{"eval 3: 0.5, the best",
		"eval 6: 0.4, the best", "eval 9: 0.5", "eval 12: 0.7", "note step 12: the run ends here, as the validation loss was no " +
			"better than at step 6 in 2 measurements (patience)", "eval 12: 0.7", "saved 12 in last"})
}

// TestKeepBest: the folder of the best model has the weights of the best measurement.
func TestKeepBest(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.KeepBest = true
	var at []string
	w.score = func(step int) (Score, error) {
		at = append(at, fmt.Sprint(w.w.Elements()))
		return Score{Loss: math.Abs(float64(step) - 6)}, nil
	}
	l, _ := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var best []float32
	if err := disk.ReadJSON(filepath.Join(p.Out, "best", "w.json"), &best); err != nil || fmt.Sprint(best) != at[1] {
		t.Errorf("the best model is %v, want that of step 6, %v: %v", best, at[1], err)
	}
	if l.Final.Loss != 0.001 {
		t.Errorf("the final loss is %v, want that of the best model in the end", l.Final.Loss)
	}
}

// TestEnough: a run ends with a measurement that is good enough, and is not measured twice for it.
func TestEnough(t *testing.T) {
	p, w := toyPlan(t), newToy()
	w.enough = 0.2
	l, happened := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameList(t, "the run", without(*happened, "step"), []string{"eval 3: 0.25, the best", "eval 6: 0.1429, the best",
		"saved 6 in last"})
	if l.Steps() != 6 {
		t.Errorf("the run has %d updates, want 6", l.Steps())
	}
}

// TestResumedRun: a run that is stopped after any update and continued makes the same weights, averages, points and
// curve as one that is not, and the same lines of metrics.
func TestResumedRun(t *testing.T) {
	plan := func() Plan {
		p := toyPlan(t)
		p.EMA, p.KeepBest, p.Steps = 0.5, true, 10
		return p
	}
	outcome := func(l *Training, w *toy, p Plan) string {
		var lines []string
		for _, line := range metricsOf(t, p.Out) {
			for _, key := range []string{"elapsed_s", "tokens_per_s", "mem_bytes", "time"} {
				delete(line, key)
			}
			lines = append(lines, fmt.Sprint(line))
		}
		points := slices.Clone(l.Points())
		for i := range points {
			points[i].Seconds = 0
		}
		curve := l.history.Curve
		curve.Loss = nil // smoothed from where this part of the run began
		return fmt.Sprint(w.w.Elements(), l.average.values[0].Elements(), points, curve, l.step, l.opt.Steps(),
			strings.Join(lines, "\n"))
	}
	p, w := plan(), newToy()
	whole, _ := start(t, p, w)
	if _, err := whole.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := outcome(whole, w, p)
	for _, stop := range []int{1, 3, 4, -6, 9, -9, 10} { // below 0: within a measurement that is complete
		p, w := plan(), newToy()
		ctx, cancel := context.WithCancel(t.Context())
		l, _ := start(t, p, w)
		step, eval := l.ev.Step, l.ev.Eval
		l.ev.Step = func(g Progress) {
			step(g)
			if g.Step == stop {
				cancel()
			}
		}
		l.ev.Eval = func(g Progress) {
			eval(g)
			if g.Step == -stop {
				cancel()
			}
		}
		l.budget.now = clock(0)
		interrupted, err := l.Run(ctx)
		if err != nil || !interrupted {
			t.Fatalf("stopped after %d: %v, %v", stop, interrupted, err)
		}
		stop := max(stop, -stop)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSaved(p.Out, "toy", func(string) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if s.Trained != time.Duration(stop)*time.Second || s.History.Elapsed <= 0 || s.History.CPU < 0 {
			t.Errorf("stopped after %d: %v of updates are saved, want as many seconds, of %v", stop, s.Trained,
				s.History.Elapsed)
		}
		var c struct{ Name string }
		if err := s.Settings(p.Out, &c); err != nil || c.Name != "toy" {
			t.Errorf("the settings are %v: %v", c, err)
		}
		if (s.Within(p.Out, stop) == nil) != true || (s.Within(p.Out, stop-1) == nil) != false {
			t.Errorf("stopped after %d: within %d and not within %d steps", stop, stop, stop-1)
		}
		model := newToy()
		var saved []float32
		if err := disk.ReadJSON(filepath.Join(p.Out, "last", "w.json"), &saved); err != nil {
			t.Fatal(err)
		}
		model.w.CopyFrom(saved)
		next, err := New(p, model)
		if err != nil {
			t.Fatal(err)
		}
		model.run = next
		if err := next.Restore(s, filepath.Join(p.Out, "last")); err != nil {
			t.Fatal(err)
		}
		if next.Trained() != s.Trained || next.Elapsed() < s.History.Elapsed || next.CPUTime() < s.History.CPU {
			t.Errorf("stopped after %d: the run goes on with %v, %v and %v", stop, next.Trained(), next.Elapsed(),
				next.CPUTime())
		}
		if err := next.Open(Events{}); err != nil {
			t.Fatal(err)
		}
		if interrupted, err := next.Run(t.Context()); interrupted || err != nil {
			t.Fatal(interrupted, err)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		if got := outcome(next, model, p); got != want {
			t.Errorf("stopped after %d: found\n%s\nwant\n%s", stop, got, want)
		}
	}
}

// TestStopped: a run whose context is done saves what it has, also before its first update and within a measurement or
// a sample, and says that it was interrupted.
func TestStopped(t *testing.T) {
	for name, prepare := range map[string]func(p *Plan, w *toy, cancel func()) (want []string){
		"before": func(_ *Plan, _ *toy, cancel func()) []string {
			cancel()
			return []string{"saved 0 in last"}
		},
		"in the first measurement": func(p *Plan, _ *toy, cancel func()) []string {
			p.MeasureFirst = true
			cancel()
			return []string{"saved 0 in last"}
		},
		"in a sample": func(p *Plan, _ *toy, cancel func()) []string {
			p.SampleEvery = 2
			p.Sample = func(ctx context.Context) (string, error) {
				cancel()
				return "", errors.New("cut")
			}
			return []string{"step 1", "step 2", "saved 2 in last"}
		},
		"in the last sample": func(p *Plan, _ *toy, cancel func()) []string {
			p.Steps, p.SampleEvery = 1, 2
			p.Sample = func(ctx context.Context) (string, error) {
				cancel()
				return "", errors.New("cut")
			}
			return []string{"step 1", "eval 1: 0.5, the best", "saved 1 in last"}
		},
		"in the last measurement": func(p *Plan, w *toy, cancel func()) []string {
			p.Steps = 1
			w.score = func(int) (Score, error) {
				cancel()
				return Score{}, context.Canceled
			}
			return []string{"step 1", "saved 1 in last"}
		},
		"in a measurement": func(p *Plan, w *toy, cancel func()) []string {
			w.score = func(int) (Score, error) {
				cancel()
				return Score{}, context.Canceled
			}
			return []string{"step 1", "step 2", "step 3", "saved 3 in last"}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		p, w := toyPlan(t), newToy()
		want := prepare(&p, w, cancel)
		l, happened := start(t, p, w)
		if interrupted, err := l.Run(ctx); !interrupted || err != nil {
			t.Errorf("%s: %v, %v, want an interruption and no error", name, interrupted, err)
		}
		sameList(t, name, *happened, want)
	}
}

// TestStoppedInTheEnd: a run that ran out of patience and is stopped while it is measured anew keeps the measurement
// that there was.
func TestStoppedInTheEnd(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Patience = 1
	ctx, cancel := context.WithCancel(t.Context())
	w.score = func(step int) (Score, error) {
		if len(w.measured) == 3 {
			cancel()
			return Score{}, context.Canceled
		}
		return Score{Loss: 1}, nil
	}
	l, _ := start(t, p, w)
	if interrupted, err := l.Run(ctx); !interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	if n := len(l.Points()); n != 2 || l.Last().Step != 6 {
		t.Errorf("there are %d points, the last of step %d, want two and 6", n, l.Last().Step)
	}
	if l.history.Ended {
		t.Error("the last point counts as measured in the end")
	}
}

// TestErrorsOfARun: what goes wrong is an error; where data are lost the run is saved and can be continued; a sample
// that fails is a note.
func TestErrorsOfARun(t *testing.T) {
	broken, nan := errors.New("broken"), math.NaN()
	for name, c := range map[string]struct {
		change      func(p *Plan, w *toy)
		err, events string // parts
	}{
		"reading": {func(_ *Plan, w *toy) {
			w.read = func(step int) error { return map[int]error{4: broken}[step] }
		}, "broken", "step 4 ."},
		"lost data": {func(_ *Plan, w *toy) {
			w.read = func(step int) error {
				if step == 4 {
					return &data.LostError{Path: "tokens"}
				}
				return nil
			}
		}, "step 4 is saved, and --resume", "step 4 saved 4 in last."},
		"data lost twice": {func(_ *Plan, w *toy) {
			w.read = func(step int) error {
				if step == 4 {
					return &data.LostError{Path: "tokens"}
				}
				return nil
			}
			w.try = func() (float64, error) { return 0, broken }
		}, "broken", "step 4 ."},
		"a measurement": {func(_ *Plan, w *toy) { w.score = func(int) (Score, error) { return Score{}, broken } }, "broken", "step 3 ."},
		"lost measurements": {func(_ *Plan, w *toy) {
			w.score = func(int) (Score, error) { return Score{}, &data.LostError{Path: "tokens"} }
		}, "step 3 is saved", "step 3 saved 3 in last."},
		"lost in the end": {func(p *Plan, w *toy) {
			p.Steps = 2
			w.score = func(int) (Score, error) { return Score{}, &data.LostError{Path: "tokens"} }
		}, "step 2 is saved", "step 2 saved 2 in last."},
		"a loss of NaN": {func(_ *Plan, w *toy) { w.score = func(int) (Score, error) { return Score{Loss: nan}, nil } },
			"step 3: the validation loss became NaN, first seen in the loss", "step 3 ."},
		"an infinite loss": {func(_ *Plan, w *toy) {
			w.score = func(int) (Score, error) { return Score{Loss: math.Inf(-1)}, nil }
		}, "step 3: the validation loss became -Inf", "step 3 ."},
		"saving": {func(p *Plan, w *toy) {
			p.SaveEvery = 2
			w.try = func() (float64, error) { return 0, broken }
		}, "broken", "step 2 ."},
		"weights that are no numbers": {func(p *Plan, w *toy) {
			p.SaveEvery = 2
			w.try = func() (float64, error) { return nan, nil }
		}, "step 2: the validation loss became NaN", "step 2 ."},
		"the last measurement, with samples": {func(p *Plan, w *toy) {
			p.Steps, p.SampleEvery = 1, 5
			p.Sample = func(context.Context) (string, error) { return "words", nil }
			w.score = func(int) (Score, error) { return Score{}, broken }
		}, "broken", "step 1 ."},
		"the first measurement": {func(p *Plan, w *toy) {
			p.MeasureFirst = true
			w.score = func(int) (Score, error) { return Score{}, broken }
		}, "broken", "."},
		"a sample": {func(p *Plan, w *toy) {
			p.SampleEvery, p.Steps = 2, 3
			p.Sample = func(context.Context) (string, error) { return "", broken }
		}, "", "step 2 note step 2: no sample text: broken step 3 eval 3: 0.25, the best note step 3: no sample text: broken saved 3 in last."},
	} {
		p, w := toyPlan(t), newToy()
		p.EvalEvery = 3
		c.change(&p, w)
		l, happened := start(t, p, w)
		interrupted, err := l.Run(t.Context())
		if interrupted || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: found %v, the error %v, want %q", name, interrupted, err, c.err)
		}
		if got := strings.Join(*happened, " ") + "."; !strings.HasSuffix(strings.Replace(got, " .", ".", 1),
			strings.Replace(c.events, " .", ".", 1)) {
			t.Errorf("%s: it ended with %q, want %q", name, got, c.events)
		}
	}
}

// TestLostDataHideNoWeights: where there are no data to try the weights on, weights that are no numbers are still not
// saved.
func TestLostDataHideNoWeights(t *testing.T) {
	p, w := toyPlan(t), newToy()
	l, _ := start(t, p, w)
	w.try = func() (float64, error) { return 0, &data.LostError{Path: "tokens"} }
	if err := l.Save(); err != nil {
		t.Errorf("weights that are numbers: %v", err)
	}
	w.w.CopyFrom([]float32{1, float32(math.NaN())})
	var bad *NonFiniteError
	if err := l.Save(); !errors.As(err, &bad) || bad.What != "weights" || bad.Where != "w" || !math.IsNaN(bad.Value) {
		t.Errorf("found the error %v, want one of the weights w", err)
	}
}

// TestEverySoOften: a run that saves, measures or samples after every update does, and one that leaves saving to its
// pace saves when that is due.
func TestEverySoOften(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Steps, p.SaveEvery, p.SampleEvery, p.EvalEvery = 2, 1, 1, 1
	p.Sample = func(context.Context) (string, error) { return "words", nil }
	l, happened := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range metricsOf(t, p.Out) {
		if line["valid_loss"] != nil && line["train_loss"] == nil {
			t.Errorf("a line of step %v has no training loss", line["step"])
		}
	}
	sameList(t, "everything at once", *happened, []string{"step 1", "eval 1: 0.5, the best", "sample 1: words", "saved 1 in last",
		"step 2", "eval 2: 0.3333, the best", "sample 2: words", "saved 2 in last"})
	p, w = toyPlan(t), newToy()
	p.Steps, p.EvalEvery = 4, 100
	l, happened = start(t, p, w)
	at := time.Now()
	l.pace = pace{now: func() time.Time { return at }, saved: at}
	step := l.ev.Step
	l.ev.Step = func(g Progress) {
		step(g)
		at = at.Add(3 * time.Second)
	}
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameList(t, "saved by pace", *happened, []string{"step 1", "step 2", "saved 2 in last", "step 3", "step 4",
		"eval 4: 0.2, the best", "saved 4 in last"})
}

// TestSecondsAreSmoothed: the seconds of an update are a mean of those of all, and so lie between them.
func TestSecondsAreSmoothed(t *testing.T) {
	p, w := toyPlan(t), newToy()
	const each = 5 * time.Millisecond
	w.read = func(int) error {
		time.Sleep(each)
		return nil
	}
	l, _ := start(t, p, w)
	before, longest := time.Now(), 0.0
	l.ev.Step = func(g Progress) {
		longest = max(longest, time.Since(before).Seconds())
		before = time.Now()
		if l.stepSeconds < each.Seconds() || l.stepSeconds > longest {
			t.Errorf("step %d: updates of %v to %v s take %v s", g.Step, each, longest, l.stepSeconds)
		}
	}
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// After a first update that takes long, nine short ones leave 0.9⁹ = 0.39 of it.
	const long = 200 * time.Millisecond
	p, w = toyPlan(t), newToy()
	p.EvalEvery = 100
	w.read = func(step int) error {
		if step == 0 {
			time.Sleep(long)
		}
		return nil
	}
	l, _ = start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := l.stepSeconds / long.Seconds(); s < 0.3 || s > 0.8 {
		t.Errorf("of a first update of %v, %v s are left after nine short ones", long, l.stepSeconds)
	}
	if l.evalSeconds <= 0 || l.evalSeconds > 10 {
		t.Errorf("a measurement took %v s", l.evalSeconds)
	}
}

// TestLinesAfterTheCheckpoint: a run that goes on from a checkpoint drops what an earlier part of it has written of
// later updates, and keeps the rest.
func TestLinesAfterTheCheckpoint(t *testing.T) {
	p, w := toyPlan(t), newToy()
	l, _ := start(t, p, w)
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		step int
		want []float64
	}{{6, []float64{1, 3, 4, 6}}, {5, []float64{1, 3, 4}}} {
		again, err := New(p, w)
		if err != nil {
			t.Fatal(err)
		}
		again.step = c.step
		if err := errors.Join(again.Open(Events{}), again.Close()); err != nil {
			t.Fatal(err)
		}
		var steps []float64
		for _, line := range metricsOf(t, p.Out) {
			steps = append(steps, line["step"].(float64))
		}
		if !slices.Equal(steps, c.want) {
			t.Errorf("from step %d on there are lines of the steps %v, want %v", c.step, steps, c.want)
		}
	}
	if info, err := os.Stat(p.Out); err != nil || info.Mode().Perm()&0o700 != 0o700 {
		t.Errorf("the folder has the mode %v: %v", info.Mode(), err)
	}
}

// TestGradientsAreReused: updates after the first need no further memory for gradients.
func TestGradientsAreReused(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Shards = 4
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
		if len(l.sum.free) != SumsOf(4) {
			t.Errorf("after %d updates there are %d gradients, want %d", l.Steps(), len(l.sum.free), SumsOf(4))
		}
	}
}

// TestAfterAFailedShard: an update that fails in any of its shards leaves nothing behind: the next one is that of a run
// that has not failed.
func TestAfterAFailedShard(t *testing.T) {
	broken := errors.New("broken")
	update := func(bad int) (loss float64, weights string) {
		p, w := toyPlan(t), newToy()
		p.Shards = 4
		l, err := New(p, w)
		if err != nil {
			t.Fatal(err)
		}
		if bad >= 0 {
			w.fails = func(s Shard) error { return map[int]error{bad: broken}[s.Index] }
			if loss, norm, err := l.Step(); !errors.Is(err, broken) || !math.IsNaN(loss) || !math.IsNaN(norm) || l.Steps() != 0 {
				t.Errorf("shard %d fails: found %v, %v, %v after %d updates", bad, loss, norm, err, l.Steps())
			}
			w.fails = nil
		}
		if loss, _, err = l.Step(); err != nil {
			t.Fatal(err)
		}
		return loss, fmt.Sprint(w.w.Elements())
	}
	loss, weights := update(-1)
	for bad := range 4 {
		if l, w := update(bad); l != loss || w != weights {
			t.Errorf("after shard %d failed the loss is %v and the weights %s, want %v and %s", bad, l, w, loss, weights)
		}
	}
}

// TestStoppedAtTheLastStep: a run that is stopped after its last update, before it is measured, is measured as in the
// end when it goes on, also where that step would have been measured on the way.
func TestStoppedAtTheLastStep(t *testing.T) {
	p, w := toyPlan(t), newToy()
	p.Steps = 9
	l, _ := start(t, p, w)
	l.step = 9
	if _, err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.measured, []bool{true}) {
		t.Errorf("measured as in the end: %v, want once", w.measured)
	}
}
