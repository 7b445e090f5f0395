package theory

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Recording is a measured signal.
type Recording struct {
	Name   string // name of its file and column
	Values []float64
	Rate   float64 // samples per second, 0 if unknown
}

// largest is the maximum magnitude of a number in a signal, so that sums of many squares do not overflow.
const largest = 1e30

// MostSamples is the maximum number of samples read from a file.
const MostSamples = 1 << 24

// ReadCSV reads a column of a file of numbers that are separated by commas, semicolons or tabs, with or without a
// header. The column is given by name, or by number counted from 1. If it is empty, the first column with a number in
// the second line is taken. If the column does not exist, a value is not a finite number, or there are more than
// [MostSamples] lines, the error names the line.
func ReadCSV(r io.Reader, column string) (name string, values []float64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if mark, err := in.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		in.Discard(3) //nolint:errcheck // it has been peeked at
	}
	first, err := in.Peek(1 << 12)
	if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
		return "", nil, err
	}
	lines := csv.NewReader(in)
	lines.Comma = divider(string(first))
	lines.FieldsPerRecord = -1
	lines.ReuseRecord = true
	lines.TrimLeadingSpace = true
	head, err := lines.Read()
	if err == io.EOF {
		return "", nil, errors.New("found an empty file, want a column of numbers")
	} else if err != nil {
		return "", nil, err
	}
	head = slices.Clone(head)
	at := -1
	if column != "" {
		if at, err = findColumn(head, column); err != nil {
			return "", nil, err
		}
	}
	var rows [][]string // the first two lines, which show whether there is a header and which columns are numbers
	rows = append(rows, head)
	second, err := lines.Read()
	if err == nil {
		rows = append(rows, slices.Clone(second))
	} else if err != io.EOF {
		return "", nil, err
	}
	if at < 0 {
		last := rows[len(rows)-1]
		if at = slices.IndexFunc(last, func(s string) bool { _, err := number(s); return err == nil }); at < 0 {
			return "", nil, fmt.Errorf("line %d: found %s, want a column of numbers", len(rows), shortened(last))
		}
	}
	name = fmt.Sprintf("column %d", at+1)
	line := 1
	if at < len(head) {
		if _, err := number(head[at]); err != nil && len(rows) > 1 {
			name, rows, line = plain(head[at]), rows[1:], 2
		}
	}
	add := func(fields []string) error {
		if at >= len(fields) {
			return fmt.Errorf("line %d: found %d columns, want %d or more", line, len(fields), at+1)
		}
		v, err := number(fields[at])
		if err != nil {
			return fmt.Errorf("line %d, column %d (%s): found %.40q, want a finite number such as 1.5", line, at+1,
				name, fields[at])
		}
		values = append(values, v)
		return nil
	}
	for _, row := range rows {
		if err := add(row); err != nil {
			return "", nil, err
		}
		line++
	}
	for {
		fields, err := lines.Read()
		if err == io.EOF {
			return name, values, nil
		} else if err != nil {
			return "", nil, err
		}
		line, _ = lines.FieldPos(0)
		if len(values) == MostSamples {
			return "", nil, fmt.Errorf("line %d: found more than %d numbers, want a shorter file", line, MostSamples)
		}
		if err := add(fields); err != nil {
			return "", nil, err
		}
	}
}

// divider returns the separator that occurs most in the first line.
func divider(text string) rune {
	text, _, _ = strings.Cut(text, "\n")
	best := ','
	for _, sign := range []rune{';', '\t'} {
		if strings.Count(text, string(sign)) > strings.Count(text, string(best)) {
			best = sign
		}
	}
	return best
}

// findColumn returns the index of a column that is given by name, or by number counted from 1.
func findColumn(head []string, column string) (int, error) {
	if at := slices.Index(head, column); at >= 0 {
		return at, nil
	}
	n, err := strconv.Atoi(column)
	if err != nil || n < 1 || n > len(head) {
		return 0, fmt.Errorf("line 1: found no column %q, want one of %s, or a place from 1 to %d", column,
			shortened(head), len(head))
	}
	return n - 1, nil
}

// shortened lists at most 12 names.
func shortened(names []string) string {
	const most = 12
	text := fmt.Sprintf("%.40q", names[:min(most, len(names))])
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// plain returns a name from a file in a form for a title: at most 60 printable characters.
func plain(name string) string {
	letters := []rune(strings.ToValidUTF8(name, "?"))
	for i, r := range letters {
		if !unicode.IsPrint(r) {
			letters[i] = '?'
		}
	}
	return string(letters[:min(60, len(letters))])
}

// number parses a finite number of moderate magnitude.
func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > largest {
		return 0, errors.New("no finite number")
	}
	return v, nil
}
