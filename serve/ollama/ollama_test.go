package ollama_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/ollama"
)

// lines returns the JSON lines of an answer.
func lines(s *servetest.Site, path, body string) (all []ollama.Response) {
	s.T.Helper()
	status, h, data := s.Do(http.MethodPost, path, body)
	if status != http.StatusOK || h.Get("Content-Type") != "application/x-ndjson" {
		s.T.Fatalf("status %d, %s", status, data)
	}
	for from := json.NewDecoder(bytes.NewReader(data)); from.More(); {
		var a ollama.Response
		if err := from.Decode(&a); err != nil {
			s.T.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// TestOllama checks that chats and completions have the same reply as the model alone, in lines and whole, and that the
// last line has counts and times.
func TestOllama(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const options = `"options":{"temperature":0,"num_predict":12,"repeat_penalty":1}`
	o := generate.Options{MaxTokens: 12}
	want := servetest.Direct(t, s.Model, servetest.BytesOf("<user>Call me\n<assistant>"), o)
	raw := servetest.Direct(t, s.Model, servetest.BytesOf("Call me"), o)
	for _, c := range []struct{ path, body, want string }{
		{"/api/chat", `{"model":"tiny:latest","messages":[{"role":"user","content":"Call me"}],` + options, want},
		{"/api/generate", `{"model":"tiny","prompt":"Call me",` + options, want},
		{"/api/generate", `{"model":"tiny","prompt":"Call me","raw":true,` + options, raw},
	} {
		text := func(a ollama.Response) string {
			if a.Message != nil {
				return a.Message.Content
			}
			return *a.Response
		}
		whole := servetest.Post[ollama.Response](s, c.path, c.body+`,"stream":false}`)
		all := lines(s, c.path, c.body+"}")
		var b strings.Builder
		for i, a := range all {
			b.WriteString(text(a))
			if a.Done != (i == len(all)-1) {
				t.Errorf("%s: line %d of %d is %+v", c.path, i, len(all), a)
			}
		}
		if b.String() != c.want || text(whole) != c.want {
			t.Errorf("%s: got %q and %q, want %q", c.path, b.String(), text(whole), c.want)
		}
		for _, a := range []ollama.Response{whole, all[len(all)-1]} {
			if !a.Done || a.Reason != "length" || a.EvalCount != 12 || a.PromptCount < 7 || a.Total <= 0 ||
				a.EvalTime <= 0 || a.PromptTime <= 0 || a.Total < a.EvalTime {
				t.Errorf("%s: the last line is %+v", c.path, a)
			}
		}
	}
	first := servetest.Post[ollama.Response](s, "/api/generate",
		`{"prompt":"Call me","raw":true,"stream":false,`+options+`}`)
	next := servetest.Post[ollama.Response](s, "/api/generate",
		`{"prompt":"!","raw":true,"stream":false,"context":`+servetest.Quoted(t, first.Context)+`,`+options+`}`)
	if w := servetest.Direct(t, s.Model, append(first.Context, '!'), o); *next.Response != w ||
		len(next.Context) != 32 {
		t.Errorf("after a context: got %q and %d ids, want %q", *next.Response, len(next.Context), w)
	}
	if a := servetest.Post[ollama.Response](s, "/api/chat", `{"model":"tiny","messages":[]}`); !a.Done ||
		a.Reason != "load" {
		t.Errorf("a chat without messages has %+v", a)
	}
	for body, want := range map[string]string{
		`{"model":"none","prompt":"a"}`: "none", `{"prompt":"a","options":{"top_k":"x"}}`: "top_k",
		`{"prompt":"a","format":"xml"}`: "format", `{"prompt":"a","think":true}`: "think",
	} {
		status, _, data := s.Do(http.MethodPost, "/api/generate", body)
		if e := servetest.Decode[struct{ Error string }](t, data); status < 400 || !strings.Contains(e.Error, want) {
			t.Errorf("%s: got %d, %s", body, status, data)
		}
	}
}

// TestLogprobs checks that log-probabilities are in the lines with their tokens, and equal those of a completion.
func TestLogprobs(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	type scored struct {
		Token   string
		LogProb float64
		Bytes   []int
		Top     []scored `json:"top_logprobs"`
	}
	type line struct {
		Response string
		Message  struct{ Content string }
		Done     bool
		Logprobs []scored
	}
	const options = `"options":{"temperature":0,"num_predict":12,"repeat_penalty":1}`
	const body = `{"prompt":"Call me","raw":true,"logprobs":true,"top_logprobs":3,` + options
	whole := servetest.Post[line](s, "/api/generate", body+`,"stream":false}`)
	text := ""
	for _, one := range whole.Logprobs {
		for _, x := range one.Bytes {
			text += string([]byte{byte(x)})
		}
		if len(one.Top) != 3 || one.LogProb != one.Top[0].LogProb || one.Token != one.Top[0].Token || one.LogProb >= 0 {
			t.Errorf("got %+v", one)
		}
	}
	if text = string([]rune(text)); text != whole.Response || len(whole.Logprobs) != 12 {
		t.Errorf("%d tokens are %q, want %q", len(whole.Logprobs), text, whole.Response)
	}
	var parts []scored
	_, _, data := s.Do(http.MethodPost, "/api/generate", body+"}")
	for from := json.NewDecoder(bytes.NewReader(data)); from.More(); {
		var a line
		if err := from.Decode(&a); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, a.Logprobs...)
	}
	if !reflect.DeepEqual(parts, whole.Logprobs) {
		t.Errorf("a stream has %+v, want %+v", parts, whole.Logprobs)
	}
	chat := servetest.Post[line](s, "/api/chat",
		`{"messages":[{"role":"user","content":"Call me"}],"stream":false,"logprobs":true,`+options+`}`)
	if len(chat.Logprobs) == 0 || chat.Logprobs[0].Top != nil {
		t.Errorf("a chat has %+v", chat.Logprobs)
	}
	for _, bad := range []string{`"logprobs":true,"top_logprobs":21`, `"top_logprobs":1`} {
		status, _, data := s.Do(http.MethodPost, "/api/generate", `{"prompt":"a",`+bad+`}`)
		if status != http.StatusBadRequest || !strings.Contains(string(data), "top_logprobs: found") {
			t.Errorf("%s: got %d, %s", bad, status, data)
		}
	}
}
