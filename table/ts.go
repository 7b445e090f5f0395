package table

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// TS is the .ts format of the UCR and UEA archives (timeseriesclassification.com): header lines that start with @, then
// one line per sequence. Colons separate the dimensions of a sequence, commas the numbers of a dimension. The class
// comes last.
var TS = &Format{
	Name: "ts", About: "the .ts files of the UCR and UEA archives", Extensions: []string{".ts"}, Open: openTS,
}

// Column names of a .ts file.
const (
	dimColumn   = "dim"
	classColumn = "class"
)

// tsSource reads a .ts file.
type tsSource struct {
	name string
	lines
	labeled bool // each line ends with a class or with a number to predict
	dims    int
	first   []string // fields of the first line
}

func openTS(in *Input, opt *Options) (Source, error) {
	text, err := textReader(in, opt.Encoding)
	if err != nil {
		return nil, err
	}
	s := &tsSource{name: in.Name, lines: newLines(text)}
	for {
		line, err := s.next()
		if err != nil {
			return nil, fmt.Errorf("%s: found no line @data: %w", in.Name, err)
		}
		words := strings.Fields(strings.ToLower(line))
		switch {
		case words[0] == "@data":
			return s.source()
		case (words[0] == "@classlabel" || words[0] == "@targetlabel") && len(words) > 1:
			s.labeled = words[1] == "true"
		case words[0] == "@timestamps" && len(words) > 1 && words[1] == "true":
			return nil, fmt.Errorf("%s, line %d: found time stamps in sequences, want sequences without", in.Name,
				s.line)
		case line[0] != '@':
			return nil, fmt.Errorf("%s, line %d: found %.40q, want lines that begin with @ up to @data", in.Name,
				s.line, line)
		}
	}
}

// next returns the next line that is neither empty nor a comment.
func (s *tsSource) next() (string, error) {
	for {
		line, err := s.lines.next(maxRow)
		if err != nil || line[0] != '#' {
			return string(line), err
		}
	}
}

// source reads the first sequence, which determines the number of dimensions.
func (s *tsSource) source() (Source, error) {
	line, err := s.next()
	if err != nil {
		return nil, fmt.Errorf("%s: found no sequence after @data", s.name)
	}
	s.first = strings.Split(line, ":")
	s.dims = len(s.first)
	about := About{Sequences: true}
	if s.labeled {
		s.dims--
		about.Label = classColumn
	}
	if s.dims < 1 || s.dims > mostColumns {
		return nil, fmt.Errorf("%s, line %d: found %d dimensions, want 1 to %d", s.name, s.line, s.dims, mostColumns)
	}
	about.Columns = numbered(dimColumn, s.dims)
	if s.labeled {
		about.Columns = append(about.Columns, classColumn)
	}
	return &recordSource{described: described{about: about}, next: s.record}, nil
}

// record reads a sequence.
func (s *tsSource) record() (*record, error) {
	fields := s.first
	if s.first = nil; fields == nil {
		line, err := s.next()
		if err != nil {
			if err != io.EOF {
				err = fmt.Errorf("%s, line %d: %w", s.name, s.line+1, err)
			}
			return nil, err
		}
		fields = strings.Split(line, ":")
	}
	r := &record{place: Place{s.name, "line", s.line}, name: fmt.Sprintf("line %d", s.line)}
	want := s.dims
	if s.labeled {
		want++
	}
	if len(fields) != want {
		return nil, &RowError{Place: r.place, Text: fmt.Sprintf("found %d fields between colons, want %d",
			len(fields), want)}
	}
	dims := make([][]float64, s.dims)
	for i := range dims {
		for text := range strings.SplitSeq(fields[i], ",") {
			text = strings.TrimSpace(text)
			x, err := strconv.ParseFloat(text, 64)
			if err != nil && text != "?" {
				return nil, &RowError{Place: r.place, Column: fmt.Sprint(dimColumn, i+1),
					Text: fmt.Sprintf("found %.40q, want a number or ?", text)}
			}
			if text == "?" {
				x = nan
			}
			dims[i] = append(dims[i], x)
		}
		r.n = max(r.n, len(dims[i]))
	}
	r.cell = func(row, i int) Cell {
		switch {
		case i == s.dims:
			return Cell{Form: Text, Text: fields[i]}
		case row >= len(dims[i]):
			return Cell{}
		}
		return RealCell(dims[i][row])
	}
	return r, nil
}
