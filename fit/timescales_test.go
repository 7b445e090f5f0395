package fit

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestSentenceOfScales: the report says how far back the network looks and when the data repeats, in rows and in time.
func TestSentenceOfScales(t *testing.T) {
	kernels := func(of string, half, longest float64) []NetworkScale {
		return []NetworkScale{
			{Layer: 0, Kind: "s4d", Part: "ssm", Of: Modes, Rows: Spread{Longest: Reach(math.Inf(1))}},
			{Layer: 0, Kind: "s4d", Part: "ssm", Of: of, Rows: Spread{Median: Reach(half), Longest: Reach(longest)}},
			{Layer: 1, Kind: "s4d", Part: "ssm", Of: of, Rows: Spread{Longest: 1}},
		}
	}
	repeats := []DataScale{{Rows: 1}, {Rows: 24, Repeats: true}, {Rows: 168, Repeats: true}}
	for want, s := range map[string]TimeScales{
		"Half of the kernels of layer 0 (s4d) remember 12 rows (12 hours) or more, the longest 36 rows (1.5 days); " +
			"the data repeats after 24 rows (1 day) and 168 rows (1 week), and the last of these is further back.": {
			Step: 3600, Network: kernels(Kernels, 12, 36), Data: repeats},
		"Half of the kernels of layer 0 (s4d) remember 90 rows or more, the longest the whole window, 200 rows; the " +
			"data repeats after 24 rows and 168 rows.": {
			Network: kernels(Kernels, 90, 180), Data: repeats},
		"The slowest mode of layer 0 (s4d) never fades; the data does not repeat within 50 rows (50 ms), and its " +
			"correlation is below 1/e after 1 row (1 ms).": {Step: 1e-3, Network: kernels(Modes, 1, 9),
			Data: repeats[:1], Lags: []int{0, 50}, Correlation: []float64{1, 0}},
		"Layer 0 (attention) sees the whole window, 200 rows.": {
			Network: []NetworkScale{{Kind: "attention", Of: All, Rows: Spread{Longest: 200}}}},
	} {
		s.Window = 200
		if got := s.sentence(); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// TestScalesAreReadAgain: what never fades is null in JSON, and is so again when it is read.
func TestScalesAreReadAgain(t *testing.T) {
	s := TimeScales{Summary: "x", Network: []NetworkScale{{Rows: Spread{1, 2, 3, Reach(math.Inf(1))}}}}
	text, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"longest":null`) {
		t.Fatalf("found %s, %v", text, err)
	}
	var again TimeScales
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again.Network, s.Network) {
		t.Errorf("found %+v, %v, want %+v", again, err, s)
	}
}

// TestSpanText: a time is told in the unit that people would take.
func TestSpanText(t *testing.T) {
	for seconds, want := range map[float64]string{
		0.0005: "500 µs", 0.012: "12 ms", 1: "1 second", 90: "1.5 minutes", 3600: "1 hour", 36 * 3600: "1.5 days",
		14 * day: "2 weeks", 10 * day: "10 days", 365.25 * day: "1 year",
	} {
		if got := spanText(seconds); got != want {
			t.Errorf("%g s: found %q, want %q", seconds, got, want)
		}
	}
}
