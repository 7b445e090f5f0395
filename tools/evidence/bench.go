package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// benchTable is a place for the rows that hippo bench has printed as JSON, or for other rows. The first line names
// their file, beside the page, and the fields that are columns: NAME, NAME:DECIMALS, and =HEADER behind, where _ is a
// space.
var benchTable = regexp.MustCompile(`(?ms)^<!-- (bench|rows): ([^\n]*) -->\n(.*?)^<!-- end -->\n`)

// column is a field of rows as a table shows it.
type column struct {
	field, header string
	decimals      int // -1 for as many as there are
}

// parseColumns reads the columns of a table.
func parseColumns(words []string) (all []column, err error) {
	for _, word := range words {
		field, header, named := strings.Cut(word, "=")
		field, decimals, rounded := strings.Cut(field, ":")
		c := column{field, strings.ReplaceAll(header, "_", " "), -1}
		if !named {
			c.header = strings.ReplaceAll(field, "_", " ")
		}
		if rounded {
			if c.decimals, err = strconv.Atoi(decimals); err != nil {
				return nil, fmt.Errorf("found the column %q, want FIELD:DECIMALS=HEADER", word)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// cell is a field of a row.
func (c *column) cell(v any) string {
	x, ok := v.(float64)
	switch {
	case v == nil:
		return ""
	case !ok:
		return fmt.Sprint(v)
	case c.decimals < 0 && x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', c.decimals, 64)
}

// fillBenches fills the tables of measurements of a page in the folder root.
func fillBenches(page, root string) (string, error) {
	var failed error
	filled := benchTable.ReplaceAllStringFunc(page, func(part string) string {
		found := benchTable.FindStringSubmatch(part)
		kind, first := found[1], found[2]
		words := strings.Fields(first)
		body, err := benchRows(filepath.Join(root, words[0]), words[1:], kind == "bench")
		if err != nil {
			failed = errors.Join(failed, err)
			return part
		}
		return fmt.Sprintf("<!-- %s: %s -->\n%s<!-- end -->\n", kind, first, body)
	})
	return filled, failed
}

// benchRows is a table of the rows in a file, and, if they are of a machine, where they were measured.
func benchRows(file string, words []string, ofMachine bool) (string, error) {
	columns, err := parseColumns(words)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	line := func(cell func(c *column) string) {
		out.WriteByte('|')
		for i := range columns {
			fmt.Fprintf(&out, "%s|", cell(&columns[i]))
		}
		out.WriteByte('\n')
	}
	line(func(c *column) string { return " " + c.header + " " })
	line(func(*column) string { return "---:" })
	var origin map[string]any
	for lines := json.NewDecoder(bytes.NewReader(text)); ; {
		var row map[string]any
		err := lines.Decode(&row)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		if row["bench"] == "origin" {
			origin = row
			continue
		}
		line(func(c *column) string { return " " + c.cell(row[c.field]) + " " })
	}
	if !ofMachine {
		return out.String(), nil
	}
	commit, _ := origin["commit"].(string)
	date, _ := origin["date"].(string)
	machine, _ := origin["machine"].(string)
	if commit == "" || date == "" || machine == "" {
		return "", fmt.Errorf(`%s: found no line {"bench":"origin"} with commit, date and machine, `+
			"which docs/evidence.sh adds", file)
	}
	day, _, _ := strings.Cut(date, "T")
	fmt.Fprintf(&out, "\n%s, %s. Machine: %s.\n", commit[:min(7, len(commit))], day, machine)
	return out.String(), nil
}
