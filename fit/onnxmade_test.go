package fit

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/internal/testkit/onnxtest"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// untrained returns a small network for a plan, with its initial parameters.
func untrained(t *testing.T, p *Plan, pool string) *Model {
	t.Helper()
	if !slices.Contains(model.Pools, pool) {
		pool = "mean"
	}
	c := model.NetworkConfig{Model: model.DefaultConfig(), Channels: len(p.inputs()), Everywhere: !p.whole(),
		Pool:    pool,
		Outputs: len(p.targets()) * len(p.Levels)}
	if names, ok := p.classes(); ok {
		c.Outputs = len(names)
	}
	c.Model.DModel, c.Model.Layers, c.Model.DState, c.Model.MLP = 4, "s4d", 2, "none"
	net, err := model.NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(3)
	m, err := newModel(net, p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// drawn holds random rows of a plan's columns: numbers around the column's mean, and classes, some of them missing. The
// last rows of a forecast have no target. Times are irregular.
type drawn struct {
	p     *Plan
	rows  [][]float64
	times []float64
}

func draw(p *Plan, n, ahead int) *drawn {
	rng := rand.New(rand.NewPCG(5, 6))
	d, at := &drawn{p: p}, float64(time.Date(2023, 12, 24, 7, 30, 5, 0, time.UTC).Unix())
	for i := range n + ahead {
		var row []float64
		for k := range p.Columns {
			c := &p.Columns[k]
			x := c.number(c.Mean + c.Deviation*rng.NormFloat64())
			if c.Kind == table.Category {
				x = float64(rng.IntN(len(c.Classes)))
			}
			if missing := rng.IntN(5) == 0 && i != n-1; missing || i >= n && c.Target {
				x = nan
			}
			row = append(row, x)
		}
		at += float64(3000 + 1000*rng.IntN(3))
		d.rows, d.times = append(d.rows, row), append(d.times, at)
	}
	return d
}

// csv returns the rows as a file.
func (d *drawn) csv() string {
	var b strings.Builder
	for k := range d.p.Columns {
		b.WriteString(d.p.Columns[k].Name + ",")
	}
	b.WriteString("t\n")
	for i, row := range d.rows {
		for k, x := range row {
			switch c := &d.p.Columns[k]; {
			case x != x:
			case c.Kind == table.Category:
				b.WriteString(c.Classes[int(x)])
			default:
				fmt.Fprint(&b, x)
			}
			b.WriteByte(',')
		}
		b.WriteString(time.Unix(int64(d.times[i]), 0).UTC().Format(time.DateTime) + "\n")
	}
	return b.String()
}

// step returns the median time between consecutive rows.
func (d *drawn) step() float64 {
	var all []float64
	for i := 1; i < len(d.times); i++ {
		all = append(all, d.times[i]-d.times[i-1])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// inputs returns the inputs of an ONNX model for rows [from, to). For a forecast it includes future rows up to end.
func (d *drawn) inputs(card *ONNXCard, from, to, end int) map[string]onnxtest.Array {
	columns := func(names []string, from, to int) onnxtest.Array {
		x := onnxtest.Array{Shape: []int{to - from, len(names)}}
		for _, row := range d.rows[from:to] {
			for _, name := range names {
				x.X = append(x.X, row[slices.IndexFunc(d.p.Columns, func(c Column) bool { return c.Name == name })])
			}
		}
		return x
	}
	in := map[string]onnxtest.Array{"rows": columns(card.Rows, max(0, from), to)}
	seconds, phases := onnxtest.Array{Shape: []int{end - from}}, onnxtest.Array{Shape: []int{end - from,
		len(card.Calendar)}}
	before := nan
	if d.p.Task != Forecast && from > 0 {
		before = d.times[from-1]
	}
	for i := from; i < end; i++ {
		at := d.times[max(0, i)] + float64(min(0, i))*d.step() // also for rows before the first one
		seconds.X = append(seconds.X, at-before)
		before = at
		for _, name := range card.Calendar {
			phases.X = append(phases.X, calendar[name](time.Unix(int64(at), 0).UTC()))
		}
	}
	if d.p.timeGoesIn() {
		in["seconds"] = seconds
	}
	if len(card.Calendar) > 0 {
		in["calendar"] = phases
	}
	if d.p.Task == Forecast && len(card.Known) > 0 {
		in["known"] = columns(card.Known, to, end)
	}
	return in
}

// answers returns the numbers of predictions: probabilities and the class, or quantiles and the score.
func answers(all []Prediction) (numbers, more []float64) {
	for _, p := range all {
		numbers = append(numbers, p.Probabilities...)
		for _, q := range p.Quantiles {
			numbers = append(numbers, q...)
		}
		if p.Probabilities != nil {
			class, _ := p.Class()
			more = append(more, float64(class))
		} else {
			more = append(more, p.Score)
		}
	}
	return numbers, more
}

// TestONNXMade checks that networks for all tasks, with plans that use all features, give the same results as ONNX
// models, for a whole sequence and row by row.
func TestONNXMade(t *testing.T) {
	x, z, y := number("x", true), number("z", true), number("y", false)
	x.Mean, x.Deviation, x.Change, x.Low, x.High = 2, 0.5, 0.7, -1e9, 1e9
	z.Mean, z.Deviation, z.Change, z.Base, z.Gaps, z.Low, z.High = -1, 3, 2, 10, true, -1e9, 1e9
	y.Mean, y.Deviation, y.Gaps, y.Low, y.High = 5, 2, true, -1e9, 1e9
	kind, label := category("kind", false, "u", "v", "w"), category("label", true, "a", "b", "c")
	label.In = false
	levels := []float64{0.1, 0.25, 0.5, 0.75, 0.9}
	clock := func(p Plan) Plan {
		p.Time, p.Irregular, p.Step = &table.Column{Name: "t", Kind: table.Time, Layout: time.DateTime}, true, 3600
		p.Calendar = []string{"weekday", "hour", "day of the month", "day of the year"}
		return p
	}
	out := func(c Column) Column { c.In = false; return c }
	logs, known, class := x, y, kind
	logs.Log, logs.Spread, known.Known, class.Known = true, 4, true, true
	wide := func(steps ...float64) (all [][][]float64) {
		for k := range 2 {
			var pairs [][]float64
			for pair := range 2 {
				var wide []float64
				for h, w := range steps {
					wide = append(wide, w*float64(1+k+2*pair)-0.05*float64(h))
				}
				pairs = append(pairs, wide)
			}
			all = append(all, pairs)
		}
		return all
	}
	weights := func(n int) (w []float32) {
		for i := range n {
			w = append(w, float32(math.Sin(float64(i*i)))/4)
		}
		return w
	}
	for name, p := range map[string]Plan{
		"forecast": clock(Plan{Task: Forecast, Lookback: 5, Horizon: 3, Local: true, Levels: levels,
			Widen: wide(0.2, 0.1,
				-0.1), Linear: &linear{Order: 4, Weights: [][]float32{weights(12), weights(12)}},
			Columns: []Column{known, logs, class, z, kind}}),
		"few rows": clock(Plan{Task: Forecast, Lookback: 16, Horizon: 2, Levels: []float64{0.5},
			Columns: []Column{x, y}}),
		"plain forecast": {Task: Forecast, Lookback: 4, Horizon: 2, Levels: []float64{0.5}, Columns: []Column{z}},
		"timed forecast": clock(Plan{Task: Forecast, Lookback: 4, Horizon: 2, Levels: levels, Widen: wide(0.3),
			Columns: []Column{x, out(z), y}}),
		"next":    clock(Plan{Task: Next, Levels: levels, Widen: wide(0.3), Columns: []Column{kind, z, x, y}}),
		"anomaly": {Task: Anomaly, Levels: levels, Widen: wide(-0.1), Columns: []Column{z, kind, x}},
		"one":     {Task: Anomaly, Levels: []float64{0.2, 0.5, 0.9}, Columns: []Column{z}},
		"steps": clock(Plan{Task: Steps, Levels: levels, Widen: wide(0.3), Columns: []Column{out(x), kind, y,
			out(z)}}),
		"classes":    {Task: Steps, Weights: []float64{1, 5, 2}, Weighted: true, Columns: []Column{y, label, kind}},
		"regress":    {Task: Regress, Levels: levels, Columns: []Column{y, out(z), out(x)}},
		"whole mean": {Task: Classify, Weights: []float64{1, 5, 2}, Columns: []Column{y, label, kind}},
		"whole last": {Task: Classify, Columns: []Column{label, kind}},
	} {
		if t.Failed() {
			return
		}
		m, n := untrained(t, &p, strings.TrimPrefix(name, "whole ")), 12
		d := draw(&p, n, p.Horizon)
		var all []Prediction
		opt := PredictOptions{Options: table.DefaultOptions()}
		err := m.Predict(background(), []string{"-"}, strings.NewReader(d.csv()), opt, func(p *Prediction) error {
			all = append(all, *p)
			return nil
		})
		if err != nil {
			t.Fatal(name, err)
		}
		want, more := answers(all)
		if p.Task == Anomaly { // the first row has no prediction
			want = append(slices.Repeat([]float64{nan}, len(want)/(len(all)-1)), want...)
		}
		first, second := "quantiles", "score"
		if p.predictsClass() {
			first, second = "probabilities", "class"
		}
		compare := func(what string, got map[string]onnxtest.Array, from, to int) {
			t.Helper()
			for _, c := range []struct {
				name string
				want []float64
			}{{first, want}, {second, more}} {
				if out, ok := got[c.name]; ok || c.name == first {
					n := len(c.want) / len(all)
					near(t, fmt.Sprintf("%s, %s, %s of row %d", name, what, c.name, from), out.X, c.want[from*n:to*n])
				}
			}
		}
		for _, form := range ONNXForms {
			file, _, err := onnxOf(m.net, &p, form)
			if err != nil {
				t.Fatal(name, err)
			}
			x, card := onnxtest.Decode(file), &ONNXCard{}
			if err := json.Unmarshal([]byte(x.Meta["hippo"]), card); err != nil {
				t.Fatal(err)
			}
			if form == ONNXWhole {
				from := 0
				if p.Task == Forecast {
					from = n - p.Lookback
				}
				compare(form, x.Run(d.inputs(card, from, n, len(d.rows))), 0, len(all))
				continue
			}
			state := x.Zeros("state")
			for i := range n {
				end := i + 1
				if p.Task == Forecast {
					end = len(d.rows)
				}
				in := d.inputs(card, i, i+1, end)
				if p.Task == Forecast { // its clock covers the rows that it sees and the future rows
					in = d.inputs(card, n-p.Lookback, n, end)
					in["rows"] = d.inputs(card, i, i+1, end)["rows"]
				}
				in["state"] = state
				got := x.Run(in)
				state = got["next_state"]
				switch {
				case !p.whole() && p.Task != Forecast:
					compare(form, got, i, i+1)
				case i == n-1:
					compare(form, got, 0, len(all))
				}
			}
		}
	}
}

// near compares numbers that were computed in 32 bits in different orders. NaN means that there is no prediction.
func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	for i := range want {
		if i < len(got) && math.IsNaN(want[i]) && math.IsNaN(got[i]) {
			want[i], got[i] = 0, 0
		}
	}
	golden.Close(t, what, got, want, 1e-4)
}
