// Package request has the parts of request handling that all endpoints share and that need no model: calls with their
// bodies, checked fields, errors, streams to slow clients, admission, and the tracking of a request for metrics and
// traces.
package request

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/serve/fleet"
)

// Env is shared by all requests of a server: limits and metrics.
type Env struct {
	MaxBody      int64         // bytes of a body
	AllBodies    *Places       // bytes of the bodies of all requests in flight: see NewBodies
	WriteTimeout time.Duration // for a client to read what was sent
	MaxUnread    int           // bytes of a stream that are buffered for a client

	Counters counters
	Open     context.Context // done when no more requests are admitted
}

// Call is one request. As a ResponseWriter it records the status for the log.
type Call struct {
	Writer  http.ResponseWriter
	Request *http.Request
	Env     *Env
	ID      string
	Route   string // the pattern that the request matches, "" for none
	Form    *Form  // the fields that its endpoint reads, nil for any
	Begun   time.Time
	Load    time.Duration // time spent waiting for models
	*Track

	Admin bool // the request may change what all clients use: its key has ScopeAdmin, or there are no keys

	body   int64       // bytes that were read
	Status int         // written so far, or 0
	Notes  []slog.Attr // for the log
	ends   []func()
}

// NewCall returns a request with the limits and counters of a server.
func NewCall(w http.ResponseWriter, r *http.Request, id string, of *Env) *Call {
	c := &Call{Writer: w, Env: of, ID: id, Begun: time.Now()}
	c.Track = newTrack(r.Context(), of.Counters, c.Begun)
	c.Request = r
	c.Share.Client = c.Client()
	return c
}

// AtEnd registers a function that Release calls after the work for the request.
func (c *Call) AtEnd(do func()) { c.ends = append(c.ends, do) }

// Release calls the functions registered with AtEnd.
func (c *Call) Release() {
	for _, do := range c.ends {
		do()
	}
	c.ends = nil
}

// Until cancels the context of a request with fleet.ErrLost if lost is closed before stop is called.
func (c *Call) Until(lost <-chan struct{}) (stop func()) {
	was := c.Request
	ctx, cancel := context.WithCancelCause(was.Context())
	c.Request = was.WithContext(ctx)
	free := WhenLost(lost, cancel)
	return func() {
		free()
		cancel(nil)
		c.Request = was
	}
}

// WhenLost calls cancel with fleet.ErrLost if lost is closed before stop is called.
func WhenLost(lost <-chan struct{}, cancel context.CancelCauseFunc) (stop func()) {
	if lost == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-lost:
			cancel(fleet.ErrLost)
		case <-done:
		}
	}()
	return func() { close(done) }
}

// End must be called when the response has been sent.
func (c *Call) End() { c.Env.AllBodies.free(c.Share.Client, c.body) }

// Detach returns a call, with its own context, for work that continues after the response to c. The resources that c
// holds until its end move to the new call. Its response is discarded.
func (c *Call) Detach(ctx context.Context) *Call {
	d := &Call{
		Writer: nowhere{}, Request: c.Request.WithContext(ctx), Env: c.Env, ID: c.ID, Route: c.Route, Begun: c.Begun,
		Track: c.Track, Admin: c.Admin, body: c.body, ends: c.ends,
	}
	c.body, c.ends = 0, nil
	return d
}

// nowhere is an http.ResponseWriter that discards the response.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// Draining returns an error if the server admits no more work.
func (c *Call) Draining() error {
	if c.Env.Open.Err() != nil {
		return ErrDraining
	}
	return nil
}

// Header returns the headers of the response.
func (c *Call) Header() http.Header { return c.Writer.Header() }

// WriteHeader sends the status.
func (c *Call) WriteHeader(status int) {
	if c.Status == 0 {
		c.Status = status
	}
	c.Writer.WriteHeader(status)
}

// Write sends a part of the body.
func (c *Call) Write(p []byte) (int, error) {
	if c.Status == 0 {
		c.Status = http.StatusOK
	}
	return c.Writer.Write(p)
}

// Unwrap returns the underlying ResponseWriter for http.ResponseController.
func (c *Call) Unwrap() http.ResponseWriter { return c.Writer }

// Client returns the name of the client's key, or else its address.
func (c *Call) Client() string {
	if c.Key != "" {
		return c.Key
	}
	host, _, err := net.SplitHostPort(c.Request.RemoteAddr)
	if err != nil {
		return c.Request.RemoteAddr
	}
	return host
}

// Owner returns the owner of the records that a request may see: a hash of its key's name, or "all" if the server has
// no keys. It is part of the records' names.
func (c *Call) Owner() string {
	if c.Key == "" {
		return "all"
	}
	sum := sha256.Sum256([]byte(c.Key))
	return hex.EncodeToString(sum[:12])
}

// Query returns a query parameter, or "" if the request does not have it.
func (c *Call) Query(name string) string { return c.Queries().Get(name) }

// Queries returns the query parameters that the endpoint reads.
func (c *Call) Queries() url.Values {
	all := c.Request.URL.Query()
	if c.Form != nil {
		read := strings.Fields(c.Form.Query)
		maps.DeleteFunc(all, func(name string, _ []string) bool { return !slices.Contains(read, name) })
	}
	return all
}

// Note adds a value to the request's line in the log.
func (c *Call) Note(key string, value any) { c.Notes = append(c.Notes, slog.Any(key, value)) }

// JSON responds with a value.
func (c *Call) JSON(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Send(http.StatusOK, "application/json", append(data, '\n'))
}

// Send responds with a body.
func (c *Call) Send(status int, contentType string, body []byte) error {
	c.Header().Set("Content-Type", contentType)
	c.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.WriteHeader(status)
	return c.Deliver(body)
}

// Deliver sends data. For each part, it waits at most WriteTimeout for a client that does not read.
func (c *Call) Deliver(data []byte) error {
	const most = 64 << 10
	control := http.NewResponseController(c.Writer)
	for len(data) > 0 {
		n := min(len(data), most)
		// A recorder in tests has no deadlines and no slow client.
		control.SetWriteDeadline(time.Now().Add(c.Env.WriteTimeout))
		if _, err := c.Write(data[:n]); err != nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
		data = data[n:]
	}
	// With HTTP/2, a deadline also ends an idle stream, and the next part may take long.
	control.SetWriteDeadline(time.Time{})
	return nil
}

// Page responds with a page. A client that does not read it within WriteTimeout is disconnected.
func (c *Call) Page(h http.Handler) error {
	// A recorder in tests has no deadlines and no slow client.
	http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(c.Env.WriteTimeout))
	h.ServeHTTP(c, c.Request)
	return nil
}
