package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/train"
)

// TestClassesOfContenders checks that for classes a doubt of one example is enough, that the weights of each contender
// are chosen by its own probabilities but only reported for the one that predicts, and that all are measured on the
// test part.
func TestClassesOfContenders(t *testing.T) {
	p := classPlan()
	p.Contenders = []*Contender{{Name: "script", Title: "script", rival: scripted{f: func(_ *encoder, rows []float32,
		n int, dst []float64) {
		for r := range n {
			dst[3*r+1], dst[3*r+2] = -3, -1+0.5*float64(rows[2*r])
		}
	}}}}
	var rows [][]float32
	for i := range 300 {
		rare := i%20 == 0
		rows = append(rows, []float32{bit(rare) + 0.1*float32(i%3), 2 * bit(rare)})
		if i%7 == 3 {
			rows[i][1] = float32(nan)
		}
	}
	f := made(t, p, rows)
	all := func(part, lo, hi int) *windows { return f.newWindows([]segment{{0, lo, hi}}, part, 10, 0) }
	j := &job{f: f, m: untrained(t, p, "mean"), loop: &train.Training{},
		sets: sets{all(trainPart, 0, 120), all(validPart, 120, 240),
			all(testPart, 240, 300)}}
	j.c.Use, j.c.ClassWeights = "script", weightsAuto
	if err := j.compete(background()); err != nil {
		t.Fatal(err)
	}
	if known := f.counts(j.valid); p.Doubt != 1/float64(known[0]+known[1]+known[2]) || known[1] != 0 ||
		p.Use != "script" {
		t.Errorf("found the doubt %v of the classes %v, and %s predicts", p.Doubt, known, p.Use)
	}
	res := &Result{}
	if err := j.classes(background(), res); err != nil {
		t.Fatal(err)
	}
	var probabilities [][]float64
	var truths []int
	for _, row := range rows[120:240] {
		if row[1] == row[1] {
			probabilities = append(probabilities, softmax([]float32{0, -3, -1 + 0.5*row[0]}))
			truths = append(truths, int(row[1]))
		}
	}
	want, note := p.chooseWeights(probabilities, truths, f.counts(j.train))
	if got := p.Contenders[1].Weights; want == nil || fmt.Sprint(got) != fmt.Sprint(want) || !slices.Equal(res.Notes,
		[]string{note}) || fmt.Sprint(p.Weights) != fmt.Sprint(p.Contenders[0].Weights) {
		t.Errorf("found the weights %v, want %v; told %q, want %q", got, want, res.Notes, note)
	}
	tests := 0
	for _, row := range rows[240:] {
		tests += int(bit(row[1] == row[1]))
	}
	if res.Classes.Name != "network" || len(res.Rivals) != 1 || res.Rivals[0].Name != "script" ||
		res.Classes.Count != tests || res.Rivals[0].Count != tests || res.Rivals[0].Accuracy != 100 ||
		res.Rivals[0].Floor != "" || res.Classes.Floor != res.Classes.floor("a") {
		t.Errorf("found %+v, %+v", res.Classes, res.Rivals[0])
	}
	p.Weights, j.c.ClassWeights = []float64{1, 2, 3}, weightsNone
	if err := j.settleWeights(background(), nil, &res.Notes); err != nil || len(res.Notes) != 1 || fmt.Sprint(p.Weights,
		p.Contenders[1].Weights) != "[1 2 3] [1 2 3]" {
		t.Errorf("as asked for: found %v and %v, %v", p.Weights, p.Contenders[1].Weights, err)
	}
	for i := range rows {
		rows[i][1] = float32(nan)
	}
	j.f = made(t, p, rows)
	j.valid = j.f.newWindows([]segment{{0, 120, 240}}, validPart, 10, 0)
	p.Contenders = p.Contenders[1:]
	if err := j.compete(background()); err != nil || p.Contenders != nil || p.Use != "" {
		t.Errorf("of no class: found %v and %q, %v", p.Contenders, p.Use, err)
	}
}

// TestNumbersOfContenders checks that each contender has its own alarm, the network that of the plan, and that the
// intervals of a forecast follow as many recent rows as the validation part has, if these are at least one horizon.
func TestNumbersOfContenders(t *testing.T) {
	z := 1.2815515655446004 // the 0.9 quantile of a normal distribution
	p := &Plan{Task: Anomaly, Length: 50, Levels: []float64{0.1, 0.5, 0.9}, Columns: []Column{number("x", true)}}
	script := &Contender{Name: "script", Title: "script", rival: scripted{f: func(*encoder, []float32, int,
		[]float64) {
	}},
		Off: [][][]float64{{{-z, 0, z}}}}
	p.Contenders, p.Use = []*Contender{{Name: useNetwork, Title: "network"}, script}, "script"
	var rows [][]float32
	for i := range 41 {
		rows = append(rows, []float32{float32(i * i % 17)})
	}
	f := made(t, p, rows)
	w := f.newWindows(f.wholeSeries(), validPart, 1, 0)
	j := &job{f: f, m: untrained(t, p, "mean"), loop: &train.Training{}, sets: sets{w, w, w}}
	j.c.Alarms, j.c.Intervals = "0.25", recentIntervals
	res := &Result{}
	if err := j.numbers(background(), res); err != nil {
		t.Fatal(err)
	}
	var scores []float64
	for i := range 40 {
		scores = append(scores, math.Abs(float64(rows[i+1][0]-rows[i][0])))
	}
	slices.Sort(scores)
	if want := scores[int(math.Ceil(0.75*41))-1]; math.Abs(script.Alarm-want) > 1e-4 || p.Alarm == 0 ||
		p.Alarm != p.Contenders[0].Alarm {
		t.Errorf("found the alarms %v and %v, want %v", script.Alarm, p.Contenders[0].Alarm, want)
	}
	if len(res.Errors) != 2 || res.Errors[0].Name != "network" || res.Errors[1].Name != "script" ||
		len(res.Calibration) != 1 || res.Forecasts != nil || p.Recent != 0 || len(res.Notes) > 0 ||
		math.Abs(res.Calibration[0].TestCalibrated-res.Errors[0].Coverage) > 1e-9 {
		t.Errorf("found %+v, %+v, told %q", res.Errors, res.Calibration, res.Notes)
	}
	for _, c := range []struct {
		intervals       string
		rows            int
		recent, notes   int
		calibrated, few bool
	}{{recentIntervals, 8, 0, 1, true, true}, {recentIntervals, 9, 5, 1, true, true}, {"valid", 60, 0, 0, true, false},
		{recentIntervals, 60, 56, 0, true, false}, {learntIntervals, 60, 0, 0, false, false}} {
		p := banded(5, 0, 0.1, 0.5, 0.9)
		p.Contenders = []*Contender{{Name: useNetwork, Title: "network"}, script}
		f := made(t, p, walk(100, func(t int) float64 { return float64(t * t % 5) }))
		j := &job{f: f, m: untrained(t, p, "mean"), loop: &train.Training{}}
		j.valid, j.test = f.newWindows([]segment{{0, 10, 10 + c.rows}}, validPart, 1, 0),
			f.newWindows([]segment{{0, 80, 100}}, testPart, 1, 0)
		res := &Result{}
		j.c.Intervals = c.intervals
		if err := j.numbers(background(), res); err != nil || p.Recent != c.recent || len(res.Notes) != c.notes ||
			(res.Calibration != nil) != c.calibrated || len(res.Forecasts) != drawnForecasts || len(res.Errors) != 2 {
			t.Errorf("%+v: found %d recent rows, told %q, %v, %d forecasts of %d are drawn", c, p.Recent, res.Notes,
				err,
				len(res.Forecasts), len(res.Errors))
		}
	}
}

// TestForecastsDrawn checks that charts show the rows before a forecast up to a maximum, the truth, the median and the
// outermost quantiles, for the first target in the units of the data.
func TestForecastsDrawn(t *testing.T) {
	p := banded(2, 0, 0.1, 0.5, 0.9)
	p.Columns = append(p.Columns, number("z", true))
	p.Lookback, p.Columns[0].Base, p.Columns[0].Unit = drawnKnown+3, 1000, "m"
	var rows [][]float32
	for i := range 120 {
		rows = append(rows, []float32{float32(i), 0})
	}
	f := made(t, p, rows)
	w := f.newWindows(f.wholeSeries(), testPart, 1, 0)
	m := by(t, p, func(_ *encoder, _ []float32, _ int, dst []float64) { dst[0], dst[2] = 5, 7 })
	m.rival.Off = [][][]float64{{{-1, 0, 2}}, {{0, 0, 0}}}
	all, err := m.examples(background(), f, w, nil)
	if err != nil || len(all) != 4 {
		t.Fatal(len(all), err)
	}
	for n, c := range all {
		last := float64(1000 + drawnKnown + 2 + n*w.Len()/4)
		if len(c.Known) != drawnKnown || c.Known[0] != last-drawnKnown+1 || c.Known[drawnKnown-1] != last ||
			c.Series != "a" || c.Target != "x" || c.Unit != "m" {
			t.Errorf("forecast %d: found %+v", n, c)
		}
		sameNumbers(t, fmt.Sprint("forecast ", n), slices.Concat(c.Truth, c.Low, c.Median, c.High), []float64{last + 1,
			last + 2, last + 4, last + 6, last + 5, last + 7, last + 7, last + 9}, 1e-3)
	}
	p.Lookback, p.Columns[0].Deviation = 3, 4
	m = by(t, p, func(*encoder, []float32, int, []float64) {})
	if all, err = m.examples(background(), f, f.newWindows(f.wholeSeries(), testPart, 1, 0), nil); err != nil ||
		len(all[0].Known) != 3 {
		t.Errorf("of three rows: found %v, %v", all[0].Known, err)
	}
	r := &Result{Plan: p, Errors: []Errors{{CRPS: 6}}}
	if got := r.Pinball(); got != 6./2/4 {
		t.Errorf("found the pinball loss %v in deviations, want 0.75", got)
	}
	if r.Errors = nil; r.Pinball() == r.Pinball() {
		t.Errorf("of classes: found %v", r.Pinball())
	}
}

// TestContendersLoaded checks that contenders fitted for another plan, or damaged, are refused, and that those stored
// by a run are unchanged.
func TestContendersLoaded(t *testing.T) {
	forecast := banded(2, 0, 0.1, 0.5, 0.9)
	forecast.Season, forecast.Lookback = 2, 3
	levels := []float64{-1, 0, 1}
	for want, c := range map[string]struct {
		p *Plan
		c Contender
	}{
		"":                                   {forecast, Contender{Name: "last", Fitted: []byte("{}")}},
		"found \"mean\" among what predicts": {forecast, Contender{Name: "mean", Fitted: []byte("{}")}},
		"found \"none\" among what predicts": {forecast, Contender{Name: "none"}},
		"last: unexpected EOF":               {forecast, Contender{Name: "last", Fitted: []byte("{")}},
		"found no linear forecast":           {forecast, Contender{Name: "linear", Fitted: []byte("{}")}},
		"want 1 from 1 to 3": {forecast, Contender{Name: "linear",
			Fitted: []byte(`{"own": {"order": 4, "weights": [[1]]}}`)}},
		"seasonal: found intervals": {forecast, Contender{Name: "seasonal", Fitted: []byte("{}"),
			Off: [][][]float64{{levels, levels, levels}}}},
		"majority: found 2 class weights, want 3": {classPlan(), Contender{Name: "majority", Weights: []float64{1, 2},
			Fitted: []byte(`{"logits": [1, 2, 3]}`)}},
		"found the frequencies of 2 classes": {classPlan(), Contender{Name: "majority", Weights: []float64{1, 2, 3},
			Fitted: []byte(`{"logits": [1, 2]}`)}},
	} {
		if err := c.c.load(c.p); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, want %q", c.c.Name, err, want)
		}
	}
	for name, c := range map[string]struct {
		off [][][]float64
		ok  bool
	}{
		"none": {nil, true}, "alike": {[][][]float64{{levels}}, true}, "by step": {[][][]float64{{levels, levels}},
			true},
		"two targets": {[][][]float64{{levels}, {levels}}, false}, "two levels": {[][][]float64{{levels[:2]}}, false},
		"no step": {[][][]float64{{}}, false}, "the second": {[][][]float64{{levels, levels[:1]}}, false},
		"three steps": {[][][]float64{{levels, levels, levels}}, false},
	} {
		if err := (&Contender{Off: c.off}).checkOff(forecast); (err == nil) != c.ok {
			t.Errorf("%s: found %v", name, err)
		}
	}
	f := made(t, classPlan(), [][]float32{{0, 0}, {1, 1}, {2, 2}, {3, 1}})
	w := f.newWindows(f.wholeSeries(), trainPart, 1, 0)
	all, err := f.fitRivals(background(), w, w)
	if err != nil || len(all) != 1 || all[0].Name != "majority" || all[0].Title != "frequency of the classes" {
		t.Fatal(all, err)
	}
	again := &Contender{Name: all[0].Name, Fitted: all[0].Fitted}
	if err := again.load(f.plan); err != nil {
		t.Fatal(err)
	}
	sameNumbers(t, "the frequencies", again.rival.(*majority).Logits, []float64{math.Log(1.5), math.Log(2.5),
		math.Log(1.5)}, 1e-12)
	linear := &linear{Order: 2, Weights: [][]float32{{1, 2, 3, 4}}, Ridges: []float64{0.1}}
	own := &nlinear{Own: linear}
	if err := own.check(forecast); err != nil || (&nlinear{}).check(forecast) == nil {
		t.Errorf("weights of its own: %v", err)
	}
	forecast.Linear = linear
	if err := (&nlinear{}).check(forecast); err != nil {
		t.Errorf("weights of the plan: %v", err)
	}
	if ok, err := (&nlinear{}).fit(background(), &frame{plan: forecast}, nil, w); !ok || err != nil {
		t.Errorf("with the weights of the plan it is fitted: %v, %v", ok, err)
	}
	e, err := newEncoder(forecast)
	if err != nil {
		t.Fatal(err)
	}
	rows, dst := []float32{1, 2, 4, 9, 9}, []float64{0, 0}
	e.from(rows[:3])
	if (&nlinear{}).guess(e, rows, 2, dst); dst[0] != 0 || dst[1] != 0 {
		t.Errorf("with the weights of the plan it is %v from that forecast, want nothing", dst)
	}
	e.ahead[0][1] = 0.5
	own.guess(e, rows, 2, dst) // -2 and 0 above the last value
	sameNumbers(t, "by its own weights", dst, []float64{-2 - e.ahead[0][0], -4 - 0.5}, 1e-6)
}
