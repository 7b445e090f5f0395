// Package table reads users' data as a stream of rows with named columns (numbers, categories and times). It reads
// files of many formats, folders of files, or a pipe. Errors name the file, the row and the column. Files may be larger
// than memory.
//
// Each format is a file with a Format, and a line in registry.go. It opens a Source: rows of cells, each of which is an
// unparsed text, a number or an instant. Reader parses the texts. It infers the types of the columns from the first
// rows.
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
	Category Kind = "category" // one of several texts
	Time     Kind = "time"     // an instant
)

// Form is the form of a cell in its format.
type Form uint8

// The forms of cells.
const (
	Missing Form = iota
	Text         // unparsed
	Real         // a number
	Instant      // seconds since 1970, UTC
)

// Cell is a value of a row.
type Cell struct {
	Form   Form
	Text   string  // for Text
	Number float64 // for Real and Instant; finite
}

// RealCell returns the cell of a number, or a Missing cell if the number is not finite.
func RealCell(x float64) Cell {
	if x-x != 0 { // NaN or infinite
		return Cell{}
	}
	return Cell{Form: Real, Number: x}
}

// Place is the position of a row.
type Place struct {
	File string
	Unit string // what At counts: line, row, sample
	At   int64  // from 1
}

// String returns the place in readable form: data.csv, line 17.
func (p Place) String() string { return fmt.Sprintf("%s, %s %d", p.File, p.Unit, p.At) }

// Row is a row of a Source. Sequences are contiguous, and the rows of each are in order of time.
type Row struct {
	Place
	Sequence int     // index of its sequence, from 0; always 0 if the format has none
	Name     string  // name of the sequence, such as its file's
	Step     float64 // seconds from one row of the sequence to the next; 0 if unknown
	Cells    []Cell  // one for each column
}

// About describes a source.
type About struct {
	Columns   []string // unique, non-empty names
	Units     []string // units of the columns; nil for none
	Sequences bool     // the format divides rows into sequences
	Label     string   // column with the class of a sequence, such as the folder; "" for none
	Headless  bool     // the data has no names of columns
	Separator string   // separator of cells that are texts
	Local     []string // columns of instants that were read as local times in the zone of the options
	Recording bool     // rows are samples of recordings, with at most the file and the folder as other columns
	Rate      int      // samples per second of a recording
}

// plain reports whether the separator is one of programs that write numbers with a decimal point.
func (a About) plain() bool { return a.Separator == "," || a.Separator == " " }

// Source reads the rows of a file.
type Source interface {
	About() About
	// Next reads the next row and sets all its fields. It reuses the row's memory, but not that of texts. It returns
	// io.EOF after the last row, and a *RowError for an invalid row after which reading can continue. After any other
	// error it cannot.
	Next(row *Row) error
	// Notes returns what a user should know about how the rows have been read so far.
	Notes() []string
	Close() error
}

// RowError reports an error in a row or in one of its cells.
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

// Problems collects errors in rows: it stores the first few and counts the others. The zero value is empty.
type Problems struct {
	First []error
	More  int
}

// mostShown is the maximum number of errors that are listed.
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

// Err returns p, or nil if there are no errors.
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

// Unwrap returns the stored errors.
func (p *Problems) Unwrap() []error { return p.First }

// Each calls f with every row of a reader. It collects the errors of single rows and returns them together at the end.
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
