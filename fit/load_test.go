package fit

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// shown is a frame in lines: the task, the sequences with their groups and rows, the columns, the step, and notes.
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

// hours is a table of numbers at some hours of the first days of 1970.
func hours(at ...float64) string {
	var b strings.Builder
	b.WriteString("t,x\n")
	for i, h := range at {
		whole, part := math.Modf(h)
		fmt.Fprintf(&b, "1970-01-%02d %02d:%02d,%d.5\n", 1+int(whole)/24, int(whole)%24, int(math.Round(60*part)), i)
	}
	return b.String()
}

// TestLoad: which rows a frame has, in which sequences and groups, what their numbers are stored as, how far apart they
// are and what is told; rows that cannot be are refused with their place.
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
		"series and groups": {"s,g,x\na,p,1.5\nb,q,2.5\nc,p,3.5\n", of("x", func(c *Config) { c.Group = "g" }, task(Next)),
			"next: a/0[[1.5]] b/1[[2.5]] c/0[[3.5]]"},
		"mixed": {"s,x\na,1.5\nb,2.5\na,3.5\n", of("x", task(Next)),
			"next: a/0[[1.5] [3.5]] b/1[[2.5]]; the rows of 2 series are mixed: they are put in order"},
		"mixed in a group": {"s,g,x\na,p,1.5\nb,p,2.5\na,p,3.5\n", of("x", func(c *Config) { c.Group = "g" }, task(Next)),
			"next: a/0[[1.5] [3.5]] b/0[[2.5]]; the rows of 2 series are mixed: they are put in order"},
		"large numbers": {"x,y,z\n1,20001,1000\n-5000,20002,-1001\n2,20003.5,1001\n", next,
			"next: /0[[1 0 2001] [-5000 1 0] [2 2.5 2002]]; y less 20001; z less -1001"},
		"an outlier first": {"x\n1000000000\n20.5\n21.5\n22.5\n", next,
			"next: /0[[1e+09] [20.5] [21.5] [22.5]]"},
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
