package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// result is a line of an output, as in OpenAI's API.
type result struct {
	ID       string    `json:"id"`
	CustomID *string   `json:"custom_id"`
	Response *response `json:"response"`
	Error    *fault    `json:"error"`
}

type response struct {
	Status    int             `json:"status_code"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
}

type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// record is a line of a journal: the result for a line of the input. Records are in the order in which requests
// finished.
type record struct {
	Line   int             `json:"line"`
	Good   bool            `json:"good"`
	Result json.RawMessage `json:"result"`
}

// mark is the position of a record in a journal.
type mark struct {
	line int
	good bool
	at   int64
	size int
}

// done is the content of a journal.
type done struct {
	marks  []mark
	lines  map[int]bool
	size   int64 // bytes of complete records
	counts Counts
}

// add adds a record at the end.
func (d *done) add(line int, good bool, size int) {
	d.marks = append(d.marks, mark{line, good, d.size, size})
	d.lines[line] = true
	d.size += int64(size)
	if good {
		d.counts.Completed++
	} else {
		d.counts.Failed++
	}
}

// readJournal reads a journal up to the first incomplete record, which may be left by a process that ended while
// writing it. A missing journal has no records.
func readJournal(v vault, name string) (*done, error) {
	d := &done{lines: map[int]bool{}}
	file, err := v.open(name)
	if gone(err) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		var r record
		if err != nil || json.Unmarshal(text, &r) != nil || r.Line < 1 || len(r.Result) == 0 || d.lines[r.Line] {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, errors.Join(err, file.Close())
			}
			return d, file.Close()
		}
		d.add(r.Line, r.Good, len(text))
	}
}

// write writes the successful or the failed results in the order of the input.
func (d *done) write(w io.Writer, v vault, name string, good bool) error {
	slices.SortFunc(d.marks, func(a, b mark) int { return a.line - b.line })
	file, err := v.open(name)
	if gone(err) && len(d.marks) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range d.marks {
		if m.good != good {
			continue
		}
		text := make([]byte, m.size)
		if _, err = file.ReadAt(text, m.at); err != nil {
			break
		}
		var r record
		if err = json.Unmarshal(text, &r); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			break
		}
		if _, err = w.Write(append(r.Result, '\n')); err != nil {
			break
		}
	}
	return errors.Join(err, file.Close())
}
