package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestResumedRun checks that a run that is stopped after any update and continued makes the same weights, averages,
// points and curve, and the same lines of metrics, as an uninterrupted run.
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
	for _, stop := range []int{1, 3, 4, -6, 9, -9, 10} { // below 0: during a measurement that is complete
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

// TestStopped checks that a run whose context is done saves and reports that it was interrupted, even before its first
// update and during a measurement or a sample.
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

// TestStoppedInTheEnd checks that a run that ran out of patience and is stopped during its final measurement keeps the
// earlier measurement.
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

// TestLinesAfterTheCheckpoint checks that a run that continues from a checkpoint drops the lines that an earlier part
// wrote for later updates, and keeps the rest.
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

// TestStoppedAtTheLastStep checks that a run that is stopped after its last update, before it is measured, gets a final
// measurement when it continues, even if that step would have been measured during the run.
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
