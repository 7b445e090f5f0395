package watch_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/watch"
)

// learning are options of short rounds.
func learning(every int) watch.Options {
	o := watch.DefaultOptions()
	o.Learn.Every, o.Learn.Tokens, o.Learn.Steps, o.Learn.LR = every, 16_384, 8, 2e-2
	o.Learn.Time = time.Hour
	return o
}

// TestLearns: rounds on lines that can be learnt are kept, after which the lines surprise less, and the same lines give
// the same bits.
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

// TestLearnsNothingWorse: a round that makes the model worse on lines kept apart, breaks down or takes too long is
// dropped, and changes no bit.
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
