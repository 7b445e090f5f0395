package fit_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/fit"
)

// trend returns a straight line with a weekly pattern, which exponential smoothing continues and a network trained for
// one epoch does not.
func trend(rows int) string {
	rng := rand.New(rand.NewPCG(11, 12))
	var b strings.Builder
	b.WriteString("day,x\n")
	for d := range rows {
		x := 2000 + 10*float64(d) + 200*math.Sin(2*math.Pi*float64(d)/7) + 5*rng.NormFloat64()
		fmt.Fprintf(&b, "%s,%.3f\n", time.Date(2020, 1, 1+d, 0, 0, 0, 0, time.UTC).Format("2006-01-02"), x)
	}
	return b.String()
}

// quantilesOf returns the quantiles of the first target that a model predicts for a file.
func quantilesOf(t *testing.T, m *fit.Model, path string, live bool) (all [][]float64) {
	t.Helper()
	err := m.Predict(context.Background(), []string{path}, nil, fit.PredictOptions{Options: fit.DefaultReadOptions(),
		Live: live}, func(p *fit.Prediction) error {
		if p.Quantiles != nil {
			all = append(all, p.Quantiles[0])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBestPredicts checks that a baseline predicts if the network is worse on the validation set: after loading, row by
// row and in a server, with quantiles in order. The report says so, and every other contender can be used by name.
func TestBestPredicts(t *testing.T) {
	path := write(t, "trend.csv", trend(200))
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Task, c.Target, c.Horizon, c.Lookback, c.Season = fit.Forecast, []string{"x"}, 7, 14, 7
		c.Epochs, c.Base = 1, "last"
	}))
	if use := res.Plan.Use; use == "network" || use == "" || res.Errors[0].MAE < 3*res.Errors[3].MAE {
		t.Fatalf("predict uses %q, the errors are %+v", use, res.Errors)
	}
	var out strings.Builder
	if err := res.Print(&out); err != nil || !strings.Contains(out.String(), "prediction uses ") {
		t.Errorf("found %s, %v", out.String(), err)
	}
	m, err := fit.Open(res.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	best := quantilesOf(t, m, path, false)
	for h, q := range best {
		want := 2000 + 10*float64(200+h) + 200*math.Sin(2*math.Pi*float64(200+h)/7)
		if !slices.IsSorted(q) || math.Abs(q[4]-want) > 60 || q[0] == q[8] {
			t.Errorf("step %d: found %v, want about %g", h+1, q, want)
		}
	}
	if live := quantilesOf(t, m, path, true); fmt.Sprint(live[len(live)-7:]) != fmt.Sprint(best) {
		t.Errorf("row by row: found %v, want %v", live[len(live)-7:], best)
	}
	var answer bytes.Buffer
	err = m.Answer(context.Background(), fit.Query{Rows: strings.NewReader(trend(200)), Format: "csv", As: fit.AsCSV,
		Out: &answer})
	if median := fmt.Sprintf(",%.7g,", best[0][4]); err != nil || !strings.Contains(answer.String(), median) {
		t.Errorf("a server's answer: found %s, %v, want the median %s", answer.String(), err, median)
	}
	seen := map[string]bool{}
	for _, c := range res.Plan.Contenders {
		other, err := m.Use(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(quantilesOf(t, other, path, false))] = true
	}
	if len(seen) != len(res.Plan.Contenders) || len(seen) != 6 || !seen[fmt.Sprint(best)] {
		t.Errorf("found %d forecasts of %d contenders, want 6", len(seen), len(res.Plan.Contenders))
	}
	_, err = m.Use("etss")
	if err == nil || !strings.Contains(err.Error(), `use: found "etss", want best or one of network, last, seasonal`) {
		t.Errorf("found %v", err)
	}
}

// TestUseIsAsAsked checks that the requested contender predicts, and that a name that does not suit the data is an
// error before training.
func TestUseIsAsAsked(t *testing.T) {
	path := write(t, "trend.csv", trend(120))
	change := func(use string) fit.Config {
		return small(t, path, func(c *fit.Config) {
			c.Task, c.Target, c.Horizon, c.Lookback, c.Season, c.Epochs = fit.Forecast, []string{"x"}, 4, 8, 0, 1
			c.Use, c.Ignore = use, []string{"day"}
		})
	}
	if res := run(t, change("last")); res.Plan.Use != "last" || !strings.Contains(res.Choice, "as asked for") {
		t.Errorf("found %q, %q", res.Plan.Use, res.Choice)
	}
	_, err := fit.Run(context.Background(), change("majority"), nil, fit.Events{})
	if err == nil || !strings.Contains(err.Error(), `use: found "majority", want best or one of network, last`) {
		t.Errorf("found %v", err)
	}
}

// TestMajorityPredicts checks that the frequencies of the classes replace a classifier that is worse.
func TestMajorityPredicts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	var b strings.Builder
	b.WriteString("x,state\n")
	for range 400 {
		fmt.Fprintf(&b, "%.3f,%s\n", rng.NormFloat64(), []string{"on", "off", "off", "off", "off"}[rng.IntN(5)])
	}
	path := write(t, "noise.csv", b.String())
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Length, c.Epochs, c.Optim.LR = []string{"state"}, 20, 1, 1e-9
	}))
	all, _ := predict(t, res.Config.Out, path, false)
	live, _ := predict(t, res.Config.Out, path, true)
	for i := range all {
		if res.Plan.Use != "majority" || fmt.Sprint(all[i].Probabilities) != fmt.Sprint(all[0].Probabilities) ||
			fmt.Sprint(all[i].Probabilities) != fmt.Sprint(live[i].Probabilities) {
			t.Fatalf("predict uses %s; row %d: found %v, first %v, row by row %v", res.Plan.Use, i,
				all[i].Probabilities, all[0].Probabilities, live[i].Probabilities)
		}
	}
	if len(res.Rivals) == 0 || res.Rivals[0].Loss >= res.Classes.Loss {
		t.Errorf("found %+v beside %+v", res.Rivals, res.Classes)
	}
}
