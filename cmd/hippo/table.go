package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hippo-ssm/hippo/experiment"
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

// printGrid prints lines under a heading, in columns or as a Markdown table.
func printGrid(out io.Writer, head []string, lines [][]string, markdown bool) error {
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

// seconds is a time given in seconds.
func seconds(s float64) time.Duration { return experiment.Seconds(s) }
