package fit

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/hippo-ssm/hippo/table"
)

// WriteOptions holds the options for writing predictions.
type WriteOptions struct {
	As   string // AsCSV, AsJSONL or AsParquet
	All  bool   // all quantiles, not only the median and the outermost; all probabilities, for any number of classes
	Live bool   // flush after each prediction
}

// Writer writes predictions as rows.
type Writer struct {
	rows   rowWriter
	plan   *Plan
	opt    WriteOptions
	named  bool // the first prediction has a name of its series, so all rows have one
	begun  bool
	names  []string
	values []any
}

// NewWriter returns a writer of a plan's predictions to out. Close must be called after the last prediction.
func NewWriter(out io.Writer, p *Plan, opt WriteOptions) *Writer {
	return &Writer{rows: newRowWriter(opt.As, out), plan: p, opt: opt}
}

// Write writes one prediction.
func (w *Writer) Write(p *Prediction) error {
	if !w.begun {
		w.begun, w.named = true, w.plan.Series != "" || p.Series != ""
	}
	w.names, w.values = w.names[:0], w.values[:0]
	w.fields(p)
	if err := w.rows.write(w.names, w.values); err != nil {
		return err
	}
	if w.opt.Live {
		return w.rows.flush()
	}
	return nil
}

// Close writes remaining data. It does not close out.
func (w *Writer) Close() error { return w.rows.close() }

// add adds a column to the row of a prediction.
func (w *Writer) add(name string, value any) {
	w.names, w.values = append(w.names, name), append(w.values, value)
}

// fields adds the columns of a prediction.
func (w *Writer) fields(p *Prediction) {
	add := w.add
	if w.named {
		add("series", p.Series)
	}
	if p.Step == 0 || w.opt.Live { // otherwise forecasts are made once, after the last row
		add(p.Place.Unit, p.Place.At)
	}
	if w.plan.Time != nil {
		add("time", table.Moment(p.Time))
	}
	if p.Step > 0 {
		add("step", int64(p.Step))
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
		return
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
		w.addQuantiles(name, p, k)
	}
}

// mostProbabilities is the maximum number of classes for which all probabilities are written.
const mostProbabilities = 20

// addQuantiles adds the median and the outermost quantiles of target k, or all quantiles.
func (w *Writer) addQuantiles(name string, p *Prediction, k int) {
	levels := w.plan.Levels
	q := make([]float64, len(levels))
	for j := range q {
		q[j] = math.NaN() // there is no expectation for the first row of a series
		if k < len(p.Quantiles) {
			q[j] = rounded(p.Quantiles[k][j])
		}
	}
	for j, level := range levels {
		switch {
		case level == 0.5:
			w.add(name, q[j])
		case w.opt.All || j == 0 || j == len(levels)-1:
			w.add(fmt.Sprintf("%s %g%%", name, 100*level), q[j])
		}
	}
}

// rounded rounds a number to the significant digits of a float32 network.
func rounded(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 7, 64), 64)
	if err != nil {
		return x
	}
	return y
}
