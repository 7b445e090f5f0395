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

// timed is a response that records its write deadline.
type timed struct {
	*httptest.ResponseRecorder

	mu      sync.Mutex
	until   time.Time
	written int
	free    int // number of writes without a deadline
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

// waits reports whether a number of bytes are written and there is no deadline for the next.
func (w *timed) waits(bytes int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written == bytes && w.until.IsZero()
}

// TestStreamsMayPause checks that a client has limited time to read each piece of a stream, and its end, but that there
// is no deadline between pieces: over HTTP/2, that would end an idle stream.
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
