// Package servetest provides servers and models for the tests of the packages of serve.
package servetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

const ChatTemplate = `{% for m in messages %}<{{ m.role }}>{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// Language returns a small model over bytes whose predictions are distinct.
func Language(t testing.TB) *model.Model {
	t.Helper()
	return toymodel.New(t, "h3,attention,mamba", 256)
}

// Model returns a model with a scheduler and a store.
func Model(t testing.TB, name string) *host.Model {
	t.Helper()
	net := Language(t)
	parsed, err := template.Parse(ChatTemplate)
	if err != nil {
		t.Fatal(err)
	}
	settings := &chat.Settings{Source: ChatTemplate, Template: parsed}
	runner := session.NewScheduler(net, session.SchedulerOptions{Waiting: 1 << 20})
	t.Cleanup(runner.Close)
	texts, err := store.New(t.Context(), store.Options{
		Model: net, Identity: session.Identify(net, tokenizer.Bytes()), Memory: 64 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return host.NewModel(host.ModelOptions{
		Name: name, Net: net, Tokenizer: tokenizer.Bytes(), Settings: settings, Runner: runner,
		Texts: texts,
	})
}

// Site is a server that a test talks to over the network.
type Site struct {
	*httptest.Server
	T     testing.TB
	Hippo *serve.Server
	Model *host.Model
	Key   string
}

func NewSite(t testing.TB, o serve.Options) *Site {
	t.Helper()
	return SiteOf(t, o, Model(t, "tiny"))
}

// Signer signs for all sites that have no signer of their own.
var Signer = session.NewSigner("")

// SiteOf starts a server of a model.
func SiteOf(t testing.TB, o serve.Options, m *host.Model) *Site {
	t.Helper()
	if o.Signer == nil {
		o.Signer = Signer
	}
	s, err := serve.New(o, m)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return &Site{Server: web, T: t, Hippo: s, Model: m}
}

// Do sends a request and returns the status, headers and body of the answer.
func (s *Site) Do(method, path, body string) (int, http.Header, []byte) {
	s.T.Helper()
	return s.Send(method, path, "", strings.NewReader(body))
}

// Send does the same as Do with a body of a content type, "" for none.
func (s *Site) Send(method, path, kind string, body io.Reader) (int, http.Header, []byte) {
	s.T.Helper()
	r := s.Request(method, path, body)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return answer.StatusCode, answer.Header, data
}

// Request returns a request with the key of the site.
func (s *Site) Request(method, path string, body io.Reader) *http.Request {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.URL+path, body)
	if err != nil {
		s.T.Fatal(err)
	}
	if s.Key != "" {
		r.Header.Set("Authorization", "Bearer "+s.Key)
	}
	return r
}

// Post sends JSON and decodes the answer.
func Post[T any](s *Site, path, body string) T {
	s.T.Helper()
	status, _, data := s.Do(http.MethodPost, path, body)
	if status != http.StatusOK {
		s.T.Fatalf("%s %s: status %d: %s", path, body, status, data)
	}
	return Decode[T](s.T, data)
}

func Decode[T any](t testing.TB, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// Events returns the events of a stream, which must end with [DONE].
func Events[T any](s *Site, path, body string) (all []T) {
	s.T.Helper()
	status, h, data := s.Do(http.MethodPost, path, body)
	if status != http.StatusOK || h.Get("Content-Type") != "text/event-stream" {
		s.T.Fatalf("%s %s: status %d, %s: %s", path, body, status, h.Get("Content-Type"), data)
	}
	lines, done := bufio.NewScanner(bytes.NewReader(data)), false
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !ok || done:
			s.T.Fatalf("found %q in a stream", lines.Text())
		case text == "[DONE]":
			done = true
		default:
			all = append(all, Decode[T](s.T, []byte(text)))
		}
	}
	if !done {
		s.T.Fatalf("the stream does not end by [DONE]: %s", data)
	}
	return all
}

// Truth returns the log-probabilities of ids (NaN for the first), in the digits of a float32, and that of the most
// probable token at each position. They are computed without a server.
func Truth(t testing.TB, m *host.Model, ids []int32) (own []float64, best []sample.TokenProb) {
	t.Helper()
	s := generate.NewBatch(m.Net, 1)
	s.Chunk = session.Chunk(m.Net)
	own, best = make([]float64, len(ids)), make([]sample.TokenProb, 1+len(ids))
	own[0] = math.NaN()
	err := generate.Feed(t.Context(), generate.Part{Batch: s, IDs: ids, Each: func(at int, logits []float32) {
		p, err := sample.LogProbsOf(logits)
		if err != nil {
			t.Error(err)
			return
		}
		best[at+1] = p.Top(1)[0]
		if at+1 < len(ids) {
			own[at+1] = float64(float32(p.Of(ids[at+1])))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return own, best
}

// Quoted returns a value as JSON.
func Quoted(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Unquoted decodes a value from JSON.
func Unquoted[T any](t testing.TB, text string) T {
	t.Helper()
	return Decode[T](t, []byte(text))
}
