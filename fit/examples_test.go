package fit

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/fit/classic"
)

// simplePlan returns a plan that predicts a class or two numbers from a number x.
func simplePlan(name string, classes bool) *Plan {
	p := &Plan{Task: name, Length: 9, Levels: []float64{0.5}, Columns: []Column{number("x", false), number("y", true),
		number("z", true)}}
	if classes {
		p.Columns = []Column{number("x", false), category("y", true, "a", "b", "c")}
	}
	for i := range p.Columns[1:] {
		p.Columns[1+i].In = false
	}
	p.Columns[0].Mean, p.Columns[0].Deviation = 3, 2
	return p
}

// TestSimpleExamples checks the examples for simple models: all whole sequences with known targets, or some of the
// rows, evenly spaced. The features of each are those of the definition, on one scale.
func TestSimpleExamples(t *testing.T) {
	for name, c := range map[string]struct {
		task    string
		classes bool
		most    int
		rows    []int // rows that are used, as indices 0 to 26 into the windows of 9 rows
	}{
		"classes of sequences": {Classify, true, 100, []int{0, 1, 2}},
		"of some sequences":    {Classify, true, 2, []int{0, 1}},
		"numbers":              {Regress, false, 100, []int{0, 1, 2}},
		"all rows":             {Steps, true, 27, seqInt(27, 1)},
		"half of the rows":     {Steps, true, 26, []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26}},
		"numbers at rows":      {Steps, false, 5, []int{0, 6, 10, 16, 20, 26}},
	} {
		p := simplePlan(c.task, c.classes)
		var series [][][]float32
		for s := range 3 {
			var rows [][]float32
			for r := range 9 {
				row := []float32{float32((9*s + r) * (9*s + r) % 17), float32((s + r) % 3), float32(s * r)}
				if s == 1 && (p.whole() || r == 2) {
					row[1] = float32(nan) // the class, or one of the numbers, is unknown
				}
				if p.whole() && s != 1 {
					row[1], row[2] = float32(s), 5
				}
				rows = append(rows, row[:len(p.Columns)])
			}
			series = append(series, rows)
		}
		f := made(t, p, series...)
		w := f.newWindows(f.wholeSeries(), trainPart, 9, 0)
		var want classic.Examples
		for _, at := range c.rows {
			s, r := at/9, at%9
			if p.whole() {
				s, r = at, 8
			}
			row := series[s][r]
			if row[1] != row[1] {
				continue
			}
			var in []float32
			for _, other := range series[s] {
				in = append(in, (other[0]-3)/2)
			}
			if p.whole() {
				want.X = append(want.X, classic.Whole(in, 1)...)
			} else {
				want.X = classic.OfRow(want.X, in, 1, r)
			}
			if c.classes {
				want.Class = append(want.Class, int(row[1]))
			} else {
				want.Y = append(want.Y, float64(row[1]), float64(row[2]))
			}
		}
		want.Width = map[bool]int{true: 14, false: 14}[p.whole()]
		scale := classic.ScaleOf(want.X, want.Width)
		scale.Apply(want.X)
		var found classic.Scale
		got, err := f.examples(background(), w, c.most, &found)
		if err != nil || !slices.Equal(got.Class, want.Class) || got.Width != want.Width {
			t.Errorf("%s: found %v of the classes %v, want %v", name, err, got.Class, want.Class)
			continue
		}
		sameNumbers(t, name+": features", got.X, want.X, 1e-9)
		sameNumbers(t, name+": numbers", got.Y, want.Y, 1e-9)
		sameNumbers(t, name+": scale", found.Mean, scale.Mean, 1e-9)
		double := classic.Scale{Mean: make([]float64, got.Width), Deviation: slices.Repeat([]float64{1e9}, got.Width)}
		if got, err := f.examples(background(), w, c.most, &double); err != nil || double.Deviation[0] != 1e9 ||
			math.Abs(got.X[0]) > 1e-6 {
			t.Errorf("%s: on another scale the first feature is %v, %v", name, got.X[0], err)
		}
		ctx, cancel := context.WithCancel(background())
		cancel()
		if _, err := f.examples(ctx, w, c.most, &found); err == nil {
			t.Errorf("%s: what is cancelled gives no error", name)
		}
	}
}

// seqInt returns n numbers from 0, a step apart.
func seqInt(n, step int) (x []int) {
	for i := range n {
		x = append(x, i*step)
	}
	return x
}

// TestSimpleData checks that simple models need ten examples, at least two for each output, and not too many features.
// Validation examples are on the scale of training. Without a validation part, the training examples take its place.
func TestSimpleData(t *testing.T) {
	of := func(p *Plan, n int) (*frame, *windows) {
		var rows [][]float32
		for i := range n {
			rows = append(rows, append([]float32{float32(i * i % 7), float32(i % 3)},
				make([]float32, len(p.Columns)-2)...))
		}
		f := made(t, p, rows)
		return f, f.newWindows(f.wholeSeries(), trainPart, 9, 0)
	}
	p := simplePlan(Steps, true)
	f, w := of(p, 18)
	empty := f.newWindows(nil, validPart, 9, 0)
	few := f.newWindows([]segment{{0, 0, 9}}, trainPart, 9, 0)
	ten := f.newWindows([]segment{{0, 0, 1}, {0, 1, 10}}, trainPart, 9, 0)
	for name, c := range map[string]struct {
		train, valid *windows
		ok           bool
		examples     int
	}{
		"both": {w, few, true, 9}, "training alone": {w, nil, true, 18}, "no validation": {w, empty, false, 0},
		"nine": {few, nil, false, 0}, "ten": {ten, nil, true, 10},
	} {
		a, b, scale, ok, err := (&simple{}).data(background(), f, c.train, c.valid)
		if err != nil || ok != c.ok || ok && (b.Len() != c.examples || c.valid == nil && a != b ||
			len(scale.Mean) != 14) {
			t.Errorf("%s: found %v, %v, %v", name, b, ok, err)
		}
	}
	wide := func(columns, classes int) *Plan {
		p := simplePlan(Steps, true)
		p.Columns[1].Classes = make([]string, classes)
		for len(p.Columns) < columns+1 {
			p.Columns = append(p.Columns, number("x", false))
		}
		return p
	}
	for _, c := range []struct {
		columns, classes int
		ok               bool
	}{{107, 3, true}, {108, 3, false}, {100, 32, true}, {100, 33, false}, {2, 231, true}, {2, 232, false}} {
		p := wide(c.columns, c.classes)
		f, w := of(p, 18)
		if _, _, _, ok, err := (&simple{}).data(background(), f, w, nil); ok != c.ok || err != nil {
			t.Errorf("%d columns and %d classes: found %v, %v", c.columns, c.classes, ok, err)
		}
	}
	for _, c := range []struct {
		task                             string
		classes                          bool
		features, outputs, memory        int
		suits, suitsLogistic, suitsRidge bool
		logistic, boosted                string
	}{
		{Classify, true, 14, 3, 0, true, true, false, "logistic regression on 14 simple features",
			"boosted-trees model on 14 simple features"},
		{Steps, false, 14, 2, classic.Recent, true, false, true, "ridge regression on 14 simple features",
			"boosted-trees model on 14 simple features"},
		{Regress, false, 14, 2, 0, true, false, true, "ridge regression on 14 simple features",
			"boosted-trees model on 14 simple features"},
		{Next, false, 14, 2, classic.Recent, false, false, false, "ridge regression on 14 simple features",
			"boosted-trees model on 14 simple features"},
	} {
		p := simplePlan(c.task, c.classes)
		l, b := &linearRival{}, &boostedRival{}
		if p.features() != c.features || p.outputs() != c.outputs || l.memory(p) != c.memory ||
			p.suitsSimple() != c.suits || p.suitsLogistic() != c.suitsLogistic || p.suitsRidge() != c.suitsRidge ||
			l.title(p) != c.logistic || b.title(p) != c.boosted {
			t.Errorf("%s: found %d features, %d outputs, %d rows, %q, %q", c.task, p.features(), p.outputs(),
				l.memory(p), l.title(p), b.title(p))
		}
		if l.check(p) == nil || b.check(p) == nil {
			t.Errorf("%s: models without weights are taken", c.task)
		}
	}
}

// TestSimpleFits checks that a fit without validation keeps the setting chosen by validation before, and that a
// prediction is that of the model for the features of each row or of the whole sequence.
func TestSimpleFits(t *testing.T) {
	for _, c := range []struct {
		task    string
		classes bool
	}{{Steps, true}, {Steps, false}, {Classify, true}} {
		p := simplePlan(c.task, c.classes)
		var series [][][]float32
		for s := range 20 {
			var rows [][]float32
			for r := range 9 {
				x := float32((9*s + r) * (9*s + r) % 17)
				row := []float32{x + float32(5*s%15), float32(int(x) % 3), float32(math.Sin(float64(x)))}
				if p.whole() {
					row[1] = float32(s % 3)
				}
				rows = append(rows, row[:len(p.Columns)])
			}
			series = append(series, rows)
		}
		f := made(t, p, series...)
		w := f.newWindows(f.wholeSeries(), trainPart, 9, 0)
		valid := f.newWindows(f.wholeSeries()[:5], validPart, 9, 0)
		l, b := &linearRival{}, &boostedRival{}
		for _, one := range []struct {
			rival   rival
			setting *float64
			other   float64
		}{{l, &l.Setting, 0.5}, {b, &b.Setting, 3}} {
			if ok, err := one.rival.fit(background(), f, w, valid); !ok || err != nil {
				t.Fatal(ok, err)
			}
			chosen := *one.setting
			if chosen == 0 {
				t.Errorf("%s: no setting is chosen", c.task)
			}
			*one.setting = one.other
			if ok, err := one.rival.fit(background(), f, w, nil); !ok || err != nil || *one.setting != one.other {
				t.Errorf("fitted without validation: %v, %v, the setting %v, want %v", ok, err, *one.setting, one.other)
			}
			*one.setting = 1e-7
			if ok, err := one.rival.fit(background(), f, w, valid); !ok || err != nil || *one.setting != chosen {
				t.Errorf("fitted with validation again: %v, %v, the setting %v, want %v", ok, err, *one.setting, chosen)
			}
			if err := one.rival.check(p); err != nil {
				t.Error(err)
			}
		}
		e, err := newEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		var in, rows []float32
		for _, row := range series[7] {
			in, rows = append(in, (row[0]-3)/2), append(rows, row...)
		}
		n := 3
		if p.whole() {
			n = 1
		}
		for _, one := range []struct {
			rival   rival
			predict func(x, y []float64)
		}{{l, l.Model.Predict}, {b, b.Model.Predict}} {
			got, want := make([]float64, n*p.outputs()), make([]float64, n*p.outputs())
			one.rival.guess(e, rows, n, got)
			for r := range n {
				x := classic.Whole(in, 1)
				if !p.whole() {
					x = classic.OfRow(nil, in, 1, 6+r)
				}
				one.predict(x, want[r*p.outputs():(r+1)*p.outputs()])
			}
			sameNumbers(t, c.task, got, want, 1e-9)
		}
	}
}
