package fit

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/table"
)

// timeNames lists names that mark columns of numbers as times.
var timeNames = []string{"time", "timestamp", "datetime", "date", "ts", "unixtime", "epoch"}

// roles are the roles of a reader's columns.
type roles struct {
	plan    *Plan
	columns []int // index in the reader of each column of the plan
	time    int   // index in the reader, -1 for none
	series  int
	group   int
	notes   []string
}

// newRoles decides the roles of the columns, and the task.
func newRoles(c *Config, r *table.Reader) (*roles, error) {
	s := &roles{plan: &Plan{Version: planVersion, Task: c.Task, Zone: c.Zone, Wide: c.Wide}}
	columns, about := r.Columns(), r.About()
	unnamed := ""
	if about.Headless {
		unnamed = "; these names are made up, as no line names the columns"
	}
	var p config.Problems
	find := func(key, name string) int {
		at := slices.IndexFunc(columns, func(c table.Column) bool { return c.Name == name })
		if at < 0 && name != "" {
			p.Addf(key, "found %q, want one of the columns %s%s%s", name, brief.List(about.Columns, ", "),
				config.DidYouMean(name, about.Columns), unnamed)
		}
		return at
	}
	s.time, s.series, s.group = find("time_column", c.TimeCol), find("series", c.Series), find("group", c.Group)
	targets := c.Target
	if len(targets) == 0 && about.Label != "" && slices.Contains([]string{Auto, Classify}, c.Task) {
		targets = []string{about.Label}
	}
	var target, inputs []int
	for _, name := range targets {
		target = append(target, find("target", name))
	}
	for _, name := range c.Inputs {
		inputs = append(inputs, find("inputs", name))
	}
	for _, name := range slices.Concat(c.Ignore, c.Known) {
		find("ignore or known", name)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if s.series < 0 && s.group >= 0 && !about.Sequences {
		s.series = s.group
	}
	for _, at := range []int{s.series, s.group} {
		if at >= 0 {
			r.AsCategory(at)
		}
	}
	s.findTime(c, r, target)
	s.plan.Series = nameOf(columns, s.series)
	if err := s.settleTask(c, r, target); err != nil {
		return nil, err
	}
	columns = r.Columns()
	taken := func(i int) bool {
		return i == s.time || i == s.series || i == s.group || slices.Contains(c.Ignore, columns[i].Name)
	}
	if len(target) == 0 { // all numbers
		for i, col := range columns {
			free := !taken(i) && !slices.Contains(c.Known, col.Name)
			if col.Kind == table.Number && free && (len(inputs) == 0 || slices.Contains(inputs, i)) {
				target = append(target, i)
			}
		}
	}
	if err := s.checkTargets(columns, target); err != nil {
		return nil, err
	}
	own := slices.Contains([]string{Next, Forecast, Fill, Anomaly}, s.plan.Task) // targets are inputs, too
	for i, col := range columns {
		k := Column{Column: col, Target: slices.Contains(target, i), Known: slices.Contains(c.Known, col.Name)}
		k.In = !k.Target || own
		switch {
		case taken(i) && !k.Target || col.Kind == table.Time:
			continue
		case !k.Target && (len(inputs) > 0 && !slices.Contains(inputs, i) || len(inputs) == 0 && s.useless(col, about)):
			continue
		}
		s.plan.Columns, s.columns = append(s.plan.Columns, k), append(s.columns, i)
	}
	if !slices.ContainsFunc(s.plan.Columns, func(k Column) bool { return k.In }) {
		return nil, fmt.Errorf("found no input column beside the target %s; want one or more, "+
			"or --task next or forecast, which continue the target itself", brief.List(targets, ", "))
	}
	s.plan.Spectrum = r.Spectrum()
	return s, r.Only(append([]int{s.time, s.series, s.group}, s.columns...))
}

func nameOf(columns []table.Column, at int) string {
	if at < 0 {
		return ""
	}
	return columns[at].Name
}

// useless reports whether a column only names the source of a sequence.
func (s *roles) useless(col table.Column, about table.About) bool {
	return col.Name == table.FileColumn || col.Name == table.FolderColumn || col.Name == about.Label
}

// findTime finds the column with the times.
func (s *roles) findTime(c *Config, r *table.Reader, target []int) {
	columns := r.Columns()
	for i, col := range columns {
		free := !slices.Contains(target, i) && !slices.Contains(c.Ignore, col.Name) && !slices.Contains(c.Inputs,
			col.Name)
		named := col.Kind == table.Number && slices.Contains(timeNames, strings.ToLower(col.Name))
		if s.time < 0 && free && (col.Kind == table.Time || named) {
			s.time = i
			s.notes = append(s.notes, fmt.Sprintf("column %s is the time of a row", col.Name))
		}
	}
	if s.time >= 0 {
		r.AsTime(s.time)
		col := r.Columns()[s.time]
		s.plan.Time = &col
	}
}

// A column of small whole numbers with few values in the first rows is treated as classes.
const (
	mostIntegerClasses = 10
	largestClass       = 100
)

// settleTask decides the task as far as the columns determine it. Whether a target changes within a sequence is known
// only after all rows have been read.
func (s *roles) settleTask(c *Config, r *table.Reader, target []int) error {
	columns := r.Columns()
	if len(target) == 0 && s.plan.Task == Auto {
		s.plan.Task = Next
		s.notes = append(s.notes, "no target is named: all numbers of the next row are predicted (--task next)")
	}
	for _, at := range target {
		categories := columns[at].Kind == table.Category
		asked := len(target) == 1 && slices.Contains([]string{Classify, Auto, Steps}, s.plan.Task)
		if !categories && asked && looksClass(r, at) {
			r.AsCategory(at)
			s.notes = append(s.notes, fmt.Sprintf("column %s has few values, all whole numbers: "+
				"they are classes (--task regress or next otherwise)", columns[at].Name))
			categories = true
		}
		if s.plan.Task == Classify && !categories {
			r.AsCategory(at)
		}
		if categories && slices.Contains([]string{Regress, Next, Forecast, Fill, Anomaly}, s.plan.Task) {
			return fmt.Errorf("target: found %s, whose values are texts, want a column of numbers for --task %s",
				columns[at].Name, s.plan.Task)
		}
	}
	return nil
}

// looksClass reports whether a column of numbers has few values, all of them small whole numbers.
func looksClass(r *table.Reader, at int) bool {
	if r.Columns()[at].Kind != table.Number {
		return false
	}
	seen := r.Seen(at, mostIntegerClasses)
	if len(seen) > mostIntegerClasses {
		return false
	}
	for x := range seen {
		if x != math.Trunc(x) || math.Abs(x) > largestClass {
			return false
		}
	}
	return true
}

// checkTargets checks that the targets can be predicted together.
func (s *roles) checkTargets(columns []table.Column, target []int) error {
	if len(target) == 0 {
		return fmt.Errorf("found no column of numbers to predict, want --target COLUMN, one of %s", namesOf(columns))
	}
	categories := 0
	for _, at := range target {
		switch columns[at].Kind {
		case table.Category:
			categories++
		case table.Time:
			return fmt.Errorf("target: found %s, which holds times, want a column of numbers or classes",
				columns[at].Name)
		}
	}
	if categories > 0 && len(target) > 1 {
		return fmt.Errorf("target: found %d columns, %d of them of classes; want one column of classes, "+
			"or any number of columns of numbers", len(target), categories)
	}
	return nil
}

func namesOf(columns []table.Column) string {
	var all []string
	for _, c := range columns {
		all = append(all, c.Name)
	}
	return brief.List(all, ", ")
}

// openTable opens the data of a run.
func openTable(c *Config, stdin io.Reader) (*table.Reader, error) {
	o := c.Options
	o.Unread, o.Spectrum = c.Ignore, c.spectrum()
	r, err := table.Open(c.Data, stdin, o, nil)
	if err == nil && c.Spectrum == spectrumMel && r.Spectrum() == nil {
		return nil, errors.Join(fmt.Errorf("%s: found data that is no recording, want WAV or FLAC for --spectrum mel",
			c.Data[0]), r.Close())
	}
	return r, err
}
