package serve_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/request"
)

// TestCORS checks that pages of listed origins are allowed, also in preflight requests, and no others.
func TestCORS(t *testing.T) {
	listed, any := []string{"https://chat.example"}, []string{"*"}
	for _, c := range []struct {
		origins          []string
		method, origin   string
		headers          string
		status           int
		allowed, methods bool
	}{
		{nil, "GET", "https://chat.example", "", 403, false, false},
		{nil, "OPTIONS", "https://chat.example", "", 403, false, false},
		{listed, "GET", "https://chat.example", "", 200, true, false},
		{listed, "OPTIONS", "https://chat.example", "authorization, x-stainless-os", 204, true, true},
		{listed, "OPTIONS", "https://chat.example", "a\x01b", 204, true, true},
		{listed, "GET", "https://evil.example", "", 403, false, false},
		{listed, "GET", "https://chat.example.evil.example", "", 403, false, false},
		{listed, "OPTIONS", "https://evil.example", "", 403, false, false},
		{any, "GET", "https://evil.example", "", 200, true, false},
		{listed, "GET", "", "", 200, false, false},
	} {
		s := servetest.NewSite(t, serve.Options{Origins: c.origins})
		r, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
		}
		plain := !strings.Contains(c.headers, "\x01")
		if c.headers != "" && plain {
			r.Header.Set("Access-Control-Request-Headers", c.headers)
		}
		a, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		allowed := a.Header.Get("Access-Control-Allow-Origin")
		if a.StatusCode != c.status || (allowed != "") != c.allowed || c.allowed && allowed != c.origin ||
			(a.Header.Get("Access-Control-Allow-Methods") != "") != c.methods ||
			plain && a.Header.Get("Access-Control-Allow-Headers") != c.headers ||
			(len(c.origins) > 0 && c.origin != "") != (a.Header.Get("Vary") == "Origin") {
			t.Errorf("%s from %q where %q may: status %d, %v", c.method, c.origin, c.origins, a.StatusCode, a.Header)
		}
	}
	for list, want := range map[string]bool{"a, B-c_1": true, "": false, "a\r\nb: c": false, "a(b)": false} {
		if serve.AreNames(list) != want {
			t.Errorf("%q are names: %v", list, !want)
		}
	}
}

// TestLogTellsNoPrompts checks that the log has ids, models, tokens, times and reasons, but no prompts or replies.
func TestLogTellsNoPrompts(t *testing.T) {
	var log record
	s := servetest.NewSite(t, serve.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for _, c := range []struct{ path, body string }{
		{"/v1/completions", `{"prompt":"my secret","max_tokens":2,"ignore_eos":true,"stop":"secret"}`},
		{"/v1/completions", `{"prompt":{"secret":1}}`},
		{"/v1/completions", `{"prompt":"secret","temperature":"secret"}`},
		{"/v1/completions", `"secret"`},
		{"/v1/completions", `{"secret`},
		{"/v1/chat/completions", `{"messages":["secret"]}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"secret"}]}]}`},
		{"/api/chat", `{"messages":[{"role":"user","content":"secret"}],"format":"secret"}`},
		{"/tokenize", `{"prompt":["secret"]}`},
	} {
		s.Do(http.MethodPost, c.path, c.body)
	}
	servetest.WaitUntil(t, func() bool { return strings.Count(log.String(), "\n") >= 9 })
	if text := log.String(); strings.Contains(text, "secret") {
		t.Errorf("the log tells what was sent:\n%s", text)
	}
	var line map[string]any
	first, _, _ := strings.Cut(log.String(), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"time", "request", "method", "path", "client", "model", "prompt_tokens", "cached_tokens", "completion_tokens",
		"queue_seconds", "first_token_seconds", "seconds", "status",
	} {
		if line[key] == nil {
			t.Errorf("the log has no %s: %s", key, first)
		}
	}
	if text := log.String(); !strings.Contains(text, `"param":"temperature"`) {
		t.Errorf("the log does not name the field that was wrong:\n%s", text)
	}
}

// TestTrace checks that a middleware sees every request, and its trace the phases with their results.
func TestTrace(t *testing.T) {
	var mu sync.Mutex
	ends := map[request.Phase]request.PhaseEnd{}
	type key struct{}
	s := servetest.NewSite(t, serve.Options{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := request.WithTrace(context.WithValue(r.Context(), key{}, "mine"),
				func(ctx context.Context, p request.Phase) func(request.PhaseEnd) {
					if ctx.Value(key{}) != "mine" {
						t.Errorf("the phase %s does not know its request", p)
					}
					return func(e request.PhaseEnd) {
						mu.Lock()
						defer mu.Unlock()
						ends[p] = e
					}
				})
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}})
	servetest.Post[openai.Completion](s, "/v1/completions", `{"prompt":"abc","max_tokens":2,"ignore_eos":true}`)
	mu.Lock()
	defer mu.Unlock()
	for p, want := range map[request.Phase]request.PhaseEnd{
		request.PhaseQueue: {}, request.PhaseRead: {Model: "tiny", Read: 3},
		request.PhaseGenerate: {Model: "tiny", Written: 2},
	} {
		if got, ok := ends[p]; !ok || got != want {
			t.Errorf("%s: got %+v, want %+v", p, got, want)
		}
	}
}

// TestAdmin checks that profiles and metrics are available only at the operators' address, and not for pages of other
// sites.
func TestAdmin(t *testing.T) {
	k, _ := serve.NewKey("a", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{k}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Hippo.RunAdmin(ctx, l) }()
	for _, c := range []struct {
		url, host string
		status    int
	}{
		{"http://" + l.Addr().String() + "/metrics", "", 200},
		{"http://" + l.Addr().String() + "/health", "", 200},
		{"http://" + l.Addr().String() + "/debug/pprof/goroutine?debug=1", "", 200},
		{"http://" + l.Addr().String() + "/debug/pprof/", "", 200},
		{"http://" + l.Addr().String() + "/v1/models", "", 404},
		{"http://" + l.Addr().String() + "/metrics", "evil.example", 403},
		{s.URL + "/metrics", "", 401},
		{s.URL + "/debug/pprof/", "", 404},
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != c.status {
			t.Errorf("%s at %q: status %d, want %d", c.url, c.host, a.StatusCode, c.status)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDrainDelay checks that during shutdown, /ready reports it while requests are still accepted.
func TestDrainDelay(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{DrainDelay: time.Hour})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Hippo.Run(ctx, l, time.Hour) }()
	servetest.WaitUntil(t, s.Hippo.Leaving)
	if status, _, _ := s.Do(http.MethodGet, "/ready", ""); status != http.StatusServiceUnavailable {
		t.Errorf("/ready has status %d", status)
	}
	servetest.Post[openai.Completion](s, "/v1/completions", servetest.Short)
	l.Close()
	if err := <-ended; err == nil {
		t.Error("a server whose listener fails says nothing")
	}
}
