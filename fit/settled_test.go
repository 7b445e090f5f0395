package fit

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestSettleDt checks how the time between rows becomes an input, as requested or depending on the rows, and the notes.
func TestSettleDt(t *testing.T) {
	for _, c := range []struct {
		dt, layers       string
		irregular, timed bool
		want, told       string
	}{
		{"auto", "", false, true, "", ""}, {"auto", "", true, true, DtInput, "since the row before is an input (--dt)"},
		{DtNone, "", true, true, DtNone, "this is ignored"}, {DtNone, "", false, false, DtNone, ""},
		{DtInput, "", true, true, DtInput, "is an input"}, {DtSteps, "mamba*1", true, true, DtSteps, "dt are scaled"},
		{DtBoth, "s4d,mamba", true, true, DtBoth, "which is also an input"}, {DtBoth, "mamba", false, true, DtBoth, ""},
		{DtSteps, "mamba", true, false, "", "dt: found steps, but no column of times"},
		{DtBoth, "s4", true, true, "", "dt: found both, but layers s4, none of which"},
		{DtBoth, "", true, true, DtBoth, "which is also an input"},
	} {
		f := &frame{plan: &Plan{Task: Next, Irregular: c.irregular}}
		if c.timed {
			f.plan.Time = &table.Column{}
		}
		cfg := DefaultConfig()
		cfg.Dt, cfg.Model.Layers = c.dt, c.layers
		var told string
		if err := f.settleDt(&cfg); err != nil {
			told = err.Error()
		} else {
			told = strings.Join(f.notes, "")
		}
		if f.plan.Dt != c.want || (told == "") != (c.told == "") || !strings.Contains(told, c.told) {
			t.Errorf("%+v: found %q, told %q", c, f.plan.Dt, told)
		}
	}
	for _, c := range []struct {
		p           Plan
		goes, steps bool
	}{{Plan{Irregular: true}, true, false}, {Plan{}, false, false}, {Plan{Irregular: true, Dt: DtInput}, true, false},
		{Plan{Irregular: true, Dt: DtBoth}, true, true}, {Plan{Irregular: true, Dt: DtSteps}, false, true},
		{Plan{Irregular: true, Dt: DtNone}, false, false}, {Plan{Dt: DtBoth}, false, true}} {
		if c.p.timeGoesIn() != c.goes || c.p.timeSteps() != c.steps {
			t.Errorf("%+v: the time goes in %v, and into steps %v", c.p, c.p.timeGoesIn(), c.p.timeSteps())
		}
	}
}

// TestSpectrumAsked checks that recordings are read as frames if requested, or if whole recordings are learnt and no
// column of samples is named. It also checks which columns are used to find how the data repeats.
func TestSpectrumAsked(t *testing.T) {
	for _, c := range []struct {
		spectrum, task string
		named          string
		want           string
	}{
		{spectrumAuto, Auto, "", "4000 true"}, {spectrumAuto, Classify, "x", "4000 true"},
		{spectrumAuto, Regress, "", "4000 true"}, {spectrumAuto, Next, "", ""}, {spectrumAuto, Auto, "sample2", ""},
		{spectrumMel, Next, "sample", "0 false"}, {"none", Classify, "", ""},
	} {
		for i := range 4 {
			cfg := Config{Spectrum: c.spectrum, Task: c.task}
			*[]*[]string{&cfg.Target, &cfg.Inputs, &cfg.Ignore, &cfg.Known}[i] = []string{"y", c.named}
			got := ""
			if s := cfg.spectrum(); s != nil {
				got = fmt.Sprint(s.MinRate, " ", s.Labelled)
			}
			if got != c.want {
				t.Errorf("%+v: found %q", c, got)
			}
		}
	}
	c := DefaultConfig()
	c.Data, c.Spectrum = []string{"-"}, spectrumMel
	if _, err := openTable(&c, strings.NewReader("x\n1\n")); err == nil || !strings.Contains(err.Error(),
		"-: found data that is no recording, want WAV or FLAC for --spectrum mel") {
		t.Errorf("found %v", err)
	}
	for name, want := range map[string]string{Next: "[0 3]", Regress: "[1 2]", Steps: "[0 3]"} {
		p := &Plan{Task: name, Columns: []Column{number("x", true), number("k", false), category("c", false),
			category("y",
				true), number("out", false), {Column: table.Column{Kind: table.Time}, In: true}}}
		p.Columns[4].In = false
		if got := fmt.Sprint(p.measured()); got != want {
			t.Errorf("%s: found the columns %s, want %s", name, got, want)
		}
	}
}

// TestBasesAndSteps checks the bases that are subtracted from the numbers of a column, and the range of usual numbers.
// The times between the first rows of a series give the step, which for recordings is known at once.
func TestBasesAndSteps(t *testing.T) {
	c := DefaultConfig()
	text := "x,z,k\n"
	for i := range 20 {
		text += fmt.Sprintf("%d,%d,%s\n", 5000+i*i, i, []string{"u", "v"}[i%2])
	}
	c.Data, c.Task = []string{"-"}, Next
	r, err := openTable(&c, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := newRoles(&c, r)
	if err != nil {
		t.Fatal(err)
	}
	l := &loader{c: &c, s: s, r: r}
	l.setBases()
	// For squares from 0 to 361 the middle is 100, and the quartiles are 25 and 225.
	if want := "[{100 200} {10 10} {0 0}]"; fmt.Sprint(l.usual) != want || s.plan.Columns[0].Base != 5000 ||
		s.plan.Columns[1].Base != 0 {
		t.Errorf("found the usual numbers %v, want %s, and the columns %+v", l.usual, want, s.plan.Columns)
	}
	for _, c := range []struct {
		x    []float64
		want float64
	}{{[]float64{1000, 1001, 1002}, 1001}, {[]float64{-1001}, -1001}, {[]float64{1, 2, 3000}, 0}, {[]float64{9000, 4000,
		4500}, 9000}, {[]float64{9001, 4000, 4500}, 4000}} {
		if got := baseOf(c.x); got != c.want {
			t.Errorf("of %v: found the base %v, want %v", c.x, got, c.want)
		}
	}
	last := &lastRow{}
	for i := range firstSteps + 5 {
		last.time = float64(i)
		if err := l.bridge(0, last, float64(i)+1); err != nil {
			t.Fatal(err)
		}
	}
	if len(last.steps) != firstSteps || len(l.steps) != firstSteps || last.step != 0 {
		t.Errorf("%d and %d times between rows are kept, their median is %v", len(last.steps), len(l.steps), last.step)
	}
	dir := t.TempDir()
	for i, rate := range []int{100, 100, 200} {
		recording(t, filepath.Join(dir, fmt.Sprint(i, ".wav")), rate, [][]int16{{1}, {2}, {3}})
	}
	c.Data, c.Spectrum, c.Out = []string{dir}, "none", filepath.Join(dir, "out")
	f, err := read(background(), &c, nil)
	if err != nil || f.plan.Step != 0.01 || f.plan.Irregular || len(f.seqs) != 3 {
		t.Errorf("of recordings: found %+v, %v", f.plan, err)
	}
	clocks := func(more string) string {
		return "t,x\n2024-10-27T00:30,1\n2024-10-27T01:30,2\n2024-10-27T02:30,3\n2024-10-27T02:30,4\n" + more
	}
	berlin := func(c *Config) { c.Task, c.Zone = Next, "Europe/Berlin" }
	g := readText(t, clocks("2024-10-27T03:30,5\n"), berlin)
	if g.plan.Step != 3600 || g.plan.time(g.rows.row(4))-g.plan.time(g.rows.row(0)) != 4*3600 {
		t.Errorf("where clocks are put back rows are %v s apart", g.plan.Step)
	}
	_, err = tryText(t, clocks("2024-10-27T02:30,5\n"), berlin)
	if err == nil || !strings.Contains(err.Error(), "line 6, column t: found the time of line 5 once more") {
		t.Errorf("an hour that comes three times: %v", err)
	}
}

// TestDealFew checks that of few groups, each goes to the part that lacks most of its share, and that with three groups
// or more each part has one.
func TestDealFew(t *testing.T) {
	for n, want := range map[int][parts]int{1: {1, 0, 0}, 2: {1, 1, 0}, 3: {1, 1, 1}, 4: {2, 1, 1}, 5: {3, 1, 1},
		6: {4, 1, 1}, 7: {4, 2, 1}, 9: {5, 2, 2}, 10: {6, 2, 2}} {
		f := &frame{plan: &Plan{Task: Regress, Columns: []Column{number("y", true)}}, groups: n}
		for i := range n {
			f.seqs = append(f.seqs, sequence{group: i})
		}
		for _, by := range []float64{1, 100} { // shares, or numbers of rows
			var got [parts]int
			for _, part := range f.deal([parts]float64{0.6 * by, 0.2 * by, 0.2 * by}, 1) {
				got[part]++
			}
			if got != want {
				t.Errorf("%d groups by %g: found %v in the parts, want %v", n, by, got, want)
			}
		}
		var got [parts]int
		for _, part := range f.deal([parts]float64{0.98, 0.01, 0.01}, 1) {
			got[part]++
		}
		if got != [parts]int{max(1, n-2), min(1, n-1), min(1, max(0, n-2))} {
			t.Errorf("%d groups of which a part gets a hundredth: found %v in the parts", n, got)
		}
	}
}
