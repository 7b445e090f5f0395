package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// TestReportOfForecasts checks that a report shows the curve and forecasts beside the truth, and no accuracy where
// numbers are predicted.
func TestReportOfForecasts(t *testing.T) {
	dir := t.TempDir()
	one := Forecast{
		Series: "oil temperature", Unit: "degrees", Step: "hours", Known: []float32{1, 2}, Truth: []float32{3, 4,
			5}, Forecast: []float32{3, 3, 3},
	}
	r := &Result{
		Task: "etth1", Recipe: "s4", Numbers: true, Test: train.Score{Loss: .0123456789, MAE: .1,
			Count: 3}, Config: Config{Config: labelled.Config{Out: dir}},
		Curve:     []train.Point{{Epoch: 1, TrainLoss: .5, Valid: train.Score{Loss: .6}}},
		Forecasts: []Forecast{one, one},
		Changed:   []string{"horizon: 24 -> 3"},
	}
	if err := r.WriteReport(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"MSE 0.0123457, MAE 0.100000, of 3", "| published | nothing for these settings: horizon: 24 -> 3 |",
		"![curve.png](curve.png)", "![forecast-1.png](forecast-1.png)", "![forecast-2.png](forecast-2.png)",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("found no %q in the report:\n%s", want, text)
		}
	}
	for name, want := range map[string]bool{"curve.png": true, "forecast-1.png": true, "forecast-2.png": true,
		"score.png": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
}

// TestForecastChart checks that known and true values form one line, from which the forecast departs after the last
// known step.
func TestForecastChart(t *testing.T) {
	c := forecastChart(Forecast{Known: []float32{1, 2}, Truth: []float32{3, 4}, Forecast: []float32{5,
		6}, Step: "hours"}, "")
	for i, want := range []struct {
		name string
		x, y [4]float64
		n    int
	}{{"truth", [4]float64{-2, -1, 0, 1}, [4]float64{1, 2, 3, 4}, 4}, {"forecast", [4]float64{-1, 0, 1},
		[4]float64{2, 5, 6}, 3}} {
		var x, y [4]float64
		l := c.Lines[i]
		copy(x[:], l.X)
		copy(y[:], l.Y)
		if l.Name != want.name || len(l.X) != want.n || len(l.Y) != want.n || x != want.x || y != want.y {
			t.Errorf("found the line %+v, want %s with %v at %v", l, want.name, want.y[:want.n], want.x[:want.n])
		}
	}
}

// TestScoresShowWhatTheyAreComparedBy checks that one more correct target, or a slightly smaller loss, changes the
// text.
func TestScoresShowWhatTheyAreComparedBy(t *testing.T) {
	for _, of := range []int{3, 500, 10_000, 123_457, 5_000_000} {
		a, b := status.Percent(100*float64(of-1)/float64(of), of), status.Percent(100, of)
		if a == b {
			t.Errorf("all but one of %d and all of them: found %s twice", of, a)
		}
	}
	if got := status.Percent(99.5, 500); got != "99.50 %" {
		t.Errorf("found %s, want no more decimals than targets ask for", got)
	}
	if a, b := ErrorText(.0397123), ErrorText(.0397129); a == b {
		t.Errorf("found %s twice", a)
	}
}
