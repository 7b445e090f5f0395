package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/table"
)

// shown returns a frame in lines: the task, the sequences with their groups and rows, the columns, the step, and notes.
func shown(f *frame) string {
	p := f.plan
	text := p.Task + ":"
	for _, s := range f.seqs {
		text += fmt.Sprintf(" %s/%d", s.name, s.group)
		for i := s.lo; i < s.hi; i++ {
			row := f.rows.row(i)
			text += fmt.Sprint(map[bool]string{true: "[", false: " "}[i == s.lo], row[:len(p.Columns)])
			if p.Time != nil {
				text += fmt.Sprint("@", p.time(row)/3600)
			}
		}
		text += "]"
	}
	text = strings.ReplaceAll(text, "NaN", "-")
	for _, c := range p.Columns {
		if c.Base != 0 {
			text += fmt.Sprintf("; %s less %g", c.Name, c.Base)
		}
		if c.Classes != nil {
			text += fmt.Sprintf("; %s of %s", c.Name, strings.Join(c.Classes, " "))
		}
	}
	if p.Step != 0 {
		text += fmt.Sprintf("; step %g", p.Step/3600)
	}
	if p.Irregular {
		text += " irregular"
	}
	return strings.Join(append([]string{text}, f.notes...), "; ")
}

// hours returns a table of numbers at the given hours after the start of 1970.
func hours(at ...float64) string {
	var b strings.Builder
	b.WriteString("t,x\n")
	for i, h := range at {
		fmt.Fprintf(&b, "%s,%d.5\n", time.Unix(int64(math.Round(3600*h)), 0).UTC().Format(time.DateTime), i)
	}
	return b.String()
}

// TestLoad checks the rows of a frame, their sequences and groups, how their numbers are stored, the step, and the
// notes. Invalid rows are errors with their place.
func TestLoad(t *testing.T) {
	next := func(c *Config) { c.Task = Next }
	forecast := func(c *Config) { c.Task, c.Horizon, c.Lookback, c.Target = Forecast, 1, 1, []string{"x"} }
	of := func(target string, more ...func(c *Config)) func(c *Config) {
		return func(c *Config) {
			c.Target, c.Series = []string{target}, "s"
			for _, f := range more {
				f(c)
			}
		}
	}
	task := func(name string) func(c *Config) { return func(c *Config) { c.Task = name } }
	for name, c := range map[string]struct {
		text   string
		change func(c *Config)
		want   string
	}{
		"one series": {"x\n1.5\n2.5\n", next,
			"next: /0[[1.5] [2.5]]"},
		"some rows": {"x\n1.5\n2.5\n3.5\n4.5\n", func(c *Config) { c.Task, c.Rows = Next, 3 },
			"next: /0[[1.5] [2.5] [3.5]]"},
		"series and groups": {"s,g,x\na,p,1.5\nb,q,2.5\nc,p,3.5\n", of("x", func(c *Config) { c.Group = "g" },
			task(Next)),
			"next: a/0[[1.5]] b/1[[2.5]] c/0[[3.5]]"},
		"mixed": {"s,x\na,1.5\nb,2.5\na,3.5\n", of("x", task(Next)),
			"next: a/0[[1.5] [3.5]] b/1[[2.5]]; the rows of 2 series are mixed: they are put in order"},
		"mixed in a group": {"s,g,x\na,p,1.5\nb,p,2.5\na,p,3.5\n", of("x", func(c *Config) { c.Group = "g" },
			task(Next)),
			"next: a/0[[1.5] [3.5]] b/0[[2.5]]; the rows of 2 series are mixed: they are put in order"},
		"large numbers": {"x,y,z\n1,20001,1000\n-5000,20002,-1001\n2,20003.5,1001\n", next,
			"next: /0[[1 0 2001] [-5000 1 0] [2 2.5 2002]]; y less 20001; z less -1001"},
		"an outlier first": {"x\n1000000000\n20.5\n21.5\n22.5\n", next,
			"next: /0[[1e+09] [20.5] [21.5] [22.5]]"},
		"alike": {"x\n" + strings.Repeat("900.001\n900.002\n900.003\n900.004\n", 5), next,
			"next: /0[" + strings.TrimSpace(strings.Repeat("[900.001] [900.002] [900.003] [900.004] ", 5)) + "]"},
		"classes": {"s,k,x\na,u,1.5\na,u,\nb,,2.5\nb,v,3.5\n", of("k"),
			"classify: a/0[[0 1.5] [0 -]] b/1[[- 2.5] [1 3.5]]; k of u v; " +
				"the target is the same in all rows of a sequence, so that it is predicted for each sequence " +
				"(--task classify)"},
		"classes that change": {"s,k,x\na,u,1.5\na,v,2.5\nb,u,3.5\nb,v,3.5\n", of("k"),
			"steps: a/0[[0 1.5] [1 2.5]] b/1[[0 3.5] [1 3.5]]; k of u v; " +
				"the target changes from row to row, so that it is predicted for each row (--task steps)"},
		"numbers": {"s,y,x\na,1.5,1.5\na,,2.5\nb,2.5,3.5\nb,2.5,4.5\n", of("y"),
			"regress: a/0[[1.5 1.5] [- 2.5]] b/1[[2.5 3.5] [2.5 4.5]]; " +
				"the target is the same in all rows of a sequence, so that it is predicted for each sequence " +
				"(--task regress)"},
		"one sequence": {"y,x\n1.5,1.5\n1.5,2.5\n", func(c *Config) { c.Target = []string{"y"} },
			"steps: /0[[1.5 1.5] [1.5 2.5]]; " +
				"the target changes from row to row, so that it is predicted for each row (--task steps)"},
		"numbers that change late": {"s,y,x\na,1.5,1.5\na,,2.5\na,2.5,4.5\nb,2.5,4.5\n", of("y", task(Regress)),
			"x.csv: column y: found values that change within a sequence, want one for each for --task " +
				"regress; " +
				"--task steps predicts one at each row, --series COLUMN names the sequence of a row"},
		"one class": {"s,k,x\na,u,1.5\nb,u,2.5\n", of("k", task(Classify)),
			`x.csv: column k: found one class only, "u" in 2 rows, want two or more`},
		"no class": {"s,k,x\na,,1.5\nb,,2.5\n", of("k", task(Classify)),
			"x.csv: column k: found no class in 2 rows, want two or more"},
		"times": {hours(0, 1, 2, 3), next,
			"next: /0[[0.5]@0 [1.5]@1 [2.5]@2 [3.5]@3]; step 1; column t is the time of a row"},
		"a time once more": {hours(0, 1, 1, 2), next,
			"x.csv, line 4, column t: found the time of line 3 once more, want another one, or --series COLUMN " +
				"if a column names their series (--duplicates first takes the first row of a time)"},
		"times that fall": {hours(0, 2, 1), next,
			"x.csv, line 4, column t: found a time before that of line 3, want times that rise, or --series " +
				"COLUMN if a column names their series"},
		"no time": {"t,x\n1970-01-01 00:00,1.5\n,2.5\n", next,
			"x.csv, line 3, column t: found no time, want one in each row"},
		"the first of a time": {hours(0, 1, 1, 1, 2), func(c *Config) { c.Task, c.Duplicates = Next, "first" },
			"next: /0[[0.5]@0 [1.5]@1 [4.5]@2]; step 1; column t is the time of a row; " +
				"2 rows of a time that was there already are left out"},
		"the first of no time": {hours(0, 2, 1), func(c *Config) { c.Task, c.Duplicates = Next, "first" },
			"x.csv, line 4, column t: found a time before that of line 3, want times that rise, or --series " +
				"COLUMN if a column names their series"},
		"times in series": {"s,t,x\na,1970-01-01 01:00,1.5\nb,1970-01-01 00:00,2.5\na,1970-01-01 02:00,3.5\n",
			of("x", task(Next)),
			"next: a/0[[1.5]@1 [3.5]@2] b/1[[2.5]@0]; step 1; column t is the time of a row; " +
				"the rows of 2 series are mixed: they are put in order"},
		"times in series that fall": {"s,t,x\na,1970-01-01 01:00,1.5\nb,1970-01-01 02:00,2.5\na,1970-01-01 00:00,3.5\n",
			of("x", task(Next)),
			"x.csv, line 4, column t: found a time before that of line 2, want times that rise within a series"},
		"a gap": {hours(0, 1, 2, 3, 6, 7), forecast,
			"forecast: /0[[0.5]@0 [1.5]@1 [2.5]@2 [3.5]@3 [-]@4 [-]@5 [4.5]@6 [5.5]@7]; step 1 irregular; " +
				"column t is the time of a row; " +
				"2 rows are missing between others and count as rows without values; " +
				"rows are not evenly spaced: the logarithm of the time since the row before is an input (--dt)"},
		"a gap of others": {hours(0, 1, 2, 3, 6, 7), next,
			"next: /0[[0.5]@0 [1.5]@1 [2.5]@2 [3.5]@3 [4.5]@6 [5.5]@7]; step 1 irregular; " +
				"column t is the time of a row; " +
				"rows are not evenly spaced: the logarithm of the time since the row before is an input (--dt)"},
		"an early gap": {hours(0, 1, 4, 5, 6, 7), forecast,
			"forecast: /0[[0.5]@0 [1.5]@1 [2.5]@4 [3.5]@5 [4.5]@6 [5.5]@7]; step 1 irregular; " +
				"column t is the time of a row; " +
				"rows are not evenly spaced: the logarithm of the time since the row before is an input (--dt)"},
		"a gap of the third step": {hours(0, 1, 2, 5), forecast,
			"forecast: /0[[0.5]@0 [1.5]@1 [2.5]@2 [-]@3 [-]@4 [3.5]@5]; step 1 irregular; " +
				"column t is the time of a row; " +
				"2 rows are missing between others and count as rows without values; " +
				"rows are not evenly spaced: the logarithm of the time since the row before is an input (--dt)"},
		"no whole gap": {hours(0, 1, 2, 3, 5.5, 6.5), forecast,
			"forecast: /0[[0.5]@0 [1.5]@1 [2.5]@2 [3.5]@3 [4.5]@5.5 [5.5]@6.5]; step 1 irregular; " +
				"column t is the time of a row; " +
				"rows are not evenly spaced: the logarithm of the time since the row before is an input (--dt)"},
		"irregular": {hours(0, 1, 2, 3.5, 4.5, 5), next,
			"next: /0[[0.5]@0 [1.5]@1 [2.5]@2 [3.5]@3.5 [4.5]@4.5 [5.5]@5]; step 1 irregular; " +
				"column t is the time of a row; " +
				"rows are not evenly spaced: the logarithm of the time since the row before is an input (--dt)"},
		"nearly regular": {hours(0, 1, 2, 3.15, 4.3, 5.2), next,
			"next: /0[[0.5]@0 [1.5]@1 [2.5]@2 [3.5]@3.15 [4.5]@4.3 [5.5]@5.2]; step 1; " +
				"column t is the time of a row"},
	} {
		f, err := tryText(t, c.text, c.change)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = shown(f)
		}
		if got != c.want {
			t.Errorf("%q: found\n%q\nwant\n%q", name, got, c.want)
		}
	}
}

// TestGaps checks that rows are inserted where whole steps are missing in a series to be forecast, at most ten thousand
// at a time. Times may differ from whole steps by a hundredth of the step or, for days with clock changes, by an hour.
// No rows are inserted if rows are months.
func TestGaps(t *testing.T) {
	at := func(step, gap float64) (all []float64) {
		for _, x := range []float64{0, 1, 2, 3, 4, 4 + gap, 5 + gap} {
			all = append(all, step*x)
		}
		return all
	}
	local := func(c *Config) { c.Zone = "Europe/Berlin" }
	for _, c := range []struct {
		hours  []float64
		change func(c *Config)
		added  int
	}{
		{at(1, 1), nil, 0}, {at(1, 2), nil, 1}, {at(1, 3.029), nil, 2}, {at(1, 2.971), nil, 2}, {at(1, 3.031), nil, 0},
		{at(1, 2.969), nil, 0}, {at(1, 10_000), nil, 9999}, {at(1, 10_001), nil, 0}, {at(27*24, 2), nil, 1},
		{at(28*24, 2), nil, 0}, {at(24, 2), nil, 1}, {at(24, 2+1./24), nil, 0}, {at(24, 2+1./24), local, 1},
		{at(24, 2-1./24), local, 1}, {at(24, 2+1.01/24), local, 0}, {at(23.9, 2+1/23.9), local, 0},
	} {
		f := readText(t, hours(c.hours...), func(cfg *Config) {
			cfg.Task, cfg.Horizon, cfg.Lookback = Forecast, 1, 1
			if c.change != nil {
				c.change(cfg)
			}
		})
		if got := f.rows.n - len(c.hours); got != c.added {
			t.Errorf("at %v: %d rows are put in, want %d", c.hours, got, c.added)
		}
		step := (c.hours[1] - c.hours[0]) * 3600
		for i := 5; i < 5+c.added; i++ {
			row := f.rows.row(i)
			if want := f.plan.time(f.rows.row(4)) + float64(i-4)*step; row[0] == row[0] || math.Abs(f.plan.time(row)-
				want) > 1 {
				t.Fatalf("at %v: row %d is %v at %v, want nothing at %v", c.hours, i, row, f.plan.time(row), want)
			}
		}
	}
}

// TestFindStep checks that the step is the median of the times between rows. Rows are irregular if more than a fiftieth
// of these times differs from it by more than a fifth.
func TestFindStep(t *testing.T) {
	for _, c := range []struct {
		usual, off int
		by         float64
		irregular  bool
	}{{49, 1, 13, false}, {48, 1, 13, true}, {48, 1, 12, false}, {48, 1, 8, false}, {48, 1, 7, true}} {
		for _, timed := range []bool{true, false} {
			p := &Plan{}
			if timed {
				p.Time = &table.Column{}
			}
			l := &loader{s: &roles{plan: p}, steps: append(slices.Repeat([]float64{10}, c.usual),
				slices.Repeat([]float64{c.by}, c.off)...)}
			if l.findStep(); p.Step != 10 || p.Irregular != (c.irregular && timed) {
				t.Errorf("%+v, timed %v: found the step %v, irregular %v", c, timed, p.Step, p.Irregular)
			}
		}
	}
	l := &loader{steps: make([]float64, mostApart-1)}
	for range 3 {
		l.addStep(1)
	}
	if len(l.steps) != mostApart {
		t.Errorf("%d times are kept", len(l.steps))
	}
}

// TestManyClasses checks that a target has at most a thousand classes, and that an input with more than 64 texts is
// omitted.
func TestManyClasses(t *testing.T) {
	text := func(n int) string {
		var b strings.Builder
		b.WriteString("s,k,x\n")
		for i := range n + 3 {
			fmt.Fprintf(&b, "%d,c%d,%d.5\n", i, i%n, i)
		}
		return b.String()
	}
	class := func(c *Config) { c.Target, c.Series = []string{"k"}, "s" }
	if f := readText(t, text(1000), class); len(f.plan.ClassNames()) != 1000 || f.plan.Levels != nil {
		t.Errorf("found %d classes and the levels %v", len(f.plan.ClassNames()), f.plan.Levels)
	}
	_, err := tryText(t, text(1001), class)
	if err == nil || !strings.Contains(err.Error(),
		"column k: found more than 1000 classes (c0, c1, c2, c3, c4), want") {
		t.Errorf("of 1001 classes: %v", err)
	}
	for n, want := range map[int]string{64: "", 65: "column k has more than 64 different texts: it is left out"} {
		f := readText(t, text(n), func(c *Config) { c.Target, c.Series, c.Task = []string{"x"}, "s", Regress })
		k := slices.IndexFunc(f.plan.Columns, func(c Column) bool { return c.Name == "k" })
		if c := f.plan.Columns[k]; c.In != (want == "") || (c.Classes != nil) != c.In || strings.Join(f.notes,
			"") != want ||
			len(f.plan.Levels) != 9 {
			t.Errorf("%d texts: found in %v, %d classes, %q", n, c.In, len(c.Classes), f.notes)
		}
	}
}

// TestSettled checks that the calendar has the cycles that occur twice in the training part, and that the season of
// rows without times is found in the numbers.
func TestSettled(t *testing.T) {
	for n, want := range map[int]string{70: "[hour]", 69: "[]"} {
		f := readText(t, hours(slices.Collect(func(yield func(float64) bool) {
			for i := range n {
				yield(float64(i))
			}
		})...), func(c *Config) { c.Task, c.Calendar = Next, "auto" })
		if got := fmt.Sprint(f.plan.Calendar); got != want {
			t.Errorf("of %d hours: the calendar is %s, want %s", n, got, want)
		}
	}
	var b strings.Builder
	b.WriteString("x\n")
	for i := range 120 {
		fmt.Fprintf(&b, "%.3f\n", math.Sin(2*math.Pi*float64(i)/12))
	}
	for task, want := range map[string]int{Forecast: 12, Next: 1} {
		f := readText(t, b.String(), func(c *Config) { c.Task, c.Target = task, []string{"x"} })
		if f.plan.Season != want {
			t.Errorf("%s: the season is of %d rows, want %d", task, f.plan.Season, want)
		}
	}
}
