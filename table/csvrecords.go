package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoted reads records of separated cells, quoted as in RFC 4180. It returns the same as encoding/csv. If nothing is
// quoted, it needs little more than half the time: each line is copied once, and its cells are parts of the copy.
type quoted struct {
	r         *bufio.Reader
	separator string
	trim      bool // remove spaces before cells
	lazy      bool // quotes within cells are plain characters
	line      int64
	left      int    // maximum number of bytes left for the record
	long      []byte // a line that does not fit into the reader
	ended     error  // error after the last line
	cells     []string
	lines     strings.Builder // copies of lines; cells are parts of them
	cell      []byte          // a quoted cell
}

// lineBuffer is the size of the memory to which lines are copied. A cell that stays in use keeps this much in memory.
const lineBuffer = 4 << 10

// next returns the cells of the next line that is not empty, and its number.
func (q *quoted) next() ([]string, int64, error) {
	q.left = maxRow
	for {
		text, err := q.read()
		if err != nil {
			return nil, q.line, err
		}
		line := withoutEnd(text)
		if len(line) == 0 {
			continue
		}
		if bytes.IndexByte(line, '"') >= 0 {
			return q.parse(text)
		}
		q.cells = q.cells[:0]
		for rest, more := q.copied(line), true; more; {
			var cell string
			cell, rest, more = strings.Cut(rest, q.separator)
			q.cells = append(q.cells, q.trimmed(cell))
		}
		return q.cells, q.line, nil
	}
}

// read returns the next line, ending in "\n", valid until the next call. If the last line has no end, the error after
// it is returned by the next call.
func (q *quoted) read() ([]byte, error) {
	if q.ended != nil {
		return nil, q.ended
	}
	text, err := q.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		q.long = append(q.long[:0], text...)
		for errors.Is(err, bufio.ErrBufferFull) && len(q.long) <= q.left {
			text, err = q.r.ReadSlice('\n')
			q.long = append(q.long, text...)
		}
		text = q.long
	}
	if q.left -= len(text); q.left < 0 {
		q.ended = errTooLong{}
		return nil, q.ended
	}
	if err != nil {
		q.ended = err
		if err != io.EOF || len(text) == 0 {
			return nil, err
		}
		text = bytes.TrimSuffix(text, []byte("\r"))
	}
	q.line++
	if n := len(text); n >= 2 && text[n-2] == '\r' && text[n-1] == '\n' {
		text[n-2] = '\n'
		text = text[:n-1]
	}
	return text, nil
}

// withoutEnd returns a line without its end.
func withoutEnd[T string | []byte](text T) T {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		return text[:n-1]
	}
	return text
}

// copied returns a copy of a text.
func (q *quoted) copied(text []byte) string {
	if q.lines.Cap()-q.lines.Len() < len(text) {
		q.lines = strings.Builder{}
		q.lines.Grow(max(lineBuffer, len(text)))
	}
	at := q.lines.Len()
	q.lines.Write(text)
	return q.lines.String()[at:]
}

// trimmed returns a cell without leading spaces, unless these have a meaning.
func (q *quoted) trimmed(cell string) string {
	if q.trim && len(cell) > 0 && (cell[0] <= ' ' || cell[0] >= utf8.RuneSelf) {
		return strings.TrimLeftFunc(cell, unicode.IsSpace)
	}
	return cell
}

// parse returns the cells of a record whose first line has quotes.
func (q *quoted) parse(text []byte) ([]string, int64, error) {
	start := q.line
	wrong := func(err error) ([]string, int64, error) {
		return nil, start, &csv.ParseError{StartLine: int(start), Line: int(q.line), Err: err}
	}
	q.cells = q.cells[:0]
	for {
		if q.trim {
			text = bytes.TrimLeftFunc(text, unicode.IsSpace)
		}
		if len(text) == 0 || text[0] != '"' {
			cell, rest, more := bytes.Cut(text, []byte(q.separator))
			if !more {
				cell = withoutEnd(cell)
			}
			if !q.lazy && bytes.IndexByte(cell, '"') >= 0 {
				return wrong(csv.ErrBareQuote)
			}
			q.cells = append(q.cells, q.copied(cell))
			if !more {
				return q.cells, start, nil
			}
			text = rest
			continue
		}
		rest, more, err := q.quotedCell(text[1:])
		if errors.Is(err, csv.ErrQuote) {
			return wrong(err)
		}
		if err != nil {
			return nil, start, err
		}
		q.cells = append(q.cells, q.copied(q.cell))
		if !more {
			return q.cells, start, nil
		}
		text = rest
	}
}

// quotedCell reads the cell after an opening quote. rest is the text after its separator. more reports whether there is
// a separator.
func (q *quoted) quotedCell(text []byte) (rest []byte, more bool, err error) {
	q.cell = q.cell[:0]
	for {
		before, after, found := bytes.Cut(text, []byte{'"'})
		q.cell = append(q.cell, before...)
		switch {
		case !found: // the cell has several lines
			text, err = q.read()
			if err == nil {
				continue
			}
			if err == io.EOF && q.lazy {
				return nil, false, nil
			}
			if err == io.EOF {
				err = csv.ErrQuote
			}
			return nil, false, err
		case len(after) > 0 && after[0] == '"':
			q.cell = append(q.cell, '"')
			text = after[1:]
		case bytes.HasPrefix(after, []byte(q.separator)):
			return after[len(q.separator):], true, nil
		case len(withoutEnd(after)) == 0:
			return nil, false, nil
		case q.lazy:
			q.cell = append(q.cell, '"')
			text = after
		default:
			return nil, false, csv.ErrQuote
		}
	}
}
