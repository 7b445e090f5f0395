package table

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// Column is a column of a Reader.
type Column struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Kind   Kind   `json:"kind"`
	Layout string `json:"layout,omitempty"` // layout of times that are texts, as in package time

	// For numbers that are texts: the decimal sign, as in Options, and a currency or percent mark.
	Decimal string `json:"decimal,omitempty"`
	Mark    string `json:"mark,omitempty"`
	Example string `json:"example,omitempty"` // a text whose meaning is not obvious: see Reading

	Optional bool `json:"-"` // if the data does not have this wanted column, its values are missing
}

// Values is a parsed row. Its fields are in the order of a Reader's columns.
type Values struct {
	Place
	Sequence int
	Name     string
	Step     float64
	Numbers  []float64 // numbers, and times as seconds since 1970; NaN for missing values and categories
	Texts    []string  // categories; "" for missing values
}

// Reader parses the cells of a source. It is not safe for concurrent use.
type Reader struct {
	src     Source
	opt     Options
	zone    *time.Location
	columns []Column
	doubts  []error // by column: see Doubt
	from    []int   // index of each column in the rows of the source, -1 for none
	ahead   []read
	row     Row
	notes   []string
}

// read is a result of Source.Next.
type read struct {
	row Row
	err error
}

// sampleRows is the number of rows from which the types of columns are inferred.
const sampleRows = 1000

// Open opens files, a folder of files, or "-" for stdin. want lists the columns to read, with their types. If it is
// nil, Open reads all columns and infers their types from the first rows.
func Open(paths []string, stdin io.Reader, opt Options, want []Column) (*Reader, error) {
	zone, err := opt.zone()
	if err != nil {
		return nil, err
	}
	if want != nil && !opt.Wide {
		opt.wanted = map[string]bool{}
		for _, c := range want {
			opt.wanted[strings.ToLower(c.Name)] = true
		}
		opt.mono = wantsMono(want)
	}
	src, err := openSource(paths, stdin, &opt)
	if err != nil {
		return nil, err
	}
	if src, err = frames(src, opt.Spectrum); err != nil {
		return nil, err
	}
	if _, ok := src.(*spectral); !ok && want != nil && opt.Spectrum != nil {
		return nil, errors.Join(fmt.Errorf("%s: found no samples of a recording, want WAV or FLAC: training had %s",
			strings.Join(paths, ", "), opt.Spectrum), src.Close())
	}
	r := &Reader{src: src, opt: opt, zone: zone}
	if want == nil {
		err = r.look(paths)
	} else {
		err = r.take(want, strings.Join(paths, ", "))
	}
	if err != nil {
		src.Close()
		return nil, err
	}
	return r, nil
}

// Columns returns the columns of Values.
func (r *Reader) Columns() []Column { return r.columns }

// About describes the source.
func (r *Reader) About() About { return r.src.About() }

// Spectrum returns how recordings are converted to frames, nil if they are not.
func (r *Reader) Spectrum() *Spectrum {
	if s, ok := r.src.(*spectral); ok {
		return s.spec
	}
	return nil
}

// Doubt returns the error for a column whose texts can be read in two ways. The error matters only if the column is
// used.
func (r *Reader) Doubt(column int) error {
	if column >= len(r.doubts) || r.columns[column].Kind == Category {
		return nil
	}
	return r.doubts[column]
}

// Only limits reading to some columns. Values of the others are missing. It returns the first Doubt of the columns that
// are read. A column of -1 is ignored.
func (r *Reader) Only(columns []int) error {
	for i := range r.columns {
		if !slices.Contains(columns, i) {
			r.from[i] = -1
		} else if err := r.Doubt(i); err != nil {
			return err
		}
	}
	return nil
}

// Notes returns what a user should know about how the data has been read so far.
func (r *Reader) Notes() []string { return slices.Concat(r.notes, r.src.Notes()) }

// Close closes the files.
func (r *Reader) Close() error { return r.src.Close() }

// take finds the wanted columns. what names the data in errors.
func (r *Reader) take(want []Column, what string) error {
	if src, ok := r.src.(*jsonSource); ok {
		src.expect(want)
	}
	about := r.src.About()
	r.columns = slices.Clone(want)
	for i := range r.columns {
		c := &r.columns[i]
		switch {
		case r.opt.Decimal != decimalAuto:
			c.Decimal = r.opt.Decimal
		case (c.Decimal == "" || c.Decimal == decimalAuto) && about.plain():
			c.Decimal = decimalPoint
		}
	}
	if about.Headless && len(want) > 0 && len(about.Columns) >= len(want) && !slices.Contains(about.Columns,
		want[0].Name) {
		r.notes = append(r.notes, fmt.Sprintf("%s: found no line that names the columns: they are read as %s",
			what, names(want)))
		for i := range want {
			r.from = append(r.from, i)
		}
		return nil
	}
	var lost []string
	for _, c := range want {
		at := slices.Index(about.Columns, c.Name)
		if at < 0 {
			at = slices.IndexFunc(about.Columns, func(name string) bool { return strings.EqualFold(name, c.Name) })
		}
		if at < 0 && !c.Optional {
			lost = append(lost, c.Name)
		}
		r.from = append(r.from, at)
	}
	if len(lost) > 0 {
		return fmt.Errorf("%s: found the columns %s; want %s, too", what, brief.List(about.Columns, ", "),
			brief.List(lost, ", "))
	}
	return nil
}

func names(columns []Column) string {
	var all []string
	for _, c := range columns {
		all = append(all, c.Name)
	}
	return brief.List(all, ", ")
}

// sampleCells limits the memory of the first rows if there are many columns.
const sampleCells = 1 << 20

// look infers the types of the columns from the first rows, and from all rows if the first ones leave two
// possibilities.
func (r *Reader) look(paths []string) error {
	about := r.src.About()
	more := true
	for len(r.ahead) < sampleRows && (len(r.ahead)+1)*len(about.Columns) <= sampleCells {
		var next read
		next.err = r.src.Next(&next.row)
		var bad *RowError
		if next.err != nil && next.err != io.EOF && !errors.As(next.err, &bad) {
			return next.err
		}
		r.ahead = append(r.ahead, next)
		if more = next.err != io.EOF; !more {
			break
		}
	}
	all := make([]clues, len(about.Columns))
	for i := range all {
		texts, instants := r.texts(i)
		all[i].take(r, texts, instants)
	}
	if more && slices.ContainsFunc(all, r.open) {
		if err := r.scan(paths, all); err != nil {
			return err
		}
	}
	return r.settle(all)
}

// texts returns the texts of a column in the rows that were read ahead, and the number of its cells that are instants.
func (r *Reader) texts(column int) (texts []string, instants int) {
	for _, next := range r.ahead {
		if next.err != nil {
			continue
		}
		switch c := next.row.Cells[column]; c.Form {
		case Text:
			if text := strings.TrimSpace(c.Text); !r.opt.isMissing(text) {
				texts = append(texts, text)
			}
		case Instant:
			instants++
		}
	}
	return texts, instants
}

// mostlyNumbers is the share of numbers in a column from which its other values are treated as errors.
const mostlyNumbers = 0.9

// Next reads the next row. It returns io.EOF after the last one. After a *RowError, v holds the part of the row that
// could be read, and reading can continue.
func (r *Reader) Next(v *Values) error {
	row, err := &r.row, error(nil)
	if len(r.ahead) > 0 {
		if err = r.ahead[0].err; err != io.EOF { // which is said again
			row, r.ahead = &r.ahead[0].row, r.ahead[1:]
		}
	} else {
		err = r.src.Next(row)
	}
	if err != nil {
		return err
	}
	v.Place, v.Sequence, v.Name, v.Step = row.Place, row.Sequence, row.Name, row.Step
	v.Numbers, v.Texts = v.Numbers[:0], v.Texts[:0]
	for i := range r.columns {
		number, text, bad := math.NaN(), "", error(nil)
		if at := r.from[i]; at >= 0 {
			number, text, bad = r.value(&r.columns[i], &row.Cells[at])
		}
		if bad != nil && err == nil {
			err = &RowError{Place: row.Place, Column: r.columns[i].Name, Text: bad.Error()}
		}
		v.Numbers, v.Texts = append(v.Numbers, number), append(v.Texts, text)
	}
	return err
}

// value parses a cell.
func (r *Reader) value(c *Column, cell *Cell) (number float64, text string, err error) {
	number = math.NaN()
	if cell.Form == Text {
		if c.Kind == Number && c.Mark == "" && len(cell.Text) > 0 && len(r.opt.Missing) == 0 {
			if x, ok := shortNumber(cell.Text, c.point()); ok {
				return x, "", nil
			}
		}
		text = strings.TrimSpace(cell.Text)
		if r.opt.isMissing(text) {
			return number, "", nil
		}
	}
	switch {
	case cell.Form == Missing:
	case c.Kind == Category && cell.Form == Text:
		return number, text, nil
	case c.Kind == Category:
		return number, categoryText(cell.Number), nil
	case c.Kind == Number && cell.Form == Text:
		number, err = c.number(text)
	case c.Kind == Time && cell.Form == Text && c.Layout != "":
		number, err = parseTime(text, c.Layout, r.zone)
	case c.Kind == Time && cell.Form == Text:
		if number, err = c.number(text); err == nil {
			number = unixSeconds(number)
		}
	case c.Kind == Time && cell.Form == Real && c.Layout != "":
		number, err = parseTime(categoryText(cell.Number), c.Layout, r.zone)
	case c.Kind == Time && cell.Form == Real:
		number = unixSeconds(cell.Number)
	default:
		number = cell.Number
	}
	return number, "", err
}

// AsCategory reads a column as a category.
func (r *Reader) AsCategory(column int) { r.columns[column].Kind = Category }

// Seen returns the distinct numbers of a column in the first rows, at most limit+1 of them.
func (r *Reader) Seen(column, limit int) map[float64]bool {
	seen := map[float64]bool{}
	for i := range r.ahead {
		next := &r.ahead[i]
		if next.err != nil || len(seen) > limit {
			continue
		}
		x, _, err := r.value(&r.columns[column], &next.row.Cells[r.from[column]])
		if err == nil && !math.IsNaN(x) {
			seen[x] = true
		}
	}
	return seen
}

// Ahead calls f with the first rows without consuming them.
func (r *Reader) Ahead(f func(v *Values)) {
	rest := r.ahead
	var v Values
	for len(r.ahead) > 0 && r.ahead[0].err != io.EOF {
		if r.Next(&v) == nil {
			f(&v)
		}
	}
	r.ahead = rest
}
