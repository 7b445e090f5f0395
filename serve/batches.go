package serve

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/session"
)

// batchEndpoints are those that a batch may be for, where this server has them.
func (s *Server) batchEndpoints() []string {
	return slices.DeleteFunc([]string{
		"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
	}, func(path string) bool {
		return !slices.ContainsFunc(s.endpoints(), func(r route) bool { return r.pattern == "POST "+path })
	})
}

// openFiles opens the files and batches of clients. Batches that have not ended go on.
func (s *Server) openFiles() (err error) {
	o := s.o.Files
	o.Endpoints, o.Do, o.Log = s.batchEndpoints(), s.answerLine, s.o.Log
	if o.MaxOwner < 1 && len(s.o.Keys) > 0 { // so that one client leaves room for others
		o.MaxOwner = o.Total() / 4
	}
	if o.Together < 1 { // batches leave most places to clients who wait
		o.Together = min(16, (s.o.Concurrent+3)/4)
	}
	s.files, err = batch.Open(o)
	return err
}

// batchLine is what the context of a request says that is a line of a batch.
type batchLine struct{ owner string }

type batchLineKey struct{}

// lineOf returns the line of a batch that a request is, nil for none.
func lineOf(ctx context.Context) *batchLine {
	line, _ := ctx.Value(batchLineKey{}).(*batchLine)
	return line
}

// batchPriority is that of batches: requests that somebody waits for have 0.
const batchPriority = -1

// ranked is a Runner that gives requests of batches their priority.
type ranked struct{ session.Runner }

func (r ranked) Run(ctx context.Context, q *session.Request) error {
	if lineOf(ctx) != nil {
		q.Priority = batchPriority
	}
	return r.Runner.Run(ctx, q)
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// Flush does nothing: the answer is read when it is whole.
func (r *recorder) Flush() {}

// answerLine answers a line of a batch as any other request of its client.
func (s *Server) answerLine(ctx context.Context, q batch.Request) (batch.Response, error) {
	ctx = context.WithValue(ctx, batchLineKey{}, &batchLine{q.Owner})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+q.Endpoint, bytes.NewReader(q.Body))
	if err != nil {
		return batch.Response{}, err
	}
	r.RemoteAddr = "batch"
	r.Header.Set("X-Request-Id", q.ID)
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	s.ServeHTTP(w, r)
	// What says when to come again will be answered then. A model that never has room says nothing of the kind.
	if w.status == statusGone || w.header.Get(retryHeader) != "" {
		return batch.Response{}, batch.ErrLater
	}
	return batch.Response{Status: w.status, Body: bytes.TrimSpace(w.body.Bytes())}, nil
}

// batchRequest is the body of POST /v1/batches.
type batchRequest struct {
	Input    string            `json:"input_file_id"`
	Endpoint string            `json:"endpoint"`
	Window   string            `json:"completion_window"`
	Metadata map[string]string `json:"metadata"`
}

// batchObject is OpenAI's description of a batch.
type batchObject struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Endpoint   string            `json:"endpoint"`
	Errors     *batchErrors      `json:"errors"`
	Input      string            `json:"input_file_id"`
	Window     string            `json:"completion_window"`
	Status     batch.Status      `json:"status"`
	Output     *string           `json:"output_file_id"`
	ErrorFile  *string           `json:"error_file_id"`
	Created    int64             `json:"created_at"`
	InProgress *int64            `json:"in_progress_at"`
	Expires    int64             `json:"expires_at"`
	Finalizing *int64            `json:"finalizing_at"`
	Completed  *int64            `json:"completed_at"`
	Failed     *int64            `json:"failed_at"`
	Expired    *int64            `json:"expired_at"`
	Cancelling *int64            `json:"cancelling_at"`
	Cancelled  *int64            `json:"cancelled_at"`
	Counts     batch.Counts      `json:"request_counts"`
	Metadata   map[string]string `json:"metadata"`
}

type batchErrors struct {
	Object string          `json:"object"`
	Data   []batch.Problem `json:"data"`
}

func newBatchObject(b batch.Batch) batchObject {
	at := func(s batch.Status) *int64 {
		if t, ok := b.At[s]; ok {
			seconds := t.Unix()
			return &seconds
		}
		return nil
	}
	o := batchObject{
		ID: b.ID, Object: "batch", Endpoint: b.Endpoint, Input: b.Input, Window: b.Window, Status: b.Status,
		Output: orNull(b.Output), ErrorFile: orNull(b.Errors), Created: b.Created.Unix(), Expires: b.Expires.Unix(),
		InProgress: at(batch.InProgress), Finalizing: at(batch.Finalizing), Completed: at(batch.Completed),
		Failed: at(batch.Failed), Expired: at(batch.Expired), Cancelling: at(batch.Cancelling),
		Cancelled: at(batch.Cancelled), Counts: b.Counts, Metadata: b.Metadata,
	}
	if len(b.Problems) > 0 {
		o.Errors = &batchErrors{"list", b.Problems}
	}
	return o
}

// createBatch answers POST /v1/batches.
func (s *Server) createBatch(c *call) error {
	var q batchRequest
	if err := s.readBody(c.w, c.r, &q); err != nil {
		return err
	}
	for _, r := range s.endpoints() {
		if r.pattern == "POST "+q.Endpoint && c.key != nil && !c.key.allows(r.scope) {
			return wrong("endpoint", "found %s, which the API key does not have the scope %q for", q.Endpoint, r.scope)
		}
	}
	b, err := s.files.AddBatch(c.keyName(), batch.Wish(q))
	if err != nil {
		return fileError(err)
	}
	return c.json(newBatchObject(b))
}

// listBatches answers GET /v1/batches.
func (s *Server) listBatches(c *call) error {
	p, err := pageOf(c, 20, 100)
	if err != nil {
		return err
	}
	batches, more, err := s.files.Batches(c.keyName(), p)
	if err != nil {
		return fileError(err)
	}
	list := listObject[batchObject]{Object: "list", Data: []batchObject{}, HasMore: more}
	for _, b := range batches {
		list.Data = append(list.Data, newBatchObject(b))
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
	}
	return c.json(list)
}

// showBatch answers GET /v1/batches/{id}.
func (s *Server) showBatch(c *call) error {
	b, err := s.files.Batch(c.keyName(), c.r.PathValue("id"))
	if err != nil {
		return fileError(err)
	}
	return c.json(newBatchObject(b))
}

// cancelBatch answers POST /v1/batches/{id}/cancel.
func (s *Server) cancelBatch(c *call) error {
	b, err := s.files.Cancel(c.keyName(), c.r.PathValue("id"))
	if err != nil {
		return fileError(err)
	}
	return c.json(newBatchObject(b))
}
