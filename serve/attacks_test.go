package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// victim is a server under attack, with or without TLS (and so HTTP/2).
type victim struct {
	t       *testing.T
	server  *serve.Server
	address string
	url     string
	client  *http.Client
	before  int // goroutines
}

func newVictim(t *testing.T, o serve.Options, secure bool) *victim {
	t.Helper()
	v := &victim{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	dir := t.TempDir()
	scheme := "http://"
	if secure {
		cert, certFile, keyFile := writeCertificate(t, dir, "victim")
		c, err := serve.LoadCertificate(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		o.TLS, scheme, v.client = c.Config(), "https://", tlsClient(t, cert)
	}
	var err error
	if v.server, err = serve.New(o, servetest.Model(t, "tiny")); err != nil {
		t.Fatal(err)
	}
	v.address = runTLS(t, v.server)
	v.url = scheme + v.address
	v.wantAnswer()
	v.client.CloseIdleConnections()
	v.before = runtime.NumGoroutine()
	return v
}

// dial opens a connection and writes to it.
func (v *victim) dial(text string) net.Conn {
	v.t.Helper()
	c, err := net.Dial("tcp", v.address)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		v.t.Fatal(err)
	}
	return c
}

// wantAnswer waits until the server answers another client. On a busy machine, that client may itself be too slow for
// the server, and tries again.
func (v *victim) wantAnswer() {
	v.t.Helper()
	servetest.WaitUntil(v.t, func() bool {
		a, err := v.client.Post(v.url+"/v1/completions", "application/json", strings.NewReader(servetest.Short))
		if err != nil {
			return false
		}
		defer a.Body.Close()
		_, err = io.Copy(io.Discard, a.Body)
		if err == nil && a.StatusCode != http.StatusOK && a.StatusCode != http.StatusRequestTimeout {
			v.t.Fatalf("another client has the status %d", a.StatusCode)
		}
		return err == nil && a.StatusCode == http.StatusOK
	})
}

// wantCalm waits until nothing of an attack remains in the server: no goroutine, no taken place, no body.
func (v *victim) wantCalm() {
	v.t.Helper()
	v.wantAnswer()
	v.client.CloseIdleConnections()
	const slack = 5
	servetest.WaitUntil(v.t, func() bool {
		none := v.server.Admission.Running() == 0 && v.server.Bodies() == 0
		return none && runtime.NumGoroutine() <= v.before+slack
	})
}

// wantClosed reads until the server closes a connection, and returns the data.
func wantClosed(t *testing.T, c net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(c)
	if err != nil && len(said) == 0 && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	return string(said)
}

const postHead = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

// TestSlowHeaders checks that clients whose headers never end are disconnected and do not delay others.
func TestSlowHeaders(t *testing.T) {
	v := newVictim(t, serve.Options{ReadTimeout: 100 * time.Millisecond, Concurrent: 1}, false)
	var conns []net.Conn
	for range 100 {
		conns = append(conns, v.dial("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: "))
	}
	v.wantAnswer()
	for _, c := range conns {
		wantClosed(t, c)
	}
	v.wantCalm()
}

// TestDrippedBodies checks that bodies that arrive byte by byte have a time limit as a whole, and take no place
// meanwhile.
func TestDrippedBodies(t *testing.T) {
	v := newVictim(t, serve.Options{ReadTimeout: 100 * time.Millisecond, Concurrent: 1}, false)
	var all sync.WaitGroup
	for range 50 {
		c := v.dial(postHead + "Content-Length: 100000\r\n\r\n")
		all.Go(func() {
			for {
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
		all.Go(func() {
			if said := wantClosed(t, c); said != "" && !strings.HasPrefix(said, "HTTP/1.1 408 ") {
				t.Errorf("a dripped body is answered with %.100q", said)
			}
		})
	}
	v.wantAnswer()
	all.Wait()
	v.wantCalm()
}

// TestHugeHeaders checks that headers that are too large are not read to the end.
func TestHugeHeaders(t *testing.T) {
	v := newVictim(t, serve.Options{}, false)
	for _, head := range []string{
		"X-A: " + strings.Repeat("a", 200<<10) + "\r\n\r\n", strings.Repeat("X-A: a\r\n", 20<<10) + "\r\n",
	} {
		c, err := net.Dial("tcp", v.address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET /health HTTP/1.1\r\nHost: localhost\r\n"+head) // the server may close before the end
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("got the status %d", a.StatusCode)
		}
		a.Body.Close()
		c.Close()
	}
	v.wantCalm()
}

// TestUnreadStreams checks that unread HTTP/2 streams are ended one by one, without closing their connection.
func TestUnreadStreams(t *testing.T) {
	v := newVictim(t, serve.Options{
		MaxUnread: 128 << 10, WriteTimeout: 2 * time.Second, MaxTokens: 1 << 30, Concurrent: 64,
	}, true)
	// The clients' own buffers are small.
	v.client.CloseIdleConnections()
	v.client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	var bodies []io.Closer
	for range 8 {
		a, err := v.client.Post(v.url+"/v1/completions", "application/json",
			strings.NewReader(`{"prompt":"a","max_tokens":1000000000,"stream":true,"logprobs":20,"ignore_eos":true}`))
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, a.Body)
	}
	servetest.WaitUntil(t, func() bool { return v.server.Admission.Running() == 0 })
	v.wantAnswer()
	for _, b := range bodies {
		b.Close()
	}
	v.wantCalm()
}

// TestManyStreams checks that 2,000 open streams leave nothing behind, whether they are read to the end or abandoned.
func TestManyStreams(t *testing.T) {
	streams := 2000
	if testing.Short() {
		streams = 200
	}
	// On a busy machine, the clients are slower than a server's default limits.
	v := newVictim(t, serve.Options{Concurrent: 4000, WriteTimeout: time.Hour}, true)
	// Each reply has some tokens, and then continues forever.
	v.server.Host.Loaded()[0].Model.Runner = servetest.RunnerFunc(func(ctx context.Context, r *session.Request) error {
		if r.Next == nil {
			return session.Direct{}.Run(ctx, r)
		}
		for range 5 {
			if _, more, err := r.Next(r.Session.Logits(0)); err != nil || !more {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
	var open atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	// begin returns a stream after its first data has arrived.
	begin := func(body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/v1/completions", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		a, err := v.client.Do(r)
		if err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(a.Body, make([]byte, 100)); err != nil {
			a.Body.Close()
			return nil, err
		}
		return a, nil
	}
	for i := range streams {
		all.Go(func() {
			body := fmt.Sprintf(`{"prompt":"%d","max_tokens":1000,"stream":true,"ignore_eos":true}`, i%10)
			a, err := begin(body)
			// On a busy machine, connecting may exceed its time limit.
			for tries := 0; err != nil && tries < 20; tries++ {
				a, err = begin(body)
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Body.Close()
			open.Add(1)
			rest, err := io.ReadAll(a.Body)
			if ctx.Err() == nil {
				t.Errorf("a stream ends with %.100q, %v", rest, err)
			}
		})
	}
	servetest.WaitUntil(t, func() bool { return open.Load() == int64(streams) || t.Failed() })
	servetest.WaitUntil(t, func() bool { return v.server.Admission.Running() == streams || t.Failed() })
	cancel()
	all.Wait()
	v.wantCalm()
}

// TestRapidReset checks that HTTP/2 requests that are reset at once leave nothing behind.
func TestRapidReset(t *testing.T) {
	v := newVictim(t, serve.Options{MaxTokens: 1 << 30, Queue: 1 << 20}, true)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/v1/completions",
					strings.NewReader(`{"prompt":"a","max_tokens":1000000000,"stream":true,"ignore_eos":true}`))
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				time.AfterFunc(time.Duration(i%20)*100*time.Microsecond, cancel)
				if a, err := v.client.Do(r); err == nil {
					a.Body.Close()
				}
				cancel()
			}
		})
	}
	all.Wait()
	v.wantCalm()
}

// TestHeavyBodies checks that the total size of bodies is bounded, though each is within its limit.
func TestHeavyBodies(t *testing.T) {
	v := newVictim(t, serve.Options{MaxBody: 1 << 20, ReadTimeout: 5 * time.Second}, false)
	part := strings.Repeat(" ", 1<<20-10)
	for range 2 * request.ManyBodies {
		v.dial(postHead + "Content-Length: 1048576\r\n\r\n" + part) // the rest does not come
	}
	servetest.WaitUntil(t, func() bool { return v.server.Bodies() >= (request.ManyBodies-1)<<20 })
	most := int64(request.ManyBodies+1) << 20
	if n := v.server.Bodies(); n > most+(1<<20) {
		t.Errorf("bodies of %d bytes are in memory, want at most %d", n, most)
	}
	servetest.WaitUntil(t, func() bool { return v.server.Bodies() == 0 }) // their time is over
	v.wantCalm()
}

// TestBodiesDoNotGrow checks that bodies that are small in JSON and large in memory are refused before they are
// decoded.
func TestBodiesDoNotGrow(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	nested := strings.Repeat(`{"type":"tool_result","content":[`, 1<<12) + strings.Repeat("]}", 1<<12)
	var fields strings.Builder
	for i := range 1 << 19 {
		fmt.Fprintf(&fields, `"%x":1,`, i)
	}
	for name, body := range map[string]string{
		"empty lists":    `{"prompt":[` + strings.Repeat("[],", 2<<20) + `[]]}`,
		"empty texts":    `{"prompt":[` + strings.Repeat(`"",`, 2<<20) + `""]}`,
		"stops":          `{"prompt":"a","stop":[` + strings.Repeat(`"",`, 2<<20) + `""]}`,
		"fields":         `{` + fields.String() + `"prompt":"a"}`,
		"bias":           `{"prompt":"a","logit_bias":{` + fields.String() + `"0":0}}`,
		"messages":       `{"messages":[` + strings.Repeat(`{},`, 2<<20) + `{}]}`,
		"nested":         `{"prompt":` + strings.Repeat("[", 2<<20),
		"zero ids":       `{"prompt":[` + strings.Repeat("0,", 4<<20) + `0]}`,
		"a long number":  `{"max_tokens":` + strings.Repeat("9", 2<<20) + `}`,
		"one long text":  `{"prompt":"a","stop":"` + strings.Repeat("é", 2<<20) + `"}`,
		"a long model":   `{"model":"` + strings.Repeat("é", 2<<20) + `"}`,
		"broken utf-8":   `{"prompt":"a","stop":"` + strings.Repeat("\xff", 2<<20) + `"}`,
		"another's body": strings.Repeat("a=b&", 2<<20),

		"Anthropic's messages": `{"max_tokens":1,"messages":[` + strings.Repeat(`{},`, 2<<20) + `{}]}`,
		"Anthropic's blocks": `{"max_tokens":1,"messages":[{"role":"user","content":[` + strings.Repeat(`{},`, 2<<20) +
			`{}]}]}`,
		"Anthropic's results": `{"max_tokens":1,"messages":[{"role":"user","content":[` +
			strings.Repeat(nested+",", 15) + nested + `]}]}`,
		"Anthropic's tools":  `{"max_tokens":1,"messages":[],"tools":[` + strings.Repeat(`{},`, 2<<20) + `{}]}`,
		"Anthropic's system": `{"max_tokens":1,"system":[` + strings.Repeat(`{},`, 2<<20) + `{}]}`,
	} {
		path := "/v1/completions"
		switch {
		case name == "messages":
			path = "/v1/chat/completions"
		case strings.HasPrefix(name, "Anthropic's"):
			path = "/v1/messages"
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status, _, data := s.Do(http.MethodPost, path, body)
		runtime.ReadMemStats(&after)
		// This includes the test's own copies of the body and of the answer, and memory that io.ReadAll discards as it
		// grows.
		took := after.TotalAlloc - before.TotalAlloc
		if status < 400 || status >= 500 || len(data) > 2000 {
			t.Errorf("%s: got %d, %.200s", name, status, data)
		}
		if most := uint64(20 * len(body)); took > most {
			t.Errorf("%s: %d bytes were allocated for %d, want at most %d", name, took, len(body), most)
		}
	}
}
