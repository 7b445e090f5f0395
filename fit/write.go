package fit

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// WriteOptions say how predictions are written.
type WriteOptions struct {
	As   string // csv or jsonl
	All  bool   // all quantiles, and not the median and the outermost; all probabilities, of however many classes
	Live bool   // each prediction is passed on before the next is taken
}

// Writer writes predictions as lines of text.
type Writer struct {
	out  *bufio.Writer
	csv  *csv.Writer
	plan *Plan
	opt  WriteOptions
	head []string
}

// NewWriter returns a writer of the predictions of a plan to out. Flush must be called behind the last one.
func NewWriter(out io.Writer, p *Plan, opt WriteOptions) *Writer {
	w := &Writer{out: bufio.NewWriter(out), plan: p, opt: opt}
	w.csv = csv.NewWriter(w.out)
	return w
}

// field is a column of what is written.
type field struct {
	name  string
	value any // a string, a number or a bool; NaN for nothing
}

// Write writes one prediction.
func (w *Writer) Write(p *Prediction) error {
	fields := w.fields(p)
	if w.opt.As == "jsonl" {
		if err := w.writeJSON(fields); err != nil {
			return err
		}
	} else {
		if w.head == nil {
			for _, f := range fields {
				w.head = append(w.head, f.name)
			}
			if err := w.csv.Write(w.head); err != nil {
				return err
			}
		}
		var cells []string
		for _, f := range fields {
			cells = append(cells, cellText(f.value))
		}
		if err := w.csv.Write(cells); err != nil {
			return err
		}
	}
	if w.opt.Live {
		return w.Flush()
	}
	return nil
}

// Flush passes on what has been written.
func (w *Writer) Flush() error {
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return err
	}
	return w.out.Flush()
}

// writeJSON writes an object, its fields in their order.
func (w *Writer) writeJSON(fields []field) error {
	for i, f := range fields {
		if x, ok := f.value.(float64); ok && math.IsNaN(x) {
			f.value = nil
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.out, "%s%s:%s", map[bool]string{true: "{", false: ","}[i == 0], name, value)
	}
	_, err := io.WriteString(w.out, "}\n")
	return err
}

// fields are the columns of a prediction.
func (w *Writer) fields(p *Prediction) (all []field) {
	add := func(name string, value any) { all = append(all, field{name, value}) }
	if p.Series != "" {
		add("series", p.Series)
	}
	if p.Step == 0 || w.opt.Live { // else forecasts are made once, behind the last row
		add(p.Place.Unit, float64(p.Place.At))
	}
	if w.plan.Time != nil {
		add("time", timeText(p.Time))
	}
	if p.Step > 0 {
		add("step", float64(p.Step))
	}
	if p.Probabilities != nil {
		class, probability := p.Class()
		names := w.plan.ClassNames()
		add("class", names[class])
		add("probability", rounded(probability))
		for i, x := range p.Probabilities {
			if len(names) <= mostProbabilities || w.opt.All {
				add("p("+names[i]+")", rounded(x))
			}
		}
		return all
	}
	if w.plan.Task == Anomaly {
		add("score", rounded(p.Score))
		add("unusual", p.Unusual)
	}
	for k, name := range w.plan.TargetNames() {
		if w.plan.Task == Fill || w.plan.Task == Anomaly {
			add(name, p.Given[k])
			name += " expected"
		}
		w.addQuantiles(name, p, k, add)
	}
	return all
}

// mostProbabilities is for how many classes all probabilities are written.
const mostProbabilities = 20

// addQuantiles adds the median and the outermost quantiles of target k, or all.
func (w *Writer) addQuantiles(name string, p *Prediction, k int, add func(string, any)) {
	levels := w.plan.Levels
	q := make([]float64, len(levels))
	for j := range q {
		q[j] = math.NaN() // the first row of a series was not expected
		if k < len(p.Quantiles) {
			q[j] = rounded(p.Quantiles[k][j])
		}
	}
	for j, level := range levels {
		switch {
		case level == 0.5:
			add(name, q[j])
		case w.opt.All || j == 0 || j == len(levels)-1:
			add(fmt.Sprintf("%s %g%%", name, 100*level), q[j])
		}
	}
}

// rounded is a number with the digits that a network can mean.
func rounded(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 7, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// timeText is a time as RFC 3339 writes it, "" where it is not known.
func timeText(seconds float64) string {
	if math.IsNaN(seconds) || math.Abs(seconds) > 1e11 {
		return ""
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC().Format(time.RFC3339Nano)
}

// cellText is a value as a cell of CSV.
func cellText(value any) string {
	switch x := value.(type) {
	case float64:
		if math.IsNaN(x) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	case bool:
		return strconv.Itoa(map[bool]int{true: 1}[x])
	}
	return fmt.Sprint(value)
}
