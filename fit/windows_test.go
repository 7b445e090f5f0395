package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// TestWindowsCover checks that windows have the requested length and stride, within their segment and sequence, that
// the last one ends with the segment, and that together they cover all of it. Forecasts only predict rows of their
// segment.
func TestWindowsCover(t *testing.T) {
	for _, c := range []struct {
		p      Plan
		stride int
	}{
		{Plan{Task: Steps, Length: 10}, 4}, {Plan{Task: Steps, Length: 10}, 10}, {Plan{Task: Next, Length: 7}, 3},
		{Plan{Task: Classify}, 1}, {Plan{Task: Classify, Length: 8}, 3}, {Plan{Task: Classify, Length: 8,
			Pieces: true}, 3},
		{Plan{Task: Forecast, Lookback: 5, Horizon: 3}, 1}, {Plan{Task: Forecast, Lookback: 5, Horizon: 3}, 4},
	} {
		p := c.p
		p.Columns = []Column{number("x", true)}
		f := &frame{plan: &p, seqs: []sequence{{lo: 0, hi: 40}, {lo: 40, hi: 46}, {lo: 46, hi: 90}, {lo: 90, hi: 91}}}
		segments := []segment{{0, 20, 40}, {1, 40, 46}, {2, 46, 88}, {3, 90, 91}}
		w := f.newWindows(segments, trainPart, c.stride, 1)
		name := fmt.Sprintf("%s of %d by %d", p.Task, p.Length, c.stride)
		before, asked := window{seq: -1}, map[int]int{}
		for i := range w.Len() {
			at := w.at(i)
			s := segments[at.seq]
			length := at.hi - at.lo
			lo := s.lo
			switch {
			case p.Task == Forecast:
				if length != 8 || at.lo < f.seqs[at.seq].lo || at.hi > s.hi || at.hi-3 < s.lo {
					t.Errorf("%s: window %v of the segment %v", name, at, s)
				}
				lo = max(s.lo, f.seqs[at.seq].lo+5) - 5
				for row := at.hi - 3; row < at.hi; row++ {
					asked[row]++
				}
			case p.Task == Classify && !p.Pieces:
				if at.lo != s.lo || at.hi != s.hi {
					t.Errorf("%s: window %v of the segment %v", name, at, s)
				}
			default:
				if length != min(p.Length, s.hi-s.lo) || at.lo < s.lo || at.hi > s.hi {
					t.Errorf("%s: window %v of the segment %v", name, at, s)
				}
			}
			if at.seq != before.seq {
				if at.lo != lo {
					t.Errorf("%s: the first window %v of the segment %v begins elsewhere, want %d", name, at, s, lo)
				}
			} else if at.lo-before.lo != c.stride && (p.Task == Forecast || at.hi != s.hi || at.lo <= before.lo ||
				at.lo-before.lo > c.stride) {
				t.Errorf("%s: window %v after %v", name, at, before)
			}
			if last := i == w.Len()-1 || w.at(i+1).seq != at.seq; last && p.Task != Forecast && at.hi != s.hi {
				t.Errorf("%s: the last window %v of the segment %v", name, at, s)
			} else if last && s.hi-at.hi >= c.stride {
				t.Errorf("%s: after the last window %v of the segment %v there is room", name, at, s)
			}
			if want := length - int(bit(p.Task == Next)); w.Length(i) != want {
				t.Errorf("%s: window %v has %d positions, want %d", name, at, w.Length(i), want)
			}
			if k := w.segment(i); w.parts[k].seq != at.seq {
				t.Errorf("%s: window %v is of the segment %v", name, at, w.parts[k])
			}
			before = at
		}
		if p.Task == Forecast && c.stride == 1 {
			for _, row := range []int{20, 39, 51, 87} {
				if asked[row] == 0 {
					t.Errorf("%s: row %d is not asked", name, row)
				}
			}
			if asked[21] != 2 || asked[25] != 3 || asked[45] != 0 || asked[50] != 0 || asked[88] != 0 {
				t.Errorf("%s: rows are asked %v times", name, asked)
			}
		}
		longest := 0
		for k, end := range w.ends {
			if k > 0 {
				end -= w.ends[k-1]
			}
			longest = max(longest, end)
		}
		if got := w.longest(); got != longest {
			t.Errorf("%s: the longest segment has %d windows, want %d", name, got, longest)
		}
		if one := slices.ContainsFunc(w.parts, func(s segment) bool { return s.seq == 3 }); one != (p.Task != Next &&
			p.Task != Forecast) {
			t.Errorf("%s: a series of one row has windows: %v", name, one)
		}
	}
	if n := (&frame{plan: &Plan{}}).newWindows(nil, 0, 0, 0); n.Len() != 0 || n.stride != 1 {
		t.Errorf("no segments have %d windows", n.Len())
	}
	for _, c := range []struct {
		c    Config
		p    Plan
		want int
	}{{Config{Stride: 3}, Plan{Task: Forecast}, 3}, {Config{}, Plan{Task: Forecast}, 1}, {Config{}, Plan{Task: Steps,
		Length: 9}, 4},
		{Config{}, Plan{Task: Steps, Length: 1}, 1}} {
		if got := c.c.stride(&c.p); got != c.want {
			t.Errorf("%+v: the stride is %d, want %d", c, got, c.want)
		}
	}
}

// TestLongestWindow checks that windows are as long as requested, and whole sequences as long as their rows.
func TestLongestWindow(t *testing.T) {
	for length, want := range map[int]int{0: 7, 1: 1, 5: 5} {
		p := &Plan{Task: Classify, Length: length, Pieces: true, Columns: []Column{number("x", true)}}
		f := &frame{plan: p, seqs: []sequence{{hi: 7}}}
		if got := f.newWindows(f.wholeSeries(), trainPart, 1, 0).most(0); got != want {
			t.Errorf("windows of %d: found %d rows, want %d", length, got, want)
		}
	}
}

// TestExamples checks the inputs and targets of each task for a series with a gap.
func TestExamples(t *testing.T) {
	series := [][]float32{{1, 0}, {3, 1}, {float32(nan), 0}, {7, 1}, {8, float32(nan)}}
	x, y := number("x", true), category("y", false, "a", "b")
	x.Mean, x.Deviation, x.Change = 2, 4, 0.5
	label := category("y", true, "a", "b")
	plain := number("x", false)
	plain.Mean, plain.Deviation = 2, 4
	for name, c := range map[string]struct {
		p       Plan
		values  []float32
		numbers []float64
		targets []int32
	}{
		"next": {Plan{Task: Next, Length: 9, Columns: []Column{x, y}}, []float32{-0.25, 1, 0, 0.25, 0, 1, 0, 1, 0,
			1.25, 0, 1},
			[]float64{4, nan, 8, 2}, nil},
		"steps": {Plan{Task: Steps, Length: 9, Columns: []Column{plain, label}}, []float32{-0.25, 1, 0, 0.25, 0, 1, 0,
			1, 0, 1.25, 0,
			1, 1.5, 0, 0}, nil, []int32{0, 1, 0, 1, task.Ignore}},
		"classify": {Plan{Task: Classify, Columns: []Column{plain, label}}, []float32{-0.25, 1, 0, 0.25, 0, 1, 0, 1, 0,
			1.25, 0, 1,
			1.5, 0, 0}, nil, []int32{1}}, // the last known value
		"forecast": {Plan{Task: Forecast, Lookback: 3, Horizon: 2, Columns: []Column{x, y}}, []float32{-0.5, 1, 0, 0,
			0, 0, 1, 0, 0, 1, 0,
			0, 0, 0, 0, 1, 0, 0, 0, 1}, []float64{1, 1.25}, nil},
		"local forecast": {Plan{Task: Forecast, Lookback: 3, Horizon: 2, Local: true, Columns: []Column{x}},
			[]float32{-2, 0, 0, 0, 0, 0,
				0, 1, 0, 1}, []float64{4, 5}, nil},
	} {
		p := c.p
		rows := series
		if len(p.Columns) == 1 {
			rows = nil
			for _, row := range series {
				rows = append(rows, row[:1])
			}
		}
		f := made(t, &p, rows)
		w := f.newWindows(f.wholeSeries(), trainPart, 1, 1)
		if w.Len() != 1 {
			t.Errorf("%s: %d windows", name, w.Len())
			continue
		}
		var ex task.Example
		w.Example(0, &ex)
		if name == "steps" || name == "classify" { // whether a target of each row is known
			p.Columns[1].In = false
			f.plan.Columns[1].In = true
		}
		if !slices.Equal(ex.Values, c.values) {
			t.Errorf("%s: found the inputs %v, want %v", name, ex.Values, c.values)
		}
		var numbers []float64
		for _, v := range ex.Numbers {
			numbers = append(numbers, float64(v))
		}
		sameNumbers(t, name, numbers, c.numbers, 1e-6)
		if !slices.Equal(ex.Targets, c.targets) {
			t.Errorf("%s: found the targets %v, want %v", name, ex.Targets, c.targets)
		}
		// back is the inverse of scaling the targets.
		if !p.predictsClass() {
			e, err := newEncoder(&p)
			if err != nil {
				t.Fatal(err)
			}
			f.truths(e, w.at(0), &ex, func(r, k int, truth, now float64) {
				want := map[string][]float64{"next": {3, nan, 7, 8}}[name]
				if p.Task == Forecast {
					want = []float64{7, 8}
				}
				if math.Abs(truth-want[r]) > 1e-5 {
					t.Errorf("%s: truth %d is %v, want %v", name, r, truth, want[r])
				}
			})
		}
	}
}

// TestEncoderTimes checks that the time since the previous row is the logarithm of its steps, which is bounded for
// recurrences, and that the calendar is the sines and cosines of the elapsed fraction of each cycle, in the zone of the
// data.
func TestEncoderTimes(t *testing.T) {
	for _, c := range []struct{ seconds, step, want float64 }{{10, 5, math.Ln2}, {5, 10, -math.Ln2}, {0, 5, 0}, {-1, 5,
		0}, {5, 0, 0},
		{nan, 5, 0}, {1e30, 1, 10}, {1e-30, 1, -10}, {5, 5, 0}} {
		if got := logSteps(c.seconds, c.step); math.Abs(float64(got)-c.want) > 1e-6 {
			t.Errorf("%v s of %v: found %v, want %v", c.seconds, c.step, got, c.want)
		}
	}
	names := []string{"hour", "weekday", "day of the month", "day of the year"}
	e, err := newEncoder(&Plan{Zone: "Europe/Berlin", Calendar: names})
	if err != nil {
		t.Fatal(err)
	}
	// Wednesday, the 21st of August, the 234th day of a leap year, 18:45:36 in Berlin.
	at := time.Date(2024, 8, 21, 16, 45, 36, 0, time.UTC)
	parts := []float64{(18 + 45.6/60) / 24, 2. / 7, 20. / 31, 233. / 366}
	var want []float64
	for _, part := range parts {
		sin, cos := math.Sincos(2 * math.Pi * part)
		want = append(want, sin, cos)
	}
	var got []float64
	for _, v := range e.calendar(nil, float64(at.Unix())) {
		got = append(got, float64(v))
	}
	sameNumbers(t, "the calendar", got, want, 1e-6)
	for _, unknown := range []float64{nan, 1e12, -1e13, math.Inf(1)} {
		if got := e.calendar(nil, unknown); !slices.Equal(got, make([]float32, 8)) {
			t.Errorf("the time %v is %v in the calendar, want zeros", unknown, got)
		}
	}
	if got := e.calendar(nil, 0); got[3] == 0 {
		t.Error("the first day of 1970 is not known")
	}
	days, err := newEncoder(&Plan{Zone: "Europe/Berlin", Calendar: []string{"hour", "sunrise"},
		Time: &table.Column{Layout: "2006-01-02"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := days.calendar(nil, 86400*200); got[0] != 0 || got[1] != 1 || got[2] != 0 || got[3] != 0 {
		t.Errorf("a day begins at %v, and an unknown cycle is %v", got[:2], got[2:])
	}
	if _, err := newEncoder(&Plan{Zone: "Nowhere/At all"}); err == nil {
		t.Error("an unknown zone: no error")
	}
	p := &Plan{Columns: []Column{number("x", true)}, Time: &table.Column{}}
	row := appendTime([]float32{5}, 1.7e9+0.123456)
	if got := p.time(row); math.Abs(got-1.7e9-0.123456) > 1e-5 {
		t.Errorf("a time is kept as %v", got)
	}
	if p.Time = nil; p.time(row[:1]) == p.time(row[:1]) {
		t.Error("without a time column a row has a time")
	}
}

// TestLinearForecast checks that the weights solve (XᵀX + λ tr/n I) W = XᵀY, with the strength that is best on other
// windows, and that the forecast is ŷ[h] = x[L-1] + Σ_j W[j, h] (x[L-order+j] - x[L-1]).
func TestLinearForecast(t *testing.T) {
	x := mat.NewDense(4, 2, []float64{1, 2, 0, 1, -1, 3, 2, 2})
	y := mat.NewDense(4, 1, []float64{1, 0, 2, -1})
	// XᵀX = (6 3; 3 18), trace 24, n 2; Xᵀy = (-3, 6).
	count := 0
	ridges(x, y, []float64{0, 0.5}, func(part float64, w *mat.Dense) {
		a, b, d := 6+part*12, 3.0, 18+part*12
		det := a*d - b*b
		want := []float64{(-3*d - 6*b) / det, (6*a + 3*b) / det}
		sameNumbers(t, fmt.Sprint("a ridge of ", part), []float64{w.At(0, 0), w.At(1, 0)}, want, 1e-12)
		count++
	})
	if count != 2 {
		t.Errorf("%d solutions of 2", count)
	}
	l := &linear{Order: 3, Weights: [][]float32{nil, {1, 10, 2, 20, 3, 30}}}
	dst := []float64{9, 9}
	l.ahead(1, []float64{100, 4, 7, 5}, dst)
	sameNumbers(t, "ahead", dst, []float64{-1 + 2*2, -10 + 20*2}, 1e-6)
	p := &Plan{Task: Forecast, Lookback: 4, Horizon: 2, Columns: []Column{number("x", true)}}
	for _, c := range []struct {
		l    *linear
		want bool
	}{
		{nil, true}, {&linear{Order: 3, Weights: [][]float32{make([]float32, 6)}}, true},
		{&linear{Order: 4, Weights: [][]float32{make([]float32, 8)}}, true}, {&linear{Order: 1,
			Weights: [][]float32{make([]float32, 2)}}, true},
		{&linear{Order: 5, Weights: [][]float32{make([]float32, 10)}}, false}, {&linear{Order: 0,
			Weights: [][]float32{{}}}, false},
		{&linear{Order: 3, Weights: [][]float32{make([]float32, 5)}}, false}, {&linear{Order: 3}, false},
	} {
		if err := c.l.check(p); (err == nil) != c.want {
			t.Errorf("%+v: found the error %v", c.l, err)
		}
	}
	// In a series that doubles the difference, x[t] - x[t-1] is the next difference.
	series := make([]float64, 300)
	a := 1.0
	for i := range series {
		series[i] = a
		a += math.Sin(float64(i) * 0.7)
	}
	f := made(t, p, column(series...))
	p.Columns[0].Deviation = 2
	w := f.newWindows([]segment{{0, 0, 200}}, trainPart, 1, 1)
	valid := f.newWindows([]segment{{0, 200, 300}}, validPart, 1, 1)
	dx, dy := f.differences(w, []int{3, 10}, 0, 3)
	for n, index := range []int{3, 10} {
		at := w.at(index)
		for j := range 3 {
			if want := (series[at.lo+1+j] - series[at.lo+3]) / 2; math.Abs(dx.At(n, j)-want) > 1e-6 {
				t.Errorf("difference %d of window %d is %v, want %v", j, index, dx.At(n, j), want)
			}
		}
		for h := range 2 {
			if want := (series[at.lo+4+h] - series[at.lo+3]) / 2; math.Abs(dy.At(n, h)-want) > 1e-6 {
				t.Errorf("what follows window %d at %d is %v, want %v", index, h, dy.At(n, h), want)
			}
		}
	}
	fitted := f.fitLinear(w, valid, nil)
	if fitted == nil || fitted.Order != 4 || len(fitted.Ridges) != 1 || fitted.Ridges[0] != 1e-3 {
		t.Fatalf("found %+v, want the weakest ridge of a series that repeats", fitted)
	}
	at, dst := valid.at(20), make([]float64, 2)
	past := f.seen(at)[0]
	fitted.ahead(0, past, dst)
	for h, got := range dst {
		if want := series[at.lo+4+h] - past[3]; math.Abs(got-want) > 0.1 {
			t.Errorf("the forecast %d is %v, want %v", h, got, want)
		}
	}
	again := f.fitLinear(w, nil, &linear{Ridges: []float64{10}})
	if again.Ridges[0] != 10 || slices.Equal(again.Weights[0], fitted.Weights[0]) {
		t.Errorf("with a ridge of before: found %v", again.Ridges)
	}
	few := f.newWindows([]segment{{0, 0, 9}}, trainPart, 1, 1)
	if got := f.fitLinear(few, valid, nil); got != nil {
		t.Errorf("of %d windows there is a linear forecast", few.Len())
	}
	p.Lookback = 1
	if got := f.fitLinear(f.newWindows(f.wholeSeries(), trainPart, 1, 1), valid, nil); got != nil {
		t.Error("from one row there is a linear forecast")
	}
}

// TestPlanChecks checks each condition of a plan that is read, at its bounds.
func TestPlanChecks(t *testing.T) {
	time := &table.Column{Name: "t", Kind: table.Time}
	base := func() (*Plan, *model.Network) {
		p := &Plan{Version: planVersion, Task: Forecast, Horizon: 2, Lookback: 3, Levels: []float64{0.1, 0.5, 0.9},
			Columns: []Column{number("x", true)}}
		return p, &model.Network{Config: model.NetworkConfig{Channels: 2, Outputs: 3, Everywhere: true}}
	}
	for name, c := range map[string]struct {
		change func(p *Plan, n *model.NetworkConfig)
		want   string
	}{
		"as it is":       {func(*Plan, *model.NetworkConfig) {}, ""},
		"length":         {func(p *Plan, _ *model.NetworkConfig) { p.Length = -1 }, "found a window of -1 rows"},
		"season":         {func(p *Plan, _ *model.NetworkConfig) { p.Season = mostWindow + 1 }, "found a window of"},
		"longest season": {func(p *Plan, _ *model.NetworkConfig) { p.Season = mostWindow }, ""},
		"kind": {func(p *Plan, _ *model.NetworkConfig) { p.Columns[0].Kind = table.Time },
			`found the kind "`},
		"logarithm": {func(p *Plan, _ *model.NetworkConfig) { p.Columns[0].Log = true }, ""},
		"other logarithm": {func(p *Plan, _ *model.NetworkConfig) { p.Columns[0].Log, p.Task = true, Next },
			"found logarithms"},
		"deviation": {func(p *Plan, _ *model.NetworkConfig) { p.Columns[0].Deviation = 0 },
			"found the deviation 0"},
		"change":  {func(p *Plan, _ *model.NetworkConfig) { p.Columns[0].Change = nan }, "that of changes NaN"},
		"version": {func(p *Plan, _ *model.NetworkConfig) { p.Version++ }, "found version"},
		"task":    {func(p *Plan, _ *model.NetworkConfig) { p.Task = "x" }, `found the task "x"`},
		"inputs": {func(_ *Plan, n *model.NetworkConfig) { n.Channels = 3 },
			"found 2 inputs and 3 outputs, want 3 and 3"},
		"outputs": {func(_ *Plan, n *model.NetworkConfig) { n.Outputs = 2 },
			"found 2 inputs and 3 outputs, want 2 and 2"},
		"dt": {func(p *Plan, _ *model.NetworkConfig) { p.Dt = "x" }, `go in as "x"`},
		"steps": {func(_ *Plan, n *model.NetworkConfig) { n.Steps = true },
			"into the recurrences of the network: true"},
		"horizon": {func(p *Plan, _ *model.NetworkConfig) { p.Horizon = 0 }, "found a forecast of 0 rows"},
		"lookback": {func(p *Plan, _ *model.NetworkConfig) { p.Lookback = 0 },
			"found a forecast of 2 rows from 0"},
		"shortest": {func(p *Plan, _ *model.NetworkConfig) { p.Horizon, p.Lookback = 1, 1 }, ""},
		"everywhere": {func(_ *Plan, n *model.NetworkConfig) { n.Everywhere = false },
			"an output at each position: false, want true"},
		"levels": {func(p *Plan, _ *model.NetworkConfig) { p.Levels = []float64{0.5, 0.1, 0.9} },
			"found the levels"},
		"lowest level":  {func(p *Plan, _ *model.NetworkConfig) { p.Levels[0] = 0 }, "found the levels"},
		"highest level": {func(p *Plan, _ *model.NetworkConfig) { p.Levels[2] = 1 }, "found the levels"},
		"no level": {func(p *Plan, n *model.NetworkConfig) { p.Levels, n.Outputs = nil, 0 },
			"found the levels []"},
		"weighted": {func(p *Plan, _ *model.NetworkConfig) { p.Weighted = true }, "found the class weights []"},
		"weights":  {func(p *Plan, _ *model.NetworkConfig) { p.Weights = []float64{1} }, "want 0, more than 0"},
		"linear":   {func(p *Plan, _ *model.NetworkConfig) { p.Linear = &linear{} }, "linear forecast"},
		"recent": {func(p *Plan, _ *model.NetworkConfig) { p.Recent = 1 },
			"found intervals of 1 recent forecasts"},
		"few recent":     {func(p *Plan, _ *model.NetworkConfig) { p.Recent = 2 }, ""},
		"all recent":     {func(p *Plan, _ *model.NetworkConfig) { p.Recent = recentRows }, ""},
		"more recent":    {func(p *Plan, _ *model.NetworkConfig) { p.Recent = recentRows + 1 }, "found intervals of"},
		"less than none": {func(p *Plan, _ *model.NetworkConfig) { p.Recent = -1 }, "found intervals of -1"},
		"widened":        {func(p *Plan, _ *model.NetworkConfig) { p.Widen = [][][]float64{{{1, 2}}} }, ""},
		"widened alike":  {func(p *Plan, _ *model.NetworkConfig) { p.Widen = [][][]float64{{{1}}} }, ""},
		"of two": {func(p *Plan, _ *model.NetworkConfig) { p.Widen = [][][]float64{{{1}}, {{1}}} },
			"found 2 intervals, want those of 1"},
		"of two pairs": {func(p *Plan, _ *model.NetworkConfig) { p.Widen = [][][]float64{{{1}, {1}}} },
			"found 2 intervals, want 1"},
		"of three steps": {func(p *Plan, _ *model.NetworkConfig) { p.Widen = [][][]float64{{{1, 2, 3}}} },
			"found intervals of 3 steps"},
		"contenders": {func(p *Plan, _ *model.NetworkConfig) { p.Contenders = []*Contender{{Name: "last"}} },
			"want the network first"},
		"time": {func(p *Plan, n *model.NetworkConfig) {
			p.Time, p.Dt, p.Irregular, p.Step, n.Steps, n.Channels = time, DtSteps, true, 1,
				true, 3
		}, ""},
	} {
		p, net := base()
		c.change(p, &net.Config)
		if err := p.check(net); c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: found the error %v, want %q", name, err, c.want)
		}
	}
	classes := func(weights ...float64) error {
		p := &Plan{Version: planVersion, Task: Classify, Columns: []Column{number("x", false), category("y", true, "a",
			"b")},
			Weights: weights, Weighted: weights != nil}
		p.Columns[1].In = false
		return p.check(&model.Network{Config: model.NetworkConfig{Channels: 1, Outputs: 2}})
	}
	for _, c := range []struct {
		weights []float64
		want    bool
	}{{nil, true}, {[]float64{1, 2}, true}, {[]float64{1}, false}, {[]float64{1, 0}, false}, {[]float64{1,
		math.Inf(1)}, false},
		{[]float64{1, nan}, false}, {[]float64{1, math.MaxFloat64}, true}} {
		if err := classes(c.weights...); (err == nil) != c.want {
			t.Errorf("the class weights %v: found the error %v", c.weights, err)
		}
	}
	if _, err := PlanOf(&model.Network{}); err == nil || !strings.Contains(err.Error(), "does not know its columns") {
		t.Errorf("a network without a plan: found the error %v", err)
	}
}
