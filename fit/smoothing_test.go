package fit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/fit/smooth"
)

// rising forecasts the last number plus one for each row. It fails if fails is set, and gives invalid forecasts if
// broken is set.
type rising struct{ fails, broken bool }

func (r *rising) Check() error {
	if r.broken {
		return errors.New("broken")
	}
	return nil
}

func (r *rising) Forecast(y, dst []float64) bool {
	for h := range dst {
		dst[h] = y[len(y)-1] + float64(h+1)
	}
	return !r.fails
}

// TestSmoothing checks that a smoother sees each target in the units of the data, and that its forecast is converted
// back to the network's scale. If it fails or diverges, the guess is the last value. Either each target has a smoother
// or there is none.
func TestSmoothing(t *testing.T) {
	p := &Plan{Task: Forecast, Lookback: 3, Horizon: 2, Season: 1, Columns: []Column{number("k", false), number("x",
		true), number("z", true)}}
	p.Columns[1].Base, p.Columns[1].Deviation, p.Columns[2].Deviation = 100, 2, 4
	rows := []float32{7, 1, 10, 7, 2, 20, 7, 5, 30, 7, 99, 99, 7, 99, 99}
	e, err := newEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	e.from(rows[:9])
	e.ahead[0][1] = 0.5
	for name, c := range map[string]struct {
		models []*rising
		want   []float64
	}{
		"both": {[]*rising{{}, {}}, []float64{0.5, 0.25, 0.75, 0.5}}, "one": {[]*rising{{fails: true}, {}},
			[]float64{0, 0.25, 0, 0.5}},
		"none": {[]*rising{{fails: true}, {fails: true}}, make([]float64, 4)},
	} {
		s, dst := &smoothing[*rising]{Models: c.models}, make([]float64, 4)
		s.guess(e, rows, 2, dst)
		sameNumbers(t, name, dst, c.want, 1e-9)
	}
	for by, want := range map[float64]bool{0.49: true, 0.51: false} {
		p.Columns[1].Deviation = 1 / (by * math.MaxFloat32)
		e.from(rows[:9])
		dst := make([]float64, 4)
		(&smoothing[*rising]{Models: []*rising{{}, {fails: true}}}).guess(e, rows, 2, dst)
		if dst[0] != 0 != want || dst[2] != 0 {
			t.Errorf("%v of the largest number of 32 bits: found %v", by, dst)
		}
	}
	f := made(t, p, [][]float32{{7, 1, 10}, {7, 2, 20}, {7, 5, 30}, {7, 6, 40}, {7, 7, 50}, {7, 8, 60}})
	w := f.newWindows(f.wholeSeries(), trainPart, 1, 0)
	s := &smoothing[*rising]{Models: []*rising{{}}}
	var seen [][]float64
	fit := func(series [][]float64) (*rising, bool) {
		seen = append(seen, series...)
		return &rising{}, len(seen) < 4
	}
	if ok, err := s.fitEach(background(), f, w, fit); !ok || err != nil || len(s.Models) != 2 || s.check(p) != nil ||
		!slices.Equal(seen[0], []float64{101, 102, 105, 106, 107, 108}) ||
		!slices.Equal(seen[1], []float64{10, 20, 30, 40, 50, 60}) {
		t.Errorf("found %v, %v, %d models of %v", ok, err, len(s.Models), seen)
	}
	if ok, err := s.fitEach(background(), f, w, fit); ok || err != nil {
		t.Errorf("where one target has none: %v, %v", ok, err)
	}
	ctx, cancel := context.WithCancel(background())
	cancel()
	if ok, err := s.fitEach(ctx, f, w, fit); ok || err == nil {
		t.Errorf("cancelled: %v, %v", ok, err)
	}
	s.Models = []*rising{{}, {broken: true}}
	if err := s.check(p); err == nil || err.Error() != "broken" {
		t.Errorf("a broken one: %v", err)
	}
	one := &ets{}
	one.Models = []*smooth.ETS{{Error: "A", Trend: "N", Season: "N"}}
	if got := one.title(p); got != "exponential smoothing, "+one.Models[0].String() {
		t.Errorf("found the title %q", got)
	}
	one.Models = append(one.Models, nil)
	if got := one.title(p); got != "exponential smoothing (ETS)" {
		t.Errorf("of two targets: found the title %q", got)
	}
}

// TestChooseLog checks that logarithms are forecast if the linear forecast of them is better on the validation set, for
// each target separately, with a note, and that rows are unchanged if not. On and off are as requested.
func TestChooseLog(t *testing.T) {
	grows := func(i int) float64 {
		return math.Exp(0.01*float64(i) + 0.5*math.Sin(float64(i)) + 0.1*math.Sin(float64(i*i)))
	}
	wave := func(i int) float64 { return 3.5 + 2*math.Sin(float64(i)) + math.Sin(float64(i*i)) }
	of := func(rows int, columns ...func(int) float64) *frame {
		p := &Plan{Task: Forecast, Lookback: 6, Horizon: 2, Levels: []float64{0.25, 0.5}}
		for k := range columns {
			p.Columns = append(p.Columns, number(string(rune('x'+k)), true))
		}
		all := make([][]float32, rows)
		for i := range all {
			for _, f := range columns {
				all[i] = append(all[i], float32(f(i)))
			}
		}
		return made(t, p, all)
	}
	c := DefaultConfig()
	divided := [parts][]segment{{{0, 0, 150}}, {{0, 150, 200}}, {{0, 200, 240}}}
	f := of(240, grows, wave)
	errs := func(log bool) []float64 {
		g := of(240, grows, wave)
		if log {
			g.toLog(0)
			g.toLog(1)
		}
		if err := g.measure(divided[trainPart]); err != nil {
			t.Fatal(err)
		}
		valid := g.newWindows(divided[validPart], validPart, 1, 0)
		l := g.fitLinear(g.newWindows(divided[trainPart], trainPart, 1, 0), valid, nil)
		all, ahead := make([]float64, 2), make([]float64, 2)
		for i := range valid.Len() {
			for k, past := range g.seen(valid.at(i)) {
				l.ahead(k, past, ahead)
				for h, x := range ahead {
					y := past[5] + x
					if log {
						y = math.Exp(y)
					}
					all[k] += math.Abs(y-[]func(int) float64{grows, wave}[k](150+i+h)) / float64(2*valid.Len())
				}
			}
		}
		return all
	}
	before, after := errs(false), errs(true)
	if err := f.chooseLog(&c, divided); err != nil {
		t.Fatal(err)
	}
	want := "column x is forecast by its logarithm: the linear forecast is off by " + digits(after[0]) +
		" on the validation set, " + digits(before[0]) + " without (--log off)"
	if len(f.notes) != 1 || f.notes[0] != want || after[0] >= before[0] || after[1] <= before[1] {
		t.Errorf("told %q, want %q; without logarithms %v, with them %v", f.notes, want, before, after)
	}
	if x, z := &f.plan.Columns[0], &f.plan.Columns[1]; !x.Log || x.Spread == 0 || z.Log || z.Spread != 0 {
		t.Errorf("found %+v and %+v", x, z)
	}
	for i := range 240 {
		if row := f.rows.row(i); math.Abs(float64(row[0])-math.Log(grows(i))) > 1e-5 || row[1] != float32(wave(i)) {
			t.Fatalf("row %d is %v", i, row)
		}
	}
	sometimes := func(i int) float64 { return grows(i) - 0.2*float64(bit(i == 230)) - 1e-3*float64(i%2) }
	zero := func(i int) float64 { return grows(i) * float64(bit(i != 230)) }
	for name, one := range map[string]struct {
		f    *frame
		log  string
		want string // an error
		logs bool
	}{
		"on": {of(240, wave), "on", "", true}, "off": {of(240, grows), "off", "", false},
		"auto": {of(240, sometimes), "auto", "", true}, "zero": {of(240, zero), "auto", "", false},
		"zero, on": {of(240, zero), "on", "column x: found numbers that are not positive, or too many rows; want " +
			"--log off",
			false},
		"another task": {func() *frame { f := of(240, grows); f.plan.Task = Next; return f }(), "on", "", false},
	} {
		c.Log = one.log
		err := one.f.chooseLog(&c, divided)
		if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) ||
			one.f.plan.Columns[0].Log != one.logs || (len(one.f.notes) > 0) != (name == "auto") {
			t.Errorf("%s: found %v, %+v, told %q", name, err, one.f.plan.Columns[0], one.f.notes)
		}
	}
	few := [parts][]segment{{{0, 0, 9}}, {{0, 150, 200}}, {{0, 200, 240}}}
	for log, logs := range map[string]bool{"auto": false, "on": true} { // if there is no linear forecast
		f := of(240, grows)
		if c.Log = log; f.chooseLog(&c, few) != nil || f.plan.Columns[0].Log != logs {
			t.Errorf("--log %s of few windows: found %+v", log, f.plan.Columns[0])
		}
	}
	defer func(n int) { mostInMemory = n }(mostInMemory)
	mostInMemory = 10
	for log, fails := range map[string]bool{"auto": false, "on": true} {
		f := of(240, grows)
		if c.Log = log; (f.chooseLog(&c, divided) != nil) != fails || f.plan.Columns[0].Log || f.rows.close() != nil {
			t.Errorf("--log %s of rows in a file: found %+v", log, f.plan.Columns[0])
		}
	}
}
