package fit

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/explain/anatomy"
	"github.com/hippo-ssm/hippo/internal/testkit/onnxtest"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// TestSizedStore checks that a table of known size can be filled in any order. It is in memory or, with one number more
// than that may hold, in a file, which is then removed.
func TestSizedStore(t *testing.T) {
	defer func(n int) { mostInMemory = n }(mostInMemory)
	for most, files := range map[int]int{10: 0, 9: 1} {
		mostInMemory = most
		dir := filepath.Join(t.TempDir(), "run")
		s, err := sizedStore(dir, 2, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{3, 0, 1} {
			rows := []float32{float32(at), float32(-at), float32(at + 1), float32(-at - 1)}
			if at == 0 {
				rows = rows[:2]
			}
			if err := s.put(at, rows); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if row := s.row(i); row[0] != float32(i) || row[1] != float32(-i) {
				t.Errorf("at most %d numbers: row %d is %v", most, i, row)
			}
		}
		before, _ := os.ReadDir(dir)
		err = s.close()
		if after, _ := os.ReadDir(dir); err != nil || len(before) != files || len(after) > 0 {
			t.Errorf("at most %d numbers: %d files, then %d, %v", most, len(before), len(after), err)
		}
	}
	s := &errorSum{levels: []float64{0.5}, steps: make([]oneSum, 2)}
	s.add(1, nan, []float64{nan})
	s.add(1, 3, []float64{5})
	s.add(2, 3, []float64{4})
	if e := s.errors(); e.Count != 2 || e.MAE != 1.5 || e.Steps[0].MAE != 0 || e.Steps[1].MAE != 2 {
		t.Errorf("found the errors %+v", e)
	}
	if e := (&errorSum{levels: []float64{0.5}, deviation: 1}).errors(); e.Count != 0 || e.MAE != 0 || e.Coverage != 0 {
		t.Errorf("of nothing: found %+v", e)
	}
}

// TestMonthsLater checks that some months later is the same day and time, or the last day of a shorter month.
func TestMonthsLater(t *testing.T) {
	at := func(text string) float64 {
		x, err := time.Parse(time.DateTime, text)
		if err != nil {
			t.Fatal(err)
		}
		return float64(x.Unix())
	}
	for months, want := range []string{"2023-12-31 05:06:07", "2024-01-31 05:06:07", "2024-02-29 05:06:07",
		"2024-03-31 05:06:07", "2024-04-30 05:06:07"} {
		if got := monthsLater(at("2023-12-31 05:06:07"), months); got != at(want) {
			t.Errorf("%d months later: found %v, want %s", months, time.Unix(int64(got), 0).UTC(), want)
		}
	}
	if got := monthsLater(at("2024-01-30 23:59:59"), 13); got != at("2025-02-28 23:59:59") {
		t.Errorf("13 months later: found %v", time.Unix(int64(got), 0).UTC())
	}
}

// TestPlanEdges checks that invalid values of a plan are refused in plans that are otherwise valid.
func TestPlanEdges(t *testing.T) {
	for want, change := range map[string]func(p *Plan, n *model.NetworkConfig){
		"":                        func(*Plan, *model.NetworkConfig) {},
		"that of changes 0, want": func(p *Plan, _ *model.NetworkConfig) { p.Columns[0].Change = 0 },
		`go in as "steps", and`: func(p *Plan, n *model.NetworkConfig) {
			p.Dt, n.Steps, n.Channels = DtSteps,
				true, 2
		},
		"intervals of 5 recent":          func(p *Plan, _ *model.NetworkConfig) { p.Recent = 5 },
		"spectrum: found frames":         func(p *Plan, _ *model.NetworkConfig) { p.Spectrum = &table.Spectrum{} },
		"found a window of 16777217":     func(p *Plan, _ *model.NetworkConfig) { p.Horizon = mostWindow + 1 },
		"found the levels []":            func(p *Plan, n *model.NetworkConfig) { p.Levels, n.Outputs = nil, 0 },
		"each position: true, want fals": func(p *Plan, _ *model.NetworkConfig) { p.Task = Regress },
		"contenders: last: ": func(p *Plan, _ *model.NetworkConfig) {
			p.Contenders = []*Contender{{Name: useNetwork}, {Name: "last", Fitted: []byte("[]")}}
		},
	} {
		p := &Plan{Version: planVersion, Task: Next, Levels: []float64{0.5}, Columns: []Column{number("x", true)}}
		net := &model.Network{Config: model.NetworkConfig{Channels: 1, Outputs: 1, Everywhere: true}}
		change(p, &net.Config)
		if err := p.check(net); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
		net.Config.Signal = &model.Signal{About: p.about()}
		if _, err := PlanOf(net); want != "" && want != "that of changes 0, want" && (err == nil ||
			!strings.HasPrefix(err.Error(), "signal.about: ")) {
			t.Errorf("read again: found %v, want %q", err, want)
		}
	}
}

// TestWeighed checks that balanced weights are computed from the training examples.
func TestWeighed(t *testing.T) {
	f := made(t, classPlan(), [][]float32{{0, 0}, {0, 0}, {0, 1}, {0, 2}, {0, 0}, {0, float32(nan)}})
	set := &task.Set{Train: f.newWindows(f.wholeSeries(), trainPart, 10, 0)}
	if err := f.weigh(weightsBalanced, set); err != nil {
		t.Fatal(err)
	}
	// (5/9, 5/3, 5/3) for 3, 1 and 1 examples have the mean 1.
	sameNumbers(t, "the weights", f.plan.Weights, []float64{5. / 9, 5. / 3, 5. / 3}, 1e-12)
	numbers := &frame{plan: &Plan{Columns: []Column{number("x", true)}}}
	if err := numbers.weigh(weightsAuto, &task.Set{}); err != nil {
		t.Errorf("of numbers: %v", err)
	}
}

// TestReachOfKernels checks that the reach of kernels is that of nine tenths of their energy.
func TestReachOfKernels(t *testing.T) {
	s := &TimeScales{Window: 8, Lags: []int{0, 1, 5}}
	s.ofLayer(0, &anatomy.Layer{Kind: "h3", Systems: []anatomy.System{{Part: "ssm", Discrete: []complex128{0, 1}}},
		Kernels: []anatomy.Kernel{{Name: "k", Taps: 3, Channels: 2, K: []float32{10, 3, 1, 1, 1, 1}}}})
	kernels, modes := s.Network[1], s.Network[0]
	if kernels.Rows.Low != 0 || kernels.Rows.Longest != 1 || !math.IsInf(float64(modes.Rows.Longest), 1) ||
		kernels.Seconds !=
			nil {
		t.Errorf("found %+v and %+v", kernels, modes)
	}
	sameNumbers(t, "what is left of modes", modes.Left, []float64{1, 0.5, 0.5}, 1e-9)
	sameNumbers(t, "what is left of kernels", kernels.Left, []float64{1, (2./102 + 2./11) / 2, 0}, 1e-4)
}

// TestAnswerEnds checks that an answer is complete at its end, and that its limits are those requested.
func TestAnswerEnds(t *testing.T) {
	p := rowPlan(Steps, 0.5).named()
	m := by(t, &p, counting)
	for _, c := range []struct {
		q    Query
		text string
		want string // or an error
	}{
		{Query{Format: "csv", As: AsCSV}, "s,x\na,1\nb,2\n", "series,line,y\na,2,105\nb,3,105\n"},
		{Query{Format: "csv", As: AsCSV, MostRows: 2, MostSeries: 2}, "s,x\na,1\nb,2\n",
			"series,line,y\na,2,105\nb,3,105\n"},
		{Query{Format: "csv", As: AsCSV, MostRows: 1}, "s,x\na,1\nb,2\n", "line 3: found more than 1 rows"},
		{Query{Format: "csv", As: AsCSV, MostSeries: 1}, "s,x\na,1\nb,2\n",
			"line 3, column s: found more than 1 series at a time"},
		{Query{Format: "flac"}, "", `format: found "flac", want one of [jsonl csv wav]`},
	} {
		var out bytes.Buffer
		c.q.Rows, c.q.Out = strings.NewReader(c.text), &out
		got := ""
		if err := m.Answer(background(), c.q); err != nil {
			got = err.Error()
		} else {
			got = out.String()
		}
		if !strings.HasPrefix(got, c.want) || out.Len() > 0 && got != c.want {
			t.Errorf("%+v: found %q, want %q", c.q, got, c.want)
		}
	}
}

// TestONNXNamesRival checks that the card of a network that a rival replaces names the rival.
func TestONNXNamesRival(t *testing.T) {
	p := &Plan{Task: Next, Levels: []float64{0.5}, Columns: []Column{number("x", true)}, Contenders: []*Contender{
		{Name: useNetwork, Title: "network"}, {Name: "last", Title: "last value"}}}
	m := untrained(t, p, "mean")
	for use, want := range map[string]string{"": "", useNetwork: "", "last": "last value"} {
		p.Use = use
		file, card, err := onnxOf(m.net, p, ONNXStep)
		if err != nil || card.Rival != want || len(file) == 0 || card.Form != ONNXStep || card.Rate != 0 ||
			!slices.Equal(card.Rows, []string{"x"}) {
			t.Errorf("%q: found %+v, %v", use, card, err)
		}
	}
}

// TestCyclesGone checks the elapsed fraction of a cycle of the calendar, from 0 up to 1.
func TestCyclesGone(t *testing.T) {
	for _, c := range []struct {
		at   string
		want []float64 // for the day, the week, the month and the year
	}{{"2024-01-01 00:00:00", []float64{0, 0, 0, 0}}, {"2023-12-31 23:59:59", []float64{1 - 1./86400, 6. / 7, 30. / 31,
		364. / 366}}, {"2024-12-31 12:00:00", []float64{0.5, 1. / 7, 30. / 31, 365. / 366}}} {
		at, err := time.Parse(time.DateTime, c.at)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, one := range cycles {
			got = append(got, calendar[one.name](at))
		}
		sameNumbers(t, c.at, got, c.want, 1e-12)
	}
}

// TestONNXOfAlike checks that an ONNX model also uses the least scale if the numbers that a forecast sees are all
// equal.
func TestONNXOfAlike(t *testing.T) {
	p := &Plan{Task: Forecast, Lookback: 4, Horizon: 2, Local: true, Levels: []float64{0.25, 0.5}, Columns: []Column{
		number("x", true)}}
	p.Columns[0].Mean, p.Columns[0].Deviation, p.Columns[0].High = 2, 4, 9
	m := untrained(t, p, "mean")
	file, _, err := onnxOf(m.net, p, ONNXWhole)
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	opt := PredictOptions{Options: table.DefaultOptions()}
	err = m.Predict(background(), []string{"-"}, strings.NewReader("x\n3\n3\n3\n3\n"), opt,
		func(p *Prediction) error {
			want = append(want, p.Quantiles[0][0]-3, p.Quantiles[0][1]-3)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	got := onnxtest.Decode(file).Run(map[string]onnxtest.Array{"rows": {Shape: []int{4, 1}, X: []float64{3, 3, 3,
		3}}})["quantiles"].X
	for i := range got {
		got[i] -= 3
	}
	near(t, "quantiles above the last number", got, want)
}

// TestTimesBefore checks that missing rows of a forecast have times before the first one, a step apart, and future rows
// have times after the last.
func TestTimesBefore(t *testing.T) {
	p := Plan{Task: Forecast, Lookback: 4, Horizon: 1, Levels: []float64{0.5}, Step: 2 * day, Columns: []Column{
		number("x", true)}}
	p.Columns[0].High = 100
	first := float64(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).Unix())
	s := saying{name: "times", p: p.timed(), f: func(e *encoder, rows []float32, _ int, dst []float64) {
		for at := 0; at < len(rows); at += 3 {
			dst[0] = 10*dst[0] + math.Round((e.p.time(rows[at:at+3])-first)/day)
		}
	}, texts: []string{"t,x 2024-03-06,1 2024-03-08,2"}, want: []string{"3: 2024-03-10 step 1 [[13581]]"},
		notes: []string{"the series: found 2 rows, want 4, as many as the network looks back: the others count as " +
			"missing"}}
	s.check(t)
}
