package fit

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
)

// Importance measures how much each input column matters to a network: how much worse its predictions of validation
// windows become if a column is permuted among them, so that each window gets the column's rows of another window
// (Fisher, Rudin and Dominici, "All models are wrong, but many are useful", JMLR 20, 2019). Columns with the same
// information share their importance, since each can replace the other.
type Importance struct {
	How     string  `json:"how"`     // description, including of what predicts
	Windows int     `json:"windows"` // of the validation part
	Repeats int     `json:"repeats"` // permutations of each column
	Loss    float64 `json:"loss"`    // with unchanged columns: cross-entropy in nats, or pinball loss
	// Columns starts with the most important column.
	Columns []ColumnImportance `json:"columns"`
}

// ColumnImportance measures how much one column matters.
type ColumnImportance struct {
	Column    string  `json:"column"`
	Rise      float64 `json:"loss_rise"`     // mean over permutations
	Deviation float64 `json:"deviation"`     // standard deviation over permutations
	Accuracy  float64 `json:"accuracy_fall"` // for classes: lost percentage points of accuracy
}

// Limits on the work of Importance.
const (
	importanceRepeats   = 3
	importancePositions = 1 << 18 // in total
	leastImportance     = 8       // windows
	longImportance      = 8       // factor by which this many windows may exceed the limit
)

// importanceSize returns how many of n windows to permute, and how often, so that the work is bounded. 0 means none.
// rows is the total number of rows of the n windows.
func importanceSize(n, rows, columns int) (windows, repeats int) {
	each := max(1, rows/n)
	if most := importancePositions / (each * (1 + importanceRepeats*columns)); most >= min(n, leastImportance) {
		return min(n, most), importanceRepeats
	}
	n = min(n, leastImportance)
	if n*each*(1+columns) <= longImportance*importancePositions {
		return n, 1
	}
	return 0, 0
}

// mostPrinted is the maximum number of columns that are printed.
const mostPrinted = 10

// timeColumn is used instead of a column index for the time as an input.
const timeColumn = -1

// importance measures the columns on at most limit validation windows. It returns nil if there is nothing to permute,
// or, with a note, if there is too much.
func (m *Model) importance(ctx context.Context, valid *windows, limit int, notes *[]string) (*Importance, error) {
	p := m.plan
	var columns []int
	for i := range p.Columns {
		if p.Columns[i].In {
			columns = append(columns, i)
		}
	}
	if p.timeGoesIn() || p.timeSteps() || len(p.Calendar) > 0 {
		columns = append(columns, timeColumn)
	}
	n := min(limit, valid.Len())
	if n < 2 || len(columns) < 2 {
		return nil, nil
	}
	rows := 0
	indices := some(valid.Len(), n)
	for _, i := range indices {
		rows += valid.Length(i)
	}
	n, repeats := importanceSize(n, rows, len(columns))
	if n == 0 {
		*notes = append(*notes, fmt.Sprintf("which column matters is not measured: windows of %d rows are too long "+
			"for %d columns", rows/len(indices), len(columns)))
		return nil, nil
	}
	indices = some(valid.Len(), n)
	out := &Importance{Windows: n, Repeats: repeats,
		How: fmt.Sprintf("to the %s, by permuting: each of %d validation windows gets the rows of another "+
			"in the column, %d times", m.title(), n, repeats)}
	plain, right, err := m.loss(ctx, valid, valid, indices)
	if err != nil {
		return nil, err
	}
	out.Loss = plain
	rng := rand.New(rand.NewPCG(valid.seed, 0x7065726d757465))
	var shifts []int // the same for all columns, which reduces the noise of comparisons
	for range repeats {
		shifts = append(shifts, 1+rng.IntN(n-1))
	}
	for _, column := range columns {
		name := "time"
		if column != timeColumn {
			name = p.Columns[column].Name
		} else if p.Time != nil {
			name = p.Time.Name
		}
		one := ColumnImportance{Column: name}
		var rises []float64
		for _, shift := range shifts {
			s := &permuted{windows: valid, column: column, donor: map[int]int{}}
			for k, i := range indices {
				s.donor[i] = indices[(k+shift)%n]
			}
			loss, still, err := m.loss(ctx, s, valid, indices)
			if err != nil {
				return nil, err
			}
			rises = append(rises, loss-plain)
			one.Rise += (loss - plain) / float64(repeats)
			one.Accuracy += 100 * (right - still) / float64(repeats)
		}
		for _, x := range rises {
			one.Deviation += (x - one.Rise) * (x - one.Rise) / float64(max(1, repeats-1))
		}
		one.Deviation = math.Sqrt(one.Deviation)
		out.Columns = append(out.Columns, one)
	}
	if !slices.ContainsFunc(out.Columns, func(c ColumnImportance) bool { return c.Rise != 0 }) {
		return nil, nil // no column affects what predicts
	}
	slices.SortStableFunc(out.Columns, func(a, b ColumnImportance) int {
		switch {
		case a.Rise > b.Rise:
			return -1
		case a.Rise < b.Rise:
			return 1
		}
		return 0
	})
	return out, nil
}

// title returns the name of what predicts.
func (m *Model) title() string {
	if m.rival != nil {
		return m.rival.Title
	}
	return "network"
}

// loss returns the mean loss over the questions of windows, with inputs from one source and targets from another. For
// classes it also returns the share of right answers.
func (m *Model) loss(ctx context.Context, inputs examples, targets *windows,
	indices []int) (loss, right float64, err error) {
	p := m.plan
	names, classes := p.classes()
	n := 0.0
	k := 0
	err = m.outputs(ctx, inputs, indices, func(_ window, _ *task.Example, y []float32) error {
		var ex task.Example
		targets.Example(indices[k], &ex)
		k++
		for r, truth := range ex.Targets {
			if !classes || truth == task.Ignore {
				continue
			}
			q := p.probabilities(y[r*len(names) : (r+1)*len(names)])
			loss -= math.Log(max(q[truth], 1e-30))
			right += float64(bit(predicted(q, p.Weights) == int(truth)))
			n++
		}
		for j, x := range ex.Numbers {
			if x != x {
				continue
			}
			for at, level := range p.Levels {
				loss += pinball(level, float64(x), float64(y[j*len(p.Levels)+at])) / float64(len(p.Levels))
			}
			n++
		}
		return nil
	})
	return loss / max(1, n), right / max(1, n), err
}

// permuted is windows in which one column is from another window.
type permuted struct {
	*windows
	column int
	donor  map[int]int // for each window, the window that its column comes from
}

// Example creates example i. Its targets come from the changed rows, too, and must not be used.
func (s *permuted) Example(i int, ex *task.Example) {
	ex.Reset()
	at, before := s.at(i), s.before(s.at(i))
	if s.column == timeColumn {
		before = s.before(s.at(s.donor[i]))
	}
	e, err := newEncoder(s.f.plan)
	if err != nil { // the zone existed when the data was read
		panic(err)
	}
	e.example(ex, s.stretch(i, at.lo, at.hi), before, s.hides(i))
}

// stretch returns the rows of and before window i, in which the window's rows have the column of the other window.
func (s *permuted) stretch(i, lo, hi int) []float32 {
	f, at, from := s.f, s.at(i), s.at(s.donor[i])
	width := f.plan.width()
	first, end := s.column, s.column+1
	if s.column == timeColumn {
		first, end = len(f.plan.Columns), width
	}
	rows, other := slices.Clone(f.rows.rows(lo, hi)), f.rows.rows(from.lo, from.hi)
	for r := max(0, at.lo-lo) * width; r < len(rows); r += width {
		k := (r - (at.lo-lo)*width) % len(other)
		copy(rows[r+first:r+end], other[k+first:])
	}
	return rows
}

// print prints a line for each column.
func (im *Importance) print(out io.Writer) error {
	if im == nil || len(im.Columns) == 0 {
		return nil
	}
	lines := [][]string{}
	shown := min(len(im.Columns), mostPrinted)
	for _, c := range im.Columns[:shown] {
		lines = append(lines, []string{c.Column, c.rise(), fmt.Sprintf("%.1f", c.Accuracy)})
	}
	fmt.Fprintf(out, "which column matters %s (loss %s):\n", im.How, digits(im.Loss))
	err := status.Grid(out, []string{"column", "loss rises by", "accuracy falls by"}, lines, false)
	if more := len(im.Columns) - shown; more > 0 {
		fmt.Fprintf(out, "and %d columns that matter less, in %s\n", more, ResultFile)
	}
	fmt.Fprintln(out)
	return err
}

// rise formats how much the loss rises.
func (c ColumnImportance) rise() string { return fmt.Sprintf("%.3g ± %.2g", c.Rise, c.Deviation) }
