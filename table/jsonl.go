package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// JSONL has one JSON object per line: a row whose fields are columns. The names of nested fields are joined by a dot.
// An object with lists of numbers is a sequence: the lists are the rows, and its other values apply to all of them.
var JSONL = &Format{
	Name: "jsonl", About: "a JSON object a line; lists of numbers in it make it a sequence",
	Extensions: []string{".jsonl", ".ndjson"}, Open: openJSONL,
}

// jsonSource reads the rows of a JSONL file.
type jsonSource struct {
	described
	name   string
	text   *patcher
	lines  lines
	ahead  []jsonLine // objects that were read to find the columns
	lists  []bool     // for each column, whether it is a list
	now    jsonLine
	at, n  int // number of rows of now that were returned, and number of objects
	others map[string]bool
}

type jsonLine struct {
	line   int64
	names  []string
	values map[string]any // string, json.Number, bool, nil or []float64
	length int            // length of its lists; 0 for none
	err    error
}

// The columns are found from jsonAhead objects, or fewer if these take more than jsonBytes.
const (
	jsonAhead = 100
	jsonBytes = 1 << 20
)

func openJSONL(in *Input, opt *Options) (Source, error) {
	text, err := textReader(in, opt.Encoding)
	if err != nil {
		return nil, err
	}
	s := &jsonSource{name: in.Name, text: text, lines: newLines(text), others: map[string]bool{}}
	size := 0
	for len(s.ahead) < jsonAhead && size < jsonBytes && (len(s.ahead) == 0 || in.File != nil) { // a pipe does not wait
		l := s.read()
		size += len(s.lines.text)
		if l.err == io.EOF {
			break
		}
		s.ahead = append(s.ahead, l)
		for _, name := range l.names {
			if !slices.Contains(s.about.Columns, name) {
				_, list := l.values[name].([]float64)
				s.about.Columns, s.lists = append(s.about.Columns, name), append(s.lists, list)
				s.about.Sequences = s.about.Sequences || list
			}
		}
		var bad *RowError
		if l.err != nil && !errors.As(l.err, &bad) {
			return nil, l.err
		}
	}
	if len(s.about.Columns) == 0 {
		if len(s.ahead) > 0 && s.ahead[0].err != nil {
			return nil, s.ahead[0].err
		}
		return nil, fmt.Errorf("%s: found no object with a field, want one a line", in.Name)
	}
	return s, nil
}

// expect adds optional columns that the first objects lack.
func (s *jsonSource) expect(want []Column) {
	for _, c := range want {
		same := func(name string) bool { return strings.EqualFold(name, c.Name) }
		if c.Optional && !slices.ContainsFunc(s.about.Columns, same) {
			s.about.Columns, s.lists = append(s.about.Columns, c.Name), append(s.lists, false)
		}
	}
}

// Notes reports how the text was read, and fields that the first objects lack.
func (s *jsonSource) Notes() []string {
	notes := s.text.Notes()
	if len(s.others) > 0 {
		notes = append(notes, fmt.Sprintf("%d fields that the first %d objects do not have are left out", len(s.others),
			jsonAhead))
	}
	return notes
}

// read reads an object.
func (s *jsonSource) read() jsonLine {
	text, err := s.lines.next(maxRow)
	l := jsonLine{line: s.lines.line, values: map[string]any{}, err: err}
	if err != nil {
		if err != io.EOF {
			l.err = fmt.Errorf("%s, line %d: %w", s.name, s.lines.line+1, err)
		}
		return l
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := l.object(d, "", 0); err != nil {
		l.err = &RowError{Place: Place{s.name, "line", s.lines.line}, Text: fmt.Sprintf(
			"found %.60q, want a JSON object of texts, numbers and lists of numbers: %v", text, err)}
	}
	return l
}

// mostDepth is the maximum depth of nested objects.
const mostDepth = 20

// object reads the fields of an object in order.
func (l *jsonLine) object(d *json.Decoder, prefix string, depth int) error {
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errors.New("it is no object"), err)
	}
	return l.fields(d, prefix, depth)
}

// fields reads the fields of an object after its opening brace.
func (l *jsonLine) fields(d *json.Decoder, prefix string, depth int) error {
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok || depth > mostDepth {
			return errors.New("objects lie too deep in each other")
		}
		value, err := d.Token()
		if err != nil {
			return err
		}
		switch value {
		case json.Delim('{'):
			if err := l.fields(d, prefix+key+".", depth+1); err != nil {
				return err
			}
			continue
		case json.Delim('['):
			if value, err = l.list(d); err != nil {
				return err
			}
		}
		if prefix+key == "" || len(l.names) >= mostColumns {
			return fmt.Errorf("%d fields, or one without a name", len(l.names))
		}
		if _, again := l.values[prefix+key]; !again {
			l.names = append(l.names, prefix+key)
		}
		l.values[prefix+key] = value
	}
	_, err := d.Token()
	return err
}

// list reads the numbers of a list after its opening bracket. null becomes NaN.
func (l *jsonLine) list(d *json.Decoder) (list []float64, err error) {
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		x := math.NaN()
		switch v := token.(type) {
		case json.Number:
			x, err = v.Float64()
		case string:
			x, err = json.Number(v).Float64()
		case nil:
		default:
			return nil, fmt.Errorf("found %v in a list, want numbers", token)
		}
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("found %.40q in a list, want numbers", token)
		}
		list = append(list, x)
	}
	if l.length != 0 && len(list) != l.length {
		return nil, fmt.Errorf("lists of %d and %d numbers, where all should be equally long", l.length, len(list))
	}
	l.length = len(list)
	_, err = d.Token()
	return list, err
}

// Next reads the next row.
func (s *jsonSource) Next(row *Row) error {
	for s.at >= s.rows() {
		if len(s.ahead) > 0 {
			s.now, s.ahead = s.ahead[0], s.ahead[1:]
		} else if s.now = s.read(); s.now.err == nil {
			for _, name := range s.now.names {
				if !slices.Contains(s.about.Columns, name) {
					s.others[name] = true
				}
			}
		}
		if s.at = 0; s.now.err != nil {
			s.now.values = nil
			return s.now.err
		}
		s.n++
	}
	row.Place, row.Step, row.Cells = Place{s.name, "line", s.now.line}, 0, row.Cells[:0]
	row.Sequence, row.Name = 0, ""
	if s.about.Sequences {
		row.Sequence, row.Name = s.n-1, fmt.Sprintf("line %d", s.now.line)
	}
	for _, name := range s.about.Columns {
		row.Cells = append(row.Cells, jsonCell(s.now.values[name], s.at))
	}
	s.at++
	return nil
}

// rows returns the number of rows of the object.
func (s *jsonSource) rows() int {
	switch {
	case s.now.values == nil:
		return 0
	case s.about.Sequences:
		return s.now.length
	}
	return 1
}

// jsonCell returns the cell of a value, or of an element of a list.
func jsonCell(value any, at int) Cell {
	switch x := value.(type) {
	case string:
		return Cell{Form: Text, Text: x}
	case bool:
		return Cell{Form: Text, Text: strconv.FormatBool(x)}
	case json.Number:
		y, err := x.Float64()
		if err != nil {
			return Cell{}
		}
		return RealCell(y)
	case []float64:
		if at < len(x) {
			return RealCell(x[at])
		}
	}
	return Cell{}
}
