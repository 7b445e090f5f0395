package serve

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// BatchEndpoints returns the endpoints that lines of a batch may request, if this server has them.
func (s *Server) BatchEndpoints() []string {
	return slices.DeleteFunc([]string{
		"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
	}, func(path string) bool {
		return !slices.ContainsFunc(s.endpoints(), func(r route) bool { return r.pattern == "POST "+path })
	})
}

// openFiles opens the files and batches of clients. Unfinished batches continue.
func (s *Server) openFiles() (err error) {
	o := s.o.Files
	o.Endpoints, o.Do, o.Log = s.BatchEndpoints(), s.AnswerLine, s.o.Log
	if o.Dir == "" {
		o.Fleet = s.fleet
	}
	if o.MaxOwner < 1 && len(s.o.Keys) > 0 { // leave space for other clients
		o.MaxOwner = o.Total() / 4
	}
	if o.Together < 1 { // leave most places to clients that wait for a response
		o.Together = min(16, (s.o.Concurrent+3)/4)
	}
	s.Files.Store, err = batch.Open(o)
	s.Batches.Store = s.Files.Store
	return err
}

// batchLine is the context value of a request that is a line of a batch.
type batchLine struct{ owner string }

type batchLineKey struct{}

// lineOf returns the line of a batch that a request comes from, or nil.
func lineOf(ctx context.Context) *batchLine {
	line, _ := ctx.Value(batchLineKey{}).(*batchLine)
	return line
}

// BatchPriority is the priority of batches. Interactive requests have 0.
const BatchPriority = -1

// recorder records a response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// Flush does nothing: the response is used when it is complete.
func (r *recorder) Flush() {}

// AnswerLine runs a line of a batch like any other request of its client.
func (s *Server) AnswerLine(ctx context.Context, q batch.Request) (batch.Response, error) {
	ctx = host.WithPriority(context.WithValue(ctx, batchLineKey{}, &batchLine{q.Owner}), BatchPriority)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+q.Endpoint, bytes.NewReader(q.Body))
	if err != nil {
		return batch.Response{}, err
	}
	r.RemoteAddr = "batch"
	r.Header.Set("X-Request-Id", q.ID)
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	s.ServeHTTP(w, r)
	// An error with Retry is retried later. A model that never fits in memory has none.
	if w.status == request.StatusGone || w.header.Get(request.RetryHeader) != "" {
		return batch.Response{}, batch.ErrLater
	}
	return batch.Response{Status: w.status, Body: bytes.TrimSpace(w.body.Bytes())}, nil
}

// allowedLine returns an error if the key of a request does not allow an endpoint for the lines of a batch.
func (s *Server) allowedLine(c *request.Call, endpoint string) error {
	key := keyNamed(s.keys.Load().keys, c.Key)
	for _, r := range s.endpoints() {
		if r.pattern == "POST "+endpoint && key != nil && !key.allows(r.scope) {
			return request.Invalid("endpoint", "found %s, which the API key does not have the scope %q for", endpoint,
				r.scope)
		}
	}
	return nil
}
