package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
)

// lines are those of an answer in lines of JSON.
func lines(s *site, path, body string) (all []ollamaAnswer) {
	s.t.Helper()
	status, h, data := s.do(http.MethodPost, path, body)
	if status != http.StatusOK || h.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("status %d, %s", status, data)
	}
	for from := json.NewDecoder(bytes.NewReader(data)); from.More(); {
		var a ollamaAnswer
		if err := from.Decode(&a); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// TestOllama: a chat and a text have the reply that the model gives alone, line by line and whole; the last line counts
// and times it.
func TestOllama(t *testing.T) {
	s := newSite(t, Options{})
	const options = `"options":{"temperature":0,"num_predict":12,"repeat_penalty":1}`
	o := generate.Options{MaxTokens: 12}
	want := direct(t, s.model, bytesOf("<user>Call me\n<assistant>"), o)
	raw := direct(t, s.model, bytesOf("Call me"), o)
	for _, c := range []struct{ path, body, want string }{
		{"/api/chat", `{"model":"tiny:latest","messages":[{"role":"user","content":"Call me"}],` + options, want},
		{"/api/generate", `{"model":"tiny","prompt":"Call me",` + options, want},
		{"/api/generate", `{"model":"tiny","prompt":"Call me","raw":true,` + options, raw},
	} {
		text := func(a ollamaAnswer) string {
			if a.Message != nil {
				return a.Message.Content
			}
			return *a.Response
		}
		whole := post[ollamaAnswer](s, c.path, c.body+`,"stream":false}`)
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
		for _, a := range []ollamaAnswer{whole, all[len(all)-1]} {
			if !a.Done || a.Reason != "length" || a.EvalCount != 12 || a.PromptCount < 7 || a.Total <= 0 ||
				a.EvalTime <= 0 || a.PromptTime <= 0 || a.Total < a.EvalTime {
				t.Errorf("%s: the last line is %+v", c.path, a)
			}
		}
	}
	first := post[ollamaAnswer](s, "/api/generate", `{"prompt":"Call me","raw":true,"stream":false,`+options+`}`)
	next := post[ollamaAnswer](s, "/api/generate",
		`{"prompt":"!","raw":true,"stream":false,"context":`+quoted(t, first.Context)+`,`+options+`}`)
	if w := direct(t, s.model, append(first.Context, '!'), o); *next.Response != w || len(next.Context) != 32 {
		t.Errorf("after a context: got %q and %d ids, want %q", *next.Response, len(next.Context), w)
	}
	if a := post[ollamaAnswer](s, "/api/chat", `{"model":"tiny","messages":[]}`); !a.Done || a.Reason != "load" {
		t.Errorf("a chat without messages has %+v", a)
	}
	for body, want := range map[string]string{
		`{"model":"none","prompt":"a"}`: "none", `{"prompt":"a","options":{"top_k":"x"}}`: "top_k",
		`{"prompt":"a","format":"xml"}`: "format", `{"prompt":"a","think":true}`: "think",
	} {
		status, _, data := s.do(http.MethodPost, "/api/generate", body)
		if e := decode[struct{ Error string }](t, data); status < 400 || !strings.Contains(e.Error, want) {
			t.Errorf("%s: got %d, %s", body, status, data)
		}
	}
}
