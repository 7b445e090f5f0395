package table

import (
	"fmt"
	"io"
)

// described is embedded in sources. It holds the description of their columns, and notes.
type described struct {
	about About
	notes []string
}

// About describes the columns.
func (d *described) About() About { return d.about }

// Notes reports what was detected.
func (d *described) Notes() []string { return d.notes }

// Close does nothing.
func (d *described) Close() error { return nil }

// record is a sequence that is read as a whole.
type record struct {
	place Place
	name  string
	step  float64 // seconds
	n     int     // rows
	cell  func(row, column int) Cell
}

// recordSource is a Source of records. next returns the records one by one, and io.EOF after the last.
type recordSource struct {
	described
	next  func() (*record, error)
	unit  string // unit of rows; "" for the place of the record
	now   *record
	at, n int
}

// Next reads the next row.
func (s *recordSource) Next(row *Row) error {
	for s.now == nil || s.at >= s.now.n {
		r, err := s.next()
		if err != nil {
			return err
		}
		s.now, s.at = r, 0
		s.n++
	}
	r := s.now
	row.Place, row.Sequence, row.Name, row.Step = r.place, s.n-1, r.name, r.step
	if s.unit != "" {
		row.Unit, row.At = s.unit, int64(s.at)+1
	}
	if !s.about.Sequences {
		row.Sequence, row.Name = 0, ""
	}
	row.Cells = row.Cells[:0]
	for i := range s.about.Columns {
		row.Cells = append(row.Cells, r.cell(s.at, i))
	}
	s.at++
	return nil
}

// once returns one record, then io.EOF.
func once(r *record) func() (*record, error) {
	return func() (*record, error) {
		out := r
		if r = nil; out == nil {
			return nil, io.EOF
		}
		return out, nil
	}
}

// numbered returns n names such as channel1.
func numbered(name string, n int) []string {
	if n == 1 {
		return []string{name}
	}
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%d", name, i+1)
	}
	return all
}
