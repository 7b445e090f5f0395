package fit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/fit"
)

// answer returns a model's answer to a query, and its error.
func answer(m *fit.Model, q fit.Query, rows string) (string, error) {
	var out bytes.Buffer
	q.Rows, q.Out = strings.NewReader(rows), &out
	err := m.Answer(context.Background(), q)
	return out.String(), err
}

// printed returns the output of hippo predict.
func printed(t testing.TB, m *fit.Model, path string, o fit.WriteOptions) string {
	t.Helper()
	var out bytes.Buffer
	w := fit.NewWriter(&out, m.Plan(), o)
	opt := fit.PredictOptions{Options: fit.DefaultReadOptions(), Live: o.Live}
	if err := m.Predict(context.Background(), []string{path}, nil, opt, w.Write); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAnswer checks that the answer to a query has the same bytes as the output of hippo predict, for any number of
// concurrent goroutines, some of them with rows at another rate. Errors contain the row and column.
func TestAnswer(t *testing.T) {
	path := write(t, "sensor.csv", sensor(800))
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Target, c.Ignore, c.Length, c.Epochs = []string{"Wert"}, []string{"zustand"}, 50, 2
	}))
	m, err := fit.Open(res.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	slow := "timestamp;Last\n01.01.2026 00:00:00;1,5\n01.01.2026 00:01:40;1\n01.01.2026 00:03:20;0\n"
	slowPath := write(t, "slow.csv", slow)
	queries := []struct {
		q    fit.Query
		rows string
		want string
	}{
		{fit.Query{Format: "csv", As: "csv"}, sensor(800), printed(t, m, path, fit.WriteOptions{As: "csv"})},
		{fit.Query{Format: "csv", As: "jsonl", Live: true}, sensor(800),
			printed(t, m, path, fit.WriteOptions{As: "jsonl", Live: true})},
		{fit.Query{Format: "csv", As: "jsonl", All: true}, slow,
			printed(t, m, slowPath, fit.WriteOptions{As: "jsonl", All: true})},
	}
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			q := queries[n%len(queries)]
			if got, err := answer(m, q.q, q.rows); err != nil || got != q.want {
				t.Errorf("query %d: found %d bytes, want %d, the same: %v", n, len(got), len(q.want), err)
			}
		})
	}
	all.Wait()
	rows := 0
	row := `{"timestamp":"01.01.2026 00:00:00","Last":"1"}` + "\n"
	if _, err := answer(m, fit.Query{Format: "jsonl", As: "csv", Count: func() { rows++ }}, row+
		`{"timestamp":"01.01.2026 00:00:10","Last":"1","Wert":3}`); err != nil || rows != 2 {
		t.Errorf("found %d rows, %v", rows, err)
	}
	for _, c := range []struct {
		q      fit.Query
		rows   string
		want   string
		at     int64
		column string
	}{
		{fit.Query{Format: "jsonl"}, row + `{"timestamp":"01.01.2026 00:00:10","Last":"high"}`,
			`line 2, column Last: found "high", want a number`, 2, "Last"},
		{fit.Query{Format: "jsonl"}, `{"timestamp":"01.01.2026 00:00:10"}`, "found the columns timestamp", 0, ""},
		{fit.Query{Format: "jsonl"}, "[1]\n", "want a JSON object", 1, ""},
		{fit.Query{Format: "csv"}, "", "found", 0, ""},
		{fit.Query{Format: "png"}, "x", `format: found "png", want one of`, 0, ""},
		{fit.Query{Format: "jsonl", MostRows: 1}, row + strings.Replace(row, "00:00:00", "00:00:10", 1),
			"line 2: found more than 1 rows", 2, ""},
		{fit.Query{Format: "jsonl"}, strings.Replace(row, "00:00:00", "00:00:10", 1) + row,
			"line 2, column timestamp: found the time 2026-01-01T00:00:00Z", 2, "timestamp"},
	} {
		c.q.As = "jsonl"
		_, err := answer(m, c.q, c.rows)
		var bad *fit.InputError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || bad.At != c.at || bad.Column != c.column {
			t.Errorf("%.60q: found %v (%+v), want %q at %d, %q", c.rows, err, bad, c.want, c.at, c.column)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q := fit.Query{Format: "csv", As: "csv", Rows: strings.NewReader(slow), Out: &bytes.Buffer{}}
	if err := m.Answer(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

// TestLiveForecast checks that the forecast after each row of a pipe is, bit for bit, the forecast from all rows up to
// it, with the known values of future rows. A row whose time has passed is refused.
func TestLiveForecast(t *testing.T) {
	path := write(t, "sales.csv", sales(120))
	res := run(t, small(t, path, func(c *fit.Config) {
		c.Task, c.Target, c.Series, c.Known = fit.Forecast, []string{"sold"}, "shop", []string{"price"}
		c.Horizon, c.Lookback, c.Season, c.Epochs, c.BatchSize = 3, 7, 7, 1, 16
	}))
	lines := strings.Split(strings.TrimSpace(sales(30)), "\n")
	head, lines := lines[0], lines[1:]
	ahead := func(d int) string { return fmt.Sprintf("%s,shop 0,%g,", date(d), 1+0.5*float64(d%2)) }
	lines = append(lines, ahead(30), ahead(31), date(30)+",shop 0,1,7")
	live, _ := predict(t, res.Config.Out, write(t, "live.csv", head+"\n"+strings.Join(lines, "\n")+"\n"), true)
	if len(live) != 61*3 {
		t.Fatalf("found %d forecasts, want 3 behind each of 61 rows", len(live))
	}
	for _, n := range []int{2, 21, 60, 61} { // number of rows with a value so far
		rows := lines[:n]
		if n > 60 {
			rows = append(append([]string{}, lines[:60]...), lines[62], ahead(31))
		}
		all, _ := predict(t, res.Config.Out, write(t, "cut.csv", head+"\n"+strings.Join(rows, "\n")+"\n"), false)
		got := live[3*n-3 : 3*n]
		for _, want := range all {
			if want.Series == got[0].Series {
				g := got[want.Step-1]
				if fmt.Sprint(g.Quantiles, g.Time) != fmt.Sprint(want.Quantiles, want.Time) {
					t.Errorf("behind %d rows, step %d: found %v at %v, want %v at %v", n, want.Step, g.Quantiles,
						g.Time, want.Quantiles, want.Time)
				}
			}
		}
	}
	m, err := fit.Open(res.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	late := head + "\n" + date(5) + ",shop 0,1,7\n" + date(5) + ",shop 0,1,7\n"
	out, err := answer(m, fit.Query{Format: "csv", As: "csv", Live: true}, late)
	if err == nil || !strings.Contains(err.Error(), "line 3, column day: found the time") ||
		strings.Count(out, "\n") != 4 {
		t.Errorf("found %v and %q", err, out)
	}
	if !strings.HasPrefix(out, "series,line,time,step,sold 10%,sold,sold 90%\nshop 0,2,") {
		t.Errorf("found %q", out)
	}
}

// louder returns a wave whose noise is three times as large from a row on.
func louder(rows, from int) string {
	rng := rand.New(rand.NewPCG(13, 14))
	var b strings.Builder
	b.WriteString("x\n")
	for i := range rows {
		noise := 0.1
		if i >= from {
			noise = 0.3
		}
		fmt.Fprintf(&b, "%.4f\n", math.Sin(float64(i)/3)+noise*rng.NormFloat64())
	}
	return b.String()
}

// TestIntervalsFollow uses a series that becomes three times as noisy after the validation part. It checks that
// intervals calibrated by the last forecasts reach their coverage once they include such rows, and that other intervals
// do not. Row by row from a pipe they are, bit for bit, those of all rows at once. The median is the same in all cases.
func TestIntervalsFollow(t *testing.T) {
	text := louder(700, 560)
	path := write(t, "wave.csv", text)
	of := map[string]*fit.Result{}
	said := map[string][]fit.Prediction{}
	for _, kind := range []string{"recent", "valid", "learnt"} {
		of[kind] = run(t, small(t, path, func(c *fit.Config) {
			c.Task, c.Target, c.Intervals, c.Split = fit.Forecast, []string{"x"}, kind, "0.6,0.15,0.25"
			c.Horizon, c.Lookback, c.Season, c.Epochs, c.Scale = 3, 12, 1, 3, "series"
		}))
		said[kind], _ = predict(t, of[kind].Config.Out, path, false)
	}
	recent, valid := of["recent"].Errors[0], of["valid"].Errors[0]
	if recent.Coverage < valid.Coverage+10 || valid.MAE != recent.MAE || of["learnt"].Errors[0].MAE != recent.MAE {
		t.Errorf("found %.1f %% and %.1f %%, MAE %g and %g", recent.Coverage, valid.Coverage, recent.MAE, valid.MAE)
	}
	c := of["recent"].Calibration[0]
	if c.TestCalibrated != recent.Coverage || c.TestLearnt != of["learnt"].Errors[0].Coverage ||
		of["learnt"].Calibration != nil || c.Checked < 60 || c.Checked > 95 {
		t.Errorf("found %+v, %+v", c, of["learnt"].Calibration)
	}
	if of["valid"].Plan.Recent != 0 || of["learnt"].Plan.Widen != nil || of["recent"].Plan.Recent == 0 {
		t.Errorf("found plans of %d, %d and %v", of["recent"].Plan.Recent, of["valid"].Plan.Recent,
			of["learnt"].Plan.Widen)
	}
	for h := range 3 {
		now, before := said["recent"][h].Quantiles[0], said["valid"][h].Quantiles[0]
		if now[8]-now[0] < 1.5*(before[8]-before[0]) || now[4] != before[4] {
			t.Errorf("step %d: found %v, beside %v", h+1, now, before)
		}
	}
	lines := strings.SplitAfter(text, "\n")[:131]
	live, _ := predict(t, of["recent"].Config.Out, write(t, "live.csv", strings.Join(lines, "")), true)
	for _, n := range []int{60, 101, 110, 130} {
		all, _ := predict(t, of["recent"].Config.Out, write(t, "cut.csv", strings.Join(lines[:n+1], "")), false)
		for h, want := range all {
			if got := live[3*n-3+h]; fmt.Sprint(got.Quantiles) != fmt.Sprint(want.Quantiles) {
				t.Errorf("behind %d rows, step %d: found %v, want %v", n, h+1, got.Quantiles, want.Quantiles)
			}
		}
	}
}

// uneven returns a level at irregular times, which falls by half in 10 seconds and sometimes is raised by the input.
func uneven(rows int) string {
	rng := rand.New(rand.NewPCG(11, 12))
	var b strings.Builder
	b.WriteString("time,dose,level\n")
	at, level := 1.7e9, 0.0
	for range rows {
		gap := []float64{1, 2, 5, 20}[rng.IntN(4)]
		at += gap
		dose := 0.0
		if rng.IntN(4) == 0 {
			dose = 1 + rng.Float64()
		}
		for range int(gap) {
			level *= 0.933
		}
		level += dose
		fmt.Fprintf(&b, "%.0f,%.3f,%.4f\n", at, dose, level)
	}
	return b.String()
}

// TestDt checks that networks that can use the time between irregular rows do so, that the folder records it, and that
// predictions row by row from a pipe are those of all rows at once. Impossible settings are errors.
func TestDt(t *testing.T) {
	path := write(t, "uneven.csv", uneven(600))
	for _, c := range []struct{ layers, dt, want string }{
		{"mamba(d_state=4)*1", fit.DtSteps, fit.DtSteps}, {"mamba2(d_state=4,headdim=8)*1", fit.DtBoth, fit.DtBoth},
		{"s4d*1", "auto", fit.DtInput}, {"s4d*1", fit.DtSteps, fit.DtSteps}, {"h3*1", fit.DtBoth, fit.DtBoth},
		{"mamba(d_state=4)*1", fit.DtNone, fit.DtNone},
	} {
		res := run(t, small(t, path, func(f *fit.Config) {
			f.Target, f.Length, f.Epochs, f.Model.Layers, f.Dt = []string{"level"}, 40, 1, c.layers, c.dt
		}))
		if res.Plan.Dt != c.want || !res.Plan.Irregular || !strings.Contains(strings.Join(res.Notes, "\n"), "(--dt)") {
			t.Errorf("%s, --dt %s: found %q, want %q; told %q", c.layers, c.dt, res.Plan.Dt, c.want, res.Notes)
		}
		all, _ := predict(t, res.Config.Out, path, false)
		live, _ := predict(t, res.Config.Out, path, true)
		for i := range all {
			for j, q := range all[i].Quantiles[0] {
				if d := q - live[i].Quantiles[0][j]; d > 1e-3 || d < -1e-3 {
					t.Fatalf("%s, row %d: found %v at once, %v row by row", c.layers, i, all[i].Quantiles,
						live[i].Quantiles)
				}
			}
		}
	}
	for _, c := range []struct{ text, layers, want string }{
		{uneven(100), "s4*1", "dt: found steps, but layers s4*1"},
		{spikes(100), "mamba*1", "dt: found steps, but no column of times"},
	} {
		_, err := fit.Run(context.Background(), small(t, write(t, "x.csv", c.text), func(f *fit.Config) {
			f.Task, f.Model.Layers, f.Dt = fit.Next, c.layers, fit.DtSteps
		}), nil, fit.Events{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v, want %q", err, c.want)
		}
	}
}
