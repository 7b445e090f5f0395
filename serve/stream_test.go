package serve_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/request"
)

// timed is an answer that knows until when it may be written.
type timed struct {
	*httptest.ResponseRecorder

	mu      sync.Mutex
	until   time.Time
	written int
	free    int // writes without a limit of time
}

func (w *timed) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	return nil
}

func (w *timed) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written += len(p)
	if w.until.IsZero() {
		w.free++
	}
	return w.ResponseRecorder.Write(p)
}

// waits tells whether so many bytes are written and what comes next may take its time.
func (w *timed) waits(bytes int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written == bytes && w.until.IsZero()
}

// TestStreamsMayPause: a client has its time to take each piece of a stream, and the end of it. Between pieces there is
// no limit: over HTTP/2 a stream would end there by which nothing comes for a while.
func TestStreamsMayPause(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{}).Hippo
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/pause", nil)
	s.Answer(w, r, func(c *request.Call) error {
		return c.Stream("text/plain", func(_ context.Context, to *request.Queue) error {
			for n := range 3 {
				to.Add([]byte("x"))
				servetest.WaitUntil(t, func() bool { return w.waits(n + 1) })
			}
			return nil
		}, func(*request.Error) []byte { return nil })
	})
	if w.Body.String() != "xxx" || w.free > 0 || w.until.IsZero() {
		t.Errorf("the answer is %q, %d times without a limit, and at its end until %v", w.Body, w.free, w.until)
	}
}
