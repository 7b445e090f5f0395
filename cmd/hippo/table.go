package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table prints names and values in two columns.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer) table {
	return table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

func (t table) row(name, format string, args ...any) {
	fmt.Fprintf(t.w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

func (t table) flush() error { return t.w.Flush() }
