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
	Format string // format of Rows: one of QueryFormats
	As     string // format of the output: AsCSV or AsJSONL
	All    bool   // all quantiles and probabilities
	Live   bool   // write each prediction before reading the next row

	MostRows, MostSeries int // limits of Rows; 0 for any

	Out  io.Writer         // receives the output of hippo predict
	Note func(text string) // receives the messages that hippo predict writes to standard error; may be nil

	Count func() // called for each row; may be nil
}

// QueryFormats lists the formats of rows in a query: those that can be read from a pipe.
var QueryFormats = []string{"jsonl", "csv", "wav"}

// InputError reports an error in the rows of a query.
type InputError struct {
	At     int64  // number of the row or line, from 1; 0 if unknown
	Column string // "" for none
	err    error
}

// Error returns the message with the row and the column.
func (e *InputError) Error() string {
	var row *table.RowError
	if !errors.As(e.err, &row) {
		text := strings.TrimPrefix(e.err.Error(), "-: ")
		return strings.TrimPrefix(text, "standard input: ")
	}
	text := fmt.Sprintf("%s %d", row.Unit, row.At) // there is only one file, so it is not named
	if row.Column != "" {
		text += ", column " + row.Column
	}
	return text + ": " + row.Text
}

// Unwrap returns the underlying error.
func (e *InputError) Unwrap() error { return e.err }

// Where returns the row and the column of the error, 0 and "" for none.
func (e *InputError) Where() (row int64, column string) { return e.At, e.Column }

// Answer writes exactly the output of hippo predict for the rows of a query. An error in the rows is an *InputError.
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

// outlet records whether writing failed.
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
	Time    string       `json:"time,omitempty"`   // column with the time of a row
	Step    float64      `json:"step,omitempty"`   // seconds from one row to the next in training
	Series  string       `json:"series,omitempty"` // column with the name of a row's sequence
	// Horizon is the number of rows that a forecast predicts, and Lookback the number that it sees.
	Horizon  int       `json:"horizon,omitempty"`
	Lookback int       `json:"lookback,omitempty"`
	Levels   []float64 `json:"levels,omitempty"` // levels of the quantiles
	Use      string    `json:"use,omitempty"`    // what predicts, if not the network
	Streams  bool      `json:"streams"`          // rows can be predicted one by one
}

// CardColumn is a column of the data.
type CardColumn struct {
	Name    string     `json:"name"`
	Kind    table.Kind `json:"kind"`
	Unit    string     `json:"unit,omitempty"`
	Input   bool       `json:"input"`
	Target  bool       `json:"target"`
	Known   bool       `json:"known,omitempty"`   // known for future rows when a forecast is made
	Classes []string   `json:"classes,omitempty"` // classes in training
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
