package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/table"
)

// TestPrint checks the final output of a run, for forecasts and for classes. The score of each class is that of the
// contender that predicts, and is not shown if there are too many.
func TestPrint(t *testing.T) {
	text := func(r *Result) string {
		var b strings.Builder
		if err := r.Print(&b); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(b.String()) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(lines, "\n")
	}
	r := forecastResult()
	r.Epochs, r.TrainSeconds = 2.25, 75
	r.Plan.Columns[1].Example, r.Plan.Columns[1].Decimal = "1,5", "comma"
	r.Plan.Time = &table.Column{Name: "t", Example: "2,5", Decimal: "comma"}
	r.Importance = &Importance{How: "to it", Loss: 0.5, Columns: []ColumnImportance{{Column: "x", Rise: 0.125}}}
	if got, want := text(r), `task forecast
data 12.3K rows, 2 series
read column z: "1,5" is 1.5
read column t: "2,5" is 2.5
model s4d*2, 4.3K parameters, seed 7

target test part MAE RMSE CRPS MSE/variance in the 85 % interval
x network 1.235 2.5 0.75 0.5 84.4 %
x last 7 0 0 0 0.0 %
z network 8 0 0 0 0.0 %
x mean 0 0 0 0 0.0 %

which column matters to it (loss 0.5):
column loss rises by accuracy falls by
x 0.125 ± 0 0.0

training 2.2 epochs, 1m15s
intervals `+r.Calibration[0].Sentence()+`
scales it looks back
choice prediction uses x
last fit all rows are seen
report runs/x/report.html
predict hippo predict runs/x DATA`; got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
	c := classResult()
	c.Choice, c.Final, c.Classes.Floor = "", "", "low"
	if got, want := text(c), `task classify
data 12.3K rows, 2 series
model s4d*2, 4.3K parameters, seed 7
test 91.24 % of 50 right (the class most frequent: 60.50 %), balanced 88.8 %, F1 0.8765, loss 0.3
majority 60.50 % right, balanced 88.8 %, F1 0.8765, loss 0.3
floor low

each class of the test part, by the network:
class test part predicted recall precision F1
a 40 30 75.0 % 100.0 % 0.857

which column matters to the network (loss 0.25):
column loss rises by accuracy falls by
x 1.23 ± 0.068 12.3

training 0.0 epochs, 0ms
report runs/x/report.html
predict hippo predict runs/x DATA`; got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
}

// TestPredicting checks that the printed score is that of the contender that predicts.
func TestPredicting(t *testing.T) {
	r := &Result{Plan: &Plan{Contenders: []*Contender{{Name: useNetwork}, {Name: "majority"}, {Name: "boosted"}}},
		Classes: &ClassScore{Name: "network"}, Rivals: []*ClassScore{{Name: "majority"}, {Name: "boosted"}}}
	for use, want := range map[string]string{"": "network", "majority": "majority", "boosted": "boosted"} {
		if r.Plan.Use = use; r.Predicting().Name != want {
			t.Errorf("%q: found the score of %s, want %s", use, r.Predicting().Name, want)
		}
	}
	if r.Rivals, r.Plan.Use = r.Rivals[:1], "boosted"; r.Predicting() != r.Classes {
		t.Errorf("without a score of its own: found that of %s", r.Predicting().Name)
	}
	for n, want := range map[int]bool{0: false, 1: true, mostShownClasses: true, mostShownClasses + 1: false} {
		var b strings.Builder
		s := &ClassScore{PerClass: make([]ClassMetrics, n)}
		if err := s.print(&b); err != nil || (b.Len() > 0) != want || want && !strings.Contains(b.String(), "by the "+
			"network:") {
			t.Errorf("of %d classes: found %q, %v", n, b.String(), err)
		}
	}
}

// TestChannels checks the inputs and outputs of a network by name, unit and scale, in the units of the data.
func TestChannels(t *testing.T) {
	x, z, k := number("x\ty", true), number("z", false), category("k", false, "u", "v")
	x.Base, x.Low, x.High, x.Mean, x.Deviation, x.Unit, x.Gaps, x.Change = 100, -4, 6, 1, 3, "m", true, 0.5
	z.Log, z.Base, z.Low, z.High, z.Mean, z.Deviation, z.In = true, 7, -1, 2, 0.5, 0.25, false
	p := &Plan{Task: Forecast, Horizon: 1, Lookback: 1, Levels: []float64{0.1, 0.5}, Columns: []Column{x, k, z},
		Step: 1,
		Time: &table.Column{Name: "t"}, Irregular: true, Dt: DtBoth, Calendar: []string{"hour"}}
	show := func() (text string) {
		for _, c := range slices.Concat(p.inputs(), p.results()) {
			text += fmt.Sprintf("%s/%s %g..%g %g±%g; ", c.Name, c.Unit, c.Low, c.High, c.Mean, c.Deviation)
		}
		return text
	}
	const since = "logarithm of the time since the row before, in steps"
	in := "x y/m 96..106 101±3; x y is missing/ 0..1 0±1; k=u/ 0..1 0±1; k=v/ 0..1 0±1; "
	times := since + "/ 0..0 0±1; sine of the hour/ -1..1 0±1; cosine of the hour/ -1..1 0±1; "
	last := since + ", of the recurrences/ 0..0 0±1; "
	want := in + times + "asked/ 0..1 0±1; " + last + "x y less the last known one, quantile 0.1/m 0..0 0±3; " +
		"x y less the last known one, quantile 0.5/m 0..0 0±3; "
	if got := show(); got != want {
		t.Errorf("found %s\nwant %s", got, want)
	}
	p.Task, p.Dt, p.Columns[2].In = Next, DtInput, true
	want = in + "logarithm of z/ -1..2 0.5±0.25; " + times + "change of x y, quantile 0.1/m 0..0 0±0.5; " +
		"change of x y, quantile 0.5/m 0..0 0±0.5; "
	if got := show(); got != want {
		t.Errorf("found %s\nwant %s", got, want)
	}
	p.Task, p.Dt, p.Columns[1].In, p.Columns[2].In, p.Calendar, p.Levels = Steps, DtSteps, false, false, nil,
		[]float64{0.5}
	want = "x y/m 96..106 101±3; x y is missing/ 0..1 0±1; " + last + "x y, quantile 0.5/m 96..106 101±3; "
	if got := show(); got != want {
		t.Errorf("found %s\nwant %s", got, want)
	}
	if got := strings.Join(classNames([]string{"a\nb", "c"}), "/"); got != "a b/c" {
		t.Errorf("found the classes %q", got)
	}
}

// TestScalesChart checks the chart of the memory of each layer, up to where it has faded, next to the correlation of
// the data and the lags at which it repeats.
func TestScalesChart(t *testing.T) {
	s := &TimeScales{Step: 3600, Of: "x", Lags: []int{0, 1, 2, 4}, Correlation: []float64{1, 0.5, 0.2},
		Network: []NetworkScale{{Kind: "s4d", Left: []float64{1, 0.5, 0.2, 0}}, {Layer: 2, Kind: "h3",
			Left: make([]float64, 4)}, {Layer: 3, Kind: "s5", Left: []float64{1, 0, 0, 0.1}}},
		Data: []DataScale{{Rows: 1, Name: "1 hour"}, {Rows: 2, Repeats: true, Name: "2 hours", Correlation: 0.2}}}
	line := func(name string, x, y []float64) figure.Line { return figure.Line{Name: name, X: x, Y: y} }
	want := figure.Chart{Title: "How far back the network looks, and the scales of the data", Subtitle: "about",
		X: "lag (rows of 1 hour)", Y: "energy of kernels that far back or further; correlation of the data", LogX: true,
		At: []float64{2}, Lines: []figure.Line{line("layer 0, s4d", []float64{0, 1, 2}, []float64{1, 0.5, 0.2}),
			line("layer 2, h3", []float64{0, 1}, []float64{0, 0}),
			line("layer 3, s5", []float64{0, 1, 2, 4}, []float64{1, 0, 0, 0.1}),
			line("correlation of x", []float64{0, 1, 2}, []float64{1, 0.5, 0.2}),
			line("2 hours", []float64{2}, []float64{0.2})}}
	if got := s.chart("about"); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("found\n%+v\nwant\n%+v", got, want)
	}
	s.Step, s.Correlation, s.Data = 0, nil, nil
	if got := s.chart(""); got.X != "lag (rows)" || len(got.Lines) != 3 || got.At != nil {
		t.Errorf("of nothing but the network: found %+v", got)
	}
}

// TestSentencesOfScales checks the limits for each sentence, and the times in them.
func TestSentencesOfScales(t *testing.T) {
	of := func(kind string, longest float64) []NetworkScale {
		return []NetworkScale{{Layer: 1, Kind: "s4d", Part: "ssm", Of: kind,
			Rows: Spread{Median: 5, Longest: Reach(longest)}}}
	}
	day := []DataScale{{Rows: 3}, {Rows: 24, Repeats: true}}
	const (
		kernels = "Half of the kernels of layer 1 (s4d) remember 5 rows or more, the longest "
		modes   = "Half of the modes of layer 1 (s4d) remember 5 rows or more, the slowest "
	)
	for want, s := range map[string]TimeScales{
		kernels + "162 rows.":                   {Network: of(Kernels, 161.9)},
		kernels + "the whole window, 200 rows.": {Network: of(Kernels, 162.1)},
		kernels + "200 rows or more.": {Network: of(Kernels, 162.1),
			Cut: true},
		kernels + "160 rows.": {Network: of(Kernels, 160),
			Cut: true},
		modes + "24 rows; the data repeats after 24 rows.": {Network: of(Modes, 24),
			Data: day},
		modes + "23.9 rows; the data repeats after 24 rows, which is further back.": {Network: of(Modes, 23.9),
			Data: day},
		modes + "9 rows; the data does not repeat within 7 rows, and its correlation is below 1/e after 3 rows.": {
			Network: of(Modes, 9), Data: day[:1], Lags: []int{0, 5, 7, 9}, Correlation: []float64{1, 0.1, 0}},
		modes + "9 rows; the data does not repeat within 7 rows, and its correlation stays above 1/e.": {
			Network: of(Modes, 9), Lags: []int{0, 5, 7, 9}, Correlation: []float64{1, 1, 1}},
		"": {},
	} {
		s.Window = 200
		if got := s.sentence(); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	for seconds, want := range map[float64]string{0.994 * 3600: "59.6 minutes", 0.996 * 3600: "0.996 hours",
		0.9996 * 3600: "1 hour", 7.05 * 86400: "1.01 weeks", 7.08 * 86400: "7.08 days", 13.95 * 86400: "1.99 weeks",
		5e-8: "0.05 µs", 0.9996e-3: "1 ms", 2e-3: "2 ms", 1.004: "1 second", 1.006: "1.01 seconds"} {
		if got := spanText(seconds); got != want {
			t.Errorf("%v s: found %q, want %q", seconds, got, want)
		}
	}
	for x, want := range map[float64]string{99.94: "99.9", 99.96: "100", 100: "100", 1234.5: "1235",
		0.01234: "0.0123"} {
		if got := lengthText(x); got != want {
			t.Errorf("%v: found %q, want %q", x, got, want)
		}
	}
}

// TestOutlierNotes checks that a note names a number if its distance from the middle is more than 100,000 times that
// between the quartiles.
func TestOutlierNotes(t *testing.T) {
	p := &Plan{Columns: []Column{number("x", true), category("k", false, "a"), number("z", false)}}
	place := table.Place{File: "f", Unit: "line", At: 7}
	f := &frame{plan: p, far: []farthest{{2e5 + 10, place}, {9e9, place}, {2.1e5 + 10, place}}}
	usual := []usual{{10, 2}, {0, 1}, {10, 2}}
	want := []string{"f, line 7, column z: the number there is 1e+05 times as far away as most are from each other: " +
		"if " +
		"it stands for a missing value, --missing names it"}
	if got := f.outliers(usual); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if usual[2].spread = 0; f.outliers(usual) != nil {
		t.Errorf("of numbers that are alike: found %q", f.outliers(usual))
	}
	f.far[0].x = math.Inf(1)
	if got := f.outliers(usual); len(got) != 1 ||
		!strings.Contains(got[0], "column x: the number there is +Inf times") {
		t.Errorf("found %q", got)
	}
}
