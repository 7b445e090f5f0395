package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// CSV is text with one row per line: cells separated by commas, semicolons, tabs, bars or spaces, quoted as in RFC
// 4180.
var CSV = &Format{
	Name: "csv", About: "rows of text: cells between commas, semicolons, tabs, bars or spaces",
	Extensions: []string{".csv", ".txt", ".dat"},
	Open:       func(in *Input, opt *Options) (Source, error) { return openCSV(in, opt, 0) },
}

// TSV is CSV with tabs.
var TSV = &Format{
	Name: "tsv", About: "rows of text: cells between tabs", Extensions: []string{".tsv", ".tab"},
	Open: func(in *Input, opt *Options) (Source, error) { return openCSV(in, opt, '\t') },
}

// records reads the cells line by line, skipping empty lines.
type records interface {
	next() (cells []string, line int64, err error)
}

// csvSource reads the rows of a CSV file.
type csvSource struct {
	described
	name      string
	text      *patcher
	lines     records
	separator rune
	first     []string // the first line if it is not a header
	line      int64    // of first
}

// separators lists the separators that are detected. Those that rarely occur in numbers and texts come first.
var separators = []rune{'\t', ';', '|', ',', ' '}

func openCSV(in *Input, opt *Options, separator rune) (Source, error) {
	asked, err := opt.separator()
	if err != nil {
		return nil, err
	}
	s := &csvSource{name: in.Name}
	if s.text, err = textReader(in, opt.Encoding); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(s.text, peekSize)
	head := peek(r)
	switch {
	case asked != 0:
		separator = asked
	case separator == 0:
		separator = guessSeparator(head)
		if separator != ',' {
			s.notes = append(s.notes, fmt.Sprintf("cells are separated by %s (--separator otherwise)",
				separatorName(separator)))
		}
	}
	s.lines, s.separator, s.about.Separator = newRecords(r, separator), separator, string(separator)
	first, line, err := s.lines.next()
	if err == io.EOF {
		return nil, fmt.Errorf("%s: found no row, want a line that names the columns and rows below it", in.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	if err := s.takeHead(first, line, head, separator, opt); err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	if opt.Wide {
		return newWide(s, opt)
	}
	return s, nil
}

// mostColumns is the maximum number of columns, so that a hostile first line cannot need much memory.
const mostColumns = 20_000

// takeHead takes the names of the columns from the first line, or generates names if that line is data.
func (s *csvSource) takeHead(first []string, line int64, head []byte, separator rune, opt *Options) error {
	if len(first) > mostColumns {
		return fmt.Errorf("line %d: found %d cells, want at most %d", line, len(first), mostColumns)
	}
	header := opt.Header == "yes" || opt.Header == "auto" && isHeader(first, secondLine(head, separator), opt)
	seen := map[string]int{}
	for i, name := range first {
		name = strings.TrimSpace(name)
		if !header || name == "" {
			name = fmt.Sprintf("column%d", i+1)
		}
		if seen[name]++; seen[name] > 1 {
			other := fmt.Sprintf("%s.%d", name, seen[name])
			s.notes = append(s.notes, fmt.Sprintf("the column %s is in line %d more than once: number %d is called %s",
				name, line, seen[name], other))
			name = other
			seen[name]++
		}
		s.about.Columns = append(s.about.Columns, name)
	}
	if !header {
		s.about.Headless = true
		s.first, s.line = first, line
		if opt.Header == "auto" {
			s.notes = append(s.notes, fmt.Sprintf("the first line is data, as it holds values: "+
				"columns are called column1 to column%d (--header yes otherwise)", len(first)))
		}
	}
	return nil
}

// isHeader reports whether the first line contains the names of columns: no cell is a number, a time or a missing
// value, and none occurs again in the next line.
func isHeader(first, second []string, opt *Options) bool {
	for _, cell := range first {
		cell = strings.TrimSpace(cell)
		_, point := parseNumber(cell, false)
		_, comma := parseNumber(cell, true)
		if point || comma || cell != "" && opt.isMissing(cell) {
			return false
		}
		if len(timeReadings([]string{cell})) > 0 {
			return false
		}
	}
	for i, cell := range second {
		if i < len(first) && cell == first[i] && strings.TrimSpace(cell) != "" {
			return false
		}
	}
	return true
}

// secondLine returns the cells of the second line of a text, nil for none.
func secondLine(head []byte, separator rune) []string {
	lines := newRecords(bufio.NewReader(bytes.NewReader(head)), separator)
	if _, _, err := lines.next(); err != nil {
		return nil
	}
	cells, _, err := lines.next()
	if err != nil {
		return nil
	}
	return cells
}

// guessSeparator returns the first of separators that divides all lines of a text into the same number of cells, at
// least two. If there is none, it returns a comma.
func guessSeparator(head []byte) rune {
	if end := bytes.LastIndexByte(head, '\n'); end >= 0 {
		head = head[:end+1] // whole lines
	}
	for _, separator := range separators {
		lines := newRecords(bufio.NewReader(bytes.NewReader(head)), separator)
		cells, same, rows := 0, true, 0
		for ; same && rows < 100; rows++ {
			row, _, err := lines.next()
			if err != nil {
				break
			}
			same = len(row) > 1 && (rows == 0 || len(row) == cells)
			cells = len(row)
		}
		if same && rows > 0 {
			return separator
		}
	}
	return ','
}

func separatorName(separator rune) string {
	switch separator {
	case '\t':
		return "tabs"
	case ' ':
		return "spaces"
	}
	return fmt.Sprintf("%q", separator)
}

// Notes reports what was detected.
func (s *csvSource) Notes() []string {
	return append(s.notes[:len(s.notes):len(s.notes)], s.text.Notes()...)
}

// Next reads the next line that is not empty.
func (s *csvSource) Next(row *Row) error {
	cells, line := s.first, s.line
	var err error
	if s.first = nil; cells == nil {
		cells, line, err = s.lines.next()
	}
	*row = Row{Place: Place{s.name, "line", line}, Cells: row.Cells[:0]}
	var syntax *csv.ParseError
	switch {
	case err == io.EOF:
		return err
	case errors.As(err, &syntax) && !errors.As(err, &errTooLong{}):
		return &RowError{Place: row.Place, Text: fmt.Sprintf("found a cell that is not quoted as CSV is: %v",
			syntax.Err)}
	case err != nil:
		return fmt.Errorf("%s: %w", row.Place, err)
	}
	// some programs write a separator at the end of lines
	if len(cells) == len(s.about.Columns)+1 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	if len(cells) != len(s.about.Columns) {
		text := fmt.Sprintf("found %d cells, want %d", len(cells), len(s.about.Columns))
		if len(cells) > len(s.about.Columns) && s.separator == ',' {
			text += `; a cell with a comma in it, such as "1,5", wants quotes, or cells another separator`
		}
		return &RowError{Place: row.Place, Text: text}
	}
	for _, text := range cells {
		row.Cells = append(row.Cells, Cell{Form: Text, Text: text})
	}
	return nil
}

// newRecords returns a reader of cells separated by a character, or by any number of spaces.
func newRecords(r *bufio.Reader, separator rune) records {
	if separator == ' ' {
		return &spaced{lines{r: r}}
	}
	tabs := separator == '\t' // there, quotes have no meaning
	return &quoted{r: r, separator: string(separator), trim: !tabs, lazy: tabs}
}

// spaced reads records with any number of spaces between cells.
type spaced struct{ lines }

func (s *spaced) next() ([]string, int64, error) {
	text, err := s.lines.next(maxRow)
	if err != nil {
		return nil, s.line + 1, err
	}
	return strings.Fields(string(text)), s.line, nil
}
