package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// TestHidden checks that the values to fill are hidden in gaps of 1 to 12 rows, 1 to 45 rows apart in steps of four,
// for each target separately. Every window has its own gaps, which stay the same.
func TestHidden(t *testing.T) {
	p := &Plan{Task: Fill, Columns: []Column{number("x", true), number("k", false), number("z", true)}}
	w := &windows{f: &frame{plan: p}, seed: 3, part: validPart}
	runs := map[bool]map[int]bool{true: {}, false: {}}
	for i := range 10 {
		hides, again := w.hides(i), w.hides(i)
		length, before := [3]int{}, [3]bool{}
		for row := range 500 {
			now := hides(row)
			if !slices.Equal(now, again(row)) || now[1] {
				t.Fatalf("window %d, row %d: found %v", i, row, now)
			}
			for _, k := range []int{0, 2} {
				if row == 0 && !now[k] {
					t.Errorf("window %d does not begin with a gap of column %d", i, k)
				}
				if row > 0 && now[k] != before[k] {
					runs[before[k]][length[k]], length[k] = true, 0
				}
				length[k]++
				before[k] = now[k]
			}
		}
	}
	gaps, between := seqInt(13, 1)[1:], seqInt(12, 4)
	for i := range between {
		between[i]++
	}
	for hidden, want := range map[bool][]int{true: gaps, false: between} {
		var got []int
		for n := range runs[hidden] {
			got = append(got, n)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("hidden %v: found runs of %v rows, want %v", hidden, got, want)
		}
	}
	one := hiddenRows(w, 0)
	other := &windows{f: w.f, seed: 3, part: trainPart}
	if slices.Equal(one, hiddenRows(w, 1)) || slices.Equal(one, hiddenRows(other, 0)) {
		t.Error("windows, or parts, have the same gaps")
	}
	p.Task = Steps
	if w.hides(0) != nil {
		t.Error("of another task rows are hidden")
	}
}

// hiddenRows returns what is hidden in the first rows of window i.
func hiddenRows(w *windows, i int) (all []bool) {
	hides := w.hides(i)
	for row := range 200 {
		all = append(all, hides(row)...)
	}
	return all
}

// TestFillExamples checks that hidden values are missing in the inputs and are targets, and that others are not.
func TestFillExamples(t *testing.T) {
	p := &Plan{Task: Fill, Length: 30, Levels: []float64{0.5}, Columns: []Column{number("x", true)}}
	p.Columns[0].Gaps, p.Columns[0].Mean, p.Columns[0].Deviation = true, 10, 2
	x := make([]float64, 30)
	for i := range x {
		x[i] = float64(i)
	}
	f := made(t, p, column(x...))
	w := f.newWindows(f.wholeSeries(), trainPart, 30, 1)
	var ex task.Example
	w.Example(0, &ex)
	hides, hidden := w.hides(0), 0
	for r := range x {
		want, in, gap := nan, float32(x[r]-10)/2, float32(0)
		if hides(r)[0] {
			want, in, gap = (x[r]-10)/2, 0, 1
			hidden++
		}
		if ex.Values[2*r] != in || ex.Values[2*r+1] != gap {
			t.Errorf("row %d goes in as %v", r, ex.Values[2*r:2*r+2])
		}
		sameNumbers(t, fmt.Sprint("row ", r), []float64{float64(ex.Numbers[r])}, []float64{want}, 1e-6)
	}
	if hidden == 0 || hidden == 30 {
		t.Errorf("%d of 30 rows are hidden", hidden)
	}
}

// TestPermuted checks that one column of a window is replaced by that of another window, repeated if that is shorter,
// with no values before it. The times of a row and the previous row are replaced together.
func TestPermuted(t *testing.T) {
	p := &Plan{Task: Steps, Length: 3, Step: 10, Irregular: true, Levels: []float64{0.5}, Time: &table.Column{},
		Columns: []Column{number("a", false), number("b", false), number("y", true)}}
	p.Columns[2].In = false
	row := func(x, seconds float32) []float32 { return []float32{x, 10 * x, 100 * x, seconds, 0} }
	f := made(t, p, [][]float32{row(1, 5), row(2, 15), row(3, 45)}, [][]float32{row(4, 100), row(5, 105)},
		[][]float32{row(6, 7), row(7, 17), row(8, 27), row(9, 107), row(10, 117)})
	w := f.newWindows([]segment{{0, 0, 3}, {1, 3, 5}, {2, 7, 10}}, validPart, 3, 1)
	s := &permuted{windows: w, column: 1, donor: map[int]int{0: 1, 1: 0, 2: 1}}
	flat := func(rows ...[]float32) []float32 { return slices.Concat(rows...) }
	with := func(x, b, seconds float32) []float32 { return []float32{x, b, 100 * x, seconds, 0} }
	for i, want := range [][]float32{flat(with(1, 40, 5), with(2, 50, 15), with(3, 40, 45)),
		flat(with(4, 10, 100), with(5,
			20, 105)), flat(with(8, 40, 27), with(9, 50, 107), with(10, 40, 117))} {
		at := w.at(i)
		if got := s.stretch(i, at.lo, at.hi); !slices.Equal(got, want) {
			t.Errorf("window %d: found %v, want %v", i, got, want)
		}
	}
	if got, want := s.stretch(2, 5, 10), flat(row(6, 7), row(7, 17), with(8, 40, 27), with(9, 50, 107), with(10, 40,
		117)); !slices.Equal(got, want) {
		t.Errorf("with rows before: found %v, want %v", got, want)
	}
	if got := f.rows.row(8)[1]; got != 90 {
		t.Errorf("the data itself has changed: %v", got)
	}
	s.column = timeColumn
	timed := func(x, seconds float32) []float32 { return row(x, seconds) }
	if got, want := s.stretch(0, 0, 3), flat(timed(1, 100), timed(2, 105), timed(3, 100)); !slices.Equal(got, want) {
		t.Errorf("times: found %v, want %v", got, want)
	}
	s.donor[0] = 2 // its first row is 10 s after the previous one, the next are 80 and 10
	var ex task.Example
	s.Example(0, &ex)
	log8 := float32(math.Log(8))
	if want := []float32{1, 10, 0, 2, 20, log8, 3, 30, 0}; !slices.EqualFunc(ex.Values, want, func(a, b float32) bool {
		return math.Abs(float64(a-b)) < 1e-6
	}) {
		t.Errorf("found the inputs %v, want %v", ex.Values, want)
	}
	s.column = 0
	if s.Example(0, &ex); ex.Values[0] != 8 || ex.Values[2] != 0 || ex.Values[5] != 0 {
		t.Errorf("found the inputs %v", ex.Values)
	}
}

// TestSets checks the description of the data for training, the errors for parts without a window, and that windows of
// validation and test share no row, unless they are forecasts.
func TestSets(t *testing.T) {
	number3 := func(task string) *Plan {
		p := &Plan{Task: task, Length: 10, Levels: []float64{0.25, 0.5},
			Columns: []Column{number("x", false), number("y",
				true), number("z", true)}}
		if task == Forecast {
			p.Length, p.Lookback, p.Horizon = 0, 4, 2
		}
		p.Columns[1].In, p.Columns[2].In = task == Forecast, task == Forecast
		return p
	}
	whole := number3(Regress)
	whole.Length = 0
	class := classPlan()
	class.Columns[1].Classes[2] = "c\nd"
	for name, c := range map[string]struct {
		p      *Plan
		stride int
		want   string
	}{
		"rows":      {number3(Steps), 0, "1 channels, 4 outputs, [0.25 0.5], true, true, 10 long; 9 2 3 windows"},
		"by fours":  {number3(Steps), 4, "1 channels, 4 outputs, [0.25 0.5], true, true, 10 long; 11 2 3 windows"},
		"forecasts": {number3(Forecast), 0, "4 channels, 4 outputs, [0.25 0.5], true, true, 6 long; 45 19 29 windows"},
		"whole":     {whole, 0, "1 channels, 4 outputs, [0.25 0.5], true, false, 50 long; 1 1 1 windows"},
		"classes":   {class, 0, "1 channels, 3 outputs, [], false, true, 10 long; 9 2 3 windows a|b|c d"},
	} {
		rows := make([][]float32, 100)
		for i := range rows {
			rows[i] = make([]float32, len(c.p.Columns))
		}
		f, cfg := made(t, c.p, rows), DefaultConfig()
		cfg.Stride = c.stride
		all := [parts][]segment{{{0, 0, 50}}, {{0, 50, 70}}, {{0, 70, 100}}}
		s, err := f.set(&cfg, all)
		if err != nil {
			t.Fatal(name, err)
		}
		got := fmt.Sprintf("%d channels, %d outputs, %v, %v, %v, %d long; %d %d %d windows", s.Channels, s.Outputs,
			s.Levels,
			s.Numbers, s.Everywhere, s.MaxLength, s.Train.Len(), s.Valid.Len(), s.Test.Len())
		if s.Classes != nil {
			got += " " + strings.Join(s.Classes, "|")
		}
		if got != c.want || len(s.Inputs) != s.Channels || string(s.About) != string(c.p.about()) || len(s.Results) !=
			s.Outputs*int(bit(s.Numbers)) {
			t.Errorf("%s: found %s, want %s", name, got, c.want)
		}
		for part := range parts {
			lacks := all
			lacks[part] = nil
			want := fmt.Sprintf("the %s part: found no rows to learn from (0 series, the longest of 0 rows), want "+
				"more data",
				partNames[part])
			if c.p.Task == Forecast {
				lacks[part] = []segment{{0, 50, 51}}
				want = fmt.Sprintf("the %s part: found 1 rows in its longest series, want the horizon, 2, or more",
					partNames[part])
			}
			if _, err := f.set(&cfg, lacks); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: found %v, want %q", name, err, want)
			}
		}
	}
	defer func(n int) { mostChosen = n }(mostChosen)
	for most, want := range map[int]int{91: 1, 90: 2, 46: 2, 45: 3} {
		mostChosen = most
		f := made(t, number3(Steps), make([][]float32, 0))
		f.seqs = []sequence{{hi: 100}}
		w := f.newWindows(f.wholeSeries(), trainPart, 1, 0)
		if got := f.thinOut(w); got.stride != want || (len(f.notes) > 0) != (want > 1) || want > 1 && f.notes[0] !=
			fmt.Sprintf("training windows start %d rows apart, as there are 91 at a distance of 1 (--stride 1 has "+
				"them all)",
				want) {
			t.Errorf("at most %d of %d: found the stride %d, told %q", most, w.Len(), got.stride, f.notes)
		}
	}
}

// TestModelOpens checks that a folder without a network is refused with what is expected, and so is a network without a
// plan.
func TestModelOpens(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("found %v", err)
	}
	p := Plan{Version: planVersion, Task: Next, Columns: []Column{number("x", true)}, Levels: []float64{0.5}}
	m := untrained(t, &p, "mean")
	if m.Plan() != &p || m.Net() != m.net || m.title() != "network" {
		t.Errorf("found %+v", m)
	}
	all := m.by(&Contender{Name: useNetwork, Alarm: 3})
	if all.rival != nil || all.plan != &p {
		t.Errorf("the network in place of itself: %+v", all)
	}
	p.Widen, p.Final, p.Weighted = [][][]float64{{{1}}}, true, true
	rival := m.by(&Contender{Name: "last", Title: "last value", Alarm: 3, Weights: []float64{2}})
	if q := rival.plan; q.Widen != nil || q.Alarm != 3 || q.Final || q.Weighted || fmt.Sprint(q.Weights) != "[2]" ||
		rival.title() != "last value" || p.Widen == nil || rival.by(nil).plan != &p {
		t.Errorf("found %+v", q)
	}
	if _, err := onnxFill(m); err == nil || !strings.Contains(err.Error(), "found the task fill") {
		t.Errorf("found %v", err)
	}
	if _, _, err := ONNX(dir, "half"); err == nil ||
		!strings.Contains(err.Error(), `form: found "half", want one of whole`) {
		t.Errorf("found %v", err)
	}
	if _, _, err := ONNX(dir, ONNXStep); err == nil {
		t.Error("of no network there is a model")
	}
}

func onnxFill(m *Model) ([]byte, error) {
	p := *m.plan
	p.Task = Fill
	file, _, err := onnxOf(m.net, &p, ONNXWhole)
	return file, err
}

// TestAnswerFails checks that a failure of the output, or the end of the request, is not reported as an error of rows.
// Other errors name the row once.
func TestAnswerFails(t *testing.T) {
	p := rowPlan(Steps, 0.5)
	m := by(t, &p, counting)
	full := errors.New("full")
	q := Query{Rows: strings.NewReader("x\n1\n"), Format: "csv", As: AsCSV, Live: true, Out: failing{full}}
	var bad *InputError
	if err := m.Answer(background(), q); !errors.Is(err, full) || errors.As(err, &bad) {
		t.Errorf("found %v", err)
	}
	ctx, cancel := context.WithCancel(background())
	q.Rows, q.Out, q.Count = strings.NewReader("x\n1\nbad\n"), &bytes.Buffer{}, cancel
	if err := m.Answer(ctx, q); err == nil || errors.As(err, &bad) {
		t.Errorf("found %v", err)
	}
	q.Rows, q.Count = strings.NewReader("x\n1\nbad\n"), nil
	err := m.Answer(background(), q)
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	row, column := bad.Where()
	var inner *table.RowError
	if row != 3 || column != "x" || !errors.As(bad.Unwrap(), &inner) || err.Error() !=
		`line 3, column x: found "bad", want a number` {
		t.Errorf("found %v at %d, %q", err, row, column)
	}
	for text, want := range map[string]string{"-: no rows": "no rows", "standard input: no rows": "no rows",
		"x-: y": "x-: y"} {
		if got := (&InputError{err: errors.New(text)}).Error(); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestScaleOfAlike checks that equal numbers have the least scale, whatever variance rounding errors give.
func TestScaleOfAlike(t *testing.T) {
	p := banded(1, 0, 0.5)
	p.Local, p.Columns[0].Mean, p.Columns[0].Deviation = true, 0.3, 8
	e, err := newEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n < 12; n++ {
		for x := float32(0.1); x < 20; x += 0.7 {
			if e.from(slices.Repeat([]float32{x}, n)); e.scale[0] != 0.4 || e.last[0] != float64(x) {
				t.Errorf("%d times %v: found the scale %v, from %v", n, x, e.scale[0], e.last[0])
			}
		}
	}
}
