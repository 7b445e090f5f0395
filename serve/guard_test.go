package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/hippo-ssm/hippo/session"
)

// record is a log that can be read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// TestBearerInAnyCase checks that the header's scheme is case-insensitive (RFC 9110, 11.1), and that no other is
// accepted.
func TestBearerInAnyCase(t *testing.T) {
	key, secret := serve.NewKey("alice", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{key}})
	for header, want := range map[string]int{
		"Bearer " + secret: http.StatusOK, "bearer " + secret: http.StatusOK, "BEARER  " + secret: http.StatusOK,
		"Basic " + secret: http.StatusUnauthorized, secret: http.StatusUnauthorized, "Bearer": http.StatusUnauthorized,
		"Bearer" + secret: http.StatusUnauthorized,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		a, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.Body.Close(); a.StatusCode != want {
			t.Errorf("%.10q…: status %d, want %d", header, a.StatusCode, want)
		}
	}
}

// TestKeys checks that requests without a key, with an unknown key, or with one of another scope are refused, except
// health.
func TestKeys(t *testing.T) {
	all, secret := serve.NewKey("alice", serve.ScopeAll)
	some, limited := serve.NewKey("bob", serve.ScopeTokenize, serve.ScopeModels)
	read, err := serve.ParseKeys([]byte("# keys\n\n" + all.String() + "\n" + some.String() + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var log record
	s := servetest.NewSite(t, serve.Options{Keys: read, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for _, c := range []struct {
		key, path, body string
		status          int
		code            string
	}{
		{"", "/v1/completions", servetest.Short, 401, "invalid_api_key"},
		{"hippo-X", "/v1/completions", servetest.Short, 401, "invalid_api_key"},
		{secret, "/v1/completions", servetest.Short, 200, ""},
		{limited, "/v1/completions", servetest.Short, 403, "insufficient_scope"},
		{limited, "/tokenize", `{"prompt":"a"}`, 200, ""},
	} {
		s.Key = c.key
		status, h, data := s.Do(http.MethodPost, c.path, c.body)
		var e struct{ Error struct{ Code string } }
		if err := json.Unmarshal(data, &e); err != nil || status != c.status || e.Error.Code != c.code {
			t.Errorf("%q at %s: got %d, %s, want %d, %q", c.key, c.path, status, data, c.status, c.code)
		}
		if (status == http.StatusUnauthorized) != (h.Get("WWW-Authenticate") != "") {
			t.Errorf("status %d has the headers %v", status, h)
		}
	}
	s.Key = ""
	if status, _, _ := s.Do(http.MethodGet, "/health", ""); status != http.StatusOK {
		t.Errorf("/health has status %d", status)
	}
	for _, word := range []string{`"client":"alice"`, `"client":"bob"`, `"completion_tokens":1`} {
		servetest.WaitUntil(t, func() bool { return strings.Contains(log.String(), word) })
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log tells a key:\n%s", &log)
	}
	for _, text := range []string{
		"alice all", "alice every 00", "alice all 00", all.String() + "\n" + all.String(), "a b c d",
	} {
		if _, err := serve.ParseKeys([]byte(text)); err == nil {
			t.Errorf("%q is a file of keys", text)
		}
	}
}

// TestOrigins checks that pages of other sites, and foreign host names, cannot use a server on this machine.
func TestOrigins(t *testing.T) {
	open, named := servetest.NewSite(t, serve.Options{}), servetest.NewSite(t,
		serve.Options{Hosts: []string{"models.example"}})
	for _, c := range []struct {
		site         *servetest.Site
		host, origin string
		status       int
	}{
		{open, "", "", 200}, {open, "localhost:8080", "", 200}, {open, "[::1]:8080", "", 200},
		{open, "evil.example", "", 403}, {open, "", "https://evil.example", 403}, {open, "", "null", 403},
		{open, "localhost:8080", "http://localhost:8080", 200}, {open, "localhost:8080", "http://localhost:1", 403},
		{named, "models.example", "", 200}, {named, "Models.example:80", "", 200}, {named, "other.example", "", 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.site.URL+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		a, err := c.site.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != c.status {
			t.Errorf("host %q, origin %q: status %d, want %d", c.host, c.origin, a.StatusCode, c.status)
		}
	}
}

// TestRequestIDs checks that a plain id of the client is kept, and any other replaced.
func TestRequestIDs(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for id, kept := range map[string]bool{"abc-1.2_Z": true, "": false, "a b": false, strings.Repeat("a", 65): false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Request-Id", id)
		a, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if got := a.Header.Get("X-Request-Id"); got == "" || (got == id) != kept {
			t.Errorf("%q became %q", id, got)
		}
	}
}

// TestPanics checks that a panic, of a handler or of a goroutine that works for it, fails only its request, and is
// logged.
func TestPanics(t *testing.T) {
	var log record
	broken := true
	s := servetest.NewSiteOf(t, serve.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))},
		func(ctx context.Context, r *session.Request) error {
			if broken {
				panic("the sea is empty")
			}
			return session.Direct{}.Run(ctx, r)
		})
	for _, body := range []string{
		servetest.Short, `{"prompt":["a","b"],"max_tokens":1}`, `{"prompt":"a","n":3}`, `{"prompt":"a","stream":true}`,
	} {
		status, _, data := s.Do(http.MethodPost, "/v1/completions", body)
		if status != http.StatusInternalServerError || !strings.Contains(string(data), `"type":"server_error"`) ||
			strings.Contains(string(data), "sea") {
			t.Errorf("%s: got %d, %s", body, status, data)
		}
	}
	// The log is written after the response.
	servetest.WaitUntil(t, func() bool { return strings.Count(log.String(), "the sea is empty") >= 4 })
	if !strings.Contains(log.String(), "guard_test.go") {
		t.Errorf("the log does not tell where:\n%s", &log)
	}
	broken = false
	servetest.Post[openai.Completion](s, "/v1/completions", servetest.Short)
}

// TestErrorInStream checks that an error after the first piece is an event of the stream, which then ends without
// [DONE].
func TestErrorInStream(t *testing.T) {
	s := servetest.NewSiteOf(t, serve.Options{}, func(ctx context.Context, r *session.Request) error {
		if r.Next == nil {
			return session.Direct{}.Run(ctx, r)
		}
		if _, _, err := r.Next(r.Session.Logits(0)); err != nil {
			return err
		}
		return errors.New("the sea is empty")
	})
	status, _, data := s.Do(http.MethodPost, "/v1/completions", `{"prompt":"a","stream":true,"logit_bias":{"65":100}}`)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	if status != http.StatusOK || len(lines) != 2 || !strings.Contains(lines[0], `"text":"A"`) ||
		!strings.HasPrefix(lines[1], `data: {"error":{"message"`) || strings.Contains(string(data), "sea") {
		t.Errorf("got %d, %s", status, data)
	}
}

// gate is a runner that waits before each request.
type gate struct {
	in   chan struct{} // receives a value from each waiting request
	open chan struct{} // closed to let them continue
}

func (g *gate) run(ctx context.Context, r *session.Request) error {
	g.in <- struct{}{}
	select {
	case <-g.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	return session.Direct{}.Run(ctx, r)
}

// TestLimits checks that requests beyond the limit are queued, and those beyond the queue are refused with a time to
// retry after. A request whose client disconnects frees its place.
func TestLimits(t *testing.T) {
	g := &gate{make(chan struct{}, 100), make(chan struct{})}
	s := servetest.NewSiteOf(t, serve.Options{Concurrent: 2, Queue: 1}, g.run)
	var all sync.WaitGroup
	results := make(chan int, 10)
	url := s.URL + "/v1/completions"
	ask := func(ctx context.Context) {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(servetest.Short))
			if err != nil {
				t.Error(err)
				return
			}
			a, err := s.Client().Do(r)
			if err != nil {
				return // canceled
			}
			a.Body.Close()
			results <- a.StatusCode
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ask(ctx)
	ask(t.Context())
	<-g.in
	<-g.in
	ask(t.Context())
	servetest.WaitUntil(t, func() bool { return s.Hippo.Admission.Queued() == 1 })
	status, h, data := s.Do(http.MethodPost, "/v1/completions", servetest.Short)
	if status != http.StatusTooManyRequests || h.Get("Retry-After") == "" ||
		!strings.Contains(string(data), `"type":"rate_limit_error"`) {
		t.Errorf("one too many: got %d, %v, %s", status, h, data)
	}
	cancel()
	<-g.in // the queued request runs in the place of the canceled one
	close(g.open)
	all.Wait()
	if a, b := <-results, <-results; a != http.StatusOK || b != http.StatusOK || len(results) > 0 {
		t.Errorf("got the statuses %d and %d, and %d more", a, b, len(results))
	}
}

// TestQueueWait checks that a request that is queued for too long is refused.
func TestQueueWait(t *testing.T) {
	g := &gate{make(chan struct{}, 100), make(chan struct{})}
	s := servetest.NewSiteOf(t, serve.Options{Concurrent: 1, QueueWait: time.Millisecond}, g.run)
	done := make(chan struct{})
	go func() {
		defer close(done)
		http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(servetest.Short))
	}()
	<-g.in
	if status, _, data := s.Do(http.MethodPost, "/v1/completions",
		servetest.Short); status != http.StatusTooManyRequests {
		t.Errorf("got %d, %s", status, data)
	}
	close(g.open)
	<-done
}

// TestSlowReader checks that a reply is generated at full speed for a client that does not read, and that the client is
// disconnected when too much is buffered. Other clients are not affected.
func TestSlowReader(t *testing.T) {
	ended := make(chan error, 10)
	s := servetest.NewSiteOf(t, serve.Options{MaxUnread: 1 << 20, WriteTimeout: time.Second, MaxTokens: 1 << 30},
		func(ctx context.Context, r *session.Request) error {
			err := session.Direct{}.Run(ctx, r)
			if r.Next != nil {
				ended <- err
			}
			return err
		})
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"prompt":"a","max_tokens":1000000000,"stream":true,"logprobs":20}`
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the reply ended with %v, want it canceled", err)
	}
	servetest.WaitUntil(t, func() bool { return s.Hippo.Admission.Running() == 0 })
	servetest.Post[openai.Completion](s, "/v1/completions", servetest.Short)
}

// TestSlowWriter checks that a body that does not arrive takes no place, and times out.
func TestSlowWriter(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{ReadTimeout: 20 * time.Millisecond, Concurrent: 1})
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got the status %d", a.StatusCode)
	}
}

// TestDrain checks that a server during shutdown refuses requests, is not ready, and lets replies finish within the
// grace time. Then it cancels them with an error to their clients.
func TestDrain(t *testing.T) {
	for _, patient := range []bool{true, false} {
		g := &gate{make(chan struct{}, 100), make(chan struct{})}
		s := servetest.NewSiteOf(t, serve.Options{}, g.run)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		grace := time.Millisecond
		if patient {
			grace = time.Hour
		}
		go func() { ended <- s.Hippo.Run(ctx, l, grace) }()
		answers := make(chan string, 1)
		go func() {
			url := "http://" + l.Addr().String() + "/v1/completions"
			a, err := http.Post(url, "application/json", strings.NewReader(servetest.Short))
			if err != nil {
				answers <- err.Error()
				return
			}
			defer a.Body.Close()
			data, err := io.ReadAll(a.Body)
			answers <- fmt.Sprint(a.StatusCode, string(data), err)
		}()
		<-g.in
		cancel()
		servetest.WaitUntil(t, s.Hippo.Draining)
		for _, path := range []string{"/ready", "/v1/completions"} {
			method := http.MethodGet
			if path != "/ready" {
				method = http.MethodPost
			}
			if status, h, _ := s.Do(method, path, servetest.Short); status != http.StatusServiceUnavailable ||
				h.Get("Retry-After") == "" {
				t.Errorf("%s of a server that ends has status %d", path, status)
			}
		}
		if patient {
			close(g.open)
		}
		answer, want := <-answers, "503"
		if patient {
			want = "200"
		}
		if err := <-ended; err != nil || !strings.HasPrefix(answer, want) {
			t.Errorf("patient %v: got %v and %s, want %s", patient, err, answer, want)
		}
	}
}

// TestEndpointsOfOthers checks that the error for a path of other servers names the corresponding one.
func TestEndpointsOfOthers(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for path, want := range map[string]string{
		"/generate": "want /v1/completions", "/v1/rerank": "want /v1/embeddings of the query",
		"/v1/nothing": "there is no POST",
	} {
		status, _, data := s.Do(http.MethodPost, path, "{}")
		if status != 404 || !strings.Contains(string(data), want) {
			t.Errorf("%s: status %d, %s, want %s", path, status, data, want)
		}
	}
}
