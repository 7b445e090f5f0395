package fit

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/anatomy"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// TestClassWeightTexts checks that weights are pairs as texts, each within bounds. The last = separates class and
// weight.
func TestClassWeightTexts(t *testing.T) {
	for text, want := range map[string]map[string]float64{"a=1": {"a": 1}, "a=2, b = c=1e-6": {"a": 2, "b = c": 1e-6},
		"a=1e6":   {"a": 1e6},
		"a=1.1e6": nil, "a=9e-7": nil, "a=nan": nil, "=1": nil, "a": nil, "": nil, "a=1,": nil, "a=x": nil} {
		got, err := weightsOf(text)
		if (err == nil) != (want != nil) || fmt.Sprint(got) != fmt.Sprint(want) && want != nil {
			t.Errorf("%q: found %v, %v", text, got, err)
		}
		if err := checkClassWeights(text); (err == nil) != (want != nil) {
			t.Errorf("%q is checked: %v", text, err)
		}
	}
	for _, text := range []string{weightsAuto, weightsNone, weightsBalanced} {
		if err := checkClassWeights(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	sameNumbers(t, "balanced", balanced([]int{8, 2, 0}, 1), []float64{11. / 24, 11. / 6, 11. / 3}, 1e-12)
	sameNumbers(t, "half balanced", balanced([]int{8, 2}, 0.5), []float64{math.Sqrt(10. / 16), math.Sqrt(10. / 4)},
		1e-12)
}

// TestWeigh checks that weights have the mean 1 over the training part. Classes that are not named have the weight one
// before scaling.
func TestWeigh(t *testing.T) {
	counts := []int{8, 2, 10}
	for setting, want := range map[string][]float64{"auto": nil, "none": nil, "": nil, "balanced": {20. / 24, 20. / 6,
		20. / 30},
		"b=3": {20. / 24, 60. / 24, 20. / 24}} {
		p, set := classPlan(), &task.Set{}
		if err := p.weigh(setting, set, counts); err != nil {
			t.Fatal(err)
		}
		sameNumbers(t, setting, p.Weights, want, 1e-12)
		if p.Weighted != (want != nil) || len(set.Weights) != len(want) || (len(set.About) > 0) != (want != nil) {
			t.Errorf("%q: weighted %v, and the set has %v", setting, p.Weighted, set.Weights)
		}
		mean := 0.0
		for k, w := range set.Weights {
			mean += float64(w) * float64(counts[k]) / 20
		}
		if want != nil && math.Abs(mean-1) > 1e-6 {
			t.Errorf("%q: the weights have the mean %v", setting, mean)
		}
	}
	for setting, want := range map[string]string{"d=2": `found "d", want one of the classes a, b, c`,
		"x": "class_weights: found"} {
		if err := classPlan().weigh(setting, &task.Set{}, counts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: found the error %v", setting, err)
		}
	}
	numbers := &Plan{Columns: []Column{number("x", true)}}
	if err := numbers.weigh("balanced", &task.Set{}, nil); err == nil || !strings.Contains(err.Error(),
		"x holds numbers") {
		t.Errorf("of numbers: found the error %v", err)
	}
	sameNumbers(t, "softmax", softmax([]float32{1000, 1000 + float32(math.Ln2)}), []float64{1. / 3, 2. / 3}, 1e-4)
	if got := largest([]float64{1, 3, 3, 2}); got != 1 {
		t.Errorf("the largest is at %d, want the first", got)
	}
}

// TestFloorOfChance checks that balanced accuracy must exceed chance by twice its deviation.
func TestFloorOfChance(t *testing.T) {
	score := func(confusion [][]int) *ClassScore {
		s := newClassScore([]string{"a", "b"})
		s.Confusion = confusion
		for _, row := range confusion {
			s.Count += row[0] + row[1]
		}
		s.finish()
		s.Majority = 99
		return s
	}
	// Recalls of 0.6, of 100 each: the deviation of their mean is √(2·0.24/100)/2 = 0.0346, and 0.6 > 0.5 + 2·0.0346.
	if text := score([][]int{{60, 40}, {40, 60}}).floor("a"); !strings.Contains(text, "but finds the others") {
		t.Errorf("found %q", text)
	}
	if text := score([][]int{{56, 44}, {44, 56}}).floor("a"); !strings.Contains(text, "nor by balanced accuracy") {
		t.Errorf("found %q", text)
	}
	if text := newClassScore([]string{"a"}).floor("a"); text != "" {
		t.Errorf("of nothing: %q", text)
	}
	s := score([][]int{{56, 44}, {44, 56}})
	s.Majority = s.Accuracy
	if s.floor("a") == "" {
		t.Error("as many right as by the most frequent class is enough")
	}
}

// TestLogarithms checks that a number is stored as its logarithm or minus a base, and restored.
func TestLogarithms(t *testing.T) {
	c := Column{Base: 7, Deviation: 3, Spread: 5}
	if c.stored(9) != 2 || c.number(2) != 9 || c.deviation() != 3 {
		t.Error("less a base")
	}
	c.Low, c.High, c.Mean, c.Unit = -1, 2, 0.5, "m"
	if got := c.channel("x\ny"); got != (task.Channel{Name: "x y", Unit: "m", Low: 6, High: 9, Mean: 7.5,
		Deviation: 3}) {
		t.Errorf("found the channel %+v", got)
	}
	if c.Log = true; c.stored(math.E) != 1 || math.Abs(c.number(1)-math.E) > 1e-15 || c.deviation() != 5 ||
		c.stored(0) == c.stored(0) || c.stored(-1) == c.stored(-1) {
		t.Error("by a logarithm")
	}
	p := &Plan{Task: Forecast, Horizon: 1, Lookback: 2, Columns: []Column{number("x", true)}}
	p.Columns[0].Base, p.Columns[0].Deviation = 10, 4
	f := made(t, p, column(-9, 0, 90))
	before := f.toLog(0)
	if !slices.Equal(before, []float32{-9, 0, 90}) || !p.Columns[0].Log || p.Columns[0].Spread != 4 {
		t.Errorf("before: %v, %+v", before, p.Columns[0])
	}
	for i, want := range []float64{0, math.Log(10), math.Log(100)} {
		if got := float64(f.rows.row(i)[0]); math.Abs(got-want) > 1e-6 {
			t.Errorf("row %d is stored as %v, want %v", i, got, want)
		}
	}
	p.Columns[0].Log = false
	if g := made(t, p, column(-9, -10)); g.toLog(0) != nil || p.Columns[0].Log {
		t.Error("the logarithm of 0")
	}
}

// TestRivalsAtTheirBounds checks that the last season is repeated if a forecast sees one, that smoothers see twenty
// seasons, within bounds, and that data fitted for other targets is refused.
func TestRivalsAtTheirBounds(t *testing.T) {
	p := &Plan{Task: Forecast, Horizon: 5, Lookback: 6, Season: 3, Columns: []Column{number("x", true), number("z",
		true)}}
	rows := make([]float32, 0, 22)
	for i := range 6 {
		rows = append(rows, float32(i*i), float32(-i))
	}
	e, err := newEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	e.from(rows)
	all, dst := append(slices.Clone(rows), make([]float32, 10)...), make([]float64, 10)
	lastSeason{}.guess(e, all, 5, dst)
	sameNumbers(t, "the last season", dst, []float64{9 - 25, -3 + 5, 16 - 25, -4 + 5, 0, 0, 9 - 25, 2, 16 - 25, 1},
		1e-6)
	lastValue{}.guess(e, all, 5, dst)
	sameNumbers(t, "the last value", dst, make([]float64, 10), 1e-6)
	sameNumbers(t, "seen", p.seen([]float32{float32(nan), 0, 4, 0, float32(nan), 0, 5, 0}, 1, 0), []float64{0, 4, 4}, 0)
	for season, ok := range map[int]bool{0: false, 1: true, 6: true, 7: false} {
		p.Season = season
		if err := (lastSeason{}).check(p); (err == nil) != ok {
			t.Errorf("a season of %d: %v", season, err)
		}
		fits, _ := lastSeason{}.fit(background(), &frame{plan: p}, nil, nil)
		if want := ok && season > 1; fits != want {
			t.Errorf("a season of %d is repeated: %v", season, fits)
		}
	}
	for _, c := range [][3]int{{6, 1, 200}, {6, 12, 240}, {6, 50, 1000}, {6, 60, 1000}, {1500, 12, 1500}} {
		if got := (&ets{}).memory(&Plan{Lookback: c[0], Season: c[1]}); got != c[2] {
			t.Errorf("a smoother of a season of %d sees %d rows, want %d", c[1], got, c[2])
		}
	}
	if err := (&ets{}).check(p); err == nil || !strings.Contains(err.Error(), "found forecasts of 0 targets, want 2") {
		t.Errorf("of no target: %v", err)
	}
	broken := &ets{}
	broken.Models = append(broken.Models, nil, nil)
	if err := broken.check(p); err == nil || !strings.Contains(err.Error(), "no parameters") {
		t.Errorf("without parameters: %v", err)
	}
	sameNumbers(t, "numbers", p.numbers([]float32{1, 2, 3, 4, 5, 6}, 1, 1), []float64{2, 4}, 0)
}

// TestChoice checks that the best contender predicts if it is better than the network by more than the doubt, and that
// the sentence gives the reason.
func TestChoice(t *testing.T) {
	contenders := func(errors ...float64) *Plan {
		p := &Plan{Columns: []Column{number("x", true)}}
		for i, e := range errors {
			p.Contenders = append(p.Contenders, &Contender{Name: []string{"network", "last", "linear"}[i],
				Title: []string{"network", "last value", "line"}[i], Error: e})
		}
		return p
	}
	for _, c := range []struct {
		errors []float64
		doubt  float64
		best   string
	}{{[]float64{3, 2, 1}, 0, "linear"}, {[]float64{3, 2, 2}, 0, "last"}, {[]float64{2, 2, 3}, 0, "network"},
		{[]float64{3, 2, 2.5}, 1, "network"},
		{[]float64{3, 1.9, 2.5}, 1, "last"}} {
		p := contenders(c.errors...)
		p.Doubt = c.doubt
		if got := p.best().Name; got != c.best {
			t.Errorf("%v: the best is %s", c, got)
		}
	}
	p := contenders(3, 2, 1)
	for use, want := range map[string]string{
		"network": "prediction uses network, as asked for: mean absolute error 3, next line 1 (--use takes network, " +
			"last, linear)",
		"best": "prediction uses line, best on the validation set: mean absolute error 1, next last value 2",
		"last": "prediction uses last value, as asked for: mean absolute error 2, next line 1",
	} {
		m, err := (&Model{plan: p}).Use(use)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Choice(); !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", use, got, want)
		}
	}
	if _, err := (&Model{plan: p}).Use("x"); err == nil || !strings.Contains(err.Error(),
		`found "x", want best or one of network, last`) {
		t.Errorf("found the error %v", err)
	}
	if got := (&Model{plan: contenders(3, 2)}).Choice(); !strings.Contains(got,
		"prediction uses network, as asked for") {
		t.Errorf("of one rival: %q", got)
	}
	if got := (&Model{plan: contenders(1)}).Choice(); got != "" {
		t.Errorf("without rivals: %q", got)
	}
	p = contenders(3, 2, 1)
	p.Columns = append(p.Columns, number("z", true))
	if got := p.measure(); got != "mean absolute error in deviations" {
		t.Errorf("of two targets: %q", got)
	}
	if got := classPlan().measure(); got != "cross-entropy" {
		t.Errorf("of classes: %q", got)
	}
	if got := (&Plan{}).contenderNames(); got != "network" {
		t.Errorf("before they compete: %q", got)
	}
	for _, name := range []string{"best", "network", "last"} {
		if err := p.checkUse(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImportanceFormula checks the increase of the loss when a column is replaced by that of another window. For a
// rival that sees only one column, the other has no importance.
func TestImportanceFormula(t *testing.T) {
	p := &Plan{Task: Regress, Levels: []float64{0.5}, Columns: []Column{number("a", false), number("b", false),
		number("y", true)}}
	p.Columns[2].In = false
	var series [][][]float32
	for i := range 30 {
		a := float32(i * i % 19)
		series = append(series, [][]float32{{a, float32(i), 2 * a}, {a, 0, 2 * a}})
	}
	f := made(t, p, series...)
	w := f.newWindows(f.wholeSeries(), validPart, 1, 5)
	m := by(t, p, func(_ *encoder, rows []float32, _ int, dst []float64) { dst[0] = 2 * float64(rows[len(rows)-3]) })
	var notes []string
	im, err := m.importance(background(), w, 100, &notes)
	if err != nil || im == nil || len(notes) > 0 {
		t.Fatal(im, notes, err)
	}
	if im.Loss != 0 || im.Windows != 30 || im.Repeats != 3 || len(im.Columns) != 2 || im.Columns[0].Column != "a" ||
		im.Columns[1].Rise != 0 || im.Columns[1].Deviation != 0 || !strings.Contains(im.How,
		"to the script, by permuting: each of 30") {
		t.Errorf("found %+v", im)
	}
	least, most := math.Inf(1), 0.0 // over all shifts
	for shift := 1; shift < 30; shift++ {
		rise := 0.0
		for i := range 30 {
			a, b := float64(i*i%19), float64((i+shift)%30*((i+shift)%30)%19)
			rise += math.Abs(2*b-2*a) / 2 / 30
		}
		least, most = min(least, rise), max(most, rise)
	}
	if a := im.Columns[0]; a.Rise < least || a.Rise > most || a.Deviation > most-least {
		t.Errorf("the loss rises by %v ± %v, want between %v and %v", a.Rise, a.Deviation, least, most)
	}
	if im, err := m.importance(background(), w, 1, &notes); im != nil || err != nil {
		t.Errorf("of one window: %v, %v", im, err)
	}
	none := by(t, p, func(*encoder, []float32, int, []float64) {})
	if im, err := none.importance(background(), w, 100, &notes); im != nil || err != nil {
		t.Errorf("of what sees no column: %v, %v", im, err)
	}
}

// TestScalesOfLayers checks the quantiles of lengths, in rows and in time, the remainder at each lag, and the part that
// shows how far a layer looks back.
func TestScalesOfLayers(t *testing.T) {
	ten := Reach(10)
	s := &TimeScales{Step: 10, Window: 8, Lags: []int{0, 2, 7, 9}}
	s.add(NetworkScale{Of: Modes, Left: []float64{1, 0.123456}}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 12.34567})
	n := s.Network[0]
	if n.Count != 10 || n.Rows != (Spread{2, 6, 12.3457, 12.3457}) || *n.Seconds != (Spread{20, 60, ten * 12.3457,
		ten * 12.3457}) ||
		n.Left[1] != 0.1235 {
		t.Errorf("found %+v, %+v", n, n.Seconds)
	}
	s = &TimeScales{Window: 8, Lags: []int{0, 2, 7, 8, 9}}
	s.ofLayer(0, &anatomy.Layer{Kind: "attention"})
	if n := s.Network[0]; n.Of != All || n.Kind != "attention" || !slices.Equal(n.Left, []float64{1, 1, 1, 0, 0}) ||
		n.Rows.Longest != 8 || n.Seconds != nil {
		t.Errorf("attention looks back %+v", n)
	}
	s.Network = []NetworkScale{
		{Layer: 0, Of: Modes, Rows: Spread{Longest: 90}}, {Layer: 0, Of: Kernels, Part: "conv",
			Rows: Spread{Longest: 99}},
		{Layer: 0, Of: Kernels, Part: "ssm", Rows: Spread{Longest: 5}}, {Layer: 0, Of: Kernels, Part: "ssm_1",
			Rows: Spread{Longest: 7}},
		{Layer: 1, Of: Kernels, Part: "a.conv", Rows: Spread{Longest: 3}}, {Layer: 1, Of: Modes,
			Rows: Spread{Longest: 6}},
	}
	if m := s.main(0); m.Part != "ssm_1" {
		t.Errorf("of layer 0: %+v, want the kernel that reaches furthest", m)
	}
	if m := s.main(1); m.Of != Modes {
		t.Errorf("of layer 1: %+v, want the modes", m)
	}
	if s.main(2) != nil || s.furthest().Part != "ssm_1" || (&TimeScales{}).furthest() != nil {
		t.Error("a layer of which nothing is known, or the furthest")
	}
	if got := fades([]float64{1, 0.5, 0.36, 0}); got != 2 || fades([]float64{1, 0.37}) != 0 {
		t.Errorf("it fades at %d", got)
	}
	for x, want := range map[float64]float64{0.12344: 0.1234, 0.12346: 0.1235, -1.00006: -1.0001} {
		if got := round4(x); got != want {
			t.Errorf("%v is %v in four digits", x, got)
		}
	}
	for words, want := range map[string]string{"": "", "a": "a", "a b": "a and b", "a b c": "a, b and c"} {
		if got := and(strings.Fields(words)); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	for rows, want := range map[float64]string{1: "1 row (10 seconds)", 2.5: "2.5 rows (25 seconds)",
		99.96: "100 rows (16.7 minutes)",
		123.4: "123 rows (20.6 minutes)"} {
		if got := (&TimeScales{Step: 10}).both(rows); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	if got := (&TimeScales{}).span(12); got != "12 rows" {
		t.Errorf("found %q", got)
	}
	if got := (&TimeScales{}).reach(Reach(math.Inf(1))); got != "never fades" {
		t.Errorf("found %q", got)
	}
	if got := layers([]NetworkScale{{Layer: 3}, {Layer: 1}}); got != 4 {
		t.Errorf("%d layers, want 4", got)
	}
	var r Reach
	if err := json.Unmarshal([]byte("2.5"), &r); err != nil || r != 2.5 {
		t.Errorf("found %v, %v", r, err)
	}
}

// TestFarNumbers checks the largest accepted number, and the allowed distance from training.
func TestFarNumbers(t *testing.T) {
	p := &Plan{Columns: []Column{number("x", true), category("y", false, "a")}}
	c := &p.Columns[0]
	c.Mean, c.Deviation, c.Base = 5, 2, 100
	f := made(t, p, column(0)[:0])
	v := &table.Values{}
	for x, want := range map[float32]string{1: "", largestNumber * 0.999: "",
		largestNumber * 1.001: "want numbers of at most"} {
		f.far = nil
		err := f.lookFar([]float32{-x, float32(math.Inf(1))}, v)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: found the error %v", x, err)
		}
	}
	for x, want := range map[float32]bool{5: true, 1.9e12: true, 2.1e12: false, -2.1e12: false, float32(nan): true} {
		f.far = nil
		if err := f.lookFar([]float32{x, 0}, v); err != nil {
			t.Fatal(err)
		}
		if err := f.checkFar(); (err == nil) != want {
			t.Errorf("%v from a mean of 5 by deviations of 2: found %v", x, err)
		}
	}
	f.far = nil
	for _, x := range []float32{3, -9, 4} {
		if err := f.lookFar([]float32{x, 0}, v); err != nil {
			t.Fatal(err)
		}
	}
	if f.far[0].x != 9 {
		t.Errorf("the farthest is %v, want 9", f.far[0].x)
	}
}
