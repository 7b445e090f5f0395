package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/table"
)

// sequence is a series of consecutive rows.
type sequence struct {
	name   string
	group  int // number of the group that stays in one part of the split, from 0 in the order of first rows
	lo, hi int // in the store
}

// frame holds all rows of the data.
type frame struct {
	plan  *Plan
	rows  *store
	seqs  []sequence
	notes []string

	groups int        // number of groups
	far    []farthest // for each of the plan's columns

	unlike bool // a target changes within a sequence
}

// loader reads rows into a frame.
type loader struct {
	c       *Config
	s       *roles
	r       *table.Reader
	f       *frame
	number  map[seriesKey]int // of sequences, if a column names them
	groups  map[string]int    // numbers of groups that a column names
	ids     *store            // sequence of each row if sequences are mixed; else nil
	now     int               // sequence of the previous row
	last    []lastRow         // of each sequence, or only the last one if they are not mixed
	targets []int             // target columns of the plan
	classes []map[string]int  // for each column
	usual   []usual           // statistics of the numbers of each column
	counts  []int             // rows of each sequence
	id      [1]float32
	row     []float32
	view    table.Values // the columns of the plan
	prev    struct {     // sequence of the previous row
		seq, sequence int
		series        string
	}
	filled  int // inserted rows that were missing
	dropped int // dropped rows whose time occurred before
	steps   []float64
}

// seriesKey identifies a sequence: the number that the format gives it, and the text of a column.
type seriesKey struct {
	sequence int
	name     string
}

// lastRow describes the last row of a sequence.
type lastRow struct {
	time   float64
	place  table.Place
	target []float32
	steps  []float64 // seconds between its first rows
	step   float64   // their median, if needed
}

// mostRows is the maximum number of rows: what 32 bits can count.
const mostRows = math.MaxInt32

// load reads all rows. If the rows of sequences are mixed, it makes each sequence contiguous.
func load(ctx context.Context, c *Config, r *table.Reader, s *roles, dir string) (*frame, error) {
	f := &frame{plan: s.plan, notes: s.notes}
	l := &loader{c: c, s: s, r: r, f: f, number: map[seriesKey]int{}, groups: map[string]int{}, now: -1,
		classes: make([]map[string]int, len(s.columns)), targets: s.plan.targets()}
	for i := range l.classes {
		l.classes[i] = map[string]int{}
	}
	l.setBases()
	f.rows = newStore(dir, s.plan.width())
	err := table.Each(r, func(v *table.Values) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Rows > 0 && f.rows.n >= c.Rows {
			return errEnough
		}
		return l.add(v)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil {
		err = l.finish()
	} else if l.ids != nil {
		err = errors.Join(err, l.ids.close())
	}
	if err != nil {
		return nil, errors.Join(err, f.rows.close())
	}
	return f, nil
}

var errEnough = errors.New("enough rows")

// setBases chooses, from the first rows, the number that is subtracted from each column. Large numbers with small
// differences would lose them in 32 bits.
func (l *loader) setBases() {
	seen := make([][]float64, len(l.s.columns))
	l.r.Ahead(func(v *table.Values) {
		for i, at := range l.s.columns {
			if x := v.Numbers[at]; l.s.plan.Columns[i].Kind == table.Number && x == x {
				seen[i] = append(seen[i], x)
			}
		}
	})
	l.usual = make([]usual, len(seen))
	for i, all := range seen {
		if len(all) > 0 {
			c := &l.s.plan.Columns[i]
			c.Base = baseOf(all)
			slices.Sort(all)
			l.usual[i] = usual{math.Abs(all[len(all)/2] - c.Base), all[len(all)*3/4] - all[len(all)/4]}
		}
	}
}

// baseOf returns the number to subtract: the first one that is large and of similar magnitude as most. So a single
// outlier, such as 1e9 for a missing value, does not remove the fractions of all others.
func baseOf(all []float64) float64 {
	sizes := make([]float64, len(all))
	for i, x := range all {
		sizes[i] = math.Abs(x)
	}
	slices.Sort(sizes)
	most := 2 * sizes[len(sizes)/2]
	for _, x := range all {
		if size := math.Abs(x); size > largeBase && size <= most {
			return x
		}
	}
	return 0
}

// largeBase is the magnitude from which a number is stored as a difference from another.
const largeBase = 1000

// class returns the number of a class of a column.
func (l *loader) class(column int, text string) float32 {
	if text == "" {
		return float32(math.NaN())
	}
	known := l.classes[column]
	n, ok := known[text]
	if !ok {
		if n = len(known); n > mostTargetClasses {
			return float32(math.NaN()) // too many classes, which is reported at the end
		}
		text = strings.Clone(text) // text is part of a line, which must not be kept in memory
		known[text] = n
		l.s.plan.Columns[column].Classes = append(l.s.plan.Columns[column].Classes, text)
	}
	return float32(n)
}

// add adds a row.
func (l *loader) add(v *table.Values) error {
	if l.f.rows.n >= mostRows {
		return fmt.Errorf("%s: found more than %d rows, want at most that (--rows)", v.Place, mostRows)
	}
	seq := l.sequence(v)
	time := math.NaN()
	if l.s.time >= 0 {
		time = v.Numbers[l.s.time]
	}
	last := l.lastOf(seq)
	if l.s.time >= 0 {
		// An hour occurs twice when clocks are put back. The order of rows shows which one it is.
		if again, ok := l.r.Again(l.s.time, time); ok && time <= last.time && last.time <= again {
			time = again
		}
		drop, err := l.checkTime(v, last, time)
		if drop || err != nil {
			return err
		}
		if err := l.bridge(seq, last, time); err != nil {
			return err
		}
	} else if v.Step > 0 && len(last.steps) == 0 {
		last.steps = append(last.steps, v.Step)
		l.addStep(v.Step)
	}
	l.row = l.plan(v, time)
	if err := l.f.lookFar(l.row, v); err != nil {
		return err
	}
	l.compareTargets(last)
	last.time, last.place = time, v.Place
	return l.addRow(seq, l.row)
}

// plan returns a row in the form that is stored.
func (l *loader) plan(v *table.Values, time float64) []float32 {
	w := &l.view
	w.Numbers, w.Texts = w.Numbers[:0], w.Texts[:0]
	for _, at := range l.s.columns {
		w.Numbers, w.Texts = append(w.Numbers, v.Numbers[at]), append(w.Texts, v.Texts[at])
	}
	return l.s.plan.raw(l.row[:0], w, time, l.class)
}

// checkTime checks that time increases within a sequence. drop reports that the row must be left out.
func (l *loader) checkTime(v *table.Values, last *lastRow, time float64) (drop bool, err error) {
	wrong := func(format string, args ...any) error {
		return &table.RowError{Place: v.Place, Column: l.s.plan.Time.Name, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case time != time:
		return false, wrong("found no time, want one in each row")
	case last.time != last.time || time > last.time:
		return false, nil
	case time == last.time && l.c.Duplicates == "first":
		l.dropped++
		return true, nil
	}
	summer := l.r.SummerTime(l.s.time, last.time, time)
	if time == last.time {
		return false, wrong(
			"found the time of %s %d once more, want another one%s (--duplicates first takes the "+
				"first row of a time)%s",
			last.place.Unit, last.place.At, l.seriesHint(), summer)
	}
	return false, wrong("found a time before that of %s %d, want times that rise%s%s", last.place.Unit, last.place.At,
		l.seriesHint(), summer)
}

// seriesHint explains how to distinguish the rows of several series, if no column does.
func (l *loader) seriesHint() string {
	if l.s.series >= 0 {
		return " within a series"
	}
	return ", or --series COLUMN if a column names their series"
}

// firstSteps is the number of rows of a sequence that determine its step.
const firstSteps = 200

// mostBridged is the maximum number of missing rows in one place that are inserted.
const mostBridged = 10_000

// bridge inserts rows without values if rows of a series to be forecast are missing.
func (l *loader) bridge(seq int, last *lastRow, time float64) error {
	if last.time != last.time {
		return nil
	}
	apart := time - last.time
	if len(last.steps) < firstSteps {
		last.steps = append(last.steps, apart)
		l.addStep(apart)
		if l.s.plan.Task == Forecast {
			last.step = median(last.steps)
		}
	}
	if l.s.plan.Task != Forecast || len(last.steps) < 3 {
		return nil
	}
	step := last.step
	n := math.Round(apart / step)
	off := 0.01 * n * step
	if step >= day && l.r.Unclear(l.s.time) {
		off = max(off, 3600) // a day may have 23 or 25 hours
	}
	if n > mostBridged || math.Abs(apart-n*step) > off || step > 27*day { // months differ in length
		return nil
	}
	empty := make([]float32, len(l.s.plan.Columns), l.s.plan.width())
	for i := range empty {
		empty[i] = float32(math.NaN())
	}
	for k := 1.0; k < n; k++ {
		if err := l.addRow(seq, appendTime(empty, last.time+k*step)); err != nil {
			return err
		}
		l.filled++
	}
	return nil
}

// mostApart is the maximum number of times between rows that are stored to determine the step.
const mostApart = 1 << 20

// addStep records a time between rows.
func (l *loader) addStep(seconds float64) {
	if len(l.steps) < mostApart {
		l.steps = append(l.steps, seconds)
	}
}

// median returns the median of x.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// compareTargets finds out whether a target changes within a sequence.
func (l *loader) compareTargets(last *lastRow) {
	if l.f.unlike {
		return
	}
	if last.target == nil {
		for range l.targets {
			last.target = append(last.target, float32(math.NaN()))
		}
	}
	for k, i := range l.targets {
		x := l.row[i]
		if before := last.target[k]; x == x && before == before && x != before {
			l.f.unlike = true
		} else if x == x {
			last.target[k] = x
		}
	}
}

// finish makes the rows of each sequence contiguous.
func (l *loader) finish() error {
	f := l.f
	if f.rows.n == 0 {
		return fmt.Errorf("%s: found no rows, want some", l.c.Data[0])
	}
	if err := f.rows.finish(); err != nil {
		return err
	}
	at := 0
	for i := range f.seqs {
		f.seqs[i].lo, f.seqs[i].hi = at, at+l.counts[i]
		at += l.counts[i]
	}
	f.notes = append(f.notes, l.r.Notes()...)
	f.notes = append(f.notes, f.outliers(l.usual)...)
	for i, at := range l.s.columns { // later rows may have settled what the first ones left open
		l.s.plan.Columns[i].Decimal = l.r.Columns()[at].Decimal
	}
	if l.filled > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%d rows are missing between others and count as rows without values",
			l.filled))
	}
	if l.dropped > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%d rows of a time that was there already are left out", l.dropped))
	}
	l.findStep()
	if l.ids == nil {
		return nil
	}
	f.notes = append(f.notes, fmt.Sprintf("the rows of %d series are mixed: they are put in order", len(f.seqs)))
	return l.regroup()
}

// A step is irregular if more than irregularRows of the times between rows differ from the median by more than
// irregularStep of it.
const (
	irregularRows = 0.02
	irregularStep = 0.2
)

// findStep determines the step between rows.
func (l *loader) findStep() {
	p := l.s.plan
	p.Step = median(l.steps)
	off := 0
	for _, x := range l.steps {
		if math.Abs(x-p.Step) > irregularStep*p.Step {
			off++
		}
	}
	p.Irregular = p.Time != nil && float64(off) > irregularRows*float64(len(l.steps))
}
