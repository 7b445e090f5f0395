package servetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
)

// RunnerFunc is a function that implements Runner, for tests.
type RunnerFunc func(ctx context.Context, r *session.Request) error

func (f RunnerFunc) Run(ctx context.Context, r *session.Request) error { return f(ctx, r) }

// NewSiteOf returns a site whose model is run by a function.
func NewSiteOf(t testing.TB, o serve.Options, run RunnerFunc) *Site {
	t.Helper()
	s := NewSite(t, o)
	s.Model.Runner, s.Model.Texts = run, nil
	return s
}

// Stepped makes each reply of a site's model wait for a value on next before each token. The tokens are a, b, c and so
// on. If a reply is cancelled while it waits, the cause is sent to stopped, which buffers one.
func Stepped(s *Site) (next chan<- bool, stopped <-chan error) {
	steps, causes := make(chan bool), make(chan error, 1)
	s.Model.Texts = nil
	s.Model.Runner = RunnerFunc(func(ctx context.Context, r *session.Request) error {
		if r.Next == nil {
			return session.Direct{}.Run(ctx, r)
		}
		for i := 0; ; i++ {
			select {
			case <-steps:
			case <-ctx.Done():
				select {
				case causes <- context.Cause(ctx):
				default:
				}
				return context.Cause(ctx)
			}
			logits := make([]float32, 256)
			logits['a'+i%26] = 1000
			if _, more, err := r.Next(logits); err != nil || !more {
				return err
			}
		}
	})
	return steps, causes
}

const Short = `{"prompt":"a","max_tokens":1}`

// WaitUntil waits until ok returns true, which other goroutines bring about.
func WaitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal("waited in vain")
		case <-time.After(time.Millisecond):
		}
	}
}

// Direct returns the reply to ids, computed without a server.
func Direct(t *testing.T, m *host.Model, ids []int32, o generate.Options) string {
	t.Helper()
	s := generate.NewBatch(m.Net, 1)
	s.Chunk = session.Chunk(m.Net)
	if err := s.Feed(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for p, err := range s.Generate(t.Context(), m.Tokenizer, ids, o) {
		if err != nil {
			t.Fatal(err)
		}
		b.Write(p.Text)
	}
	return b.String()
}

func BytesOf(text string) (ids []int32) {
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids
}

// Figures returns the values of a metrics page, by name and labels.
func Figures(t *testing.T, h http.Handler) map[string]float64 {
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

// Fetch sends a request without a body and decodes the answer.
func Fetch[T any](s *Site, method, path string) T {
	s.T.Helper()
	status, _, data := s.Do(method, path, "")
	if status != http.StatusOK {
		s.T.Fatalf("%s %s: status %d: %s", method, path, status, data)
	}
	return Decode[T](s.T, data)
}

// WaitingFor returns the number of requests that wait for a model.
func WaitingFor(s *serve.Server, name string) int {
	for _, m := range s.Host.Loading() {
		if m.Name == name {
			return m.Waiting
		}
	}
	for _, m := range s.Host.Loaded() {
		if m.Name == name {
			return m.Waiting
		}
	}
	return 0
}
