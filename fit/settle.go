package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/table"
)

// settle decides what depends on the data: the task and the lengths of windows.
func (f *frame) settle(c *Config) error {
	p := f.plan
	if p.Task == Auto {
		p.Task = f.ask()
	}
	if p.whole() && f.unlike {
		name := p.Columns[p.targets()[0]].Name
		return fmt.Errorf("column %s: found values that change within a sequence, want one for each for --task %s; "+
			"--task steps predicts one at each row, --series COLUMN names the sequence of a row", name, p.Task)
	}
	if err := f.checkClasses(); err != nil {
		return err
	}
	if c.Calendar == "auto" && p.Time != nil {
		sizes, _ := c.split()
		most := f.longest()
		p.Calendar = calendarOf(p.Step, f.span()*float64(partEnds(most, sizes)[trainPart])/float64(most))
	}
	if _, ok := p.classes(); !ok {
		p.Levels, _ = c.levels()
	}
	if err := f.settleDt(c); err != nil {
		return err
	}
	return f.settleLengths(c)
}

// ask infers the task for data with a target.
func (f *frame) ask() string {
	_, classes := f.plan.classes()
	task := Steps
	if len(f.seqs) > 1 && !f.unlike {
		task = Regress
		if classes {
			task = Classify
		}
	}
	f.notes = append(f.notes, fmt.Sprintf("the target %s, so that it is predicted for each %s (--task %s)",
		map[bool]string{true: "changes from row to row", false: "is the same in all rows of a sequence"}[task == Steps],
		map[bool]string{true: "row", false: "sequence"}[task == Steps], task))
	return task
}

// checkClasses checks the number of classes of targets, and drops inputs with too many classes.
func (f *frame) checkClasses() error {
	p := f.plan
	for i := range p.Columns {
		c := &p.Columns[i]
		switch n := len(c.Classes); {
		case c.Kind != table.Category:
		case c.Target && n < 2:
			found := "no class"
			if n == 1 {
				found = fmt.Sprintf("one class only, %q", c.Classes[0])
			}
			return fmt.Errorf("column %s: found %s in %d rows, want two or more", c.Name, found, f.rows.n)
		case c.Target && n > mostTargetClasses:
			return fmt.Errorf("column %s: found more than %d classes (%s), want fewer; "+
				"numbers are predicted by --task regress or steps", c.Name, mostTargetClasses,
				brief.List(c.Classes[:5], ", "))
		case !c.Target && n > mostInputClasses:
			c.In, c.Classes = false, nil
			f.notes = append(f.notes, fmt.Sprintf("column %s has more than %d different texts: it is left out", c.Name,
				mostInputClasses))
		}
	}
	return nil
}

// span returns the longest time in seconds from the first row of a series to its last.
func (f *frame) span() (most float64) {
	for _, s := range f.seqs {
		most = max(most, f.plan.time(f.rows.row(s.hi-1))-f.plan.time(f.rows.row(s.lo)))
	}
	return most
}

// longest returns the number of rows of the longest sequence.
func (f *frame) longest() (most int) {
	for _, s := range f.seqs {
		most = max(most, s.hi-s.lo)
	}
	return most
}

// Default lengths of windows.
const (
	usualLength   = 256
	usualHorizon  = 24
	shortLookback = 16
	longLookback  = 336
)

// settleLengths decides the number of rows of windows.
func (f *frame) settleLengths(c *Config) error {
	p, most := f.plan, f.longest()
	p.Length, p.Horizon, p.Lookback, p.Season = c.Length, c.Horizon, c.Lookback, c.Season
	if p.Season == 0 {
		if p.Season = seasonOf(p.Step); p.Task == Forecast && p.Time == nil {
			p.Season = f.period()
		}
	}
	if p.Task != Forecast {
		p.Horizon, p.Lookback = 0, 0
		switch {
		case !p.whole() && p.Length == 0:
			p.Length = min(usualLength, max(8, most/8))
		case p.whole() && p.Length == 0 && most > mostWhole:
			p.Length = pieceRows
		}
		if p.Pieces = p.whole() && p.Length > 0 && most > p.Length; p.Pieces {
			f.notes = append(f.notes, fmt.Sprintf("sequences of up to %d rows are learned in pieces of %d (--length), "+
				"which the results count; the prediction for a sequence is the mean of those for its pieces", most,
				p.Length))
		}
		return nil
	}
	p.Length = 0
	if p.Horizon == 0 {
		p.Horizon = usualHorizon
		if p.Season > 1 && p.Season < 2*usualHorizon {
			p.Horizon = p.Season
		}
	}
	sizes, err := c.split()
	if err != nil {
		return err
	}
	f.lastRows(c, &sizes)
	train := partEnds(most, sizes)[0]
	if p.Lookback == 0 {
		p.Lookback = min(longLookback, max(shortLookback, 2*p.Horizon, 14*min(p.Season, 24)),
			max(shortLookback, 2*min(p.Season, 24), train/3), // so that there are windows to train on
			max(1, train-2*p.Horizon))
	}
	if train < p.Lookback+p.Horizon {
		return fmt.Errorf("found %d rows in the longest series, %d of them to train on; want %d, "+
			"--lookback %d and --horizon %d together, or more", most, train, p.Lookback+p.Horizon, p.Lookback,
			p.Horizon)
	}
	short := 0
	for _, s := range f.seqs {
		if s.hi-s.lo < p.Lookback+p.Horizon {
			short++
		}
	}
	if short > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%d of %d series are shorter than lookback and horizon, %d rows: "+
			"they have no part in training", short, len(f.seqs), p.Lookback+p.Horizon))
	}
	// Recent changes of a series say little about a horizon longer than the lookback: docs/evidence.md, "The recipe".
	p.Local = c.Scale == scaleWindow || c.Scale == scaleAuto && p.Horizon <= p.Lookback
	return nil
}

// period returns the season of the targets, 1 if there is none.
func (f *frame) period() int {
	var parts []segment
	for i, s := range f.seqs {
		parts = append(parts, segment{i, s.lo, s.hi})
	}
	for _, changes := range []bool{false, true} {
		if r, n := f.correlation(parts, f.plan.targets(), changes); r != nil {
			if found := periods(r, n); len(found) > 0 {
				return found[0]
			}
		}
	}
	return 1
}

// seasonOf returns the number of rows of a season for data with a step in seconds: a day of hours, a week of days, a
// year of months. It returns 1 if there is none.
func seasonOf(step float64) int {
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.01*b }
	switch {
	case step < day: // also if the step is unknown
		n := day / step
		if near(n, math.Round(n)) && n <= 1440 {
			return int(math.Round(n))
		}
	case near(step, day):
		return 7
	case near(step, 7*day):
		return 52
	case step > 27*day && step < 32*day:
		return 12
	case step > 89*day && step < 93*day:
		return 4
	}
	return 1
}

// releaseRows is the number of rows of a pass after which memory is released.
const releaseRows = 1 << 16

// measure computes the scales of all columns from the training part, in one pass over its rows.
func (f *frame) measure(train []segment) error {
	p := f.plan
	var scales []*scaler
	for i := range p.Columns {
		if p.Columns[i].Kind == table.Number {
			scales = append(scales, &scaler{column: i, low: math.Inf(1), high: math.Inf(-1), before: math.NaN()})
		}
	}
	rows := 0
	for _, s := range train {
		for _, k := range scales {
			k.before = math.NaN()
		}
		for at := s.lo; at < s.hi; at++ {
			row := f.rows.row(at)
			for _, k := range scales {
				k.add(float64(row[k.column]))
			}
			if rows++; rows%releaseRows == 0 || at == s.hi-1 {
				f.rows.release(max(s.lo, at-releaseRows), at+1)
			}
		}
	}
	for _, k := range scales {
		if err := k.settle(&p.Columns[k.column], p.Task, rows); err != nil {
			return err
		}
	}
	if p.Task == Fill { // a hidden value is treated as missing
		for _, i := range p.targets() {
			p.Columns[i].Gaps = true
		}
	}
	return nil
}

// scaler computes the scale of a column.
type scaler struct {
	column          int
	mean, square    float64 // so far: of the numbers, and the sum of squared deviations from it
	n               float64
	change, changes float64 // sum of squared differences, and their number
	low, high       float64
	before          float64 // number in the previous row, NaN for none
}

// add adds a number, NaN for a missing one.
func (k *scaler) add(x float64) {
	if x != x {
		return
	}
	k.n++
	delta := x - k.mean
	k.mean += delta / k.n
	k.square += delta * (x - k.mean)
	k.low, k.high = min(k.low, x), max(k.high, x)
	if k.before == k.before {
		k.change += (x - k.before) * (x - k.before)
		k.changes++
	}
	k.before = x
}

// settle sets the scale of a column. rows is the number of rows of the training part.
func (k *scaler) settle(c *Column, task string, rows int) error {
	if k.n == 0 && c.Target {
		return fmt.Errorf("column %s: found no value in the %d rows of the training part, want some", c.Name, rows)
	}
	c.Mean, c.Gaps = k.mean, int(k.n) < rows
	c.Deviation, c.Change = math.Sqrt(k.square/k.n), math.Sqrt(k.change/k.changes) // NaN of no number
	if k.n > 0 {
		c.Low, c.High = k.low, k.high
	}
	if !(c.Deviation > 1e-12*max(1e-12, math.Abs(c.Mean))) {
		c.Deviation = 1
		if c.Target && k.n > 0 && task != Forecast {
			return fmt.Errorf("column %s: found the value %.6g in all rows of the training part, "+
				"want values that differ", c.Name, c.Mean+c.Base)
		}
	}
	if !(c.Change > 0) {
		c.Change = c.Deviation
	}
	for _, x := range []float64{c.Mean, c.Deviation, c.Change, c.Low, c.High} {
		if math.IsNaN(x) || math.IsInf(x, 0) || math.Abs(x) > math.MaxFloat32/1e6 {
			return fmt.Errorf("column %s: found numbers up to %.3g, want such as 32 bits can hold", c.Name,
				max(k.high, -k.low))
		}
	}
	return nil
}

// classNames returns the names of classes without characters that break lines.
func classNames(names []string) []string {
	names = slices.Clone(names)
	for i := range names {
		names[i] = plain(names[i])
	}
	return names
}
