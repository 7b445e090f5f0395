package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestPartEnds checks that shares are of all rows, rounded, and that numbers of rows are counted as far as there are
// rows.
func TestPartEnds(t *testing.T) {
	for _, c := range []struct {
		n     int
		sizes [parts]float64
		want  [parts]int
	}{
		{100, [parts]float64{0.7, 0.1, 0.2}, [parts]int{70, 80, 100}}, {10, [parts]float64{0.75, 0.15, 0.1},
			[parts]int{8, 9, 10}},
		{7, [parts]float64{0.5, 0.25, 0.25}, [parts]int{4, 5, 7}}, {100, [parts]float64{60, 20, 10}, [parts]int{60, 80,
			90}},
		{70, [parts]float64{60, 20, 10}, [parts]int{60, 70, 70}}, {5, [parts]float64{1, 1, 1}, [parts]int{1, 2, 3}},
	} {
		if got := partEnds(c.n, c.sizes); got != c.want {
			t.Errorf("%d rows by %v: found the ends %v, want %v", c.n, c.sizes, got, c.want)
		}
	}
}

// TestDivideInTime checks that forecasts, and rows of few series, are divided in time, each series at the same shares,
// so that no part sees later rows. With numbers of rows, some rows may be unused.
func TestDivideInTime(t *testing.T) {
	series := [][][]float32{column(make([]float64, 100)...), column(make([]float64, 10)...)}
	for task, split := range map[string]string{Forecast: "0.7,0.1,0.2", Steps: "0.5,0.25,0.25"} {
		f := made(t, &Plan{Task: task, Horizon: 1, Columns: []Column{number("x", true)}}, series...)
		c := DefaultConfig()
		c.Split = split
		divided, how, err := f.divide(&c)
		if err != nil || !strings.Contains(how, "in time") || !strings.Contains(how, split) {
			t.Fatal(how, err)
		}
		want := [parts][]segment{{{0, 0, 70}, {1, 100, 107}}, {{0, 70, 80}, {1, 107, 108}}, {{0, 80, 100}, {1, 108,
			110}}}
		if task == Steps {
			want = [parts][]segment{{{0, 0, 50}, {1, 100, 105}}, {{0, 50, 75}, {1, 105, 108}}, {{0, 75, 100}, {1, 108,
				110}}}
		}
		for part := range parts {
			if !slices.Equal(divided[part], want[part]) {
				t.Errorf("%s: the %s part is %v, want %v", task, partNames[part], divided[part], want[part])
			}
		}
	}
	f := made(t, &Plan{Task: Forecast, Horizon: 20, Columns: []Column{number("x", true)}}, series[0])
	c := DefaultConfig()
	c.Split = autoSplit // two horizons of 20 rows for validation
	if divided, _, err := f.divide(&c); err != nil || divided[trainPart][0] != (segment{0, 0, 50}) ||
		divided[validPart][0] != (segment{0, 50, 80}) {
		t.Errorf("of a long horizon: found %v, %v", divided, err)
	}
	f.plan.Horizon = 8
	if divided, _, err := f.divide(&c); err != nil || divided[trainPart][0] != (segment{0, 0, 64}) ||
		divided[validPart][0] != (segment{0, 64, 80}) {
		t.Errorf("of a shorter one: found %v, %v", divided, err)
	}
	f.plan.Horizon = 2
	if divided, _, err := f.divide(&c); err != nil || divided[trainPart][0] != (segment{0, 0, 70}) {
		t.Errorf("of a short one: found %v, %v", divided, err)
	}
	c.Split = "50,3,4"
	short := made(t, f.plan, series[1])
	if divided, _, err := short.divide(&c); err != nil || len(divided[validPart])+len(divided[testPart]) != 0 {
		t.Errorf("a series of fewer rows than the training part: found %v, %v", divided, err)
	}
	c.Split = "1,2"
	if _, _, err := f.divide(&c); err == nil {
		t.Error("a split in two: no error")
	}
}

// TestDivideByGroups checks that many sequences are divided as a whole, with the sequences of a group together, each
// class at the requested shares, and differently for another seed.
func TestDivideByGroups(t *testing.T) {
	p := &Plan{Task: Classify, Columns: []Column{number("x", false), category("y", true, "a", "b")}}
	var series [][][]float32
	for i := range 100 {
		class := float32(i % 5 / 4) // a fifth has class 1
		series = append(series, [][]float32{{0, class}, {1, class}})
	}
	f := made(t, p, series...)
	for i := range f.seqs { // in pairs with the same class: 0 with 5, 1 with 6 and so on
		f.seqs[i].group = i/10*5 + i%5
	}
	f.groups = 50
	deal := func(seed uint64) ([parts][]segment, string) {
		c := DefaultConfig()
		c.Split, c.Seed = "0.6,0.2,0.2", seed
		divided, how, err := f.divide(&c)
		if err != nil {
			t.Fatal(err)
		}
		return divided, how
	}
	divided, how := deal(1)
	if !strings.Contains(how, "(50 groups, 0.6,0.2,0.2)") {
		t.Errorf("found it divided %s", how)
	}
	part := map[int]int{}
	for i, segments := range divided {
		classes := map[float32]int{}
		for _, s := range segments {
			if s.lo != f.seqs[s.seq].lo || s.hi != f.seqs[s.seq].hi {
				t.Errorf("a sequence is divided: %v", s)
			}
			g := f.seqs[s.seq].group
			if before, ok := part[g]; ok && before != i {
				t.Errorf("group %d is in the parts %d and %d", g, before, i)
			}
			part[g] = i
			classes[f.rows.row(s.lo)[1]]++
		}
		if want := []float32{48, 16, 16}[i]; float32(classes[0]) != want || float32(classes[1]) != want/4 {
			t.Errorf("the %s part has the classes %v, want %v and a quarter", partNames[i], classes, want)
		}
	}
	if again, _ := deal(1); fmt.Sprint(again) != fmt.Sprint(divided) {
		t.Error("the same seed divides otherwise")
	}
	if other, _ := deal(2); fmt.Sprint(other) == fmt.Sprint(divided) {
		t.Error("another seed divides alike")
	}
	for _, group := range []string{"", "who"} {
		f.groups = 2
		c := DefaultConfig()
		c.Group, c.Split = group, "0.6,0.2,0.2"
		want := "found 2 sequences, want 3 or more"
		if group != "" {
			want = "found 2 groups (values of who), want 3"
		}
		if _, _, err := f.divide(&c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want %q", err, want)
		}
	}
	f.groups = 3
	c := DefaultConfig()
	c.Split = "0.6,0.2,0.2"
	for i := range f.seqs {
		f.seqs[i].group = i % 3
	}
	if _, _, err := f.divide(&c); err != nil {
		t.Errorf("three groups: %v", err)
	}
	f.seqs[0] = sequence{lo: 0, hi: 1}
	if got := f.classOf(2); got != 0 || f.classOf(4) != 1 {
		t.Errorf("the classes are %d and %d, want 0 and 1", got, f.classOf(4))
	}
	missing := made(t, p, [][]float32{{0, float32(nan)}})
	if got := missing.classOf(0); got != -1 {
		t.Errorf("a sequence without a class is of class %d", got)
	}
	p.Task = Steps
	if got := f.classOf(4); got != 0 {
		t.Errorf("where classes change from row to row, a sequence is of class %d", got)
	}
}

// TestSplitTexts checks the valid settings of the division and of levels.
func TestSplitTexts(t *testing.T) {
	for text, ok := range map[string]bool{"0.7,0.15,0.15": true, " 0.5, 0.25,0.25": true, "8640,2880,2880": true,
		"1,1,1":        true,
		"0.5,0.25,0.2": false, "0.5,0.5": false, "0.5,0.5,0": false, "0.5,0.25,0.25,0": false, "a,b,c": false,
		"":        false,
		"1.5,1,1": false, "1,1,0.5": false, "-1,1,1": false, "nan,1,1": false, "1e15,1,1": false,
		"0.7,0.1,auto": false} {
		c := DefaultConfig()
		c.Split = text
		if _, err := c.split(); (err == nil) != ok {
			t.Errorf("split %q: found %v", text, err)
		}
	}
	c := DefaultConfig()
	c.Split = "0.5,0.3,0.2"
	if got, _ := c.split(); got != [3]float64{0.5, 0.3, 0.2} {
		t.Errorf("found the split %v", got)
	}
	c.Split = autoSplit
	if got, _ := c.split(); got != [3]float64{0.7, 0.1, 0.2} {
		t.Errorf("found the split %v", got)
	}
	for text, want := range map[string][]float64{"0.1,0.5,0.9": {0.1, 0.5, 0.9}, " 0.5 ": {0.5}, "0.1,0.9": nil,
		"0.5,0.5": nil,
		"0.9,0.5": nil, "0,0.5": nil, "0.5,1": nil, "x,0.5": nil, "nan,0.5": nil} {
		c.Levels = text
		if got, err := c.levels(); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("levels %q: found %v, %v", text, got, err)
		}
	}
	var many []string
	for i := range mostLevels {
		many = append(many, fmt.Sprint(float64(i+1)/float64(2*mostLevels)))
	}
	many[mostLevels-1] = "0.5"
	c.Levels = strings.Join(many, ",")
	if got, err := c.levels(); len(got) != mostLevels || err != nil {
		t.Errorf("%d levels: %v", mostLevels, err)
	}
	c.Levels += ",0.9"
	if _, err := c.levels(); err == nil {
		t.Errorf("%d levels: no error", mostLevels+1)
	}
}

// TestSeasonOf checks that the season is a day for hours and minutes, a week for days, and a year for weeks, months and
// quarters, within a hundredth, and that other steps have none.
func TestSeasonOf(t *testing.T) {
	for step, want := range map[float64]int{3600: 24, 1800: 48, 60: 1440, 59: 1, 61: 1416, 30: 1, 86400: 7,
		86400 * 1.0099: 7, 86400 * 1.011: 1,
		7 * 86400: 52, 30 * 86400: 12, 31 * 86400: 12, 28 * 86400: 12, 27 * 86400: 1, 32 * 86400: 1, 26 * 86400: 1,
		91 * 86400: 4,
		89 * 86400: 1, 93 * 86400: 1, 90 * 86400: 4, 366 * 86400: 1, 367 * 86400: 1, 0: 1, -1: 1, 43200: 2, 50000: 1,
		86400 / 7.02: 7} {
		if got := seasonOf(step); got != want {
			t.Errorf("rows of %v s have a season of %d, want %d", step, got, want)
		}
	}
}

// TestCalendarOf checks that the calendar has the cycles that are longer than a step and occur at least twice, but not
// the month.
func TestCalendarOf(t *testing.T) {
	for _, c := range []struct {
		step, span float64 // in days
		want       string
	}{
		{1. / 24, 2, "hour"}, {1. / 24, 1.99, ""}, {1. / 24, 14, "hour weekday"}, {1. / 24, 13.9, "hour"},
		{1. / 24, 2 * 365.25, "hour weekday day of the year"}, {1, 100, "weekday"}, {7, 2000, "day of the year"}, {0,
			1000, ""},
		{366, 10_000, ""},
	} {
		if got := strings.Join(calendarOf(c.step*86400, c.span*86400), " "); got != c.want {
			t.Errorf("%v: found the cycles %q, want %q", c, got, c.want)
		}
	}
}

// TestScaler checks the mean, the deviation, the deviation of changes and the bounds against the definitions, over
// numbers that are not missing, with changes only within a series.
func TestScaler(t *testing.T) {
	x := [][]float64{{1, 4, nan, 2, 7}, {-3, nan, 5}}
	p := &Plan{Task: Next, Columns: []Column{number("x", true), number("z", false)}}
	var series [][][]float32
	for _, one := range x {
		var rows [][]float32
		for _, v := range one {
			rows = append(rows, []float32{float32(v), 3})
		}
		series = append(series, rows)
	}
	f := made(t, p, series...)
	if err := f.measure(f.wholeSeries()); err != nil {
		t.Fatal(err)
	}
	n, sum, square := 0.0, 0.0, 0.0
	for _, one := range x {
		for _, v := range one {
			if v == v {
				n, sum, square = n+1, sum+v, square+v*v
			}
		}
	}
	mean := sum / n
	c := &p.Columns[0]
	// Changes, including the one from 4 over the gap to 2.
	changes := []float64{3, -2, 5, 8}
	change := 0.0
	for _, d := range changes {
		change += d * d / float64(len(changes))
	}
	sameNumbers(t, "scales", []float64{c.Mean, c.Deviation, c.Change, c.Low, c.High}, []float64{mean,
		math.Sqrt(square/n - mean*mean), math.Sqrt(change), -3, 7}, 1e-9)
	if z := &p.Columns[1]; !c.Gaps || z.Gaps || z.Mean != 3 || z.Deviation != 1 || z.Change != 1 || z.Low != 3 ||
		z.High != 3 {
		t.Errorf("found gaps %v, and a constant column %+v", c.Gaps, z)
	}
	p.Task = Fill
	if err := made(t, p, [][]float32{{1, 1}, {2, 2}}).measure([]segment{{0, 0, 2}}); err != nil || !p.Columns[0].Gaps ||
		p.Columns[1].Gaps {
		t.Errorf("for filling: %v, %+v", err, p.Columns)
	}
	for want, rows := range map[string][][]float32{
		"column x: found no value in the 2 rows": {{float32(nan), 1}, {float32(nan), 2}},
		"column x: found the value 5 in all":     {{5, 1}, {5, 2}},
		"want such as 32 bits can hold":          {{1e33, 1}, {5, 2}},
		"column z: found numbers up to 3e+33":    {{1, -3e33}, {5, 2}},
	} {
		p.Task = Steps
		f := made(t, p, rows)
		if err := f.measure(f.wholeSeries()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want %q", err, want)
		}
	}
	p.Task = Forecast
	if f := made(t, p, [][]float32{{5, 1}, {5, 2}}); f.measure(f.wholeSeries()) != nil || p.Columns[0].Deviation != 1 {
		t.Error("a forecast of a constant is refused")
	}
}

// TestSettleLengths checks that the lengths of windows follow from the rows, the season and the settings.
func TestSettleLengths(t *testing.T) {
	plan := func(task string, step float64) *Plan {
		p := &Plan{Task: task, Step: step, Columns: []Column{number("x", true)}}
		if step > 0 {
			p.Time = &table.Column{Name: "t", Kind: table.Time}
		}
		return p
	}
	for _, c := range []struct {
		task            string
		step            float64
		rows            []int
		change          func(c *Config)
		length          int
		horizon, look   int
		season          int
		pieces, local   bool
		note, wantError string
	}{
		{task: Steps, rows: []int{100, 5000}, length: 256, season: 1},
		{task: Steps, rows: []int{400}, length: 50, season: 1}, {task: Steps, rows: []int{20}, length: 8, season: 1},
		{task: Steps, rows: []int{400}, change: func(c *Config) { c.Length = 33 }, length: 33, season: 1},
		{task: Classify, rows: []int{400}, season: 1},
		{task: Classify, rows: []int{400}, change: func(c *Config) { c.Length = 100 }, length: 100, season: 1,
			pieces: true,
			note:   "sequences of up to 400 rows are learned in pieces of 100"},
		{task: Classify, rows: []int{400}, change: func(c *Config) { c.Length = 400 }, length: 400, season: 1},
		{task: Classify, rows: []int{mostWhole}, season: 1},
		{task: Steps, rows: []int{mostWhole + 1}, change: func(c *Config) { c.Length = 33 }, length: 33, season: 1},
		{task: Classify, rows: []int{mostWhole + 1}, change: func(c *Config) { c.Length = 33 }, length: 33, season: 1,
			pieces: true, note: "in pieces of 33"},
		{task: Classify, rows: []int{mostWhole + 1}, length: pieceRows, season: 1, pieces: true, note: "in pieces"},
		{task: Forecast, step: 3600, rows: []int{5000}, horizon: 24, look: 336, season: 24, local: true},
		{task: Forecast, step: 86400, rows: []int{5000}, horizon: 7, look: 98, season: 7, local: true},
		{task: Forecast, step: 1800, rows: []int{5000}, horizon: 24, look: 336, season: 48, local: true},
		{task: Forecast, step: 50000, rows: []int{5000}, horizon: 24, look: 48, season: 1, local: true},
		{task: Forecast, step: 50000, rows: []int{1000}, change: func(c *Config) { c.Horizon = 5 }, horizon: 5,
			look:   16,
			season: 1, local: true},
		{task: Forecast, step: 43200, rows: []int{1000}, change: func(c *Config) { c.Horizon = 5 }, horizon: 5,
			look:   28,
			season: 2, local: true},
		{task: Forecast, step: 50000, rows: []int{58}, change: func(c *Config) { c.Horizon = 10 }, horizon: 10,
			look:   16,
			season: 1, local: true},
		{task: Forecast, step: 3600, rows: []int{120}, change: func(c *Config) { c.Horizon = 10 }, horizon: 10,
			look:   48,
			season: 24, local: true},
		{task: Forecast, step: 1800, rows: []int{120}, change: func(c *Config) { c.Horizon = 10 }, horizon: 10,
			look:   48,
			season: 48, local: true},
		{task: Forecast, step: 2592000, rows: []int{144}, horizon: 12, look: 33, season: 12, local: true},
		{task: Forecast, step: 86400, rows: []int{100}, change: func(c *Config) { c.Horizon = 40 }, horizon: 40,
			look:   1,
			season: 7},
		{task: Forecast, step: 86400, rows: []int{50}, change: func(c *Config) { c.Horizon = 40 },
			wantError: "want 41, --lookback 1 and --horizon 40"},
		{task: Forecast, step: 86400, rows: []int{200}, change: func(c *Config) { c.Horizon, c.Lookback = 40, 60 },
			horizon: 40,
			look:    60, season: 7, local: true},
		{task: Forecast, step: 86400, rows: []int{200}, change: func(c *Config) {
			c.Horizon, c.Lookback, c.Scale = 40,
				30, "series"
		},
			horizon: 40, look: 30, season: 7},
		{task: Forecast, step: 86400, rows: []int{200, 30, 20}, change: func(c *Config) {
			c.Horizon, c.Lookback = 20,
				10
		}, horizon: 20,
			look: 10, season: 7, note: "1 of 3 series are shorter than lookback and horizon, 30 rows"},
		{task: Forecast, step: 86400, rows: []int{200}, change: func(c *Config) {
			c.Horizon, c.Lookback, c.Split = 20,
				81, "100,50,50"
		},
			wantError: "found 200 rows in the longest series, 100 of them to train on; want 101"},
		{task: Forecast, step: 86400, rows: []int{200}, change: func(c *Config) {
			c.Horizon, c.Lookback, c.Split = 20,
				80, "100,50,50"
		},
			horizon: 20, look: 80, season: 7, local: true},
		{task: Forecast, step: 86400, rows: []int{2000}, change: func(c *Config) { c.Season = 30 }, horizon: 30,
			look: 336, season: 30,
			local: true},
		{task: Forecast, step: 86400, rows: []int{2000}, change: func(c *Config) { c.Season = 48 }, horizon: 24,
			look: 336, season: 48,
			local: true},
		{task: Forecast, step: 86400, rows: []int{2000}, change: func(c *Config) { c.Season = 47 }, horizon: 47,
			look: 336, season: 47,
			local: true},
	} {
		p := plan(c.task, c.step)
		f := &frame{plan: p}
		for _, n := range c.rows {
			f.seqs = append(f.seqs, sequence{hi: n})
		}
		config := DefaultConfig()
		if c.change != nil {
			c.change(&config)
		}
		err := f.settleLengths(&config)
		name := fmt.Sprintf("%s of %v rows of %v s", c.task, c.rows, c.step)
		if c.wantError != "" {
			if err == nil || !strings.Contains(err.Error(), c.wantError) {
				t.Errorf("%s: found the error %v, want %q", name, err, c.wantError)
			}
			continue
		}
		if err != nil || p.Length != c.length || p.Horizon != c.horizon || p.Lookback != c.look ||
			p.Season != c.season ||
			p.Pieces != c.pieces || p.Local != c.local {
			t.Errorf("%s: found length %d, horizon %d, lookback %d, season %d, pieces %v, local %v, %v; want %+v",
				name, p.Length,
				p.Horizon, p.Lookback, p.Season, p.Pieces, p.Local, err, c)
		}
		if notes := strings.Join(f.notes, " "); (notes != "") != (c.note != "") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: found the notes %q, want %q", name, notes, c.note)
		}
	}
}
