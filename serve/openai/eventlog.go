package openai

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/hippo-ssm/hippo/serve/request"
)

// eventLog holds the events of a response. Any number of clients can follow it.
type eventLog struct {
	mu      sync.Mutex
	events  [][]byte
	bytes   int
	ended   bool
	changed chan struct{} // closed at the next change
}

// maxLog is the maximum size in bytes of a response's events.
const maxLog = 8 << 20

// Add adds events. If the log would become too large, it ends and drops all events.
func (l *eventLog) Add(events ...[]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	for _, e := range events {
		l.events, l.bytes = append(l.events, e), l.bytes+len(e)
	}
	if l.bytes > maxLog {
		l.events, l.ended = nil, true
	}
	l.tell()
}

// tell wakes the followers. mu must be held.
func (l *eventLog) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// with returns all events followed by a last one, or nil if there were too many.
func (l *eventLog) with(last []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	return append(bytes.Join(l.events, nil), last...)
}

// end ends the log with a last event.
func (l *eventLog) end(last []byte) {
	l.Add(last)
	l.close(false)
}

// close ends the log. If large is set, it drops all events.
func (l *eventLog) close(large bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended = true; large {
		l.events = nil
	}
	l.tell()
}

// replayed returns the log of stored events.
func replayed(events []byte) *eventLog {
	l := &eventLog{ended: true}
	for len(events) > 0 {
		const between = "\n\n"
		n := len(events)
		if at := bytes.Index(events, []byte(between)); at >= 0 {
			n = at + len(between)
		}
		l.events, events = append(l.events, events[:n:n]), events[n:]
	}
	return l
}

// from returns the events starting at a number, whether the log has ended, and a channel that is closed at the next
// change.
func (l *eventLog) from(at int) (events [][]byte, ended bool, changed chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended && l.events == nil {
		return nil, true, nil, &request.Error{
			Status: http.StatusConflict, Code: "stream_too_long",
			Message: fmt.Sprintf("the events of the response have more than %d bytes, want it without stream", maxLog),
		}
	}
	return l.events[min(at, len(l.events)):], l.ended, l.changed, nil
}

// follow responds with the events from a number on, up to the last. The response does not wait for the client.
func (l *eventLog) follow(c *request.Call, at int) error {
	for {
		events, ended, changed, err := l.from(at)
		if err != nil && c.Status != 0 {
			return c.Deliver(request.SSE(request.ErrorOf(err)))
		}
		if err != nil {
			return err
		}
		if c.Status == 0 {
			c.StreamHeaders("text/event-stream")
			c.WriteHeader(http.StatusOK)
		}
		for _, e := range events {
			if err := c.Deliver(e); err != nil {
				return &request.Error{
					Status: request.StatusGone, Message: fmt.Sprintf("the client does not read: %v", err),
				}
			}
		}
		if at += len(events); ended {
			return c.Deliver(nil)
		}
		select {
		case <-changed:
		case <-c.Request.Context().Done():
			return context.Cause(c.Request.Context())
		}
	}
}
