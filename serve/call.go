package serve

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

// shared is what all requests of a server share: their limits, and what counts them.
type shared struct {
	MaxBody      int64         // bytes of a body
	WriteTimeout time.Duration // for a client to take what is ready for it
	MaxUnread    int           // bytes of a stream that wait for a client

	Counters counters
	Open     context.Context // done when no more requests are let in

	bodies atomic.Int64 // bytes of the bodies of all requests in flight
}

// call is one request with what belongs to it. As a ResponseWriter it notes the status for the log.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	shared *shared
	id     string
	route  string // the pattern that it matches, "" for none
	begun  time.Time
	load   time.Duration // that it has waited for models
	*track

	body   atomic.Int64 // bytes that were read
	status int          // that was written, 0 for none yet
	notes  []slog.Attr  // for the log
	ends   []func()
}

// newCall returns a request whose limits and counters are those of a server.
func newCall(w http.ResponseWriter, r *http.Request, id string, of *shared) *call {
	c := &call{w: w, shared: of, id: id, begun: time.Now()}
	c.track = newTrack(r.Context(), of.Counters, c.begun)
	c.r = r
	return c
}

// atEnd has release call a function, when the work for the request is done.
func (c *call) atEnd(do func()) { c.ends = append(c.ends, do) }

// release calls what atEnd was given.
func (c *call) release() {
	for _, do := range c.ends {
		do()
	}
	c.ends = nil
}

// end is called when the response has been sent.
func (c *call) end() { c.shared.bodies.Add(-c.body.Load()) }

// draining returns an error if the server takes no more work.
func (c *call) draining() error {
	if c.shared.Open.Err() != nil {
		return errDraining
	}
	return nil
}

// Header returns the headers of the response.
func (c *call) Header() http.Header { return c.w.Header() }

// WriteHeader sends the status.
func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.w.WriteHeader(status)
}

// Write sends a part of the body as it is.
func (c *call) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.w.Write(p)
}

// Unwrap lets http.ResponseController find the connection.
func (c *call) Unwrap() http.ResponseWriter { return c.w }

// client names the client: its key, or else its address.
func (c *call) client() string {
	if c.key != "" {
		return c.key
	}
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		return c.r.RemoteAddr
	}
	return host
}

// owner is whose records a request may see: those of its key, or everybody's where no keys are wanted. It is a part of
// their names.
func (c *call) owner() string {
	if c.key == "" {
		return "all"
	}
	sum := sha256.Sum256([]byte(c.key))
	return hex.EncodeToString(sum[:12])
}

// note adds a value to the request's line in the log.
func (c *call) note(key string, value any) { c.notes = append(c.notes, slog.Any(key, value)) }

// json responds with a value.
func (c *call) json(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, "application/json", append(data, '\n'))
}

// send responds with a body.
func (c *call) send(status int, contentType string, body []byte) error {
	c.Header().Set("Content-Type", contentType)
	c.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.WriteHeader(status)
	return c.write(body)
}

// write sends data. Each part waits at most WriteTimeout for a client that does not read.
func (c *call) write(data []byte) error {
	const most = 64 << 10
	control := http.NewResponseController(c.w)
	for len(data) > 0 {
		n := min(len(data), most)
		// A recorder of tests has no deadlines, and no client that is slow.
		control.SetWriteDeadline(time.Now().Add(c.shared.WriteTimeout))
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

// page responds with a page. A client that does not read it is cut off.
func (c *call) page(h http.Handler) error {
	// A recorder of tests has no deadlines, and no client that is slow.
	http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.shared.WriteTimeout))
	h.ServeHTTP(c, c.r)
	return nil
}
