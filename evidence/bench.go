package evidence

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

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// Special values of column.decimals.
const (
	asMany     = -1 // as many digits as needed
	scientific = -2 // 1.2e-07
)

// column is a column of a table and the field of the rows that it shows.
type column struct {
	field, header string // field a.1.b is field b of the second element of the list a
	decimals      int    // asMany, scientific, or the number of decimals
	same          bool   // rows with equal cells in all such columns are merged
}

// parseColumns parses the columns of a table and the values that fields of its rows must have.
func parseColumns(words []string) (all []column, want map[string]string, err error) {
	want = map[string]string{}
	for _, word := range words {
		if field, value, ok := strings.Cut(word, "=="); ok {
			want[field] = value
			continue
		}
		word, same := strings.CutPrefix(word, "+")
		field, header, named := strings.Cut(word, "=")
		field, decimals, rounded := strings.Cut(field, ":")
		c := column{field, strings.ReplaceAll(header, "_", " "), asMany, same}
		if !named {
			c.header = strings.ReplaceAll(field, "_", " ")
		}
		if decimals == "e" {
			c.decimals = scientific
		} else if rounded {
			if c.decimals, err = strconv.Atoi(decimals); err != nil {
				return nil, nil, fmt.Errorf("found the column %q, want FIELD:DECIMALS=HEADER", word)
			}
		}
		all = append(all, c)
	}
	return all, want, nil
}

// lookup returns the value of a dotted name in a row, or nil if there is none.
func lookup(row any, name string) any {
	for _, part := range strings.Split(name, ".") {
		switch in := row.(type) {
		case map[string]any:
			row = in[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			row = in[i]
		default:
			return nil
		}
	}
	return row
}

// cell formats the value of a field.
func (c *column) cell(v any) string {
	x, ok := v.(float64)
	switch {
	case v == nil:
		return ""
	case !ok:
		return fmt.Sprint(v)
	case c.decimals == scientific:
		return strconv.FormatFloat(x, 'e', 1, 64)
	case c.decimals == asMany && x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', c.decimals, 64)
}

// has reports whether the fields of a row have the wanted values.
func has(row map[string]any, want map[string]string) bool {
	for field, value := range want {
		cell := (&column{decimals: asMany}).cell(row[field])
		if !slices.Contains(strings.Split(value, "|"), cell) {
			return false
		}
	}
	return true
}

// origin is the line of a file that records where its rows were measured.
type origin struct {
	Bench   string `json:"bench"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Machine string `json:"machine"`
}

// isOrigin is the value of the field bench that marks an origin.
const isOrigin = "origin"

// readRows reads the rows of a file of JSON lines, and their origin.
func readRows(file string) (rows []map[string]any, where origin, err error) {
	text, err := disk.ReadText(file, disk.MaxText)
	if err != nil {
		return nil, where, err
	}
	for lines := json.NewDecoder(bytes.NewReader(text)); ; {
		var line json.RawMessage
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return rows, where, nil
		}
		var row map[string]any
		if err == nil {
			err = json.Unmarshal(line, &row)
		}
		if err == nil && row["bench"] == isOrigin {
			err = json.Unmarshal(line, &where)
		} else if err == nil {
			rows = append(rows, row)
		}
		if err != nil {
			return nil, where, brief.Error(fmt.Errorf("%s: %w", file, err))
		}
	}
}

// benchRows returns a table of the rows in a file of JSON lines, printed by hippo bench or another program. If
// ofMachine is set, the commit, date and machine of the measurement follow. Each word is a column: NAME, NAME:DECIMALS
// or NAME:e, optionally followed by =HEADER, where _ stands for a space. NAME==VALUE|VALUE leaves out rows in which the
// field has another value. Rows with equal cells in all columns marked by a + before the name are merged into one,
// which lists the values in which they differ.
func benchRows(file string, words []string, ofMachine bool) (string, error) {
	columns, want, err := parseColumns(words)
	if err != nil {
		return "", err
	}
	rows, where, err := readRows(file)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	line := func(cell func(c int) string) {
		out.WriteByte('|')
		for c := range columns {
			fmt.Fprintf(&out, "%s|", cell(c))
		}
		out.WriteByte('\n')
	}
	line(func(c int) string { return " " + columns[c].header + " " })
	line(func(int) string { return "---:" })
	rows = slices.DeleteFunc(rows, func(row map[string]any) bool { return !has(row, want) })
	for _, cells := range merged(columns, rows) {
		line(func(c int) string { return " " + strings.Join(cells[c], ", ") + " " })
	}
	if !ofMachine {
		return out.String(), nil
	}
	if where.Commit == "" || where.Date == "" || where.Machine == "" {
		return "", fmt.Errorf(`%s: found no line {"bench":"origin"} with commit, date and machine, `+
			"which hippo evidence run adds", file)
	}
	day, _, _ := strings.Cut(where.Date, "T")
	fmt.Fprintf(&out, "\n%s, %s. Machine: %s.\n", short(where.Commit), day, where.Machine)
	return out.String(), nil
}

// merged returns the cells of rows by column. It merges rows with equal cells in all columns marked as same. The other
// cells of a merged row list the values of all its rows, or the one value that they share.
func merged(columns []column, rows []map[string]any) (table [][][]string) {
	at := map[string]int{}
	for _, row := range rows {
		cells, key := make([][]string, len(columns)), ""
		for i := range columns {
			c := &columns[i]
			cells[i] = []string{c.cell(lookup(row, c.field))}
			if c.same {
				key += cells[i][0] + "|"
			}
		}
		n, known := at[key]
		if !known || key == "" {
			at[key] = len(table)
			table = append(table, cells)
			continue
		}
		for i := range columns {
			if !columns[i].same {
				table[n][i] = append(table[n][i], cells[i]...)
			}
		}
	}
	for _, cells := range table {
		for i, cell := range cells {
			if len(slices.Compact(slices.Clone(cell))) == 1 {
				cells[i] = cell[:1]
				continue
			}
			for j, text := range cell {
				if text == "" {
					cell[j] = "–"
				}
			}
		}
	}
	return table
}
