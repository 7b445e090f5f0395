// Package table reads users' data as a stream of rows with named columns (numbers, categories and times) from files of
// many formats, folders of them, or a pipe. Errors name the file, the row and the column. Rows are streamed, so that
// files can be larger than memory.
//
// A format is a file with a Format in it and a line in registry.go. It opens a Source: rows of cells, each an unparsed
// text, a number or an instant. Reader parses texts: it infers from the first rows what each column holds.
package table

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind is the type of a column.
type Kind string

// The kinds of columns.
const (
	Number   Kind = "number"
	Category Kind = "category" // one of some texts
	Time     Kind = "time"     // an instant
)

// Form is the form of a cell as a format reads it.
type Form uint8

// The forms of cells.
const (
	Missing Form = iota
	Text         // not parsed yet
	Real         // a number
	Instant      // seconds since 1970, UTC
)

// Cell is a value of a row.
type Cell struct {
	Form   Form
	Text   string  // of Text
	Number float64 // of Real and Instant; finite
}

// RealCell returns the cell of a number, Missing for one that is not finite.
func RealCell(x float64) Cell {
	if x-x != 0 { // NaN or infinite
		return Cell{}
	}
	return Cell{Form: Real, Number: x}
}

// Place is the location of a row.
type Place struct {
	File string
	Unit string // what At counts: line, row, sample
	At   int64  // from 1
}

// String returns the place in words: data.csv, line 17.
func (p Place) String() string { return fmt.Sprintf("%s, %s %d", p.File, p.Unit, p.At) }

// Row is a row of a Source. Sequences follow each other; rows of one are in the order of time.
type Row struct {
	Place
	Sequence int     // index of its sequence, from 0; always 0 if the format has none
	Name     string  // of the sequence, such as its file's
	Step     float64 // seconds from one row of the sequence to the next; 0 if that is not known
	Cells    []Cell  // one for each column
}

// About describes a source.
type About struct {
	Columns   []string // unique names, not empty
	Units     []string // of the columns; nil for none
	Sequences bool     // the format divides rows into sequences
	Label     string   // the column of the class of a sequence, such as the folder; "" for none
	Headless  bool     // the data does not name its columns
	Separator string   // of cells that are texts
	Local     []string // columns of instants that were read as those of a clock in the zone of the options
	Recording bool     // rows are samples of recordings, at most with their file and folder
	Rate      int      // samples of a recording in a second
}

// plain reports whether the cells are separated as programs do that write numbers with a decimal point.
func (a About) plain() bool { return a.Separator == "," || a.Separator == " " }

// Source reads the rows of a file.
type Source interface {
	About() About
	// Next reads the next row and sets all of it, reusing its memory but not that of texts. It returns io.EOF after the
	// last one, a *RowError for an invalid row after which reading can continue, and any other error if it cannot.
	Next(row *Row) error
	// Notes returns what a user should know about how the rows have been read so far.
	Notes() []string
	Close() error
}

// RowError is an error in a row or in one of its cells.
type RowError struct {
	Place
	Column string // "" for the whole row
	Text   string // such as: found "x", want a number
}

// Error names the file, the row and the column.
func (e *RowError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("%s: %s", e.Place, e.Text)
	}
	return fmt.Sprintf("%s, column %s: %s", e.Place, e.Column, e.Text)
}

// Problems collects errors of rows: it lists the first few and counts the others. The zero value has none.
type Problems struct {
	First []error
	More  int
}

// mostShown is how many errors of rows are listed.
const mostShown = 3

// mostProblems is the number of errors at which reading stops.
const mostProblems = 1000

// Add adds an error of a row, and reports whether reading should continue.
func (p *Problems) Add(err error) (goOn bool) {
	if len(p.First) < mostShown {
		p.First = append(p.First, err)
	} else {
		p.More++
	}
	return p.More < mostProblems
}

// Err is nil if there is no problem.
func (p *Problems) Err() error {
	if len(p.First) == 0 {
		return nil
	}
	return p
}

// Error lists the first problems and counts the others.
func (p *Problems) Error() string {
	var lines []string
	for _, err := range p.First {
		lines = append(lines, err.Error())
	}
	switch {
	case p.More >= mostProblems:
		lines = append(lines, fmt.Sprintf("and %d more such rows or more; reading stopped there", p.More))
	case p.More > 0:
		lines = append(lines, fmt.Sprintf("and %d more such rows", p.More))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors that are listed.
func (p *Problems) Unwrap() []error { return p.First }

// Each calls f with every row of a reader. Errors of single rows are collected and returned together at the end.
func Each(r *Reader, f func(v *Values) error) error {
	var problems Problems
	var v Values
	for {
		err := r.Next(&v)
		if errors.Is(err, io.EOF) {
			return problems.Err()
		}
		if err == nil {
			err = f(&v)
		}
		var bad *RowError
		switch {
		case err == nil:
		case !errors.As(err, &bad):
			return err
		case !problems.Add(err):
			return problems.Err()
		}
	}
}
