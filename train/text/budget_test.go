package text

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/train"
)

// timed prepares a run with a time budget. Its clock advances only with updates, by a second each.
func timed(t *testing.T, c Config, resume bool) *run {
	t.Helper()
	d, err := c.OpenData(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	var r *run
	if resume {
		r, err = resumed(c, d)
	} else {
		var w *Work
		if w, err = New(c, d); err == nil {
			r, err = begin(w)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var now time.Duration
	r.loop.SetClock(func() time.Duration { // only updates read it, twice each
		now += time.Second
		return now
	})
	return r
}

func seconds(t *testing.T, n int) Config {
	c := small(t)
	c.Train.Steps, c.Train.Time, c.Optim.Warmup, c.Optim.MinLRRatio = 10, time.Duration(n)*time.Second, 2, 0
	return c
}

// TestTimeBudget checks that a run ends when its time is used up, regardless of its steps, and that the learning rate
// follows the used share of the time.
func TestTimeBudget(t *testing.T) {
	c := seconds(t, 20)
	c.Optim.Schedule = "linear"
	var rates []float64
	var last train.Progress
	res, err := timed(t, c, false).run(context.Background(), train.Events{Step: func(p train.Progress) {
		rates, last = append(rates, p.LR/c.Optim.LR), p
	}})
	if err != nil || res.Step != 20 || res.Trained != 20*time.Second || last.Steps != 20 || last.Step != 20 {
		t.Fatalf("%+v, %+v, %v; want 20 steps of a second", res, last, err)
	}
	// Two tenths are warmup: 4 s. At 12 s the decay is half done.
	for i, want := range map[int]float64{0: 0.5, 2: 1, 4: 1, 12: 0.5, 19: 1.0 / 16} {
		if math.Abs(rates[i]-want) > 1e-9 {
			t.Errorf("after %d s the rate is %.4f of its peak, want %.4f", i, rates[i], want)
		}
	}
}

// TestTimeBudgetResume checks that an interrupted run continues with the remaining time, to the same weights.
func TestTimeBudgetResume(t *testing.T) {
	whole := seconds(t, 6)
	if _, err := timed(t, whole, false).run(context.Background(), train.Events{}); err != nil {
		t.Fatal(err)
	}
	c := seconds(t, 6)
	c.Data = whole.Data
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	res, err := timed(t, c, false).run(ctx, train.Events{Step: func(p train.Progress) {
		if p.Step == 3 {
			cancel()
		}
	}})
	if err != nil || !res.Interrupted || res.Trained != 3*time.Second {
		t.Fatalf("%+v, %v, want an end after 3 s", res, err)
	}
	res, err = timed(t, c, true).run(context.Background(), train.Events{})
	if err != nil || res.Step != 6 || res.Trained != 6*time.Second {
		t.Fatalf("resumed: %+v, %v, want 6 steps of a second", res, err)
	}
	if weights(t, c.Out) != weights(t, whole.Out) {
		t.Error("the weights differ from those of a run that was not stopped")
	}
}

// TestClocks checks that both clocks advance while a run trains, and that a run ends by each.
func TestClocks(t *testing.T) {
	for _, clock := range []string{"", train.WallClock, "cpu"} {
		c := small(t)
		c.Train.Time, c.Train.Clock, c.Train.Steps = time.Millisecond, clock, 1<<30
		if res := mustRun(t, c); res.Step < 1 || res.Trained < c.Train.Time {
			t.Errorf("clock %q: ended at step %d after %v, want some steps and %v", clock, res.Step, res.Trained,
				c.Train.Time)
		}
	}
}

// TestTimeIsChecked checks that invalid times and clocks are errors.
func TestTimeIsChecked(t *testing.T) {
	c := small(t)
	c.Train.Time, c.Train.Clock = -time.Second, "sun"
	err := c.Validate()
	for _, want := range []string{"train.time: found -1s", `train.clock: found "sun", want one of ["wall" "cpu"]`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestTimeEstimate checks that a dry run predicts the steps that fit into the time.
func TestTimeEstimate(t *testing.T) {
	c := small(t)
	c.Train.Time = time.Hour
	e, err := c.Estimate(256)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(e.RunSeconds-3600) > e.StepSeconds || math.Abs(float64(e.Tokens)/(3600*e.TokensPerSec)-1) > 0.01 {
		t.Errorf("%+v, want an hour at %.0f tokens/s", e, e.TokensPerSec)
	}
}
