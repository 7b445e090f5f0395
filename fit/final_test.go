package fit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/testkit/series"
)

// TestFewMonths uses twelve years of monthly data whose season grows with a trend. It checks that a small network
// forecasts the logarithm from enough windows, that the final predictor is about as good as the best baseline, and that
// --log off switches the logarithm off.
func TestFewMonths(t *testing.T) {
	path := write(t, "airline.csv", series.All(1)[0].Table)
	change := func(log string) func(c *fit.Config) {
		return func(c *fit.Config) {
			*c = fit.DefaultConfig()
			c.Data, c.Out = []string{path}, t.TempDir()+"/run"
			c.Task, c.Target, c.Horizon, c.Split, c.Log, c.Final = fit.Forecast, []string{"y"}, 12, "auto", log, "train"
		}
	}
	res := run(t, small(t, path, change("auto")))
	least, uses := math.Inf(1), math.NaN()
	for i, c := range res.Plan.Contenders {
		if c.Name != "network" {
			least = min(least, res.Errors[i].MAE)
		}
		if c.Name == res.Plan.Use {
			uses = res.Errors[i].MAE
		}
	}
	if seasonal := res.Errors[2].MAE; !(uses < 1.3*least && uses < 0.5*seasonal && res.Errors[0].MAE < 0.5*seasonal) {
		t.Errorf("%s predicts, of the errors %+v", res.Plan.Use, res.Errors)
	}
	if res.Model != "s4d*1" || res.Params > 4000 || res.Windows[0] < 40 || res.Windows[1] < 13 {
		t.Errorf("found %s of %d parameters and %v windows, want few parameters and enough windows", res.Model,
			res.Params, res.Windows)
	}
	told := func(r *fit.Result) bool {
		return strings.Contains(strings.Join(r.Notes, "\n"), "by its logarithm")
	}
	level := res.Forecasts[0].Known[0]
	if !res.Plan.Columns[0].Log || !told(res) || level < 80 || level > 800 || !(res.Errors[0].MSE < 2) {
		t.Errorf("found %+v, the notes %q, a first value of %g", res.Plan.Columns[0], res.Notes, level)
	}
	all, _ := predict(t, res.Config.Out, path, false)
	if q := all[0].Quantiles[0]; !slices.IsSorted(q) || q[0] < 300 || q[8] > 900 {
		t.Errorf("the next month: found %v", q)
	}
	_, note := predict(t, res.Config.Out, write(t, "minus.csv", series.All(1)[0].Table+"1961-01-01,-5\n"), false)
	if !strings.Contains(note, "found -5, but training had positive numbers only") {
		t.Errorf("of a number without a logarithm: found %q", note)
	}
	off := run(t, small(t, path, func(c *fit.Config) { change("off")(c); c.Epochs = 1 }))
	if off.Plan.Columns[0].Log || told(off) {
		t.Errorf("found %+v, %q", off.Plan.Columns[0], off.Notes)
	}
}

// TestLogStays checks that numbers and not logarithms are forecast for series whose noise does not grow with their
// level, and that rows are unchanged.
func TestLogStays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("y,z\n")
	for i := range 400 {
		fmt.Fprintf(&b, "%.3f,%d\n", 12+5*math.Sin(2*math.Pi*float64(i)/9)+rng.NormFloat64(), i%3)
	}
	res := run(t, small(t, write(t, "wave.csv", b.String()), func(c *fit.Config) {
		c.Task, c.Target, c.Horizon, c.Epochs, c.Final = fit.Forecast, []string{"y"}, 5, 1, "train"
	}))
	if c := res.Plan.Columns[0]; c.Log || c.Low < 2 || c.High > 22 {
		t.Errorf("found %+v", c)
	}
	if res.Plan.Season != 9 { // found in rows without times
		t.Errorf("found a season of %d rows, want 9", res.Plan.Season)
	}
}

// TestFinalFit checks that after measuring, the predictor is fitted to all rows: it continues a series whose pattern
// changes in the test set. The measurements stay the same, an interrupted run ends the same, and --final train omits
// this fit.
func TestFinalFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	value := func(i int) float64 {
		if i > 180 {
			return 3 * math.Sin(2*math.Pi*float64(i)/5)
		}
		return math.Sin(2 * math.Pi * float64(i) / 8)
	}
	var b strings.Builder
	b.WriteString("x\n")
	for i := range 300 {
		fmt.Fprintf(&b, "%.4f\n", value(i)+0.05*rng.NormFloat64())
	}
	path := write(t, "x.csv", b.String())
	for _, use := range []string{"network", "linear"} {
		config := func(final string) fit.Config {
			return small(t, path, func(c *fit.Config) {
				c.Task, c.Target, c.Horizon, c.Lookback, c.Epochs = fit.Forecast, []string{"x"}, 5, 10, 4
				c.Split, c.Season, c.Use, c.Final = "0.55,0.1,0.35", 1, use, final
			})
		}
		off := map[string]float64{}
		text := map[string]string{}
		for _, final := range []string{"train", "all"} {
			res := run(t, config(final))
			text[final] = fmt.Sprint(res.Errors)
			all, _ := predict(t, res.Config.Out, path, false)
			for h, p := range all {
				off[final] += math.Abs(p.Quantiles[0][4] - value(300+h))
			}
			if told := strings.Contains(res.Final, "once more on all rows"); told != (final == "all") {
				t.Errorf("%s, %s: found %q", use, final, res.Final)
			}
			m, err := fit.Open(res.Config.Out)
			if err != nil || m.Plan().Final != (final == "all" && use == "network") {
				t.Errorf("%s, %s: found %v, %v", use, final, m, err)
			}
		}
		if off["all"] > 0.6*off["train"] || text["all"] != text["train"] {
			t.Errorf("%s is off by %v; measured %s, without the final fit %s", use, off, text["all"], text["train"])
		}
		if use == "linear" {
			continue
		}
		c := config("all")
		ctx, cancel := context.WithCancel(context.Background())
		_, err := fit.Run(ctx, c, nil, fit.Events{Note: func(note string) {
			if strings.HasPrefix(note, "final fit") {
				cancel()
			}
		}})
		if !errors.Is(err, fit.ErrInterrupted) {
			t.Fatalf("found %v", err)
		}
		if res := run(t, c); fmt.Sprint(res.Errors) != text["all"] {
			t.Errorf("interrupted: measured %+v, want %s", res.Errors, text["all"])
		}
		sum := 0.0
		all, _ := predict(t, c.Out, path, false)
		for h, p := range all {
			sum += math.Abs(p.Quantiles[0][4] - value(300+h))
		}
		if math.Abs(sum-off["all"]) > 1e-6 {
			t.Errorf("interrupted: off by %g, want %g", sum, off["all"])
		}
	}
}

// TestFewErrors checks that the intervals of a baseline with few errors are symmetric.
func TestFewErrors(t *testing.T) {
	path := write(t, "airline.csv", series.All(2)[0].Table)
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Task, c.Target, c.Horizon, c.Lookback, c.Epochs, c.Split = fit.Forecast, []string{"y"}, 12, 24, 1, "auto"
		c.Log, c.Use, c.Final = "off", "seasonal", "train"
	}))
	all, _ := predict(t, res.Config.Out, path, false)
	for _, p := range all {
		q := p.Quantiles[0]
		if below, above := q[4]-q[0], q[8]-q[4]; below <= 0 || math.Abs(below-above) > 0.25*below {
			t.Errorf("step %d: found %v", p.Step, q)
		}
	}
}
