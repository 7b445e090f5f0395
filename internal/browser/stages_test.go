package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/web"
)

// pace is a server whose streams are slow, and break off if a test wants so.
type pace struct {
	http.Handler
	wait  time.Duration // before each part of a stream
	parts atomic.Int64  // number of parts after which a stream breaks off; 0 for never
}

func (p *pace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && (r.URL.Path == "/v1/chat/completions" || r.URL.Path == "/v1/completions") {
		w = &paced{ResponseWriter: w, pace: p, left: p.parts.Load()}
	}
	p.Handler.ServeHTTP(w, r)
}

type paced struct {
	http.ResponseWriter
	pace *pace
	left int64
}

// Write sends each event in parts. If the stream is to break off, it closes the connection.
func (w *paced) Write(data []byte) (int, error) {
	for at := 0; at < len(data); at += 100 {
		time.Sleep(w.pace.wait)
		if w.left--; w.left == 0 {
			conn, _, err := http.NewResponseController(w.ResponseWriter).Hijack()
			if err != nil {
				return at, err
			}
			conn.Close()
			return at, fmt.Errorf("the test has cut the connection")
		}
		if _, err := w.ResponseWriter.Write(data[at:min(at+100, len(data))]); err != nil {
			return at, err
		}
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return at, err
		}
	}
	return len(data), nil
}

func (w *paced) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// newSlowServer serves a model whose replies can be observed while they are written.
func newSlowServer(t *testing.T, m *host.Model) (*httptest.Server, *pace) {
	t.Helper()
	s, err := serve.New(serve.Options{Pages: web.Chat()}, m)
	if err != nil {
		t.Fatal(err)
	}
	p := &pace{Handler: s, wait: 5 * time.Millisecond}
	site := httptest.NewServer(p)
	t.Cleanup(func() {
		s.Close()
		site.Close()
	})
	return site, p
}

// hostile is a tokenizer whose tokens are texts that attack a page. It encodes every text as bytes.
type hostile struct{ tokenizer.Tokenizer }

var attacks = []string{
	`<img src=x onerror="window.hacked=1">`, "<script>window.hacked=1</script>", `"><svg onload=window.hacked=1>`,
	"[click](javascript:window.hacked=1)", "[click](data:text/html,<script>window.hacked=1</script>)",
	"![p](https://attacker.example/x.png)", "<iframe src=https://attacker.example></iframe>", "\n```js\n", "\n- ",
	"\n> ", "**", "<style>body{display:none}</style>", "\u202e", "\n| a | b |\n|---|---|\n| 1 | 2 |\n", "`",
	"https://attacker.example/ ",
}

func (hostile) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		dst = append(dst, attacks[int(id)%len(attacks)]...)
	}
	return dst
}

func (hostile) Fingerprint() string { return "hostile" }

// thinker answers chats with a reply that begins with thoughts.
type thinker struct{ http.Handler }

func (s thinker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/chat/completions" {
		s.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, delta := range []string{`"role": "assistant", "content": ""`, `"reasoning_content": "<b>Hm"`,
		`"reasoning_content": ", well."`, `"content": "Four"`, `"content": "."`} {
		fmt.Fprintf(w, "data: {\"choices\": [{\"index\": 0, \"delta\": {%s}}]}\n\n", delta)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
