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
	Layout string `json:"layout,omitempty"` // of times that are texts, as package time writes it

	Optional bool `json:"-"` // data without this wanted column has missing values
}

// Values is a parsed row, by the columns of a Reader.
type Values struct {
	Place
	Sequence int
	Name     string
	Step     float64
	Numbers  []float64 // of numbers, and the seconds since 1970 of times; NaN for missing and of categories
	Texts    []string  // of categories; "" for missing
}

// Reader parses the cells of a source. It is not safe for concurrent use.
type Reader struct {
	src     Source
	opt     Options
	zone    *time.Location
	comma   bool // before the fraction of numbers
	settled bool // comma is certain
	columns []Column
	from    []int // the place of each column in the rows of the source, -1 for none
	ahead   []read
	row     Row
	notes   []string
}

// read is a result of Source.Next.
type read struct {
	row Row
	err error
}

// sampleRows is how many rows the types of columns are inferred from.
const sampleRows = 1000

// Open opens files, a folder of them, or "-" for stdin. want are the columns to read, with their types; nil reads all
// columns and infers their types from the first rows.
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
	}
	src, err := openSource(paths, stdin, &opt)
	if err != nil {
		return nil, err
	}
	if src, err = frames(src, opt.Spectrum); err != nil {
		return nil, err
	}
	r := &Reader{src: src, opt: opt, zone: zone, comma: opt.Decimal == "comma", settled: opt.Decimal != "auto"}
	if want == nil {
		err = r.look()
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

// Spectrum returns how recordings are read as frames, nil if they are not.
func (r *Reader) Spectrum() *Spectrum {
	if s, ok := r.src.(*spectral); ok {
		return s.spec
	}
	return nil
}

// Comma reports whether numbers have a decimal comma, as far as is known.
func (r *Reader) Comma() bool { return r.comma }

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

// look infers the types of the columns from the first rows.
func (r *Reader) look() error {
	about := r.src.About()
	for len(r.ahead) < sampleRows {
		var next read
		next.err = r.src.Next(&next.row)
		var bad *RowError
		if next.err != nil && next.err != io.EOF && !errors.As(next.err, &bad) {
			return next.err
		}
		r.ahead = append(r.ahead, next)
		if next.err == io.EOF {
			break
		}
	}
	r.findDecimal()
	for i, name := range about.Columns {
		c := Column{Name: name}
		if about.Units != nil {
			c.Unit = about.Units[i]
		}
		if err := r.findKind(&c, i); err != nil {
			return err
		}
		r.columns, r.from = append(r.columns, c), append(r.from, i)
	}
	for _, name := range r.opt.Categories {
		if !slices.Contains(about.Columns, name) {
			return fmt.Errorf("categories: found %q, want columns among %s", name, brief.List(about.Columns, ", "))
		}
	}
	return nil
}

// texts returns the texts of a column in the rows that were read ahead, and how many of its cells are numbers and
// instants.
func (r *Reader) texts(column int) (texts []string, reals, instants int) {
	for _, next := range r.ahead {
		if next.err != nil {
			continue
		}
		switch c := next.row.Cells[column]; c.Form {
		case Text:
			if text := strings.TrimSpace(c.Text); !r.opt.isMissing(text) {
				texts = append(texts, text)
			}
		case Real:
			reals++
		case Instant:
			instants++
		}
	}
	return texts, reals, instants
}

// findDecimal finds out whether numbers have a decimal comma.
func (r *Reader) findDecimal() {
	if r.settled {
		return
	}
	comma, point, either := 0, 0, 0
	for i := range r.src.About().Columns {
		texts, _, _ := r.texts(i)
		for _, text := range texts {
			switch {
			case looksComma(text):
				comma++
			case looksPoint(text):
				point++
			case strings.ContainsRune(text, ','):
				if _, ok := parseNumber(text, true); ok {
					either++
				}
			}
		}
	}
	r.settled = comma+point > 0
	if r.comma = point == 0 && comma+either > 0; r.comma {
		r.notes = append(r.notes,
			"numbers are read with a comma before the fraction, as in 1,5 (--decimal point otherwise)")
		r.settled = true
	}
}

// mostlyNumbers is the fraction of numbers from which on other values of a column count as errors.
const mostlyNumbers = 0.9

// findKind infers the type of column i.
func (r *Reader) findKind(c *Column, i int) error {
	texts, reals, instants := r.texts(i)
	if slices.Contains(r.opt.Categories, c.Name) {
		c.Kind = Category
		return nil
	}
	numbers := 0
	for _, text := range texts {
		if _, ok := parseNumber(text, r.comma); ok {
			numbers++
		}
	}
	switch {
	case instants > 0:
		c.Kind = Time
		return nil
	case len(texts) == 0 || reals+numbers > 0 && float64(numbers) >= mostlyNumbers*float64(len(texts)):
		c.Kind = Number
		return nil
	case r.opt.TimeFormat != "":
		if _, ok := readAll(texts[:1], r.opt.TimeFormat, r.zone); ok {
			c.Kind, c.Layout = Time, r.opt.TimeFormat
			return nil
		}
	}
	layout, other := findLayout(texts, r.zone)
	if layout == "" {
		c.Kind = Category
		return nil
	}
	c.Kind, c.Layout = Time, layout
	if other != "" {
		r.notes = append(r.notes, fmt.Sprintf("column %s: times such as %s are read as %s "+
			"(--time_format '%s' otherwise)", c.Name, texts[0], layout, other))
	}
	return nil
}

// AsTime reads a column of numbers as times: seconds since 1970 or fractions of them.
func (r *Reader) AsTime(column int) { r.columns[column].Kind = Time }

// Next reads the next row. It returns io.EOF after the last one. After a *RowError, v holds what could be read of the
// row, and reading can continue.
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
		if c.Kind == Number && r.settled && len(cell.Text) > 0 && len(r.opt.Missing) == 0 {
			if x, ok := shortNumber(cell.Text, r.point()); ok {
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
		number, err = r.number(text)
	case c.Kind == Time && cell.Form == Text && c.Layout != "":
		number, err = parseTime(text, c.Layout, r.zone)
	case c.Kind == Time && cell.Form == Text:
		if number, err = r.number(text); err == nil {
			number = unixSeconds(number)
		}
	case c.Kind == Time && cell.Form == Real:
		number = unixSeconds(cell.Number)
	default:
		number = cell.Number
	}
	return number, "", err
}

// point returns the decimal sign.
func (r *Reader) point() byte {
	if r.comma {
		return ','
	}
	return '.'
}

// number parses a number. The first one with a fraction decides on the decimal sign, unless that is known.
func (r *Reader) number(text string) (float64, error) {
	if !r.settled && strings.ContainsAny(text, ".,") {
		switch {
		case looksComma(text):
			r.comma, r.settled = true, true
		case looksPoint(text):
			r.comma, r.settled = false, true
		}
	}
	x, ok := parseNumber(text, r.comma)
	if !ok {
		fraction := ""
		if _, other := parseNumber(text, !r.comma); other {
			fraction = map[bool]string{true: " with a comma before its fraction, as others", false: " with a point " +
				"before " +
				"its fraction, as others"}[r.comma]
		}
		return math.NaN(), fmt.Errorf("found %.40q, want a number%s", text, fraction)
	}
	return x, nil
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
