package watch_test

import (
	"math"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/watch"
)

// learning returns options for short rounds.
func learning(every int) watch.Options {
	o := watch.DefaultOptions()
	o.Learn.Every, o.Learn.Tokens, o.Learn.Steps, o.Learn.LR = every, 16_384, 8, 2e-2
	o.Learn.Time = time.Hour
	return o
}

// TestLearns checks that rounds on predictable lines are kept, that the lines are then less surprising, and that the
// same lines give the same bits.
func TestLearns(t *testing.T) {
	line := strings.Repeat("an ordinary line ", 6) + "\n"
	lines := make([]string, 90)
	for i := range lines {
		lines[i] = line
	}
	m := fresh(t, layersOf[0])
	once := func() (watch.Learnt, []watch.Report) {
		w := open(t, m, learning(40))
		r := read(t, w, "", lines...)
		if w.Model() == m {
			t.Fatal("the model has not changed")
		}
		return w.Learnt(), r
	}
	learnt, r := once()
	if learnt.Kept != 1 || learnt.After >= learnt.Before || r[89].Bits > 0.9*r[75].Bits {
		t.Errorf("%+v; the line has %.1f bits before, %.1f after", learnt, r[75].Bits, r[89].Bits)
	}
	if again, same := once(); !reflect.DeepEqual(again, learnt) || !reflect.DeepEqual(same, r) {
		t.Error("the same lines were learnt otherwise")
	}
	if still := read(t, open(t, m, watch.DefaultOptions()), "", lines[:5]...); still[4].Bits != r[4].Bits {
		t.Error("learning has changed the model that was given")
	}
}

// TestLearnsNothingWorse checks that a round that makes the model worse on held-out lines or takes too long is dropped
// and changes no bit.
func TestLearnsNothingWorse(t *testing.T) {
	var lines []string
	for range 2 {
		lines = append(lines, linesOf(9, 250)...)
	}
	m := fresh(t, layersOf[0])
	want := read(t, open(t, m, watch.DefaultOptions()), "", lines...)
	for name, change := range map[string]func(o *watch.Options){
		"worse": func(o *watch.Options) { o.Learn.LR, o.Learn.Steps = 1, 3 },
		"slow":  func(o *watch.Options) { o.Learn.Time = time.Nanosecond },
	} {
		o := learning(240)
		change(&o)
		w := open(t, m, o)
		got := read(t, w, "", lines...)
		l := w.Learnt()
		if l.Kept != 0 || name == "worse" && (l.Worse != 1 || !(l.After > l.Before) || math.IsNaN(l.After)) ||
			name == "slow" && l.Failed != 1 {
			t.Errorf("%s: %+v", name, l)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a round that was dropped has changed reports", name)
		}
	}
}

// TestCalibration checks that thresholds start from the scores in a file if it is for the same model and kind of score.
func TestCalibration(t *testing.T) {
	m, o, dir := fresh(t, layersOf[0]), watch.DefaultOptions(), t.TempDir()
	w := open(t, m, o)
	count := 0
	c, err := w.Calibrate(t.Context(), strings.NewReader(strings.Join(linesOf(5, 150), "")), 100, func() { count++ })
	if err != nil || c.Lines != 150 || count != 150 {
		t.Fatal(c, count, err)
	}
	if err := c.Save(dir); err != nil {
		t.Fatal(err)
	}
	known, err := watch.ReadCalibration(dir, m.Fingerprint(), o)
	if err != nil || known == nil {
		t.Fatal(known, err)
	}
	begun, err := watch.New(m, tokenizer.Bytes(), known.Scores, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := begun.Threshold(begun.Stream("new")), w.Threshold(w.Stream("")); got != want {
		t.Errorf("threshold %g, want %g", got, want)
	}
	o.Ignore = regexp.MustCompile("x")
	for _, none := range []struct{ dir, model string }{{dir, "other"}, {dir, m.Fingerprint()}, {dir + "x", "other"}} {
		if known, err := watch.ReadCalibration(none.dir, none.model, o); known != nil || err != nil {
			t.Errorf("%v: found %v, %v, want none", none, known, err)
		}
	}
}

// TestMetrics checks that the page contains the counts of each stream and the threshold.
func TestMetrics(t *testing.T) {
	m := watch.NewMetrics()
	z := 7.5
	m.Count([]watch.Report{
		{Stream: "a", Bytes: 10, Bits: 12, Alarm: true, Threshold: &z}, {Stream: "b", Bytes: 3, Cut: 4},
	}, watch.Learnt{Kept: 2})
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`hippo_watch_lines_total{stream="a"} 1`, `hippo_watch_bytes_total{stream="a"} 10`,
		`hippo_watch_bits_total{stream="a"} 12`, `hippo_watch_alarms_total{stream="a"} 1`,
		`hippo_watch_alarms_total{stream="b"} 0`, `hippo_watch_cut_bytes_total{stream="b"} 4`,
		`hippo_watch_threshold{stream="a"} 7.5`, `hippo_watch_rounds{result="kept"} 2`,
	} {
		if !strings.Contains(page.Body.String(), want+"\n") {
			t.Errorf("found no line %s", want)
		}
	}
}
