package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ReadRows reads the rows of the named benchmark from a file that hippo bench has written with --json or --out.
func ReadRows(path, name string) ([]Row, error) {
	if !slices.Contains(Names(), name) {
		return nil, unknown(name)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []Row
	var others []string
	for number, line := range rowsIn(text) {
		if len(line) == 0 {
			continue
		}
		r, err := ParseRow(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w, as hippo bench --json prints them", path, number+1, err)
		}
		v, _ := r.Get("bench")
		of := Text(v)
		switch peer, _ := r.Get("peer"); {
		case of != name && !slices.Contains(others, of):
			others = append(others, of)
		case of == name && !strings.Contains(Text(peer), "/"): // a ratio is not a measurement
			rows = append(rows, r)
		}
	}
	switch {
	case len(rows) == 0 && len(others) > 0:
		return nil, fmt.Errorf("%s: found no rows of the benchmark %s, but of %s", path, name,
			strings.Join(others, ", "))
	case len(rows) == 0:
		return nil, fmt.Errorf("%s: found no rows of the benchmark %s", path, name)
	}
	return rows, nil
}

// rowsIn returns the lines of a text, or the rows of a Machine.
func rowsIn(text []byte) [][]byte {
	var of struct{ Rows []json.RawMessage }
	if json.Unmarshal(text, &of) != nil || of.Rows == nil {
		lines := bytes.Split(text, []byte("\n"))
		for i, line := range lines {
			lines[i] = bytes.TrimSpace(line)
		}
		return lines
	}
	rows := make([][]byte, len(of.Rows))
	for i, r := range of.Rows {
		rows[i] = r
	}
	return rows
}
