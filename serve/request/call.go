// Package request holds what the handlers of all endpoints share and that knows no model: a Call with its body, fields
// that are checked one by one, errors, streams to clients that may be slow, places for requests that run, and what
// follows a request for metrics and traces.
package request

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Env is shared by all requests of a server: limits and metrics.
type Env struct {
	MaxBody      int64         // bytes of a body
	WriteTimeout time.Duration // for a client to take what is ready for it
	MaxUnread    int           // bytes of a stream that wait for a client

	Counters counters
	Open     context.Context // done when no more requests are let in

	bodies atomic.Int64 // bytes of the bodies of all requests in flight
}

// Bodies is the number of bytes of the bodies of all requests in flight.
func (e *Env) Bodies() int64 { return e.bodies.Load() }

// Call is one request with what belongs to it. As a ResponseWriter it notes the status for the log.
type Call struct {
	Writer  http.ResponseWriter
	Request *http.Request
	Env     *Env
	ID      string
	Route   string // the pattern that it matches, "" for none
	Begun   time.Time
	Load    time.Duration // that it has waited for models
	*Track

	body   atomic.Int64 // bytes that were read
	Status int          // that was written, 0 for none yet
	Notes  []slog.Attr  // for the log
	ends   []func()
}

// NewCall returns a request whose limits and counters are those of a server.
func NewCall(w http.ResponseWriter, r *http.Request, id string, of *Env) *Call {
	c := &Call{Writer: w, Env: of, ID: id, Begun: time.Now()}
	c.Track = newTrack(r.Context(), of.Counters, c.Begun)
	c.Request = r
	return c
}

// AtEnd makes Release call a function, when the work for the request is done.
func (c *Call) AtEnd(do func()) { c.ends = append(c.ends, do) }

// Release calls the functions of AtEnd.
func (c *Call) Release() {
	for _, do := range c.ends {
		do()
	}
	c.ends = nil
}

// End is called when the response has been sent.
func (c *Call) End() { c.Env.bodies.Add(-c.body.Load()) }

// Draining returns an error if the server takes no more work.
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

// Write sends a part of the body as it is.
func (c *Call) Write(p []byte) (int, error) {
	if c.Status == 0 {
		c.Status = http.StatusOK
	}
	return c.Writer.Write(p)
}

// Unwrap lets http.ResponseController find the connection.
func (c *Call) Unwrap() http.ResponseWriter { return c.Writer }

// Client names the client: its key, or else its address.
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

// Owner returns the owner of the records that a request may see: its key, or everybody if the server has no keys. It is
// part of their names.
func (c *Call) Owner() string {
	if c.Key == "" {
		return "all"
	}
	sum := sha256.Sum256([]byte(c.Key))
	return hex.EncodeToString(sum[:12])
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

// Deliver sends data. Each part waits at most WriteTimeout for a client that does not read.
func (c *Call) Deliver(data []byte) error {
	const most = 64 << 10
	control := http.NewResponseController(c.Writer)
	for len(data) > 0 {
		n := min(len(data), most)
		// A recorder of tests has no deadlines, and no client that is slow.
		control.SetWriteDeadline(time.Now().Add(c.Env.WriteTimeout))
		if _, err := c.Write(data[:n]); err != nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
		data = data[n:]
	}
	// Over HTTP/2 a deadline ends a stream on which nothing is written, too: what comes next may take its time.
	control.SetWriteDeadline(time.Time{})
	return nil
}

// Page responds with a page. A client that does not read it is disconnected.
func (c *Call) Page(h http.Handler) error {
	// A recorder of tests has no deadlines, and no client that is slow.
	http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(c.Env.WriteTimeout))
	h.ServeHTTP(c, c.Request)
	return nil
}
