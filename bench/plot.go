package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// plotAxes lists the fields that can be the horizontal axis. The first that a row has is used.
var plotAxes = []struct{ field, label string }{{"context", "tokens before"}, {"l", "length, tokens"},
	{"position", "tokens before"}}

// plotTitles holds the titles of charts by benchmark.
var plotTitles = map[string]string{
	"generation": "Writing on after a context: H3-125M, a hybrid, beside a GPT of its size",
	"mixer":      "Mixers by the length of a sequence",
	"sparse":     "Sparse attention by the length of a sequence",
	"scale":      "One H3 layer by the length of a sequence",
	"long":       "Updates by the length of a sequence, at once and in chunks",
	"conv":       "The long convolution by its length",
	"kernel":     "Generation of convolution kernels by their length",
}

// plotUnits holds the units of measured fields by the suffix of the field's name.
var plotUnits = []struct{ suffix, unit string }{
	{"tokens_per_s", "tokens/s"}, {"us", "µs a token"}, {"ms", "ms"}, {"ns", "ns for each element"},
}

// plotWords holds the labels for the rest of a field's name.
var plotWords = map[string]string{
	"h3": "H3 hybrid", "gpt": "GPT", "fwd": "forward", "fwd_bwd": "forward and backward",
	"dense_fwd": "dense attention",
	"step":      "step by step",
	"op_fwd":    "operation, forward", "op_fwd_bwd": "operation, forward and backward", "": "",
}

// plotParts lists the fields that distinguish the lines of a chart.
var plotParts = []string{"peer", "how", "mode", "model", "mixer", "op", "d", "n", "precision", "threads", "cpu"}

// Plot draws the measurements of a benchmark over the length or context into a PNG file. It draws a line for each
// combination of values that differ between the rows, and for each measured field of the first unit found.
func Plot(path string, rows []Row) error {
	chart := figure.Chart{LogX: true, LogY: true}
	rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		at, _, ok := plotAxis(r)
		return !ok || at <= 0
	})
	differ, common := plotDifferences(rows)
	chart.Subtitle = strings.Join(common, ", ")
	var labels []string
	at := map[string]int{}
	for _, r := range rows {
		x, label, _ := plotAxis(r)
		var about []string
		for _, part := range differ {
			if v, ok := r.Get(part); ok && v != nil {
				about = append(about, plotPart(part, v))
			}
		}
		for _, f := range r {
			y, ok := f.Value.(float64)
			what, unit := plotField(f.Name)
			if !ok || unit == "" || chart.Y != "" && unit != chart.Y {
				continue
			}
			chart.Y = unit
			if !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
			name := strings.Join(slices.DeleteFunc(append(slices.Clone(about), what),
				func(s string) bool { return s == "" }), ", ")
			i, seen := at[name]
			if !seen {
				i = len(chart.Lines)
				at[name] = i
				chart.Lines = append(chart.Lines, figure.Line{Name: name})
			}
			chart.Lines[i].X = append(chart.Lines[i].X, x)
			chart.Lines[i].Y = append(chart.Lines[i].Y, y)
		}
	}
	if len(chart.Lines) == 0 {
		return fmt.Errorf("plot: found no measurements by length or context to draw, " +
			"want a benchmark such as generation, scale or mixer")
	}
	chart.X = strings.Join(labels, "; ")
	if v, ok := rows[0].Get("bench"); ok {
		chart.Title = plotTitles[Text(v)]
	}
	return chart.WritePNG(path)
}

// plotAxis returns the position of a row on the horizontal axis, and the axis's label.
func plotAxis(r Row) (x float64, label string, ok bool) {
	for _, a := range plotAxes {
		if x, ok := r.Number(a.field); ok {
			return x, a.label, true
		}
	}
	return 0, "", false
}

// plotField returns what a measured field is about, and its unit, or "" for other fields. Fields of wall time have no
// unit, because they are not drawn.
func plotField(field string) (what, unit string) {
	for _, u := range plotUnits {
		if rest, ok := strings.CutSuffix("_"+field, "_"+u.suffix); ok {
			what = strings.TrimPrefix(rest, "_")
			if words, known := plotWords[what]; known {
				what = words
			}
			return strings.ReplaceAll(what, "_", " "), u.unit
		}
	}
	return "", ""
}

// plotDifferences returns the parts in which rows differ and, as text, the values of those in which all rows agree.
func plotDifferences(rows []Row) (differ, common []string) {
	for _, part := range plotParts {
		var values []string
		for _, r := range rows {
			if v, ok := r.Get(part); ok && v != nil && !slices.Contains(values, Text(v)) {
				values = append(values, Text(v))
			}
		}
		switch {
		case len(values) > 1:
			differ = append(differ, part)
		case len(values) == 1 && part != "peer":
			common = append(common, plotPart(part, values[0]))
		}
	}
	return differ, common
}

// plotPart formats the value of a part. Numbers get a name.
func plotPart(part string, v any) string {
	text := Text(v)
	switch part {
	case "threads":
		if text == "1" {
			return "1 thread"
		}
		return text + " threads"
	case "d":
		return "width " + text
	case "n":
		return "state " + text
	}
	return text
}
