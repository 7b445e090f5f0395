package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// runnerFunc is a Runner for tests.
type runnerFunc func(ctx context.Context, r *session.Request) error

func (f runnerFunc) Run(ctx context.Context, r *session.Request) error { return f(ctx, r) }

// newSiteOf is a site whose model is run by a function.
func newSiteOf(t testing.TB, o Options, run runnerFunc) *site {
	t.Helper()
	s := newSite(t, o)
	s.model.runner, s.model.texts = run, nil
	return s
}

const short = `{"prompt":"a","max_tokens":1}`

// waitUntil waits for something that other goroutines do.
func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal("waited in vain")
		case <-time.After(time.Millisecond):
		}
	}
}

// direct is the reply to ids without a server.
func direct(t *testing.T, m *Model, ids []int32, o generate.Options) string {
	t.Helper()
	s := generate.NewBatch(m.net, 1)
	s.Chunk = session.Chunk(m.net)
	if err := s.Feed(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for p, err := range s.Generate(t.Context(), m.tok, ids, o) {
		if err != nil {
			t.Fatal(err)
		}
		b.Write(p.Text)
	}
	return b.String()
}

func bytesOf(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

// figures are the values of a page of metrics, by name and labels.
func figures(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics has status %d: %s", w.Code, w.Body)
	}
	all := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok || line[0] != '#' {
			if !ok {
				name, value, _ = strings.Cut(strings.TrimSpace(line), " ")
			} else {
				name += "}"
			}
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			all[name] = x
		}
	}
	return all
}

// fetch asks without a body.
func fetch[T any](s *site, method, path string) T {
	s.t.Helper()
	status, _, data := s.do(method, path, "")
	if status != http.StatusOK {
		s.t.Fatalf("%s %s: status %d: %s", method, path, status, data)
	}
	return decode[T](s.t, data)
}

// waitingFor is how many requests wait for a model.
func waitingFor(s *Server, name string) int {
	for _, m := range s.host.loading() {
		if m.Name == name {
			return m.Waiting
		}
	}
	for _, m := range s.host.loaded() {
		if m.Name == name {
			return m.waiting
		}
	}
	return 0
}
