package request

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// Queue buffers the bytes for a client, so that no writer waits for the client.
type Queue struct {
	mu     sync.Mutex
	data   []byte
	spare  []byte // reused memory of data already sent
	most   int
	closed bool
	some   chan struct{} // receives a value when there is data, or when no more will come
	cut    context.CancelCauseFunc
}

// ErrSlow is the cause of cancellation of a request whose client does not read the response.
var ErrSlow = &Error{Status: StatusGone, Message: "the client reads its reply too slowly"}

// Add appends data. If too much is buffered, it cancels the request.
func (q *Queue) Add(data ...[]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, part := range data {
		q.data = append(q.data, part...)
	}
	if len(q.data) > q.most {
		q.cut(ErrSlow)
	}
	q.tell()
}

// tell wakes take. mu must be held.
func (q *Queue) tell() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

func (q *Queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.tell()
}

// take waits for data and returns all of it, valid until the next call. It returns nil after the last data.
func (q *Queue) take() []byte {
	for range q.some {
		q.mu.Lock()
		data, closed := q.data, q.closed
		q.data, q.spare = q.spare[:0], data
		q.mu.Unlock()
		if len(data) > 0 {
			if closed {
				q.close() // for the next call
			}
			return data
		}
		if closed {
			break
		}
	}
	return nil
}

// Stream runs a job that adds bytes to a queue, and sends them as they arrive. An error before the first byte becomes a
// normal error response. After the first byte, the event that failed returns for the error is sent.
func (c *Call) Stream(contentType string, job func(ctx context.Context, to *Queue) error,
	failed func(*Error) []byte) error {
	ctx, cut := context.WithCancelCause(c.Request.Context())
	defer cut(nil)
	q := &Queue{most: c.Env.MaxUnread, some: make(chan struct{}, 1), cut: cut}
	done := make(chan error, 1)
	go func() {
		defer q.close()
		done <- Protect(ctx, 0, func(ctx context.Context, _ int) error { return job(ctx, q) })
	}()
	for data := q.take(); len(data) > 0; data = q.take() {
		if c.Status == 0 {
			c.StreamHeaders(contentType)
		}
		if err := c.Deliver(data); err != nil {
			cut(&Error{Status: StatusGone, Message: fmt.Sprintf("the client does not read: %v", err)})
			break
		}
	}
	err := <-done
	if err != nil && c.Status != 0 {
		c.Deliver(failed(ErrorOf(err))) // fails if the client has disconnected
	}
	return err
}

// StreamHeaders sets the headers of a stream.
func (c *Call) StreamHeaders(contentType string) {
	c.Header().Set("Content-Type", contentType)
	c.Header().Set("Cache-Control", "no-store")
	c.Header().Set("X-Accel-Buffering", "no") // proxies must not buffer
}

// SSE returns a value as an event of a stream.
func SSE(v any) []byte { return append(append([]byte("data: "), JSON(v)...), "\n\n"...) }

// SSEDone is the last event of a stream.
var SSEDone = []byte("data: [DONE]\n\n")

// SSEFailed returns an error as an event of a stream.
func SSEFailed(e *Error) []byte { return SSE(e) }

// JSON encodes a value.
func JSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte("{}") // not reached: all values consist of strings and finite numbers
	}
	return data
}
