package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table prints names and values in two columns.
type Table struct{ w *tabwriter.Writer }

// NewTable returns a table that Flush prints to out.
func NewTable(out io.Writer) Table {
	return Table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

// Row adds a line.
func (t Table) Row(name, format string, args ...any) {
	fmt.Fprintf(t.w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

// Flush prints the table.
func (t Table) Flush() error { return t.w.Flush() }

// Grid prints lines under a heading, in columns or as a Markdown table.
func Grid(out io.Writer, head []string, lines [][]string, markdown bool) error {
	if markdown {
		fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		for _, line := range lines {
			if _, err := fmt.Fprintf(out, "| %s |\n", strings.Join(line, " | ")); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range append([][]string{head}, lines...) {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(line, "\t"), "\t"))
	}
	return w.Flush()
}
