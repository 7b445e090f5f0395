package fit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
)

// scripted is a rival whose guesses are a function of the previous rows and the rows to predict.
type scripted struct {
	fixed
	f    func(e *encoder, rows []float32, n int, dst []float64)
	sees int // number of rows seen before those to predict, if it is not that of a forecast's window
}

func (scripted) title(*Plan) string { return "script" }
func (s scripted) guess(e *encoder, rows []float32, n int, dst []float64) {
	s.f(e, rows, n, dst)
}
func (s scripted) memory(p *Plan) int { return max(s.sees, s.fixed.memory(p)) }

// by returns a model that predicts by a script.
func by(t *testing.T, p *Plan, f func(e *encoder, rows []float32, n int, dst []float64)) *Model {
	t.Helper()
	return seeing(t, p, 0, f)
}

// seeing returns a model that predicts by a script, which also sees rows before those of a forecast's window.
func seeing(t *testing.T, p *Plan, sees int, f func(e *encoder, rows []float32, n int, dst []float64)) *Model {
	t.Helper()
	outputs := len(p.targets()) * len(p.Levels)
	if names, ok := p.classes(); ok {
		outputs = len(names)
	}
	m, err := newModel(&model.Network{Config: model.NetworkConfig{Channels: len(p.inputs()), Outputs: outputs}}, p)
	if err != nil {
		t.Fatal(err)
	}
	return m.by(&Contender{Name: "script", Title: "script", rival: scripted{f: f, sees: sees}})
}

// walk returns a series with the value t + off(t) at t.
func walk(n int, off func(t int) float64) [][]float32 {
	x := make([]float64, n)
	for t := range x {
		x[t] = float64(t) + off(t)
	}
	return column(x...)
}

// TestMeasuredNumbers checks the errors of forecasts on windows against the definitions, in the units of the data, with
// the quantiles given by the contender's own errors.
func TestMeasuredNumbers(t *testing.T) {
	p := banded(2, 0, 0.25, 0.5, 0.75)
	p.Lookback = 3
	p.Columns[0].Deviation, p.Columns[0].Mean = 2, 5
	noise := func(t int) float64 { return float64(t*t%7) - 3 }
	f := made(t, p, walk(60, noise))
	w := f.newWindows([]segment{{0, 10, 60}}, testPart, 1, 0)
	m := by(t, p, func(e *encoder, _ []float32, n int, dst []float64) { // each row adds one to the last value
		for h := range n {
			dst[h] = float64(h+1) / 2
		}
	})
	m.rival.Off = [][][]float64{{{-1, 0, 0.5}, {-2, 0, 1}}} // in deviations
	all, err := m.numbers(background(), f, w, "script", nil, nil)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	var want [3]struct{ n, absolute, square, pinball, inside float64 } // for both steps, then for each
	for i := range w.Len() {
		at := w.at(i)
		last := float64(f.rows.row(at.hi - 3)[0])
		for h := range 2 {
			truth, guess := float64(f.rows.row(at.hi - 2 + h)[0]), last+float64(h+1)
			q := []float64{guess - 2*float64(h+1), guess, guess + float64(h+1)}
			loss := 0.0
			for j, level := range p.Levels {
				loss += math.Max(level*(truth-q[j]), (level-1)*(truth-q[j])) / 3
			}
			for _, s := range []int{0, 1 + h} {
				want[s].n++
				want[s].absolute += math.Abs(truth - guess)
				want[s].square += (truth - guess) * (truth - guess)
				want[s].pinball += loss
				if q[0] <= truth && truth <= q[2] {
					want[s].inside++
				}
			}
		}
	}
	e := all[0]
	n := want[0].n
	sameNumbers(t, "errors", []float64{float64(e.Count), e.MAE, e.RMSE, e.MSE, e.CRPS, e.Coverage, e.Nominal},
		[]float64{n,
			want[0].absolute / n, math.Sqrt(want[0].square / n), want[0].square / n / 4, 2 * want[0].pinball / n,
			100 * want[0].inside / n,
			50}, 1e-4)
	if e.Name != "script" || e.Target != "x" || len(e.Steps) != 2 {
		t.Errorf("found the errors of %s of %s in %d steps", e.Name, e.Target, len(e.Steps))
	}
	for h, s := range e.Steps {
		one := want[1+h]
		sameNumbers(t, fmt.Sprint("step ", h), []float64{s.MAE, s.CRPS, s.Coverage}, []float64{one.absolute / one.n,
			2 * one.pinball / one.n, 100 * one.inside / one.n}, 1e-4)
	}
	score, ok, err := m.score(background(), f, w)
	if math.Abs(score-e.MAE) > 1e-6 || !ok || err != nil {
		t.Errorf("compared by %v, %v, %v, want the mean absolute error %v", score, ok, err, e.MAE)
	}
	empty := f.newWindows(nil, testPart, 1, 0)
	if _, ok, err := m.score(background(), f, empty); ok || err != nil {
		t.Errorf("of no window: %v, %v", ok, err)
	}
	ctx, cancel := context.WithCancel(background())
	cancel()
	if _, _, err := m.score(ctx, f, w); err == nil {
		t.Error("what is cancelled gives no error")
	}
}

func background() context.Context { return context.Background() }

// TestQuantilesOfErrors checks that a contender's quantiles are those of its errors at each step. If steps have few
// errors, they are the quantiles of all errors and their negatives. The guess itself is the median.
func TestQuantilesOfErrors(t *testing.T) {
	p := banded(2, 0, 0.1, 0.5, 0.9)
	off := func(t int) float64 { return float64(t * 7 % 11) }
	for _, rows := range []int{60, 22, 21, 20} { // 20 errors per step are enough
		f := made(t, p, walk(rows, off))
		w := f.newWindows(f.wholeSeries(), validPart, 1, 0)
		m := by(t, p, func(_ *encoder, _ []float32, _ int, dst []float64) { dst[0], dst[1] = 3, 4 })
		c := m.rival
		if err := c.measureOff(background(), m, w); err != nil {
			t.Fatal(err)
		}
		errs := make([][]float64, 2)
		for i := range w.Len() {
			at := w.at(i)
			last := float64(f.rows.row(at.hi - 3)[0])
			for h := range 2 {
				errs[h] = append(errs[h], float64(f.rows.row(at.hi - 2 + h)[0])-last-float64(3+h))
			}
		}
		if rows < 22 {
			all := append(errs[0], errs[1]...)
			for _, x := range slices.Clone(all) {
				all = append(all, -x)
			}
			errs = [][]float64{all}
		}
		if len(c.Off) != 1 || len(c.Off[0]) != len(errs) {
			t.Fatalf("%d rows: found the quantiles %v, want those of %d steps", rows, c.Off, len(errs))
		}
		for h, x := range errs {
			slices.Sort(x)
			sameNumbers(t, fmt.Sprintf("%d rows, step %d", rows, h), c.Off[0][h], []float64{math.Min(0,
				x[int(0.1*float64(len(x)))]), 0,
				math.Max(0, x[int(0.9*float64(len(x)))])}, 1e-5)
		}
	}
	both := &Plan{Task: Steps, Length: 10, Levels: p.Levels, Columns: []Column{number("k", false), number("y", true),
		number("z", true)}}
	both.Columns[1].In, both.Columns[2].In = false, false
	var rows [][]float32
	var errs [2][]float64
	for i := range 50 {
		y, z := float64(i*i%11)-5, float64(i*i*i%13)-6
		if i%9 == 4 {
			z = nan
		} else {
			errs[1] = append(errs[1], z)
		}
		errs[0] = append(errs[0], y)
		rows = append(rows, []float32{0, float32(y), float32(z)})
	}
	f := made(t, both, rows)
	m := by(t, both, func(*encoder, []float32, int, []float64) {})
	if err := m.rival.measureOff(background(), m, f.newWindows(f.wholeSeries(), validPart, 10, 0)); err != nil {
		t.Fatal(err)
	}
	for k, x := range errs {
		slices.Sort(x)
		sameNumbers(t, fmt.Sprint("target ", k), m.rival.Off[k][0], []float64{x[len(x)/10], 0, x[9*len(x)/10]}, 1e-6)
	}
	one := &Contender{Off: [][][]float64{{{-1, 0, 2}}}, rival: scripted{f: func(_ *encoder, _ []float32, n int,
		dst []float64) {
		for i := range dst {
			dst[i] = float64(10 * i)
		}
	}}}
	e, err := newEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	if y := one.outputs(e, make([]float32, 3), 2); !slices.Equal(y, []float32{-1, 0, 2, 9, 10, 12}) {
		t.Errorf("quantiles of all steps alike: found %v", y)
	}
	one.Off = [][][]float64{{{-1, 0, 2}, {-3, 0, 4}}}
	if y := one.outputs(e, make([]float32, 3), 2); !slices.Equal(y, []float32{-1, 0, 2, 7, 10, 14}) {
		t.Errorf("quantiles of each step: found %v", y)
	}
	one.Off = nil
	if y := one.outputs(e, make([]float32, 3), 2); !slices.Equal(y, []float32{0, 0, 0, 10, 10, 10}) {
		t.Errorf("without quantiles: found %v", y)
	}
}

// classPlan returns a plan that predicts one of three classes at each row from a number.
func classPlan() *Plan {
	p := &Plan{Task: Steps, Length: 10, Columns: []Column{number("x", false), category("y", true, "a", "b", "c")}}
	p.Columns[1].In = false
	return p
}

// TestMeasuredClasses checks the confusion matrix, the cross-entropy, the calibration in tenths, the majority and the
// most confident errors of a classifier against the definitions. Rows without a class do not count.
func TestMeasuredClasses(t *testing.T) {
	p := classPlan()
	var rows [][]float32
	for i := range 40 {
		y := float32(i * i % 3)
		if i == 7 {
			y = float32(nan)
		}
		rows = append(rows, []float32{float32(i), y})
	}
	f := made(t, p, rows[:25], rows[25:])
	w := f.newWindows(f.wholeSeries(), testPart, 10, 0)
	logits := func(x float64) []float64 { return []float64{math.Sin(x) * 3, math.Cos(2 * x), 0} }
	m := by(t, p, func(_ *encoder, rows []float32, n int, dst []float64) {
		for r := range n {
			copy(dst[3*r:], logits(float64(rows[2*r])))
		}
	})
	counts := []int{4, 9, 2}
	s, err := m.classes(background(), f, w, counts)
	if err != nil {
		t.Fatal(err)
	}
	var confusion [3][3]int
	var bins [10]CalibrationBin
	n, loss, told := 0, 0.0, 0
	type wrong struct {
		name string
		row  int
		p    float64
	}
	var wrongs []wrong
	for i := range w.Len() {
		at := w.at(i)
		for row := at.lo; row < at.hi; row++ {
			x, y := float64(f.rows.row(row)[0]), f.rows.row(row)[1]
			if y != y {
				continue
			}
			z, sum := logits(x), 0.0
			for _, v := range z {
				sum += math.Exp(v)
			}
			best := largest(z)
			q := math.Exp(z[best]) / sum
			n++
			loss -= math.Log(math.Exp(z[int(y)]) / sum)
			confusion[int(y)][best]++
			told += int(bit(y == 1))
			b := &bins[int(q*10)]
			b.Count++
			b.Probability += q
			b.Right += float64(bit(best == int(y)))
			if best != int(y) {
				wrongs = append(wrongs, wrong{f.seqs[at.seq].name, row - f.seqs[at.seq].lo + 1, q})
			}
		}
	}
	if s.Count != n {
		t.Errorf("%d rows are counted, want %d", s.Count, n)
	}
	sameNumbers(t, "loss and majority", []float64{s.Loss, s.Majority}, []float64{loss / float64(n),
		100 * float64(told) / float64(n)}, 1e-5)
	for i := range confusion {
		if !slices.Equal(s.Confusion[i], confusion[i][:]) {
			t.Errorf("class %d is told as %v, want %v", i, s.Confusion[i], confusion[i])
		}
	}
	ece := 0.0
	for i, b := range bins {
		if b.Count > 0 {
			b.Probability /= float64(b.Count)
			b.Right /= float64(b.Count)
			ece += math.Abs(b.Probability-b.Right) * float64(b.Count) / float64(n)
		}
		sameNumbers(t, fmt.Sprint("bin ", i), []float64{float64(s.Bins[i].Count), s.Bins[i].Probability,
			s.Bins[i].Right},
			[]float64{float64(b.Count), b.Probability, b.Right}, 1e-5)
	}
	if math.Abs(s.ECE-ece) > 1e-5 {
		t.Errorf("the calibration error is %v, want %v", s.ECE, ece)
	}
	slices.SortStableFunc(wrongs, func(a, b wrong) int { return int(math.Copysign(1, b.p-a.p)) })
	if len(s.Wrong) != min(len(wrongs), mostWrong) {
		t.Fatalf("%d wrong rows of %d are told", len(s.Wrong), len(wrongs))
	}
	for i, x := range s.Wrong {
		if x.Name != wrongs[i].name || x.Row != wrongs[i].row || math.Abs(x.Probability-wrongs[i].p) > 1e-5 {
			t.Errorf("the wrong row %d is %+v, want %+v", i, x, wrongs[i])
		}
	}
	frequent := f.counts(w)
	want := make([]int, 3)
	for i := range w.Len() {
		at := w.at(i)
		for row := at.lo; row < at.hi; row++ {
			if y := f.rows.row(row)[1]; y == y {
				want[int(y)]++
			}
		}
	}
	if !slices.Equal(frequent, want) {
		t.Errorf("the classes are %v, want %v", frequent, want)
	}
	b := &majority{}
	if ok, err := b.fit(background(), f, w, nil); !ok || err != nil || b.check(p) != nil {
		t.Fatal(ok, err)
	}
	dst := make([]float64, 6)
	b.guess(nil, nil, 2, dst)
	for i, x := range dst {
		if math.Abs(x-math.Log(float64(want[i%3])+0.5)) > 1e-12 {
			t.Errorf("the logits of the frequencies are %v", dst)
		}
	}
	b.Logits = b.Logits[1:]
	if b.check(p) == nil {
		t.Error("frequencies of two classes of three: no error")
	}
	m.plan.Weights = []float64{1e-3, 1e-3, 1e3}
	if s, err := m.classes(background(), f, w, counts); err != nil ||
		s.Confusion[0][2]+s.Confusion[1][2]+s.Confusion[2][2] != n {
		t.Errorf("by weights the third class is told always: found %v, %v", s.Confusion, err)
	}
	whole := classPlan()
	whole.Task, whole.Length = Classify, 0
	g := made(t, whole, rows[:1], rows[1:2])
	s, err = by(t, whole, func(_ *encoder, _ []float32, _ int, dst []float64) { dst[2] = 5 }).classes(background(), g,
		g.newWindows(g.wholeSeries(), testPart, 1, 0), counts)
	if err != nil || len(s.Wrong) != 2 || s.Wrong[0].Row != 0 || s.Wrong[1].Name != "b" || s.Wrong[0].Truth != "a" ||
		s.Wrong[0].Predicted != "c" {
		t.Errorf("whole sequences: found %+v, %v", s.Wrong, err)
	}
}

// TestAlarm checks that the score of a row is its distance from the median in units of the interval, and that the alarm
// is the score exceeded by the given share of the validation rows.
func TestAlarm(t *testing.T) {
	p := &Plan{Task: Anomaly, Length: 50, Levels: []float64{0.1, 0.5, 0.9}, Columns: []Column{number("x", true),
		number("y", true)}}
	z := 1.2815515655446004 // the 0.9 quantile of a normal distribution
	for _, c := range []struct {
		truths []float64
		q      [][]float64
		want   float64
	}{
		{[]float64{3, nan}, [][]float64{{0, 1, 2 * z}, nil}, 2}, {[]float64{1 + 3, -4}, [][]float64{{-z, 1, z},
			{-2 * z, 0, 2 * z}},
			math.Sqrt((9. + 4) / 2)},
		// intervals of width 0 have the scale of a thousandth of a change
		{[]float64{1, 1}, [][]float64{{0, 0, 0}, {1, 1, 1}}, 1000 / math.Sqrt2},
		{[]float64{nan, nan}, [][]float64{nil, nil}, nan},
	} {
		sameNumbers(t, fmt.Sprint(c.truths), []float64{p.surprise(c.truths, c.q)}, []float64{c.want}, 1e-6)
	}
	var rows [][]float32
	for i := range 41 {
		rows = append(rows, []float32{float32(i * i % 17), 0})
	}
	f := made(t, p, rows)
	w := f.newWindows(f.wholeSeries(), validPart, 1, 0)
	m := by(t, p, func(*encoder, []float32, int, []float64) {})
	m.rival.Off = [][][]float64{{{-z, 0, z}}, {{-z, 0, z}}}
	got, err := m.alarm(background(), f, w, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	var scores []float64
	for i := range 40 {
		d := float64(rows[i+1][0] - rows[i][0])
		scores = append(scores, math.Sqrt(d*d/2))
	}
	rows[40][0], rows[40][1] = float32(nan), float32(nan) // nothing is known about the last row
	f = made(t, p, rows)
	less, err := m.alarm(background(), f, f.newWindows(f.wholeSeries(), validPart, 1, 0), 0.25)
	want := slices.Sorted(slices.Values(scores[:39]))[int(math.Ceil(0.75*40))-1]
	if err != nil || math.Abs(less-want) > 1e-4 {
		t.Errorf("of one row less the alarm is at %v, %v, want %v", less, err, want)
	}
	slices.Sort(scores)
	if want := scores[int(math.Ceil(0.75*41))-1]; math.Abs(got-want) > 1e-4 {
		t.Errorf("the alarm is at %v, want %v", got, want)
	}
}

// TestCalibrated checks that intervals with too low coverage are widened until they reach it on the windows used for
// calibration, and in each half with calibration by the other. The learnt coverage is reported as well.
func TestCalibrated(t *testing.T) {
	p := banded(1, 0, 0.1, 0.3, 0.5, 0.7, 0.9)
	off := func(t int) float64 { return 4 * math.Sin(float64(t*t)) }
	f := made(t, p, walk(1200, off))
	w := f.newWindows(f.wholeSeries(), validPart, 1, 0)
	m := by(t, p, func(_ *encoder, _ []float32, _ int, dst []float64) { dst[0] = 1 })
	m.rival.Off = [][][]float64{{{-0.2, -0.1, 0, 0.1, 0.2}}}
	all, err := m.calibrate(background(), w)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	c := all[0]
	if math.Abs(c.Nominal-80) > 1e-9 || c.Windows != 1199 || c.Apart != 1199 || math.Abs(c.Calibrated-80) > 0.3 ||
		math.Abs(c.Checked-80) > 3 || c.Learnt > 10 || c.Learnt <= 0 || c.Target != "x" {
		t.Errorf("found %+v", c)
	}
	inside := 0.0
	wide := m.plan.Widen[0][0][0]
	for i := range w.Len() {
		at := w.at(i)
		if e := float64(f.rows.row(at.hi - 1)[0]-f.rows.row(at.hi - 2)[0]) - 1; math.Abs(e) <= 0.2+wide {
			inside++
		}
	}
	if got := 100 * inside / float64(w.Len()); math.Abs(got-c.Calibrated) > 0.2 {
		t.Errorf("widened by %v the intervals hold %v, and %v is told", wide, got, c.Calibrated)
	}
	if text := c.few(p); text != "" {
		t.Errorf("of %d windows: %q", c.Windows, text)
	}
	if got := c.Sentence(); !strings.Contains(got, "the 80 % interval of x holds") || !strings.Contains(got,
		"one half is calibrated") {
		t.Errorf("the sentence is %q", got)
	}
	c.Checked = -1
	if got := c.Sentence(); strings.Contains(got, "one half") {
		t.Errorf("without halves the sentence is %q", got)
	}
	for _, one := range []struct {
		task           string
		apart, windows int
		want           string
	}{
		{Forecast, 4, 4, ""}, {Forecast, 3, 4, "which 3 share no row"}, {Forecast, 3, 3,
			"stay as learnt: found 3 windows"},
		{Next, 3, 9, "stay as learnt: found 9 windows"},
	} {
		p.Task = one.task
		c := Calibration{Target: "x", Apart: one.apart, Windows: one.windows}
		if text := c.few(p); (text == "") != (one.want == "") || !strings.Contains(text, one.want) {
			t.Errorf("%+v: found %q", one, text)
		}
	}
	m.plan.Levels = []float64{0.5}
	if all, err := m.calibrate(background(), w); all != nil || err != nil || m.plan.Widen != nil {
		t.Errorf("without intervals: %v, %v", all, err)
	}
}
