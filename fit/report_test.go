package fit

import (
	"encoding/base64"
	"html"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/train"
)

// forecastResult and classResult return results of runs, written by hand.
func forecastResult() *Result {
	p := &Plan{Task: Forecast, Levels: []float64{0.05, 0.5, 0.9}, Columns: []Column{number("x", true), number("z",
		true)}}
	r := &Result{Task: Forecast, Rows: 12345, Series: 2, Windows: [3]int{70, 10, 20}, Divided: "in time", Params: 4321,
		Model: "s4d*2", Plan: p, Notes: []string{"a <note>"}, Choice: "prediction uses x", Final: "all rows are seen"}
	r.Config.Data, r.Config.Seed, r.Config.Out = []string{"dir/my data.csv", "b.csv"}, 7, "runs/x"
	for i := range 3 {
		r.Curve = append(r.Curve, train.Point{Step: 10 * i, Epoch: float64(i) / 2, TrainLoss: float64(3 - i),
			Valid: train.Score{Loss: float64(4 - i)}})
	}
	steps := func(x ...float64) (all []StepErrors) {
		for _, v := range x {
			all = append(all, StepErrors{MAE: v, CRPS: 10 * v, Coverage: 100 * v})
		}
		return all
	}
	r.Errors = []Errors{{Name: "network", Target: "x", MAE: 1.23456, RMSE: 2.5, CRPS: 0.75, MSE: 0.5, Coverage: 84.44,
		Nominal: 85, Steps: steps(1, 2)}, {Name: "last", Target: "x", MAE: 7, Steps: steps(3, 4)},
		{Name: "network", Target: "z", MAE: 8, Steps: steps(5, 6)}, {Name: "mean", Target: "x", Steps: steps(9)}}
	r.Forecasts = []ForecastChart{{Series: "a", Target: "x", Known: []float64{5, 6}, Truth: []float64{7, 8, 9},
		Low: []float64{1, 2, 3}, Median: []float64{4, 5, 6}, High: []float64{7, 9, 11}}, {Series: "b", Target: "x"}}
	r.Calibration = []Calibration{{Target: "x", Nominal: 85, Learnt: 80.04, Calibrated: 86, Checked: -1,
		TestLearnt:     70,
		TestCalibrated: 75}}
	r.Scales = &TimeScales{Summary: "it looks back", Window: 64, Lags: []int{0, 1}, Network: []NetworkScale{{Layer: 1,
		Kind: "s4d", Part: "ssm", Of: Modes, Count: 12, Rows: Spread{1, 2.5, 30, 400}, Left: []float64{1, 0.5}}}}
	return r
}

func classResult() *Result {
	r := forecastResult()
	r.Task, r.Plan = Classify, classPlan()
	r.Errors, r.Forecasts, r.Scales, r.Calibration = nil, nil, nil, nil
	s := newClassScore([]string{"a", "b<"})
	s.Name, s.Count, s.Accuracy, s.Majority, s.Balanced, s.F1, s.Loss, s.ECE = "network", 50, 91.237, 60.5, 88.8,
		0.87654,
		0.3, 0.02
	s.Confusion = [][]int{{30, 10}, {0, 0}}
	s.Bins = []CalibrationBin{{Count: 3, Probability: 0.55, Right: 0.5}, {Probability: 0.65}, {Count: 1,
		Probability: 0.9,
		Right:       1}}
	s.PerClass = []ClassMetrics{{Class: "a", Count: 40, Predicted: 30, Recall: 75, Precision: 99.96, F1: 0.857}}
	s.Wrong = []WrongExample{{Name: "w1", Truth: "a", Predicted: "b<", Probability: 0.98765}, {Name: "w2", Row: 17,
		Truth: "b<", Predicted: "a", Probability: 0.5}}
	r.Classes = s
	other := *s
	other.Name, other.Accuracy = "majority", 60.5
	r.Rivals = []*ClassScore{&other}
	r.Importance = &Importance{How: "to the network", Loss: 0.25, Columns: []ColumnImportance{{Column: "x",
		Rise:      1.2345,
		Deviation: 0.0678, Accuracy: 12.34}}}
	return r
}

// TestReportPictures checks the charts of a run, with each of their points.
func TestReportPictures(t *testing.T) {
	line := func(name string, x, y []float64) figure.Line { return figure.Line{Name: name, X: x, Y: y} }
	about := "my data.csv, seed 7"
	curve := figure.Chart{Title: "Loss by epoch", Subtitle: about, X: "epoch", Y: "pinball loss", Lines: []figure.Line{
		line("training", []float64{0, 0.5, 1}, []float64{3, 2, 1}),
		line("validation", []float64{0, 0.5, 1}, []float64{4, 3, 2})}}
	r := forecastResult()
	future := []float64{0, 1, 2}
	forecast := figure.Chart{Title: "Forecast of x", Subtitle: "a", X: "rows from the first predicted one", Y: "x",
		Lines: []figure.Line{line("truth", []float64{-2, -1, 0, 1, 2}, []float64{5, 6, 7, 8, 9}),
			line("median", future, []float64{4, 5, 6}), line("5 %", future, []float64{1, 2, 3}),
			line("90 %", future, []float64{7, 9, 11})}}
	ahead := figure.Chart{Title: "Mean absolute error by row ahead", Subtitle: about, X: "rows ahead", Y: "error",
		Lines: []figure.Line{line("network", []float64{1, 2}, []float64{1, 2}), line("last", []float64{1, 2},
			[]float64{3, 4})}}
	want := []picture{{File: "curve.png", Chart: curve}, {File: "forecast-1.png", Chart: forecast},
		{File: "forecast-2.png", Chart: r.Forecasts[1].chart(r.Plan)}, {File: "horizon.png", Chart: ahead},
		{File: ScalesFile, Chart: r.Scales.chart(about), Caption: "it looks back"}}
	if got := r.pictures(); !reflect.DeepEqual(got, want) {
		t.Errorf("found\n%+v\nwant\n%+v", got, want)
	}
	if f := r.Forecasts[0]; len(f.Known) != 2 || len(f.Truth) != 3 {
		t.Errorf("a chart changes its forecast: %+v", f)
	}
	c := classResult()
	curve.Y = "cross-entropy, nats"
	want = []picture{{File: "curve.png", Chart: curve}, {File: "calibration.png", Chart: figure.Chart{
		Title: "Calibration", Subtitle: about, X: "probability of the predicted class", Y: "fraction that was right",
		Lines: []figure.Line{line("network", []float64{0.55, 0.9}, []float64{0.5, 1}), line("as it should be",
			[]float64{0, 1}, []float64{0, 1})}}}}
	c.Scales = &TimeScales{}
	if got := c.pictures(); !reflect.DeepEqual(got, want) {
		t.Errorf("found\n%+v\nwant\n%+v", got, want)
	}
	if got := shade(30, []int{30, 10}); got != "background:rgba(31,119,180,0.60)" {
		t.Errorf("found %q", got)
	}
	if got := shade(1, []int{1, 0}); got != "background:rgba(31,119,180,0.80)" {
		t.Errorf("found %q", got)
	}
	r.Errors = []Errors{r.Errors[0], r.Errors[2]} // for two targets
	if c := r.stepChart(""); len(c.Lines) != 1 || len(r.pictures()) != 5 {
		t.Errorf("of the first target: found %+v", c.Lines)
	}
	if got := shade(0, []int{0, 0}); got != "background:rgba(31,119,180,0.00)" {
		t.Errorf("found %q", got)
	}
}

// TestReportPage checks that the page contains the data of the result as text, and its pictures, which are also stored
// next to it.
func TestReportPage(t *testing.T) {
	tags := regexp.MustCompile(`(?s)<style>.*?</style>|<(img|td) [^>]*>|</?[a-z0-9]+( [a-z]+="[^"]*")*>|<!DOCTYPE " +
			"html>`)
	text := func(r *Result) string {
		r.Config.Out = t.TempDir()
		if err := r.WriteReport(); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(r.Config.Out, ReportFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.pictures() {
			data, err := os.ReadFile(filepath.Join(r.Config.Out, p.File))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(html.UnescapeString(string(page)), base64.StdEncoding.EncodeToString(data)) {
				t.Errorf("the page has not the picture %s", p.File)
			}
		}
		return html.UnescapeString(strings.Join(strings.Fields(tags.ReplaceAllString(string(page), " ")), " "))
	}
	r := forecastResult()
	r.Forecasts, r.Scales.Network[0].Layer, r.Curve = r.Forecasts[:0], 0, r.Curve[:2]
	got := text(r)
	for _, want := range []string{"forecast: x, z 12.3K rows, 2 series; 70 windows to train on, 10 to choose by " +
		"and 20 to " +
		"test on. The data is divided in time. The network has 4.3K parameters (s4d*2);",
		"prediction uses x. all rows " +
			"are seen. Test part target MAE RMSE CRPS MSE/variance in the 85 % interval x network 1.235 2.5 0.75 0.5 " +
			"84.4 " +
			"% x " +
			"last 7 0 0 0 0.0 % z network 8",
		"the 85 % interval of x holds 80.0 % of the validation part as " +
			"learnt and " +
			"86.0 % calibrated, of the test part 70.0 and 75.0 %", "it looks back look-back 10 % median 90 % longest " +
			"layer 0, " +
			"s4d ssm: 12 modes 1 row 2.5 rows 30 rows 400 rows Modes:",
		"in a window of 64 rows. Notes a <note> " +
			"Again " +
			"hippo forecast " +
			"'dir/my data.csv' b.csv --config config.yaml --out again # the task "} {
		if !strings.Contains(got, want) {
			t.Errorf("found\n%s\nwant in it\n%s", got, want)
		}
	}
	c := classResult()
	got = text(c)
	for _, want := range []string{"What matters to the network. The loss is 0.25 with all columns as they are. " +
		"column loss " +
		"rises by accuracy falls by x 1.23 ± 0.068 12.3", "Test part 91.24 % of 50 right; the class most frequent in " +
		"training would be right in 60.50 %. Balanced accuracy 88.80 %, macro F1 0.8765, cross-entropy 0.3 nats, " +
		"expected " +
		"calibration error 0.02.", "hippo fit 'dir/my data.csv'", "true \\ predicted a b< a 30 10 b< 0 0 right " +
		"balanced macro F1 cross-entropy majority 60.50 % 88.80 % 0.8765 0.3 Most wrong sequence row true predicted " +
		"probability w1 a b< 0.988 w2 17 b< a 0.500"} {
		if !strings.Contains(got, want) {
			t.Errorf("found\n%s\nwant in it\n%s", got, want)
		}
	}
	for n, want := range map[int]bool{mostShownClasses: true, mostShownClasses + 1: false} {
		var b strings.Builder
		many := newClassScore(make([]string, n))
		if err := reportPage.Execute(&b, page{Result: &Result{Plan: classPlan(), Classes: many}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "true \\ predicted"); got != want {
			t.Errorf("the confusion of %d classes is shown: %v", n, got)
		}
	}
}
