package data

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxLine is the most bytes of a JSONL line. It is a variable for tests.
var maxLine = 256 << 20

// lineReader turns the lines of a JSONL file into documents.
type lineReader interface {
	// read returns the documents of a line that is not blank, except those without text.
	read(line []byte) ([]document, error)
	// want returns what a file without documents lacks, for a message.
	want() string
}

// eachLine calls fn with every document of a JSONL file (jsonlines.org): one JSON object per line. It skips blank lines
// and a byte order mark at the start. path is for messages.
//
// Errors of the lineReader, and for a line longer than maxLine, name file:line. A file without any document is an
// error.
func eachLine(r io.Reader, path string, of lineReader, fn func(document) error) error {
	br := bufio.NewReaderSize(r, 1<<16)
	if head, _ := br.Peek(3); string(head) == "\ufeff" {
		br.Discard(3)
	}
	var line []byte
	documents := 0
	for n := 1; ; n++ {
		var err error
		line, err = readLine(br, line[:0])
		if err != nil && err != io.EOF {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("data: %s:%d: line longer than %d bytes", path, n, maxLine)
			}
			return err
		}
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			all, err := of.read(trimmed)
			if err != nil {
				return fmt.Errorf("data: %s:%d: %w", path, n, err)
			}
			for _, d := range all {
				documents++
				d.name = fmt.Sprintf("%s:%d", path, n)
				if err := fn(d); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			if documents == 0 {
				return fmt.Errorf("data: %s: no line has %s, want at least one", path, of.want())
			}
			return nil
		}
	}
}

// readLine appends to buf the next line including its line feed. With io.EOF it returns the rest.
func readLine(br *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		part, err := br.ReadSlice('\n')
		if len(buf)+len(part) > maxLine {
			return nil, bufio.ErrTooLong
		}
		buf = append(buf, part...)
		if err != bufio.ErrBufferFull {
			return buf, err
		}
	}
}

// textLines reads lines with the document in a string field. Strings are decoded as by encoding/json: an escaped lone
// surrogate becomes U+FFFD. It is an error if a line is not JSON, not an object or not valid UTF-8, or if the field is
// missing or not a string.
type textLines struct{ field string }

func (l textLines) want() string { return fmt.Sprintf("text in its field %q", l.field) }

func (l textLines) read(line []byte) ([]document, error) {
	text, err := textOf(line, l.field)
	if err != nil || text == "" {
		return nil, err
	}
	return []document{{text: strings.NewReader(text)}}, nil
}

// objectOf parses a JSON object. field is for messages.
func objectOf(line []byte, field string) (object map[string]json.RawMessage, err error) {
	if !utf8.Valid(line) {
		return nil, fmt.Errorf("found bytes that are not UTF-8, want JSON in UTF-8")
	}
	err = json.Unmarshal(line, &object)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return nil, fmt.Errorf("found a JSON %s, want an object with %s", wrongType.Value, field)
	case err != nil:
		return nil, fmt.Errorf("not a JSON object: %w (found %s)", err, excerpt(line))
	case object == nil:
		return nil, fmt.Errorf("found null, want an object with %s", field)
	}
	return object, nil
}

// textOf returns the string in a field of a JSON object.
func textOf(line []byte, field string) (string, error) {
	object, err := objectOf(line, fmt.Sprintf("a field %q", field))
	if err != nil {
		return "", err
	}
	raw, ok := object[field]
	if !ok {
		return "", fmt.Errorf("no field %q, found %s", field, fieldNames(object))
	}
	if raw[0] != '"' {
		return "", fmt.Errorf("field %q: found %s, want a string", field, excerpt(raw))
	}
	var text string
	err = json.Unmarshal(raw, &text)
	return text, err
}

// fieldNames returns some of the names of an object's fields, for a message.
func fieldNames(object map[string]json.RawMessage) string {
	if len(object) == 0 {
		return "an empty object"
	}
	names := slices.Sorted(maps.Keys(object))
	const most = 8
	more := ""
	if len(names) > most {
		names, more = names[:most], ", …"
	}
	for i, n := range names {
		names[i] = excerpt([]byte(n))
	}
	return "fields " + strings.Join(names, ", ") + more
}

// excerpt quotes the start of b, for a message.
func excerpt(b []byte) string {
	const most = 40
	if len(b) > most {
		return fmt.Sprintf("%q…", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
