package fit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestRoles checks the columns chosen as the time, the series, targets and inputs, the task, and the notes, depending
// on the settings and the first rows. Impossible settings are errors.
func TestRoles(t *testing.T) {
	rows := func(head string, row func(i int) string) string {
		var b strings.Builder
		b.WriteString(head + "\n")
		for i := range 30 {
			b.WriteString(row(i) + "\n")
		}
		return b.String()
	}
	three := rows("a,b,c", func(i int) string { return fmt.Sprintf("%d.5,%d,%s", i, i%3, []string{"x", "y"}[i%2]) })
	times := rows("date,TS,v", func(i int) string { return fmt.Sprintf("2024-01-%02d,%d,%d.5", i+1, i*60, i) })
	whole := func(most int) string {
		return rows("v,k", func(i int) string { return fmt.Sprintf("%d.5,%d", i, i%most) })
	}
	values := func(x string) string {
		return rows("v,k", func(i int) string { return fmt.Sprintf("%d.5,%s", i, []string{"1", x}[i%2]) })
	}
	const (
		all = "; no target is named: all numbers of the next row are predicted (--task next)"
		few = " has few values, all whole numbers: they are classes (--task regress or next otherwise)"
	)
	for name, c := range map[string]struct {
		text   string
		change func(c *Config)
		want   string // columns: < for input, > for target, ! for known, and /classes for a category
	}{
		"": {three, nil, "next: a@0<> b@1<> c@2</" + all},
		"series and group": {three, func(c *Config) { c.Series, c.Group = "a", "c" },
			"next: b@1<> series a category group 2 category" + all},
		"first group": {three, func(c *Config) { c.Group = "a" },
			"next: b@1<> c@2</ series a category group 0 category" + all},
		"folder as input": {three, func(c *Config) { c.Inputs, c.Target = []string{"folder", "a"}, []string{"b"} },
			"auto: a@0< b@1>/ folder@4</; column b" + few},
		"target of a time's name": {times, func(c *Config) { c.Ignore, c.Target = []string{"date"}, []string{"TS"} },
			"auto: TS@1> v@2<"},
		"texts of a time's name": {strings.ReplaceAll(three, "a,b,c", "a,b,epoch"), nil,
			"next: a@0<> b@1<> epoch@2</" + all},
		"times":       {times, nil, "next: TS@1<> v@2<> time date@0 time; column date is the time of a row" + all},
		"times named": {times, func(c *Config) { c.TimeCol = "TS" }, "next: v@2<> time TS@1 time" + all},
		"times ignored": {times, func(c *Config) { c.Ignore = []string{"date"} },
			"next: v@2<> time TS@1 time; column TS is the time of a row" + all},
		"times as input": {times, func(c *Config) { c.Inputs = []string{"TS", "v"}; c.Ignore = []string{"date"} },
			"next: TS@1<> v@2<>" + all},
		"times as target": {times, func(c *Config) { c.Target = []string{"TS"} },
			"auto: TS@1> v@2< time date@0 time; column date is the time of a row"},
		"time is target": {times, func(c *Config) { c.Target = []string{"date"} },
			"target: found date, which holds times, want a column of numbers or classes"},
		"target":  {three, func(c *Config) { c.Target = []string{"a"} }, "auto: a@0> b@1< c@2</"},
		"targets": {three, func(c *Config) { c.Target = []string{"a", "b"} }, "auto: a@0> b@1> c@2</"},
		"targets next": {three, func(c *Config) { c.Target = []string{"a", "b"}; c.Task = Next },
			"next: a@0<> b@1<> c@2</"},
		"class": {three, func(c *Config) { c.Target = []string{"b"} },
			"auto: a@0< b@1>/ c@2</; column b" + few},
		"class of texts": {three, func(c *Config) { c.Target = []string{"c"} }, "auto: a@0< b@1< c@2>/"},
		"class regress": {three, func(c *Config) { c.Target = []string{"b"}; c.Task = Regress },
			"regress: a@0< b@1> c@2</"},
		"class classify": {three, func(c *Config) { c.Target = []string{"a"}; c.Task = Classify },
			"classify: a@0>/ b@1< c@2</"},
		"texts regress": {three, func(c *Config) { c.Target = []string{"c"}; c.Task = Regress },
			"target: found c, whose values are texts, want a column of numbers for --task regress"},
		"two": {three, func(c *Config) { c.Target = []string{"a", "c"} },
			"target: found 2 columns, 1 of them of classes; want one column of classes, or any number of columns of " +
				"numbers"},
		"series": {three, func(c *Config) { c.Series = "c" }, "next: a@0<> b@1<> series c category" + all},
		"group": {three, func(c *Config) { c.Group = "b" }, "next: a@0<> c@2</ series b category group 1 " +
			"category" + all},
		"series group": {three, func(c *Config) { c.Series = "b"; c.Group = "c" },
			"next: a@0<> series b category group 2 category" + all},
		"inputs": {three, func(c *Config) {
			c.Target = []string{"a"}
			c.Inputs = []string{"c"}
			c.Known = []string{"c"}
			c.Task = Forecast
		}, "forecast: a@0<> c@2<!/"},
		"inputs only": {three, func(c *Config) { c.Inputs = []string{"b"} }, "next: b@1<>" + all},
		"no input": {three, func(c *Config) { c.Target = []string{"a"}; c.Ignore = []string{"b", "c"} },
			"found no input column beside the target a; want one or more, or --task next or forecast, which " +
				"continue the " +
				"target itself"},
		"no input next": {three,
			func(c *Config) { c.Target = []string{"a"}; c.Ignore = []string{"b", "c"}; c.Task = Next },
			"next: a@0<>"},
		"no numbers": {three, func(c *Config) { c.Ignore = []string{"a", "b"} },
			"found no column of numbers to predict, want --target COLUMN, one of a, b, c"},
		"unknown": {three, func(c *Config) {
			c.Target, c.Inputs, c.Ignore, c.Known = []string{"d"}, []string{"e"}, []string{"f"}, []string{"g"}
			c.TimeCol, c.Series, c.Group = "h", "i", "aa"
		}, "7 problems:" +
			"\n  time_column: found \"h\", want one of the columns a, b, c" +
			"\n  series: found \"i\", want one of the columns a, b, c" +
			"\n  group: found \"aa\", want one of the columns a, b, c" +
			"\n  target: found \"d\", want one of the columns a, b, c" +
			"\n  inputs: found \"e\", want one of the columns a, b, c" +
			"\n  ignore or known: found \"f\", want one of the columns a, b, c" +
			"\n  ignore or known: found \"g\", want one of the columns a, b, c"},
		"ten values": {whole(10), func(c *Config) { c.Target = []string{"k"} },
			"auto: v@0< k@1>/; column k" + few},
		"eleven values": {whole(11), func(c *Config) { c.Target = []string{"k"} }, "auto: v@0< k@1>"},
		"100": {values("100"), func(c *Config) { c.Target = []string{"k"} },
			"auto: v@0< k@1>/; column k" + few},
		"-101":            {values("-101"), func(c *Config) { c.Target = []string{"k"} }, "auto: v@0< k@1>"},
		"folder":          {three, nil, "auto: a@0< b@1< c@2</ folder@4>/"},
		"folder and task": {three, func(c *Config) { c.Task = Classify }, "classify: a@0< b@1< c@2</ folder@4>/"},
		"folder and group": {three, func(c *Config) { c.Group = "c"; c.Task = Next }, "next: a@0<> b@1<> group 2 " +
			"category"},
		"folder and target": {three, func(c *Config) { c.Target = []string{"c"} }, "auto: a@0< b@1< c@2>/"},
		"texts next": {three, func(c *Config) { c.Target = []string{"a", "c"}; c.Task = Next },
			"target: found c, whose values are texts, want a column of numbers for --task next"},
		"known ignored": {three,
			func(c *Config) { c.Known = []string{"b"}; c.Ignore = []string{"c"}; c.Task = Forecast },
			"forecast: a@0<> b@1<!"},
		"numbers at steps": {three, func(c *Config) { c.Target = []string{"a", "b"}; c.Task = Steps },
			"steps: a@0> b@1> c@2</"},
		"headless": {strings.TrimPrefix(three, "a,b,c\n"), func(c *Config) { c.Target = []string{"columns1"} },
			"target: found \"columns1\", want one of the columns column1, column2, column3; did you mean " +
				"column1?; these " +
				"names are made up, as no line names the columns"},
		"0.5": {values("0.5"), func(c *Config) { c.Target = []string{"k"}; c.Task = Steps },
			"steps: v@0< k@1>"},
	} {
		cfg := DefaultConfig()
		if c.change != nil {
			c.change(&cfg)
		}
		paths := []string{"-"}
		if strings.HasPrefix(name, "folder") {
			paths[0] = t.TempDir()
			for _, file := range []string{"x/1.csv", "y/2.csv"} {
				path := filepath.Join(paths[0], file)
				err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(c.text), 0o666))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := table.Open(paths, strings.NewReader(c.text), table.DefaultOptions(), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := toldRoles(r, &cfg); got != c.want {
			t.Errorf("%q: {, `%s`},", name, got)
		}
	}
}

// toldRoles returns roles as a line.
func toldRoles(r *table.Reader, c *Config) string {
	s, err := newRoles(c, r)
	if err != nil {
		return err.Error()
	}
	text := s.plan.Task + ":"
	for k, c := range s.plan.Columns {
		text += fmt.Sprintf(" %s@%d", c.Name, s.columns[k])
		for _, x := range []struct {
			is   bool
			sign string
		}{{c.In, "<"}, {c.Target, ">"}, {c.Known, "!"}, {c.Kind == table.Category, "/"}} {
			if x.is {
				text += x.sign
			}
		}
	}
	if s.plan.Time != nil {
		text += fmt.Sprint(" time ", s.plan.Time.Name, "@", s.time, " ", s.plan.Time.Kind)
	}
	if s.plan.Series != "" {
		text += fmt.Sprint(" series ", s.plan.Series, " ", r.Columns()[s.series].Kind)
	}
	if s.group >= 0 {
		text += fmt.Sprint(" group ", s.group, " ", r.Columns()[s.group].Kind)
	}
	return strings.Join(slices.Concat([]string{text}, s.notes), "; ")
}
