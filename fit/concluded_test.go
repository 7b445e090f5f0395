package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/train"
)

// pair returns settings for forecasts of two targets with 120 rows, by a tiny network.
func pair(t *testing.T, change func(c *Config)) Config {
	return waves(t, func(c *Config) {
		text := "x,z\n"
		for i := range 120 {
			text += fmt.Sprintf("%d,%.4f\n", i*i%11, 50+10*pairOf(i))
		}
		if err := os.WriteFile(c.Data[0], []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c.Target, c.Epochs, c.Use = []string{"x", "z"}, 1, useNetwork
		if change != nil {
			change(c)
		}
	})
}

func pairOf(i int) float64 { return math.Sin(float64(i)) + 0.3*math.Sin(float64(i*i)) }

// began returns a job after training.
func began(t *testing.T, c Config, ev Events) *job {
	t.Helper()
	f, err := read(background(), &c, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := prepare(&c, f, ev)
	if err == nil {
		f.plan.Contenders, err = f.fitRivals(background(), j.train, j.valid)
	}
	if err == nil {
		err = j.loop.Open(train.Events{Step: ev.Step, Eval: ev.Eval, Note: ev.Note})
	}
	if err != nil {
		t.Fatal(err)
	}
	if interrupted, err := j.work.Train(background(), j.loop); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	if _, err := j.work.TakeBest(j.loop); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.loop.Close() })
	return j
}

// TestCompete checks that contenders are compared on the validation set by their mean absolute error in deviations, the
// network first, and that the requested or the best one predicts. A final fit on all rows predicts unless its error
// there is larger by more than a twentieth, or it would take more than the requested time.
func TestCompete(t *testing.T) {
	var notes []string
	j := began(t, pair(t, nil), Events{Note: func(text string) { notes = append(notes, text) }})
	p := j.f.plan
	j.c.Use = useBest
	if err := j.compete(background()); err != nil {
		t.Fatal(err)
	}
	var names []string
	least := p.Contenders[0]
	for _, c := range p.Contenders {
		names = append(names, c.Name)
		if c.Error < least.Error {
			least = c
		}
	}
	if got := strings.Join(names, " "); got != "network last seasonal linear ets theta" || p.Use != least.Name ||
		p.Doubt != 0 || j.networkError != p.Contenders[0].Error || !slices.Contains(notes,
		"measuring the network and 5 simple models") {
		t.Errorf("found %s, %s predicts, the doubt %v, the error %v, told %q", got, p.Use, p.Doubt, j.networkError,
			notes)
	}
	for k, season := range []int{1, 6} { // of 18 validation rows, from row 84 on, 15 forecasts of 4 rows
		want := 0.0
		for at := 84; at <= 98; at++ {
			for h := range 4 {
				from := at - season + h%season
				want += math.Abs(float64((at+h)*(at+h)%11-from*from%11))/p.Columns[0].Deviation/120 +
					10*math.Abs(pairOf(at+h)-pairOf(from))/p.Columns[1].Deviation/120
			}
		}
		if got := p.Contenders[1+k].Error; math.Abs(got-want) > 1e-3 {
			t.Errorf("%s has the error %v, want %v", p.Contenders[1+k].Name, got, want)
		}
	}
	j.c.Use = "seasonal"
	p.Contenders = p.Contenders[1:]
	if err := j.compete(background()); err != nil || p.Use != "seasonal" || len(p.Contenders) != 6 {
		t.Errorf("as asked for: %s predicts of %d, %v", p.Use, len(p.Contenders), err)
	}
	final := func(change func()) (string, func() error) {
		t.Helper()
		before := j.c
		defer func() { j.c = before }()
		change()
		res := &Result{}
		save, err := j.final(background(), res)
		if err != nil {
			t.Fatal(err)
		}
		return res.Final, save
	}
	if text, save := final(func() { j.c.Final = finalTrain }); text != "" || save != nil {
		t.Errorf("left out: %q", text)
	}
	text, save := final(func() { p.Use = "linear" })
	c := p.contender("linear")
	again := &Contender{Name: c.Name, Fitted: c.Fitted}
	if err := again.load(p); err != nil || save != nil || text != "linear (NLinear, least squares): fitted once more "+
		"on all rows (--final train leaves that out)" || c.Title != "linear (NLinear, least squares)" {
		t.Errorf("found %q, %v", text, err)
	}
	all := j.f.newWindows(j.f.wholeSeries(), trainPart, 1, 0)
	want := j.f.fitLinear(all, nil, p.Linear)
	if got := again.rival.(*nlinear).Own; fmt.Sprint(got.Weights) != fmt.Sprint(want.Weights) {
		t.Errorf("found the weights %v, want those of all rows, %v", got.Weights[0][:4], want.Weights[0][:4])
	}
	p.Use = useNetwork
	if text, save := final(func() { j.c.Time = time.Second }); save != nil || !strings.Contains(text,
		"the training set only: a final fit on all rows would take more than --time") {
		t.Errorf("within a time: %q", text)
	}
	j.networkError = 0
	text, save = final(func() {})
	var now, before float64
	if _, err := fmt.Sscanf(text, "the network has seen the training set only: fitted on all rows, it was worse (%g, "+
		"before %g)", &now, &before); err != nil || save != nil || before != 0 {
		t.Fatalf("found %q, %v", text, err)
	}
	j.networkError = now / 1.06
	if _, save := final(func() {}); save != nil {
		t.Error("a network that is worse by 6 % is saved")
	}
	j.networkError = now / 1.04
	wide := slices.Repeat([][]float64{{0.25}}, 4)
	p.Recent, p.Alarm, p.Widen = 9, 0.5, [][][]float64{wide, wide}
	text, save = final(func() {})
	told := fmt.Sprintf("final fit on all rows, %d updates as the best network had (--final train leaves it out)",
		j.loop.Steps())
	if want := fmt.Sprintf("the network is trained once more on all rows, for %d updates as the best one had (--final "+
		"train leaves that out); what is measured here is the network before", j.loop.Steps()); text != want ||
		save == nil || notes[len(notes)-1] != told || j.loop.Steps() != 10 {
		t.Fatalf("found %q, told %q, want %q", text, notes[len(notes)-1], want)
	}
	if _, err := os.Stat(filepath.Join(j.c.Out, refitsDir, "final")); err != nil {
		t.Error(err)
	}
	if err := save(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(j.c.Out, refitsDir)); !os.IsNotExist(err) {
		t.Errorf("the folder of the last fit: %v", err)
	}
	_, saved, err := openNetwork(j.c.Out)
	mean := 0.0
	for i := range 120 {
		mean += float64(i*i%11) / 120
	}
	if err != nil || !saved.Final || saved.Use != useNetwork || saved.Recent != 9 || saved.Alarm != 0.5 ||
		fmt.Sprint(saved.Widen) != fmt.Sprint(p.Widen) || len(saved.Contenders) != 6 || p.Final ||
		math.Abs(saved.Columns[0].Mean-mean) > 1e-6 || math.Abs(p.Columns[0].Mean-mean) < 1e-6 {
		t.Errorf("found %+v, %v", saved, err)
	}
}

// TestAgain checks that training again takes about the requested number of updates, in whole epochs, with the ridges of
// the run, and gives the last network. Without that number it gives the best network on its validation set, with its
// own ridges.
func TestAgain(t *testing.T) {
	j := began(t, pair(t, nil), Events{})
	for k := range j.f.plan.Linear.Ridges {
		j.f.plan.Linear.Ridges[k] = 7
	}
	divided := [parts][]segment{{{0, 0, 70}}, {{0, 70, 90}}, {{0, 90, 120}}} // 59 forecasts, 8 updates per epoch
	for updates, epochs := range map[int]int{1: 1, 11: 1, 12: 2, 19: 2, 20: 3, 0: 1} {
		m, f, set, w, err := j.again(background(), fmt.Sprint(updates), divided, updates)
		if err != nil {
			t.Fatal(err)
		}
		if set.train.Len() != 59 || set.valid.Len() != 17 || set.test.Len() != 27 || w.Config.Epochs != epochs ||
			(w.Config.EvalLimit == 1) != (updates > 0) || updates > 0 && w.Config.EvalEvery != float64(epochs) ||
			f.plan == j.f.plan ||
			f.plan != m.plan || m.net != w.Net || (f.plan.Linear.Ridges[0] == 7) != (updates > 0) ||
			f.plan.Contenders != nil || f.plan.Use != "" || j.f.plan.Use != "" || len(j.f.plan.Contenders) == 0 ||
			f.plan.Columns[0].Mean == j.f.plan.Columns[0].Mean {
			t.Errorf("%d updates: found %d epochs, %+v, %+v", updates, w.Config.Epochs, set, f.plan.Linear.Ridges)
		}
		if _, err := os.Stat(filepath.Join(j.c.Out, refitsDir, fmt.Sprint(updates))); err != nil {
			t.Error(err)
		}
	}
	s, err := j.timeScales(background())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := j.f.correlation([]segment{{0, 0, 84}}, []int{0, 1}, false)
	if s.Window != 12 || s.Cut || s.Step != 0 || s.Of != "2 columns" || len(s.Network) == 0 ||
		s.Summary != s.sentence() {
		t.Errorf("found %+v", s)
	}
	for i, x := range s.Correlation {
		if math.Abs(x-r[s.Lags[i]]) > 1e-4 {
			t.Errorf("lag %d: found the correlation %v, want %v", s.Lags[i], x, r[s.Lags[i]])
		}
	}
	j.f.plan.Step, j.work.Set.MaxLength = 60, 1
	if s, err := j.timeScales(background()); err != nil || s.Step != 60 || s.Window != 2 {
		t.Errorf("of minutes: found %+v, %v", s, err)
	}
	j.f.plan.Irregular = true
	if s, err := j.timeScales(background()); err != nil || s.Step != 0 {
		t.Errorf("of uneven rows: found %+v, %v", s, err)
	}
}

// TestConcludeNumbers checks that a run of forecasts measures all contenders on the same rows. Those of one target come
// together, followed by the refitted ones. It also checks that the run can be interrupted while it measures.
func TestConcludeNumbers(t *testing.T) {
	ctx, cancel := context.WithCancel(background())
	j := began(t, pair(t, func(c *Config) { c.Refit, c.Epochs = 8, 2 }), Events{Note: func(text string) {
		if strings.HasPrefix(text, "refit 1 of 1: a network for the next 8 origins") {
			cancel()
		}
	}})
	if _, err := j.finish(ctx); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("found %v", err)
	}
	res := &Result{}
	if err := j.numbers(background(), res); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range res.Errors {
		names = append(names, e.Target+" "+e.Name)
		if e.Count != 60 || len(e.Steps) != 4 {
			t.Errorf("%s of %s is measured on %d rows in %d steps, want 60 in 4", e.Name, e.Target, e.Count,
				len(e.Steps))
		}
	}
	var want []string
	for _, target := range []string{"x ", "z "} {
		for _, c := range j.f.plan.Contenders {
			want = append(want, target+c.Title)
		}
		want = append(want, target+"network, refitted every 8 origins", target+"linear, refitted every 8 origins")
	}
	if !slices.Equal(names, want) || len(names) != 16 {
		t.Errorf("found the errors of %q, want %q", names, want)
	}
	for at, season := range map[int]int{1: 1, 2: 6} { // from row 102 on, 15 forecasts of 4 rows
		mae := 0.0
		for now := 102; now <= 116; now++ {
			for h := range 4 {
				from := now - season + h%season
				mae += math.Abs(float64((now+h)*(now+h)%11-from*from%11)) / 60
			}
		}
		if got := res.Errors[at].MAE; math.Abs(got-mae) > 1e-4 {
			t.Errorf("%s is off by %v, want %v", res.Errors[at].Name, got, mae)
		}
	}
	// The linear forecast for each eight origins is fitted to the rows known by then, except for the last 18.
	mae := 0.0
	for from := 102; from <= 116; from += 8 {
		f := *j.f
		if err := f.measure([]segment{{0, 0, from - 18}}); err != nil {
			t.Fatal(err)
		}
		l := f.fitLinear(f.newWindows([]segment{{0, 0, from - 18}}, trainPart, 1, 0),
			f.newWindows([]segment{{0, from - 18, from}}, validPart, 1, 0), nil)
		ahead := make([]float64, 4)
		for now := from; now < min(117, from+8); now++ {
			past := f.seen(window{0, now - 8, now + 4})[1]
			l.ahead(1, past, ahead)
			for h, x := range ahead {
				mae += math.Abs(past[7]+x-float64(f.rows.row(now + h)[1])) / 60
			}
		}
	}
	if got := res.Errors[15].MAE; math.Abs(got-mae) > 1e-4 {
		t.Errorf("refitted, the linear forecast is off by %v, want %v", got, mae)
	}
	if _, err := os.Stat(filepath.Join(j.c.Out, refitsDir)); !os.IsNotExist(err) {
		t.Errorf("the folder of the refits: %v", err)
	}
	groups, err := j.f.refits(&j.c)
	if err != nil || len(groups) != 2 {
		t.Fatal(len(groups), err)
	}
	mae = 0
	for n, divided := range groups {
		m, f, test := j.m, j.f, j.f.newWindows(divided[testPart], testPart, 1, j.c.Seed)
		if n > 0 {
			again, g, set, _, err := j.again(background(), fmt.Sprint("once more ", n), divided, 0)
			if err != nil {
				t.Fatal(err)
			}
			m, f, test = again, g, set.test
		}
		errs, err := m.by(nil).numbers(background(), f, test, "", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		mae += errs[0].MAE * float64(errs[0].Count) / 60
	}
	if got := res.Errors[6].MAE; math.Abs(got-mae) > 1e-6 || got == res.Errors[0].MAE {
		t.Errorf("refitted, the network is off by %v, want %v", got, mae)
	}
	if len(res.Forecasts) != 4 || len(res.Calibration) != 2 || j.f.plan.Recent != 15 {
		t.Errorf("found %d forecasts, %+v, %d recent rows", len(res.Forecasts), res.Calibration, j.f.plan.Recent)
	}
}

// TestConclude checks that the report of a run is in its folder, even if that is moved, and that its numbers are those
// of its parts.
func TestConclude(t *testing.T) {
	c := pair(t, func(c *Config) { c.Importance = 8 })
	res, err := Run(background(), c, nil, Events{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Rows != 120 || res.Series != 1 || res.Windows != [3]int{73, 15, 15} || res.Steps != 10 || res.Epochs != 1 ||
		res.Params == 0 || len(res.Errors) != 12 || res.Model != "s4d*1" || res.Plan.Recent != 15 ||
		len(res.Forecasts) != 4 ||
		len(res.Calibration) != 2 || res.Importance.Windows != 8 || len(res.Curve) == 0 || res.Scales == nil ||
		len(res.Notes) != 1+len(res.Calibration)*int(bit(res.Calibration[0].few(res.Plan) != "")) ||
		!strings.HasPrefix(res.Choice, "prediction uses network, ") || !strings.Contains(res.Final, "on all rows") {
		t.Errorf("found %+v", res)
	}
	if res.TrainSeconds <= 0 || res.Seconds < res.TrainSeconds || res.CPUSeconds <= 0 {
		t.Errorf("it took %v s, %v of them training, %v of the processor", res.Seconds, res.TrainSeconds,
			res.CPUSeconds)
	}
	if _, err := time.Parse(time.RFC3339, res.Date); err != nil {
		t.Error(err)
	}
	moved := c.Out + "-moved"
	if err := os.Rename(c.Out, moved); err != nil {
		t.Fatal(err)
	}
	read, err := ReadResult(moved)
	if err != nil || read.Config.Out != moved || fmt.Sprint(read.Errors) != fmt.Sprint(res.Errors) ||
		read.Final != res.Final {
		t.Errorf("in the folder is %+v, %v", read, err)
	}
	if m, err := Open(moved); err != nil || m.rival != nil || !m.plan.Final || m.plan.Use != useNetwork {
		t.Errorf("the folder holds %+v, %v", m, err)
	}
	if file, card, err := ONNX(moved, ONNXStep); err != nil || len(file) == 0 || card.Horizon != 4 || card.Rival != "" {
		t.Errorf("as an ONNX model it is %+v, %v", card, err)
	}
	for _, name := range []string{ReportFile, refitsDir} {
		if _, err := os.Stat(filepath.Join(moved, name)); os.IsNotExist(err) != (name == refitsDir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
