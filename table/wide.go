package table

import (
	"fmt"
	"strings"
)

// StepColumn is the name of the column of values when rows are sequences.
const StepColumn = "value"

// wide makes a sequence of each row of a source: the numbers of the row, in order, become the rows of the sequence. The
// values of the other columns are repeated in each row of the sequence.
type wide struct {
	Source
	about About
	steps []int // columns of the source that are steps
	other []int
	row   Row
	at    int // the next step
	end   int // after the last step with a value: shorter sequences are padded with missing values
	n     int // number of sequences so far
	name  string
	opt   *Options
}

// newWide reads the rows of a source as sequences. All columns are steps, except those that isLabel reports as labels
// and the first column if the source has no header.
func newWide(src Source, opt *Options) (Source, error) {
	s := &wide{Source: src, opt: opt}
	from := src.About()
	s.about.Separator = from.Separator
	for i, name := range from.Columns {
		if isLabel(name) || from.Headless && i == 0 {
			s.other = append(s.other, i)
			s.about.Columns = append(s.about.Columns, name)
		} else {
			s.steps = append(s.steps, i)
		}
	}
	if len(s.steps) < 2 {
		return nil, fmt.Errorf("wide: found %d columns of steps, want two or more", len(s.steps))
	}
	s.about.Columns = append(s.about.Columns, StepColumn)
	s.about.Sequences, s.about.Headless = true, from.Headless
	if len(s.other) > 0 {
		s.about.Label = from.Columns[s.other[0]]
	}
	return s, nil
}

// isLabel reports whether the name of a column is one of the usual names of labels.
func isLabel(name string) bool {
	switch strings.ToLower(name) {
	case "label", "class", "target", "y", "id", "name", "group", "subject", "patient":
		return true
	}
	return false
}

// About describes the sequences.
func (s *wide) About() About { return s.about }

// Next reads the next step.
func (s *wide) Next(row *Row) error {
	for s.at >= s.end {
		if err := s.Source.Next(&s.row); err != nil {
			return err
		}
		s.at, s.end = 0, len(s.steps)
		for s.end > 0 && s.missing(s.steps[s.end-1]) {
			s.end--
		}
		s.n++
		s.name = fmt.Sprintf("%s %d", s.row.Unit, s.row.At)
	}
	row.Place, row.Sequence, row.Name = s.row.Place, s.n-1, s.name
	row.Cells = row.Cells[:0]
	for _, i := range s.other {
		row.Cells = append(row.Cells, s.row.Cells[i])
	}
	row.Cells = append(row.Cells, s.row.Cells[s.steps[s.at]])
	s.at++
	return nil
}

// missing reports whether a cell of the row has no value.
func (s *wide) missing(column int) bool {
	c := &s.row.Cells[column]
	return c.Form == Missing || c.Form == Text && s.opt.isMissing(strings.TrimSpace(c.Text))
}
