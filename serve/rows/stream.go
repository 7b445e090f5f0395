package rows

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/hippo-ssm/hippo/serve/request"
)

// Stream answers each row before it reads the next, as long as the client sends some: from the state that the
// network has after the rows before, which this request holds.
func (s *Handler) Stream(c *request.Call) error {
	format, err := rowFormat(c.Request)
	if err != nil {
		return err
	}
	if format == "wav" {
		return request.Invalid("format", "found wav, want jsonl or csv for a stream")
	}
	from := c.Request.URL.Query()
	p, err := s.predictor(from.Get("model"))
	if err != nil {
		return err
	}
	c.Note("model", p.Name)
	if !p.Streams {
		return request.Invalid("model",
			"%.100q sees a whole series first, want a network with an answer to each row, or POST "+
				"/v1/predict", p.Name)
	}
	if err := c.Draining(); err != nil {
		return err
	}
	select {
	case s.Streams <- struct{}{}:
	default:
		return request.Busy("%d streams of rows are open, as many as may", cap(s.Streams))
	}
	defer func() { <-s.Streams }()
	control := http.NewResponseController(c.Writer)
	// Over HTTP/2, and for a recorder of tests, rows are read while answers are written anyway.
	if err := control.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	ctx, end := context.WithCancelCause(c.Request.Context())
	defer end(nil)
	defer context.AfterFunc(c.Env.Open, func() { end(request.ErrDraining) })()
	defer context.AfterFunc(ctx, func() { control.SetReadDeadline(time.Unix(1, 0)) })() // Read is not waited for
	x := &rowStream{s: s, c: c, ctx: ctx, control: control, events: wantsEvents(c.Request)}
	err = p.Answer(ctx, Query{
		Rows: x, Format: cmp.Or(format, "jsonl"), As: "jsonl", All: from.Get("all") == "true", Live: true,
		MostSeries: mostSeries, Out: x, Note: func(string) {},
		Count: func() { x.rows++; countRows(c, p, 1) },
	})
	x.rest()
	if !x.ended { // nobody waits for what may still come of the body
		control.SetReadDeadline(time.Unix(1, 0))
	}
	c.Note("rows", x.rows)
	switch {
	case x.err != nil:
		err = x.err
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = rowError(err, false)
	case x.events:
		return x.send(request.SSEDone)
	}
	if err != nil && c.Status != 0 {
		x.send(x.frame(request.ErrorOf(err))) // where it fails the client has gone
	}
	return err
}

// rowStream reads the rows of a client and writes the answers. Each row has so long to arrive, and the request has a
// place among those that compute only while it does not wait for its client.
type rowStream struct {
	s       *Handler
	c       *request.Call
	ctx     context.Context
	control *http.ResponseController
	events  bool // and not lines
	rows    int
	busy    bool   // it has a place
	ended   bool   // the body has been read
	part    []byte // of an answer
	err     error  // why nothing more could be read or written
}

// Read reads what comes next.
func (x *rowStream) Read(p []byte) (int, error) {
	x.rest()
	if err := x.pause(); err != nil {
		x.err = err
		return 0, err
	}
	// A recorder of tests has no deadlines, and no client that is slow.
	x.control.SetReadDeadline(time.Now().Add(x.s.o.StreamIdle))
	if err := context.Cause(x.ctx); err != nil { // whose deadline may just have been replaced
		return 0, err
	}
	n, err := x.c.Request.Body.Read(p)
	why := context.Cause(x.ctx)
	switch {
	case err == nil:
	case err == io.EOF: // from now on the connection is read in the background, to find out when the client goes
		x.ended = true
		x.control.SetReadDeadline(time.Time{})
	case why != nil && why != context.Canceled: // which a connection that cannot be read is, too
		x.err = why
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.err = &request.Error{Status: http.StatusRequestTimeout, Code: "stream_idle",
			Message: fmt.Sprintf("no row came in %v, the limit of this server", x.s.o.StreamIdle)}
	default:
		x.err = &request.Error{Status: request.StatusGone, Message: "the client has gone"}
	}
	if n > 0 {
		if e := x.work(); e != nil {
			return 0, e
		}
	}
	return n, err
}

// Write sends complete responses as they come.
func (x *rowStream) Write(p []byte) (int, error) {
	x.part = append(x.part, p...)
	for {
		at := bytes.IndexByte(x.part, '\n')
		if at < 0 {
			return len(p), x.work()
		}
		x.rest()
		if err := x.send(x.frame(json.RawMessage(x.part[:at]))); err != nil {
			x.err = err
			return 0, err
		}
		x.part = x.part[at+1:]
	}
}

// frame is a value as a line, or as an event.
func (x *rowStream) frame(v any) []byte {
	text := request.SSE(v)
	if x.events {
		return text
	}
	return bytes.TrimSuffix(bytes.TrimPrefix(text, []byte("data: ")), []byte("\n"))
}

// send sends data to the client.
func (x *rowStream) send(data []byte) error {
	if h := x.c.Header(); x.c.Status == 0 {
		h.Set("Content-Type", "application/x-ndjson")
		if x.events {
			h.Set("Content-Type", "text/event-stream")
		}
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies are not to wait for more
	}
	if err := x.c.Deliver(data); err != nil {
		return &request.Error{Status: request.StatusGone, Message: fmt.Sprintf("the client does not read: %v", err)}
	}
	return nil
}

// work waits for a place among those that compute.
func (x *rowStream) work() error {
	if !x.busy {
		if err := x.s.Admission.Enter(x.ctx); err != nil {
			x.err = err
			return err
		}
		x.busy = true
	}
	return nil
}

// rest gives the place back.
func (x *rowStream) rest() {
	if x.busy {
		x.s.Admission.Leave()
		x.busy = false
	}
}

// pause waits until the limits of the key allow another row.
func (x *rowStream) pause() error {
	wait := x.c.Allowance.Pause()
	if wait == 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-x.ctx.Done():
		return context.Cause(x.ctx)
	}
}
