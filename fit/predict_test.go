package fit

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// saying is a model that predicts by a script, with CSV texts to read and the expected results. Each text is a file
// with spaces for line ends. Each line of want is a prediction; an error is the last line.
type saying struct {
	name  string
	p     Plan
	sees  int // as in scripted
	f     func(e *encoder, rows []float32, n int, dst []float64)
	opt   PredictOptions
	texts []string
	want  []string
	notes []string
}

// show returns a prediction as a line: its series, place and time, the quantiles or probabilities, and the given
// values.
func show(p *Prediction) string {
	text := fmt.Sprintf("%s%d:", p.Series, p.Place.At)
	if at := timeText(p.Time); at != "" {
		text += " " + strings.TrimSuffix(at, "T00:00:00Z")
	}
	if p.Step > 0 {
		text += fmt.Sprint(" step ", p.Step)
	}
	if p.Probabilities != nil {
		class, sure := p.Class()
		return text + fmt.Sprintf(" %.3f, class %d by %.3f", p.Probabilities, class, sure)
	}
	if text += fmt.Sprintf(" %g", p.Quantiles); p.Given != nil {
		text += fmt.Sprintf(" given %g", p.Given)
	}
	if p.Score != 0 {
		text += fmt.Sprintf(" score %.4f %v", p.Score, p.Unusual)
	}
	return text
}

func (s *saying) check(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var paths, lines, notes []string
	for i, text := range s.texts {
		paths = append(paths, filepath.Join(dir, string(rune('a'+i))+".csv"))
		if err := os.WriteFile(paths[i], []byte(strings.ReplaceAll(text, " ", "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m := seeing(t, &s.p, s.sees, s.f)
	m.plan.Alarm, m.plan.Weights = s.p.Alarm, s.p.Weights
	if len(s.p.Levels) == 3 {
		m.rival.Off = [][][]float64{{{-1, 0, 2}}}
	}
	s.opt.Options = table.DefaultOptions()
	s.opt.Note = func(text string) { notes = append(notes, strings.ReplaceAll(text, dir+"/", "")) }
	err := m.Predict(background(), paths, nil, s.opt, func(p *Prediction) error {
		lines = append(lines, strings.ReplaceAll(show(p), dir+"/", ""))
		return nil
	})
	if err != nil {
		lines = append(lines, strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	if !slices.Equal(lines, s.want) {
		t.Errorf("%s: found\n%s\nwant\n%s", s.name, strings.Join(lines, "\n"), strings.Join(s.want, "\n"))
	}
	if !slices.Equal(notes, s.notes) {
		t.Errorf("%s: found the notes\n%s\nwant\n%s", s.name, strings.Join(notes, "\n"), strings.Join(s.notes, "\n"))
	}
}

// lastThree predicts x + 10 x' + 100 x", where x' and x" are the values of the two previous rows.
func lastThree(e *encoder, rows []float32, n int, dst []float64) {
	width := e.p.width()
	for r := range n {
		for back, by := range []float64{1, 10, 100} {
			if at := len(rows)/width - n + r - back; at >= 0 {
				dst[r] += by * float64(rows[at*width])
			}
		}
	}
}

// sumOf predicts the sum of x over all rows that are seen.
func sumOf(e *encoder, rows []float32, _ int, dst []float64) {
	for at := 0; at < len(rows); at += e.p.width() {
		dst[0] += float64(rows[at])
	}
}

// counting predicts 1 for the first row, 2 for the next and so on.
func counting(_ *encoder, _ []float32, n int, dst []float64) {
	for r := range n {
		dst[r] = float64(r + 1)
	}
}

// rowPlan returns a plan that predicts the numbers y = 103 + 2 (the output) at each row of x.
func rowPlan(task string, levels ...float64) Plan {
	x, y := number("x", false), number("y", true)
	x.Low, x.High, y.In = -10, 10, false
	y.Mean, y.Deviation, y.Base = 3, 2, 100
	return Plan{Task: task, Levels: levels, Columns: []Column{x, y}}
}

func (p Plan) named() Plan { p.Series = "s"; return p }
func (p Plan) timed() Plan {
	p.Time = &table.Column{Name: "t", Kind: table.Time, Layout: time.DateOnly}
	return p
}

// TestPredictRows checks the prediction for each row, in the units of the data, which depends only on rows of its own
// series or file. In batches the rows of a series come together. Errors and notes have their places.
func TestPredictRows(t *testing.T) {
	live := PredictOptions{Live: true}
	next := number("x", true)
	next.Mean, next.Change, next.Base, next.Low, next.High = 50, 4, 1000, 0, 100
	steps, bands := rowPlan(Steps, 0.5), rowPlan(Steps, 0.25, 0.5, 0.75)
	anomaly := Plan{Task: Anomaly, Levels: bands.Levels, Columns: []Column{next}}
	anomaly.Alarm = anomaly.surprise([]float64{1060}, [][]float64{{1046, 1050, 1058}})
	uneven, put := steps, steps.named()
	uneven.Irregular, uneven.Step = true, day
	put.Zone, put.Time = "Europe/Berlin", &table.Column{Name: "t", Kind: table.Time, Layout: "2006-01-02T15:04"}
	daily, bySteps, comma := steps.timed(), steps.timed(), steps
	daily.Calendar, bySteps.Dt, comma.Comma = []string{"hour"}, DtSteps, true
	lacks := "a.csv: found the columns x; want t, too"
	class := *classPlan()
	class.Weights = []float64{1, 1, 10}
	mixed := "s,x,y a,1,5 b,2, a,3, b,4,7 a,5,6 a,7,8 b,0,1" // by lastThree: a 1 13 135 357, b 2 24 240
	dates := "t,x 2024-01-01,1 2024-01-02,2 2024-01-02,3 2024-01-01,4"
	goesBack := "a.csv, line 5, column t: found the time 2024-01-01T00:00:00Z, which is not after that of the row " +
		"before, want times that rise within a series"
	for _, s := range []saying{
		{name: "two series", p: bands.named(), sees: 2, f: lastThree, texts: []string{mixed}, want: []string{
			"a2: [[103 105 109]] given [5]", "a4: [[127 129 133]] given [NaN]", "a6: [[371 373 377]] given [6]",
			"a7: [[815 817 821]] given [8]", "b3: [[105 107 111]] given [NaN]", "b5: [[149 151 155]] given [7]",
			"b8: [[581 583 587]] given [1]"}},
		{name: "two series as they come", p: bands.named(), sees: 2, f: lastThree, opt: live, texts: []string{mixed},
			want: []string{"a2: [[103 105 109]] given [5]", "b3: [[105 107 111]] given [NaN]",
				"a4: [[127 129 133]] given [NaN]", "b5: [[149 151 155]] given [7]", "a6: [[371 373 377]] given [6]",
				"a7: [[815 817 821]] given [8]", "b8: [[581 583 587]] given [1]"}},
		{name: "a row before is seen", p: steps, sees: 1, f: lastThree, opt: live, texts: []string{"x 1 2 3"},
			want: []string{"2: [[105]] given [NaN]", "3: [[127]] given [NaN]", "4: [[149]] given [NaN]"}},
		{name: "files", p: steps, sees: 2, f: lastThree, texts: []string{"x 1 3", "x 5 7"}, want: []string{
			"a.csv2: [[105]] given [NaN]", "a.csv3: [[129]] given [NaN]", "b.csv2: [[113]] given [NaN]",
			"b.csv3: [[217]] given [NaN]"}},
		{name: "times in a batch", p: steps.timed(), f: counting, texts: []string{dates}, want: []string{goesBack}},
		{name: "times as they come", p: steps.timed(), f: counting, opt: live, texts: []string{dates}, want: []string{
			"2: 2024-01-01 [[105]] given [NaN]", "3: 2024-01-02 [[105]] given [NaN]",
			"4: 2024-01-02 [[105]] given [NaN]", goesBack}},
		{name: "steps that are not known", p: uneven.timed(), f: counting, texts: []string{"t,x 2024-01-01,1 " +
			"2024-01-04,1"},
			want: []string{"2: 2024-01-01 [[105]] given [NaN]", "3: 2024-01-04 [[107]] given [NaN]"}},
		{name: "other steps", p: uneven.timed(), f: counting, texts: []string{"t,x 2024-01-01,1 2024-01-02,1 " +
			"2024-01-04,1"},
			want: []string{"2: 2024-01-01 [[105]] given [NaN]", "3: 2024-01-02 [[107]] given [NaN]",
				"4: 2024-01-04 [[109]] given [NaN]"}, notes: []string{"rows are 172800 seconds apart, 86400 in " +
				"training: " +
				"the network takes the time between rows into account"}},
		// From 3 o'clock summer time on, which is 1 o'clock UTC, clocks show 2 o'clock again.
		{name: "an hour comes twice", p: put, f: counting, opt: live, texts: []string{"t,s,x 2024-10-27T01:30,a,1 " +
			"2024-10-27T02:30,a,1 2024-10-27T02:30,b,1 2024-10-27T02:30,a,1 2024-10-27T02:30,a,1 " +
			"2024-10-27T02:15,b,1 " +
			"2024-10-27T02:20,b,1 " +
			"2024-10-27T03:30,a,1 2024-10-27T02:40,a,1"}, want: []string{"a2: 2024-10-26T23:30:00Z [[105]] given [NaN]",
			"a3: 2024-10-27T00:30:00Z [[105]] given [NaN]", "b4: 2024-10-27T00:30:00Z [[105]] given [NaN]",
			"a5: 2024-10-27T01:30:00Z [[105]] given [NaN]",
			"a6: 2024-10-27T01:30:00Z [[105]] given [NaN]", "b7: 2024-10-27T01:15:00Z [[105]] given [NaN]",
			"b8: 2024-10-27T01:20:00Z [[105]] given [NaN]", "a9: 2024-10-27T02:30:00Z [[105]] given [NaN]",
			"a.csv, line 10, column t: found the time 2024-10-27T00:40:00Z, which is not after that of the row " +
				"before, " +
				"want " +
				"times that rise within a series"}},
		{name: "next", p: Plan{Task: Next, Levels: []float64{0.5}, Columns: []Column{next}}, f: counting,
			texts: []string{"x NA 1060 NA 1070"}, want: []string{"2: [[1054]] given [NaN]", "3: [[1068]] given [1060]",
				"4: [[1072]] given [NaN]", "5: [[1086]] given [1070]"}},
		// 0.6745 is the 0.75 quantile of the standard normal distribution: 10/(12/2/0.6745) = 1.1241
		{name: "anomaly", p: anomaly, f: func(*encoder, []float32, int, []float64) {}, texts: []string{
			"x NA 1060 NA 1070 1082"}, want: []string{"2: [] given [NaN] score NaN false",
			"3: [[1046 1050 1058]] given [1060] score 1.1241 false", "4: [[1056 1060 1068]] given [NaN] score " +
				"NaN false",
			"5: [[1056 1060 1068]] given [1070] score 1.1241 false",
			"6: [[1066 1070 1078]] given [1082] score 1.3490 true"}},
		{name: "classes", p: class, f: func(_ *encoder, rows []float32, n int, dst []float64) {
			for r := range n {
				dst[3*r] = float64(rows[2*r]) * math.Ln2
			}
		}, texts: []string{"x,y 0,a 3,b 5,"}, want: []string{"2: [0.333 0.333 0.333], class 2 by 0.333",
			"3: [0.800 0.100 0.100], class 2 by 0.100", "4: [0.941 0.029 0.029], class 0 by 0.941"},
			notes: []string{"a.csv, line 3, column x: found 3, far from the 0 to 0 of training: predictions from it " +
				"mean little"}},
		{name: "times that need not be there", p: steps.timed(), f: counting, texts: []string{"x 1"},
			want: []string{"2: [[105]] given [NaN]"}},
		{name: "times that go in", p: uneven.timed(), f: counting, texts: []string{"x 1"}, want: []string{lacks}},
		{name: "times of the calendar", p: daily, f: counting, texts: []string{"x 1"}, want: []string{lacks}},
		{name: "times of steps", p: bySteps, f: counting, texts: []string{"x 1"}, want: []string{lacks}},
		{name: "commas of an earlier version", p: comma, f: lastThree, texts: []string{"x;y 1,5;2,5"},
			want:  []string{"2: [[106]] given [2.5]"},
			notes: []string{"cells are separated by ';' (--separator otherwise)"}},
		{name: "as many rows as may be", p: steps, f: counting, opt: PredictOptions{Rows: 2}, texts: []string{"x 1 2"},
			want: []string{"2: [[105]] given [NaN]", "3: [[107]] given [NaN]"}},
		{name: "a row too many", p: steps, f: counting, opt: PredictOptions{Rows: 2}, texts: []string{"x 1 2 3"},
			want: []string{"a.csv, line 4: found more than 2 rows, want at most that"}},
		{name: "as many series as may be", p: steps.named(), f: counting, opt: PredictOptions{Series: 2},
			texts: []string{"s,x a,1 b,2 a,3"}, want: []string{"a2: [[105]] given [NaN]", "a4: [[107]] given [NaN]",
				"b3: [[105]] given [NaN]"}},
		{name: "a series too many", p: steps.named(), f: counting, opt: PredictOptions{Series: 2},
			texts: []string{"s,x a,1 b,2 a,3 c,4"},
			want:  []string{"a.csv, line 5, column s: found more than 2 series at a time, want at most that"}},
		{name: "no row", p: steps, f: counting, texts: []string{"x"}, want: []string{"found no rows, want some"}},
		{name: "no number", p: steps, f: func(_ *encoder, _ []float32, _ int, dst []float64) { dst[1] = math.Inf(-1) },
			texts: []string{"x 1 2"}, want: []string{"a.csv, line 2: the network returns -Inf, want numbers: its " +
				"weights " +
				"are broken, or the inputs are too large"}},
		{name: "whole series as they come", p: rowPlan(Fill, 0.5), f: counting, opt: live, texts: []string{"x 1"},
			want: []string{"stream: found the task fill, which sees a whole series first; want steps, next, " +
				"anomaly or " +
				"forecast"}},
	} {
		s.check(t)
	}
}

// TestPredictOldCommas checks that columns of a model trained by an earlier version are read in the notation of the
// whole table.
func TestPredictOldCommas(t *testing.T) {
	for comma, want := range map[bool]string{true: "[[106]]", false: "[[3103]]"} {
		p := rowPlan(Steps, 0.5)
		p.Comma, p.Columns[0].High = comma, 1e4
		s := saying{name: fmt.Sprint(comma), p: p, f: lastThree, texts: []string{"x;z 1,500;a 1,500;b"},
			want:  []string{"2: " + want + " given [NaN]", "3: [[136]] given [NaN]"},
			notes: []string{"cells are separated by ';' (--separator otherwise)"}}
		if !comma {
			s.want[1] = "3: [[33103]] given [NaN]"
		}
		s.check(t)
	}
}

// TestPredictAtATime checks that rows are predicted in batches of the given size, or each before the next is read.
func TestPredictAtATime(t *testing.T) {
	p := rowPlan(Steps, 0.5)
	for live, want := range map[bool][3]int{false: {atATime, 2 * atATime, 2*atATime + 9}, true: {1, atATime + 1,
		2*atATime + 1}} {
		m, read, n := by(t, &p, counting), 0, 0
		opt := PredictOptions{Options: table.DefaultOptions(), Live: live, Count: func() { read++ }}
		err := m.Predict(background(), []string{"-"}, strings.NewReader("x\n"+strings.Repeat("1\n", 2*atATime+9)), opt,
			func(*Prediction) error {
				if n%atATime == 0 && read != want[n/atATime] {
					t.Errorf("live %v: %d rows are read before prediction %d, want %d", live, read, n, want[n/atATime])
				}
				n++
				return nil
			})
		if n != 2*atATime+9 || err != nil {
			t.Errorf("live %v: found %d predictions, %v", live, n, err)
		}
	}
}

// TestPredictManySeries checks that the number of series at a time is limited, and that the limit can be changed.
func TestPredictManySeries(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("s,x\n")
	for i := range mostTracks + 1 {
		fmt.Fprintf(&rows, "%d,0\n", i)
	}
	all := rows.String()
	fewer := strings.TrimSuffix(all, "10000,0\n")
	next := Plan{Task: Next, Levels: []float64{0.5}, Columns: []Column{number("x", true)}}
	for _, c := range []struct {
		p    Plan
		most int
		live bool
		text string
		ok   bool
	}{{next, 0, false, fewer, true}, {next, 0, false, all, false}, {next, mostTracks + 1, true, all, true},
		{rowPlan(Steps, 0.5), 0, false, all, false}, {rowPlan(Regress, 0.5), 0, false, all, true},
		{rowPlan(Regress, 0.5), 5, false, all, false}, {*banded(1, 0, 0.5), 0, false, all, true},
		{*banded(1, 0, 0.5), 0, true, all, false}} {
		p := c.p.named()
		m, n := by(t, &p, func(*encoder, []float32, int, []float64) {}), 0
		opt := PredictOptions{Options: table.DefaultOptions(), Live: c.live, Series: c.most}
		err := m.Predict(background(), []string{"-"}, strings.NewReader(c.text), opt, func(*Prediction) error {
			n++
			return nil
		})
		if (err == nil) != c.ok || c.ok && n != strings.Count(c.text, "\n")-1 {
			t.Errorf("%s, at most %d, live %v: found %d predictions, %v", c.p.Task, c.most, c.live, n, err)
		}
	}
}

// TestPredictNotes checks the notes for a number far from those of training, for a text that did not occur in training,
// and for another step, each once. It also checks the rate of recordings.
func TestPredictNotes(t *testing.T) {
	x, logs, kind := number("x", true), number("y", true), category("kind", false, "u", "v")
	x.Base, x.Low, x.High, logs.Log, logs.Low, logs.High = 100, -2, 6, true, 0, math.Log(9)
	same := number("same", true)
	same.Low, same.High = 3, 3
	p := &Plan{Task: Forecast, Step: 100, Columns: []Column{x, logs, kind, same, category("label", true, "u")}}
	p.Columns[4].In = false
	row := &table.Values{Place: table.Place{File: "f", Unit: "row", At: 5}}
	var told []string
	fresh := func() *input {
		told = nil
		m := &Model{plan: p, net: &model.Network{}}
		return &input{m: m, net: m.net, p: p, reported: map[string]bool{}, classes: []map[string]int{2: {"u": 0,
			"v": 1}},
			note: func(text string) { told = append(told, text) }}
	}
	for _, c := range []struct {
		column int
		x      float64
		want   string
	}{
		{0, 94, ""}, {0, 110, ""}, {0, 93.9, "column x: found 93.9, far from the 98 to 106 of training"},
		{0, 110.1, "column x: found 110.1, far from the 98 to 106 of training"}, {1, 13, ""}, {1, 1e-3, ""},
		{1, 13.1, "column y: found 13.1, far from the 1 to 9 of training"}, {1, 0,
			"column y: found 0, but training had " +
				"positive numbers only and the forecast is of their logarithms: it counts as missing"},
		{3, 3, ""}, {3, 3.001, "column same: found 3.001, far from the 3 to 3"},
	} {
		d := fresh()
		for range 2 {
			d.checkRange(row, &p.Columns[c.column], c.x)
		}
		if found := strings.Join(told, "; "); found == "" != (c.want == "") || !strings.HasPrefix(found, "f, row 5, "+
			c.want) && found != "" || len(told) > 1 {
			t.Errorf("%g: found %q, want %q", c.x, found, c.want)
		}
	}
	d := fresh()
	for _, at := range []int{0, 1, 0} {
		d.checkRange(row, &p.Columns[at], 1000)
	}
	if len(told) != 2 {
		t.Errorf("of two columns: found %q", told)
	}
	d = fresh()
	d.p = &Plan{Spectrum: &table.Spectrum{}}
	for _, at := range []int{0, 3} {
		d.checkRange(row, &p.Columns[at], 1000)
	}
	if len(told) != 1 {
		t.Errorf("of two bands: found %q", told)
	}
	d = fresh()
	for text, want := range map[string]float32{"u": 0, "v": 1, "": float32(nan), "w": float32(nan)} {
		for range 2 {
			if got := d.class(row, 2, text); got != want && (got == got || want == want) {
				t.Errorf("%q: found %v, want %v", text, got, want)
			}
		}
	}
	if want := `f, row 5, column kind: found "w", which training did not have: it counts as missing; known: u, v`; len(
		told) != 1 || told[0] != want {
		t.Errorf("found %q, want %q", told, want)
	}
	for step, want := range map[float64]string{0: "", nan: "", 102: "", 98: "", 102.1: "rows are 102.1 seconds " +
		"apart, 100 " +
		"in training: the forecast counts rows, whatever time they cover", 97.9: "rows are 97.9 seconds"} {
		d := fresh()
		if err := d.atRate(step); err != nil || len(told) > 1 || !strings.HasPrefix(strings.Join(told, ""), want) ||
			want == "" && len(told) > 0 {
			t.Errorf("a step of %g: found %q, %v, want %q", step, told, err, want)
		}
	}
	d = fresh()
	if d.classes = append(d.classes, nil, map[string]int{"u": 0}); d.class(row, 4, "w") == 0 || len(told) > 0 {
		t.Errorf("a class that is not an input: found %q", told)
	}
	p.Step = 0.5
	if d := fresh(); d.atRate(0.6) != nil || len(told) != 1 {
		t.Errorf("steps below a second: found %q", told)
	}
	by := rowPlan(Steps, 0.5)
	by.Step = 10
	m := untrained(t, &by, "mean")
	d = &input{m: m, net: m.net, p: &by, reported: map[string]bool{}, note: func(text string) {
		told = append(told,
			text)
	}}
	told = nil
	want, err := m.net.AtRate(3)
	if err != nil || d.atRate(30) != nil {
		t.Fatal(err)
	}
	in := model.Input{Values: []float32{1, 2, 0.5, -1}, Lengths: []int{4}}
	if !slices.Equal(d.net.Predict(in), want.Predict(in)) || slices.Equal(d.net.Predict(in), m.net.Predict(in)) {
		t.Error("rows three times as far apart are not read at that rate")
	}
	if text := "rows are 30 seconds apart, 10 in training: the steps dt of the continuous systems are scaled by " +
		"their " +
		"ratio (other layers cannot be)"; d.atRate(70) != nil || len(told) != 1 || told[0] != text {
		t.Errorf("found %q told, want %q", told, text)
	}
	p = &Plan{Task: Next, Step: 10, Irregular: true}
	if d := fresh(); d.atRate(30) != nil || len(told) != 1 || !strings.HasSuffix(told[0],
		"the network takes the time between rows into account") {
		t.Errorf("by the time between rows: found %q", told)
	}
	if p.Irregular, p.Dt = false, DtSteps; fresh().atRate(30) != nil || len(told) != 1 {
		t.Errorf("by steps: found %q", told)
	}
	p.Step = 0
	if d := fresh(); d.atRate(30) != nil || len(told) > 0 {
		t.Errorf("a step that is not known: found %q", told)
	}
	for _, c := range []struct {
		p    Plan
		want int
	}{{Plan{}, 0}, {Plan{Step: 1. / 44100}, 44100}, {Plan{Step: 1, Spectrum: &table.Spectrum{Top: 8000}}, 16000}} {
		if got := c.p.soundRate(); got != c.want {
			t.Errorf("found the rate %d, want %d", got, c.want)
		}
	}
	for comma, want := range map[bool]string{false: "point", true: "comma"} {
		c := table.Column{}
		if (&Plan{Comma: comma}).olderDecimal(&c); c.Decimal != want {
			t.Errorf("fractions of an earlier version are after a %s", c.Decimal)
		}
		c.Decimal = "point"
		if (&Plan{Comma: true}).olderDecimal(&c); c.Decimal != "point" {
			t.Errorf("found %q where a column says point", c.Decimal)
		}
	}
}
