package fit

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/anatomy"
)

// TestSentenceOfScales checks that the report says how far back the network looks and when the data repeats, in rows
// and in time.
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

// TestScalesAreReadAgain checks that an infinite time scale is null in JSON and is read back.
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

// TestScalesOfData checks that lags extend to the window or to three times the longest period, with all lags up to 128,
// and checks the name of what is correlated and the lags at which it repeats or has faded.
func TestScalesOfData(t *testing.T) {
	wave := func(period float64) (x []float64) {
		for i := range 1200 {
			x = append(x, math.Sin(2*math.Pi*float64(i)/period))
		}
		return x
	}
	chance := make([]float64, 60)
	for i := range chance {
		chance[i] = math.Sin(float64(i * i))
	}
	for name, c := range map[string]struct {
		x      []float64
		window int
		step   float64
		want   string // correlated data, its scales, number of lags, last lag, number of correlations
	}{
		"a wave":         {wave(20), 30, 60, "x 4 minutes/4/240s/false/0 20 minutes/20/1200s/true/1; 61 60 61"},
		"a wide window":  {wave(20), 300, 0, "x 4 rows/4/0s/false/0 20 rows/20/0s/true/1; 207 298 207"},
		"chance":         {chance, 40, 0, "x 1 rows/1/0s/false/0; 40 39 31"},
		"a small window": {chance, 7, 0, "x 1 rows/1/0s/false/0; 31 30 31"},
		"a constant":     {make([]float64, 50), 9, 0, "; 9 8 0"},
	} {
		p := &Plan{Task: Next, Columns: []Column{number("x", true)}}
		f := made(t, p, column(c.x...))
		s := &TimeScales{Window: c.window, Step: c.step}
		s.ofData(f, f.wholeSeries())
		got := s.Of
		for _, d := range s.Data {
			got += fmt.Sprintf(" %s/%d/%gs/%v/%.2g", d.Name, d.Rows, d.Seconds, d.Repeats, d.Correlation)
		}
		got += fmt.Sprintf("; %d %d %d", len(s.Lags), s.Lags[len(s.Lags)-1], len(s.Correlation))
		if got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
		for i, k := range s.Lags[:len(s.Correlation)] {
			r, _ := f.correlation(f.wholeSeries(), []int{0}, false)
			if math.Abs(s.Correlation[i]-r[k]) > 1e-4 {
				t.Errorf("%s: the correlation at lag %d is %v, want %v", name, k, s.Correlation[i], r[k])
			}
		}
	}
}

// TestScalesOfSystems checks the energy of modes and kernels at a lag and beyond against the definitions: for a mode
// a^k it is a^2k, for kernels the mean over channels.
func TestScalesOfSystems(t *testing.T) {
	s := &TimeScales{Window: 8, Lags: []int{0, 1, 2, 3}}
	s.ofLayer(3, &anatomy.Layer{Kind: "s4d", Systems: []anatomy.System{{Part: "none"}, {Part: "ssm",
		Discrete: []complex128{0.5, complex(0, 0.8)}}}, Kernels: []anatomy.Kernel{{Name: "zero", Taps: 3, Channels: 1,
		K: make([]float32, 3)}, {Name: "k", Taps: 3, Channels: 2, K: []float32{1, 0, 2, 0, 2, 3}}}})
	modes := -1 / math.Log(0.8)
	want := []NetworkScale{
		{Layer: 3, Kind: "s4d", Part: "ssm", Of: Modes, Count: 2, Left: []float64{1, (0.25 + 0.64) / 2,
			(math.Pow(0.25, 2) + math.Pow(0.64, 2)) / 2, (math.Pow(0.25, 3) + math.Pow(0.64, 3)) / 2},
			Rows: Spread{Reach(-1 / math.Log(0.5)), Reach(modes), Reach(modes), Reach(modes)}},
		{Layer: 3, Kind: "s4d", Part: "k", Of: Kernels, Count: 2, Left: []float64{1, (8./9 + 1) / 2, (4./9 + 1) / 2, 0},
			Rows: Spread{2, 2, 2, 2}},
	}
	if len(s.Network) != len(want) {
		t.Fatalf("found %+v", s.Network)
	}
	for i, w := range want {
		got := s.Network[i]
		sameNumbers(t, w.Part, got.Left, w.Left, 1e-4)
		sameNumbers(t, w.Part, []float64{float64(got.Rows.Low), float64(got.Rows.Median), float64(got.Rows.High),
			float64(got.Rows.Longest)}, []float64{float64(w.Rows.Low), float64(w.Rows.Median), float64(w.Rows.High),
			float64(w.Rows.Longest)}, 1e-4)
		if got.Layer != w.Layer || got.Kind != w.Kind || got.Part != w.Part || got.Of != w.Of || got.Count != w.Count {
			t.Errorf("found %+v, want %+v", got, w)
		}
	}
}

// TestSpanText checks that a duration has the usual unit.
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
