package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
)

// TestErrorsOfARun checks that failures are returned as errors, that a run whose data are lost is saved and can be
// continued, and that a failed sample only gives a note.
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
		"a measurement": {func(_ *Plan, w *toy) { w.score = func(int) (Score, error) { return Score{}, broken } },
			"broken", "step 3 ."},
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
		}, "", "step 2 note step 2: no sample text: broken step 3 eval 3: 0.25, the best note step 3: no sample " +
			"text: broken saved 3 in last."},
	} {
		p, w := toyPlan(t), newToy()
		p.EvalEvery = 3
		c.change(&p, w)
		l, happened := start(t, p, w)
		interrupted, err := l.Run(t.Context())
		if interrupted || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(),
			c.err)) {
			t.Errorf("%s: found %v, the error %v, want %q", name, interrupted, err, c.err)
		}
		if got := strings.Join(*happened, " ") + "."; !strings.HasSuffix(strings.Replace(got, " .", ".", 1),
			strings.Replace(c.events, " .", ".", 1)) {
			t.Errorf("%s: it ended with %q, want %q", name, got, c.events)
		}
	}
}

// TestLostDataHideNoWeights checks that weights that are not finite are not saved, even if the data for trying them are
// lost.
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

// TestAfterAFailedShard checks that an update that fails in any of its shards has no effect: the next update is the
// same as in a run without the failure.
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
			if loss, norm, err := l.Step(); !errors.Is(err, broken) || !math.IsNaN(loss) || !math.IsNaN(norm) ||
				l.Steps() != 0 {
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
			t.Errorf("after shard %d failed the loss is %v and the weights %s, want %v and %s", bad, l, w, loss,
				weights)
		}
	}
}
