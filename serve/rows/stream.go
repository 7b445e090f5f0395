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

// Stream predicts each row before it reads the next, as long as the client sends rows. The request holds the network's
// state between rows.
func (s *Handler) Stream(c *request.Call) error {
	format, err := rowFormat(c)
	if err != nil {
		return err
	}
	if format == "wav" {
		return request.Invalid("format", "found wav, want jsonl or csv for a stream")
	}
	p, err := s.predictor(c.Query("model"))
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
	free, err := s.Streams.Enter(c.Share, "streams of rows are open")
	if err != nil {
		return err
	}
	defer free()
	control := http.NewResponseController(c.Writer)
	// With HTTP/2, and in a recorder of tests, rows can always be read while predictions are written.
	if err := control.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	ctx, end := context.WithCancelCause(c.Request.Context())
	defer end(nil)
	defer context.AfterFunc(c.Env.Open, func() { end(request.ErrDraining) })()
	defer context.AfterFunc(ctx, func() { control.SetReadDeadline(time.Unix(1, 0)) })() // unblock Read
	x := &rowStream{s: s, c: c, ctx: ctx, control: control, events: wantsEvents(c.Request)}
	err = p.Answer(ctx, Query{
		Rows: x, Format: cmp.Or(format, "jsonl"), As: "jsonl", All: c.Query("all") == "true", Live: true,
		MostSeries: mostSeries, Out: x, Note: func(string) {},
		Count: func() { x.rows++; countRows(c, p, 1) },
	})
	x.rest()
	if !x.ended { // do not wait for the rest of the body
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
		x.send(x.frame(request.ErrorOf(err))) // fails if the client has disconnected
	}
	return err
}

// rowStream reads a client's rows and writes the predictions. Each row must arrive in time. The request counts as
// running only while it is not waiting for its client.
type rowStream struct {
	s       *Handler
	c       *request.Call
	ctx     context.Context
	control *http.ResponseController
	events  bool // events instead of lines
	rows    int
	busy    bool   // admitted
	ended   bool   // the body has been read
	part    []byte // of a prediction
	err     error  // why reading or writing ended
}

// Read reads the next bytes.
func (x *rowStream) Read(p []byte) (int, error) {
	x.rest()
	if err := x.pause(); err != nil {
		x.err = err
		return 0, err
	}
	// A recorder in tests has no deadlines and no slow client.
	x.control.SetReadDeadline(time.Now().Add(x.s.o.StreamIdle))
	if err := context.Cause(x.ctx); err != nil { // the deadline set at cancellation may just have been replaced
		return 0, err
	}
	n, err := x.c.Request.Body.Read(p)
	why := context.Cause(x.ctx)
	switch {
	case err == nil:
	case err == io.EOF: // the server now reads the connection in the background, to notice a disconnect
		x.ended = true
		x.control.SetReadDeadline(time.Time{})
	case why != nil && why != context.Canceled: // also if the connection cannot be read
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

// Write sends each prediction when it is complete.
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

// frame returns a value as a line, or as an event.
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
		h.Set("X-Accel-Buffering", "no") // proxies must not buffer
	}
	if err := x.c.Deliver(data); err != nil {
		return &request.Error{Status: request.StatusGone, Message: fmt.Sprintf("the client does not read: %v", err)}
	}
	return nil
}

// work waits for admission, unless the request is admitted.
func (x *rowStream) work() error {
	if !x.busy {
		if err := x.s.Admission.Enter(x.ctx, x.c.Share); err != nil {
			x.err = err
			return err
		}
		x.busy = true
	}
	return nil
}

// rest ends the admission.
func (x *rowStream) rest() {
	if x.busy {
		x.c.Leave(x.s.Admission)
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
