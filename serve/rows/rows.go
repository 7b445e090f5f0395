// Package rows serves predictions for rows of tables: all rows of a request at once, or a stream row by row.
package rows

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/serve/request"
)

// Predictor predicts from rows with named columns. It is a network that hippo fit has trained on a user's data.
type Predictor struct {
	Name    string // unique among models
	Made    time.Time
	About   any  // description for the lists of models: the task, the columns
	Streams bool // rows can be predicted one by one
	// Answer responds to a query. It may be called from any number of goroutines. If the rows of the query are invalid,
	// its error has a method Where() (row int64, column string).
	Answer func(ctx context.Context, q Query) error
}

// Query is a request to a Predictor.
type Query struct {
	Rows   io.Reader
	Format string // of Rows: jsonl, csv or wav
	As     string // of the output: jsonl or csv
	All    bool   // include all values of each row
	Live   bool   // predict each row before the next is read

	MostRows, MostSeries int // of Rows; 0 for no limit

	Out   io.Writer
	Note  func(text string) // receives notes for the user
	Count func()            // called for each row
}

// Handler serves predictions for rows.
type Handler struct {
	o         Options
	Admission *request.Admission // of computations
	Streams   *request.Places    // one for each stream of rows
}

// Options are the predictors and their limits.
type Options struct {
	Predictors []Predictor
	MaxRows    int           // per request
	MaxStreams int           // at a time
	StreamIdle time.Duration // maximum time between two rows of a stream
	Queue      int           // requests that are queued
	QueueWait  time.Duration // maximum time in the queue
}

func New(o Options) *Handler {
	return &Handler{
		o: o, Admission: request.NewAdmission(mostPredictions, o.Queue, o.QueueWait),
		Streams: request.NewPlaces(int64(o.MaxStreams)),
	}
}

// predictor finds a predictor by name; "" is the first one.
func (s *Handler) predictor(name string) (*Predictor, error) {
	all := s.o.Predictors
	i := slices.IndexFunc(all, func(p Predictor) bool { return p.Name == name || name == "" })
	if i >= 0 {
		return &all[i], nil
	}
	e := request.ErrNoModel(name)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	e.Message = fmt.Sprintf("model: found %.100q, want a network of hippo fit: this server has %.1000q", name, names)
	return nil, e
}

// predicts reports whether there is a predictor with the given name.
func (s *Handler) predicts(name string) bool {
	return slices.ContainsFunc(s.o.Predictors, func(p Predictor) bool { return p.Name == name })
}

// NotText returns an error if a request for text names a predictor.
func (s *Handler) NotText(name string) error {
	if !s.predicts(name) {
		return nil
	}
	return request.Invalid("model", "found %.100q, a network for rows of data: want POST /v1/predict", name)
}

// predictRequest is the body of a request with rows as JSON.
type predictRequest struct {
	Model string            `json:"model"`
	Rows  []json.RawMessage `json:"rows"`
	All   bool              `json:"all"`
	As    string            `json:"as"`
}

// prediction is the response of POST /v1/predict.
type prediction struct {
	Object string            `json:"object"`
	Model  string            `json:"model"`
	Data   []json.RawMessage `json:"data"`
	Notes  []string          `json:"notes"`
	Usage  struct {
		Rows int `json:"rows"`
	} `json:"usage"`
}

// mostAnswer is the maximum size in bytes of the predictions for one request.
const mostAnswer = 64 << 20

// mostSeries is the maximum number of series in a request, since each series has a state.
const mostSeries = 1000

// mostPredictions is the number of predictions computed at a time. Each uses all cores, and memory for its rows.
const mostPredictions = 4

// rowFormats are the formats of the content types that contain only rows.
var rowFormats = map[string]string{
	"text/csv": "csv", "application/csv": "csv",
	"application/x-ndjson": "jsonl", "application/ndjson": "jsonl", "application/jsonl": "jsonl",
	"application/x-jsonlines": "jsonl", "application/jsonlines": "jsonl",
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav",
}

// rowFormat returns the format of a body of rows, from the query or the content type, or "" for another body.
func rowFormat(c *request.Call) (string, error) {
	if format := c.Query("format"); format != "" {
		if format != "csv" && format != "jsonl" && format != "wav" {
			return "", request.Invalid("format", "found %.40q, want csv, jsonl or wav", format)
		}
		return format, nil
	}
	kind, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err != nil { // also for an empty one
		return "", nil
	}
	return rowFormats[kind], nil
}

// Predict responds with predictions for rows: JSON objects, or a body of CSV, JSONL or WAV.
func (s *Handler) Predict(c *request.Call) error {
	var q predictRequest
	var rows []byte
	format, err := rowFormat(c)
	switch {
	case err != nil:
		return err
	case format != "":
		q = predictRequest{Model: c.Query("model"), As: c.Query("as"), All: c.Query("all") == "true"}
		rows, err = c.ReadAll()
	default:
		format = "jsonl"
		if err = c.Read(&q); err == nil {
			rows, err = rowLines(q.Rows)
		}
	}
	if err != nil {
		return err
	}
	p, err := s.predictor(q.Model)
	if err != nil {
		return err
	}
	c.Note("model", p.Name)
	if q.As = cmp.Or(q.As, "json"); !slices.Contains([]string{"json", "jsonl", "csv"}, q.As) {
		return request.Invalid("as", "found %.40q, want json, jsonl or csv", q.As)
	}
	if err := c.Enter(s.Admission); err != nil {
		return err
	}
	defer c.Leave(s.Admission)
	out, response := &bounded{}, prediction{Object: "prediction", Model: p.Name, Notes: []string{}}
	query := Query{
		Rows: bytes.NewReader(rows), Format: format, As: "jsonl", All: q.All, MostRows: s.o.MaxRows,
		MostSeries: mostSeries, Out: out, Count: func() { response.Usage.Rows++ },
		Note: func(text string) { response.Notes = append(response.Notes, text) },
	}
	if q.As == "csv" {
		query.As = "csv"
	}
	err = p.Answer(c.Request.Context(), query)
	countRows(c, p, response.Usage.Rows)
	if err != nil {
		return rowError(err, q.Rows != nil)
	}
	switch q.As {
	case "csv":
		return c.Send(http.StatusOK, "text/csv; charset=utf-8", out.Bytes())
	case "jsonl":
		return c.Send(http.StatusOK, "application/x-ndjson", out.Bytes())
	}
	response.Data = []json.RawMessage{}
	for line := range bytes.Lines(out.Bytes()) {
		response.Data = append(response.Data, line)
	}
	return c.JSON(response)
}

// rowLines returns JSON rows as lines.
func rowLines(rows []json.RawMessage) ([]byte, error) {
	if len(rows) == 0 {
		return nil,
			request.Invalid("rows", "found none, want a list of objects, one for each row, or a body of the type "+
				"text/csv or application/x-ndjson")
	}
	var b bytes.Buffer
	for i, row := range rows {
		if !bytes.HasPrefix(row, []byte{'{'}) {
			return nil, request.Invalid(fmt.Sprintf("rows[%d]", i),
				"found %s, want an object with a field for each column",
				request.Shorten(row))
		}
		if err := json.Compact(&b, row); err != nil { // it was valid
			return nil, err
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// rowError returns an error of Answer for the client. listed reports whether the rows were elements of a list.
func rowError(err error, listed bool) error {
	var e *request.Error
	if errors.As(err, &e) {
		return e
	}
	var bad interface {
		Where() (row int64, column string)
	}
	if !errors.As(err, &bad) {
		return err
	}
	row, param := bad.Where()
	if listed && row > 0 {
		if param != "" {
			param = "." + param
		}
		param = fmt.Sprintf("rows[%d]%s", row-1, param)
	}
	return &request.Error{Status: http.StatusBadRequest, Param: param, Code: "invalid_rows", Message: err.Error()}
}

// countRows counts rows read for a request as tokens.
func countRows(c *request.Call, p *Predictor, n int) {
	c.Allowance.TakeTokens(n)
	c.Tokens(p.Name, request.TokensRead)(n)
}

// bounded buffers predictions, up to mostAnswer bytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostAnswer {
		return 0, &request.Error{Status: http.StatusRequestEntityTooLarge, Code: "answer_too_large",
			Message: fmt.Sprintf("the predictions have more than %d bytes: want fewer rows in a request, or "+
				"POST /v1/predict/stream", mostAnswer)}
	}
	return b.Buffer.Write(p)
}

// wantsEvents reports whether a client asks for server-sent events.
func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}
