package fit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/table"
)

// Query is a server's request for predictions.
type Query struct {
	Rows   io.Reader
	Format string // of Rows: one of QueryFormats
	As     string // of the output: AsCSV or AsJSONL
	All    bool   // all quantiles and probabilities
	Live   bool   // each prediction is written before the next row is read

	MostRows, MostSeries int // of Rows; 0 for any

	Out  io.Writer         // receives what hippo predict prints
	Note func(text string) // receives what hippo predict reports on standard error; may be nil

	Count func() // called for each row; may be nil
}

// QueryFormats are the formats of rows in a query: those that can be read from a pipe.
var QueryFormats = []string{"jsonl", "csv", "wav"}

// InputError is an error in the rows of a query.
type InputError struct {
	At     int64  // the row or line, from 1; 0 if it is none
	Column string // "" for none
	err    error
}

// Error names the row and the column.
func (e *InputError) Error() string {
	var row *table.RowError
	if !errors.As(e.err, &row) {
		text := strings.TrimPrefix(e.err.Error(), "-: ")
		return strings.TrimPrefix(text, "standard input: ")
	}
	text := fmt.Sprintf("%s %d", row.Unit, row.At) // which file it is of goes without saying
	if row.Column != "" {
		text += ", column " + row.Column
	}
	return text + ": " + row.Text
}

// Unwrap returns the error of Predict.
func (e *InputError) Unwrap() error { return e.err }

// Where returns the row and the column of the error, 0 and "" for none.
func (e *InputError) Where() (row int64, column string) { return e.At, e.Column }

// Answer writes exactly what hippo predict prints for the rows of a query. Errors in the rows are an *InputError.
func (m *Model) Answer(ctx context.Context, q Query) error {
	if !slices.Contains(QueryFormats, q.Format) {
		return &InputError{err: fmt.Errorf("format: found %.40q, want one of %v", q.Format, QueryFormats)}
	}
	opt := PredictOptions{Options: table.DefaultOptions(), Live: q.Live, Rows: q.MostRows, Series: q.MostSeries,
		Note: q.Note, Count: q.Count}
	opt.Format = q.Format
	out := &outlet{to: q.Out}
	w := NewWriter(out, m.plan, WriteOptions{As: q.As, All: q.All, Live: q.Live})
	err := m.Predict(ctx, []string{"-"}, q.Rows, opt, w.Write)
	if err == nil {
		err = w.Close()
	}
	switch {
	case err == nil || out.err != nil || ctx.Err() != nil:
		return err
	default:
		bad := &InputError{err: err}
		var row *table.RowError
		if errors.As(err, &row) {
			bad.At, bad.Column = row.At, row.Column
		}
		return bad
	}
}

// outlet remembers whether writing failed.
type outlet struct {
	to  io.Writer
	err error
}

func (w *outlet) Write(p []byte) (n int, err error) {
	n, err = w.to.Write(p)
	w.err = err
	return n, err
}

// Card describes a network to clients that request predictions.
type Card struct {
	Task    string       `json:"task"`
	Columns []CardColumn `json:"columns"`
	Time    string       `json:"time,omitempty"`   // the column of the time of a row
	Step    float64      `json:"step,omitempty"`   // seconds from one row to the next in training
	Series  string       `json:"series,omitempty"` // the column that names the sequence of a row
	// Horizon is how many rows a forecast predicts, and Lookback how many it sees.
	Horizon  int       `json:"horizon,omitempty"`
	Lookback int       `json:"lookback,omitempty"`
	Levels   []float64 `json:"levels,omitempty"` // of the quantiles
	Use      string    `json:"use,omitempty"`    // what predicts, if that is not the network
	Streams  bool      `json:"streams"`          // rows can be predicted one by one
}

// CardColumn is a column of the data.
type CardColumn struct {
	Name    string     `json:"name"`
	Kind    table.Kind `json:"kind"`
	Unit    string     `json:"unit,omitempty"`
	Input   bool       `json:"input"`
	Target  bool       `json:"target"`
	Known   bool       `json:"known,omitempty"`   // for the rows to come, when a forecast is made
	Classes []string   `json:"classes,omitempty"` // that training had
}

// Card describes the data of a plan.
func (p *Plan) Card() Card {
	c := Card{Task: p.Task, Series: p.Series, Step: p.Step, Horizon: p.Horizon, Lookback: p.Lookback, Levels: p.Levels,
		Streams: p.Task == Forecast || !p.whole() && p.Task != Fill}
	if p.Use != useNetwork {
		c.Use = p.Use
	}
	if p.Time != nil {
		c.Time = p.Time.Name
	}
	for i := range p.Columns {
		k := &p.Columns[i]
		c.Columns = append(c.Columns, CardColumn{k.Name, k.Kind, k.Unit, k.In, k.Target, k.Known, k.Classes})
	}
	return c
}
