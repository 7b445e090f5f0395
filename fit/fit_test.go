package fit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/train"
)

// write writes a file for a test.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// small returns settings of a network that learns within a second.
func small(t testing.TB, data string, change func(c *fit.Config)) fit.Config {
	c := fit.DefaultConfig()
	c.Data, c.Out = []string{data}, filepath.Join(t.TempDir(), "run")
	c.Model.Layers, c.Model.DModel, c.Model.DState, c.Model.ResidDropout = "s4d*1", 16, 8, 0
	c.Epochs, c.BatchSize, c.Optim.LR = 20, 8, 1e-2
	change(&c)
	return c
}

func run(t testing.TB, c fit.Config) *fit.Result {
	t.Helper()
	res, err := fit.Run(context.Background(), c, nil, fit.Events{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// predict returns all predictions of the network in a folder for a file, and the notes.
func predict(t testing.TB, dir, path string, live bool) (all []fit.Prediction, told string) {
	t.Helper()
	m, err := fit.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	opt := fit.PredictOptions{Options: fit.DefaultReadOptions(), Live: live, Note: func(text string) {
		told += text + "\n"
	}}
	err = m.Predict(context.Background(), []string{path}, nil, opt, func(p *fit.Prediction) error {
		all = append(all, *p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, told
}

// patients returns sequences of two classes, slow and quick waves, with several sequences per patient.
func patients() string {
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("visit,patient,pulse,kind,outcome\n")
	for visit := range 60 {
		class, period := "slow", 16.0
		if visit%2 == 1 {
			class, period = "quick", 6.0
		}
		for i := range 20 + visit%7 {
			x := 70 + 10*math.Sin(2*math.Pi*(float64(i)/period+rng.Float64()*0.02)) + rng.NormFloat64()
			fmt.Fprintf(&b, "v%d,p%d,%.2f,%s,%s\n", visit, visit/2, x, []string{"a", "b"}[rng.IntN(2)], class)
		}
	}
	return b.String()
}

// TestClassify checks that the class of each sequence is learnt and predicted, that no group is in two parts, and that
// predictions use the classes, scale and columns of training.
func TestClassify(t *testing.T) {
	path := write(t, "visits.csv", patients())
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Series, c.Group = []string{"outcome"}, "visit", "patient"
	}))
	if res.Task != fit.Classify || res.Classes.Accuracy < 90 || res.Series != 60 {
		t.Errorf("found %s of %d series, %+v", res.Task, res.Series, res.Classes)
	}
	if !strings.Contains(res.Divided, "30 groups") {
		t.Errorf("the data was divided %s", res.Divided)
	}
	all, told := predict(t, res.Config.Out, path, false)
	right := 0
	names := res.Plan.ClassNames()
	for i, p := range all {
		class, _ := p.Class()
		if p.Series != fmt.Sprintf("v%d", i) {
			t.Fatalf("prediction %d is of %s", i, p.Series)
		}
		if names[class] == []string{"slow", "quick"}[i%2] {
			right++
		}
	}
	if len(all) != 60 || right < 54 || told != "" {
		t.Errorf("found %d of %d right, told %q", right, len(all), told)
	}
	// no target, a new category, a number out of range, and no column patient
	_, told = predict(t, res.Config.Out, write(t, "new.csv", "visit,pulse,kind\nx,900,a\nx,71,never\n"), false)
	for _, want := range []string{"found 900, far from", `"never", which training did not have`} {
		if !strings.Contains(told, want) {
			t.Errorf("found %q told, want %q", told, want)
		}
	}
}

// sensor returns a signal that follows an input, row by row, with gaps. Its state is whether it is above a limit.
func sensor(rows int) string {
	rng := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	b.WriteString("timestamp;Last;Wert;zustand\n")
	x, y := 0.0, 20.0
	for i := range rows {
		x = 0.9*x + rng.NormFloat64()
		y += 0.3 * (20 + 2*x - y)
		state := "ok"
		if y > 20 {
			state = "warm"
		}
		load := strings.Replace(fmt.Sprintf("%.3f", x), ".", ",", 1)
		if i%97 == 5 {
			load = ""
		}
		fmt.Fprintf(&b, "%02d.01.2026 %02d:%02d:%02d;%s;%s;%s\n", 1+i/8640, i/360%24, i/6%60, i%6*10, load,
			strings.Replace(fmt.Sprintf("%.3f", y), ".", ",", 1), state)
	}
	return b.String()
}

// TestSteps checks that a class and a number at each row are learnt from a table with decimal commas, and that
// predictions row by row from a pipe are those of all rows at once.
func TestSteps(t *testing.T) {
	path := write(t, "sensor.csv", sensor(1500))
	state := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Ignore, c.Length = []string{"zustand"}, []string{"Wert"}, 50
	}))
	if state.Task != fit.Steps || state.Classes.Accuracy < 85 || state.Plan.Step != 10 {
		t.Errorf("found %s, %+v, a step of %g", state.Task, state.Classes, state.Plan.Step)
	}
	value := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Ignore, c.Length = []string{"Wert"}, []string{"zustand"}, 50
	}))
	network, mean := value.Errors[0], value.Errors[1]
	if value.Task != fit.Steps || network.MAE > 0.5*mean.MAE || network.CRPS > 0.5*mean.CRPS {
		t.Errorf("found %s, %+v, %+v", value.Task, network, mean)
	}
	all, _ := predict(t, value.Config.Out, path, false)
	live, _ := predict(t, value.Config.Out, path, true)
	if len(all) != 1500 || len(live) != len(all) {
		t.Fatalf("found %d and %d predictions", len(all), len(live))
	}
	for i := range all {
		for j, q := range all[i].Quantiles[0] {
			if math.Abs(q-live[i].Quantiles[0][j]) > 1e-3 || j > 0 && q < all[i].Quantiles[0][j-1] {
				t.Fatalf("row %d: found the quantiles %v at once, %v row by row", i, all[i].Quantiles,
					live[i].Quantiles)
			}
		}
	}
	// rows that are ten times as far apart
	slow := "timestamp;Last\n01.01.2026 00:00:00;1,5\n01.01.2026 00:01:40;1\n01.01.2026 00:03:20;0\n"
	if _, told := predict(t, value.Config.Out, write(t, "slow.csv", slow), false); !strings.Contains(told, "100 "+
		"seconds apart, 10 "+
		"in training") {
		t.Errorf("found %q told", told)
	}
}

// sales returns two daily series with interleaved rows, one ten times the other, with the weekday and a price that is
// known in advance.
func sales(days int) string {
	rng := rand.New(rand.NewPCG(5, 6))
	var b strings.Builder
	b.WriteString("day,shop,price,sold\n")
	for d := range days {
		for shop, size := range []float64{10, 100} {
			price := 1 + 0.5*float64(rng.IntN(2))
			x := size * (1 + 0.5*math.Sin(2*math.Pi*float64(d)/7)) * (2 - price) * (1 + 0.02*rng.NormFloat64())
			fmt.Fprintf(&b, "%s,shop %d,%g,%.3f\n", date(d), shop, price, x)
		}
	}
	return b.String()
}

func date(d int) string { return fmt.Sprintf("%04d-%02d-%02d", 2020+d/336, 1+d%336/28, 1+d%28) }

// TestForecast checks that one network forecasts two series better than the repeated season, that intervals reach their
// coverage, that known future values are used, and that the forecast begins after the last row with a value.
func TestForecast(t *testing.T) {
	path := write(t, "sales.csv", sales(330))
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Task, c.Target, c.Series, c.Known = fit.Forecast, []string{"sold"}, "shop", []string{"price"}
		c.Horizon, c.Lookback, c.Season, c.Epochs, c.BatchSize = 7, 21, 7, 15, 16
	}))
	var names []string
	for _, e := range res.Errors {
		names = append(names, e.Name)
	}
	network, seasonal := res.Errors[0], res.Errors[2]
	if !strings.HasPrefix(strings.Join(names, ", "), "network, last value repeated, seasonal-naive (7 rows), linear") ||
		network.MAE > 0.6*seasonal.MAE || network.CRPS > 0.6*seasonal.CRPS || len(network.Steps) != 7 {
		t.Errorf("found %+v", res.Errors)
	}
	if network.Coverage < 65 || network.Coverage > 93 {
		t.Errorf("found %.1f %% of the truths in the %.0f %% interval", network.Coverage, network.Nominal)
	}
	future := sales(330)
	for _, shop := range []string{"shop 0", "shop 1"} {
		for d := 330; d < 337; d++ {
			future += fmt.Sprintf("%s,%s,%g,\n", date(d), shop, 1+0.5*float64(d%2))
		}
	}
	all, told := predict(t, res.Config.Out, write(t, "future.csv", future), false)
	if len(all) != 14 || all[0].Series != "shop 0" || all[7].Series != "shop 1" || all[7].Step != 1 || told != "" {
		t.Fatalf("found %d forecasts, told %q", len(all), told)
	}
	for i, p := range all {
		d, size := 330+i%7, []float64{10, 100}[i/7]
		want := size * (1 + 0.5*math.Sin(2*math.Pi*float64(d)/7)) * (1 - 0.5*float64(d%2))
		if got := p.Quantiles[0][4]; math.Abs(got-want) > 0.4*size {
			t.Errorf("%s, day %d: found %.3g, want about %.3g", p.Series, d, got, want)
		}
	}
}

// spikes returns a wave with a few outliers.
func spikes(rows int, at ...int) string {
	rng := rand.New(rand.NewPCG(7, 8))
	var b strings.Builder
	b.WriteString("x\n")
	for i := range rows {
		x := math.Sin(float64(i)/3) + 0.05*rng.NormFloat64()
		for _, a := range at {
			if i == a {
				x += 3
			}
		}
		fmt.Fprintf(&b, "%.4f\n", x)
	}
	return b.String()
}

// TestAnomaly checks that outliers have the highest scores and that ordinary rows give no alarm.
func TestAnomaly(t *testing.T) {
	res := run(t, small(t, write(t, "wave.csv", spikes(1500)), func(c *fit.Config) {
		c.Task, c.Length = fit.Anomaly, 64
	}))
	if res.Errors[0].MAE > 0.5*res.Errors[1].MAE {
		t.Errorf("found %+v, want errors below those of repeating the last value", res.Errors)
	}
	report, err := os.ReadFile(filepath.Join(res.Config.Out, fit.ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	const wave = "; the data repeats after 19 rows" // sin(i/3)
	if s := res.Scales; s == nil || !strings.Contains(s.Summary, wave) || !strings.Contains(string(report), s.Summary) {
		t.Errorf("found the time scales %+v, want one of them, %q, in the report, too", s, wave)
	}
	all, _ := predict(t, res.Config.Out, write(t, "new.csv", spikes(300, 200)), true)
	alarms := 0
	for i, p := range all {
		if p.Unusual && i > 20 {
			alarms++
		}
	}
	if !all[200].Unusual || alarms > 6 || !math.IsNaN(all[0].Score) {
		t.Errorf("found the score %g at the row that is off, %d alarms", all[200].Score, alarms)
	}
}

// TestFill checks that missing values are filled in from both sides, better than by the mean.
func TestFill(t *testing.T) {
	c := small(t, write(t, "wave.csv", spikes(1500)), func(c *fit.Config) {
		c.Task, c.Length, c.Model.Layers = fit.Fill, 64, "s4d(bidirectional=true)*2"
	})
	res := run(t, c)
	if res.Errors[0].MAE > 0.6*res.Errors[1].MAE {
		t.Errorf("found %+v", res.Errors)
	}
	holes := strings.Split(spikes(200), "\n")
	truth := make([]string, len(holes))
	copy(truth, holes)
	for i := 100; i < 104; i++ {
		holes[i+1] = "NA"
	}
	all, _ := predict(t, res.Config.Out, write(t, "holes.csv", strings.Join(holes, "\n")), false)
	for i := 100; i < 104; i++ {
		var want float64
		fmt.Sscan(truth[i+1], &want)
		if got := all[i].Quantiles[0][4]; !math.IsNaN(all[i].Given[0]) || math.Abs(got-want) > 0.5 {
			t.Errorf("row %d: found %g, want about %g", i, got, want)
		}
	}
}

// TestProblems checks that data that cannot be learnt is an error with the reason.
func TestProblems(t *testing.T) {
	rows := func(head string, n int, row func(i int) string) string {
		var b strings.Builder
		b.WriteString(head + "\n")
		for i := range n {
			b.WriteString(row(i) + "\n")
		}
		return b.String()
	}
	two := func(n int, second string) string {
		return rows("a,b", n, func(i int) string { return fmt.Sprintf("%d,%s", i*i, second) })
	}
	for name, c := range map[string]struct {
		text   string
		change func(c *fit.Config)
		want   string
	}{
		"no such target": {two(50, "1"), func(c *fit.Config) { c.Target = []string{"c"} },
			`target: found "c", want one of the columns a, b`},
		"no header": {strings.TrimPrefix(two(50, "1"), "a,b\n"), func(c *fit.Config) { c.Target = []string{"b"} },
			"want one of the columns column1, column2; these names are made up, as no line names the columns"},
		"one class": {two(50, "x"), func(c *fit.Config) { c.Target = []string{"b"} },
			`column b: found one class only, "x" in 50 rows, want two or more`},
		"short": {two(30, "1"), func(c *fit.Config) {
			c.Task, c.Target, c.Horizon, c.Lookback = fit.Forecast,
				[]string{"a"}, 24, 48
		},
			"found 30 rows in the longest series"},
		"short part": {two(110, "1"), func(c *fit.Config) {
			c.Task, c.Target, c.Horizon, c.Lookback = fit.Forecast,
				[]string{"a"}, 24, 48
		},
			"the validation part: found"},
		"constant": {two(80, "7"), func(c *fit.Config) {
			c.Task, c.Target = fit.Steps,
				[]string{"b"}
			c.Task = fit.Next
		},
			"column b: found the value 7 in all rows"},
		"one time twice": {rows("time,x", 60, func(i int) string { return fmt.Sprintf("%d,%d", 1000+max(i, 2), i) }),
			func(c *fit.Config) { c.Task = fit.Next }, "x.csv, line 3, column time: found the time of line 2 once " +
				"more"},
		"times go back": {rows("time,x", 60, func(i int) string { return fmt.Sprintf("%d,%d", 1000-i, i) }),
			func(c *fit.Config) { c.Task = fit.Next }, "found a time before that of line 2"},
		"text target": {two(60, "x"), func(c *fit.Config) { c.Task, c.Target = fit.Forecast, []string{"b"} },
			"whose values are texts"},
		"few groups": {rows("g,x,y", 60, func(i int) string { return fmt.Sprintf("%d,%d,%d", i%2, i, i%2) }),
			func(c *fit.Config) { c.Target, c.Group = []string{"y"}, "g" }, "found 2 groups (values of g), want 3 or " +
				"more"},
		"split":   {two(60, "1"), func(c *fit.Config) { c.Split = "0.5,0.6,0.1" }, "split: found"},
		"nothing": {"a,b\n", func(*fit.Config) {}, "found no rows"},
		"overflow": {two(60, "1e300"), func(c *fit.Config) { c.Task, c.Target = fit.Next, []string{"a", "b"} },
			"column b"},
	} {
		_, err := fit.Run(context.Background(), small(t, write(t, "x.csv", c.text), c.change), nil, fit.Events{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %q", name, err, c.want)
		}
	}
}

// TestGoesOn checks that an interrupted run ends with the same result as an uninterrupted one.
func TestGoesOn(t *testing.T) {
	path := write(t, "wave.csv", spikes(600))
	change := func(c *fit.Config) { c.Task, c.Length, c.Epochs = fit.Next, 64, 4 }
	whole := run(t, small(t, path, change))
	c := small(t, path, change)
	ctx, cancel := context.WithCancel(context.Background())
	steps := 0
	_, err := fit.Run(ctx, c, nil, fit.Events{Step: func(train.Progress) {
		if steps++; steps == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, fit.ErrInterrupted) {
		t.Fatalf("found %v", err)
	}
	res := run(t, c)
	if res.Errors[0].MAE != whole.Errors[0].MAE || res.Steps != whole.Steps {
		t.Errorf("found %+v after %d updates, want %+v after %d", res.Errors[0], res.Steps, whole.Errors[0],
			whole.Steps)
	}
	if again := run(t, c); again.Date != res.Date {
		t.Error("a run that had ended was made again")
	}
}

// TestBrokenWeights checks that a network that gives NaN is reported and makes no prediction.
func TestBrokenWeights(t *testing.T) {
	path := write(t, "wave.csv", spikes(300))
	res := run(t, small(t, path, func(c *fit.Config) { c.Task, c.Length, c.Epochs = fit.Next, 32, 1 }))
	m, err := fit.Open(res.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	m.Net().Params("", func(_ string, p *nn.Param) {
		x := make([]float32, p.Len())
		for i := range x {
			x[i] = float32(math.NaN())
		}
		p.CopyFrom(x)
		p.Changed()
	})
	err = m.Predict(context.Background(), []string{path}, nil, fit.PredictOptions{Options: fit.DefaultReadOptions()},
		func(*fit.Prediction) error {
			t.Error("found a prediction")
			return nil
		})
	if err == nil || !strings.Contains(err.Error(), "the network returns NaN") {
		t.Errorf("found %v", err)
	}
}
