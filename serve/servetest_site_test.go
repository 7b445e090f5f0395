package serve

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
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

const chatTemplate = `{% for m in messages %}<{{ m.role }}>{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// language is a small model over bytes with decided opinions.
func language(t testing.TB) *model.Model {
	t.Helper()
	return toymodel.New(t, "h3,attention,mamba", 256)
}

// testModel is a model with a scheduler and a store.
func testModel(t testing.TB, name string) *Model {
	t.Helper()
	net := language(t)
	parsed, err := template.Parse(chatTemplate)
	if err != nil {
		t.Fatal(err)
	}
	settings := &chat.Settings{Source: chatTemplate, Template: parsed}
	runner := session.NewScheduler(net, session.SchedulerOptions{Waiting: 1 << 20})
	t.Cleanup(runner.Close)
	texts, err := store.New(t.Context(), store.Options{
		Model: net, Identity: session.Identify(net, tokenizer.Bytes()), Memory: 64 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return NewModel(ModelOptions{
		Name: name, Net: net, Tokenizer: tokenizer.Bytes(), Settings: settings, Runner: runner,
		Texts: texts,
	})
}

// site is a server that a test talks to over the network.
type site struct {
	*httptest.Server
	t      testing.TB
	server *Server
	model  *Model
	key    string
}

func newSite(t testing.TB, o Options) *site {
	t.Helper()
	return siteOf(t, o, testModel(t, "tiny"))
}

// siteOf is a server of a model.
func siteOf(t testing.TB, o Options, m *Model) *site {
	t.Helper()
	s, err := New(o, m)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return &site{Server: web, t: t, server: s, model: m}
}

// do sends a request and returns the status, headers and body of the answer.
func (s *site) do(method, path, body string) (int, http.Header, []byte) {
	s.t.Helper()
	return s.send(method, path, "", strings.NewReader(body))
}

// send is do with a body of a type, "" for none.
func (s *site) send(method, path, kind string, body io.Reader) (int, http.Header, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if s.key != "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, data
}

// post sends JSON and reads the answer, which must be one.
func post[T any](s *site, path, body string) T {
	s.t.Helper()
	status, _, data := s.do(http.MethodPost, path, body)
	if status != http.StatusOK {
		s.t.Fatalf("%s %s: status %d: %s", path, body, status, data)
	}
	return decode[T](s.t, data)
}

func decode[T any](t testing.TB, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// events are those of a stream, which must end by [DONE].
func events[T any](s *site, path, body string) (all []T) {
	s.t.Helper()
	status, h, data := s.do(http.MethodPost, path, body)
	if status != http.StatusOK || h.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%s %s: status %d, %s: %s", path, body, status, h.Get("Content-Type"), data)
	}
	lines, done := bufio.NewScanner(bytes.NewReader(data)), false
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !ok || done:
			s.t.Fatalf("found %q in a stream", lines.Text())
		case text == "[DONE]":
			done = true
		default:
			all = append(all, decode[T](s.t, []byte(text)))
		}
	}
	if !done {
		s.t.Fatalf("the stream does not end by [DONE]: %s", data)
	}
	return all
}

// truth is the log-probabilities of ids (NaN for the first), and of the most probable token in each place, computed
// without a server.
func truth(t testing.TB, m *Model, ids []int32) (own []float64, best []sample.TokenProb) {
	t.Helper()
	s := generate.NewBatch(m.net, 1)
	s.Chunk = session.Chunk(m.net)
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
			own[at+1] = p.Of(ids[at+1])
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return own, best
}

// quoted is a value as JSON.
func quoted(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unquoted is a value from JSON.
func unquoted[T any](t testing.TB, text string) T {
	t.Helper()
	return decode[T](t, []byte(text))
}
