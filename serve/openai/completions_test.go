package openai_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/reply"
)

// TestPromptForms checks that a prompt can be a text, a list of texts, ids, or a list of lists of ids, and that the
// replies to each equal those of the model alone.
func TestPromptForms(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	o := generate.Options{MaxTokens: 20}
	o.Temperature, o.Seed = 1, 7
	want := func(prompt string, j int) string {
		o := o
		o.Seed += uint64(j)
		return servetest.Direct(t, s.Model, servetest.BytesOf(prompt), o)
	}
	for form, prompts := range map[string][]string{
		`"Call me"`: {"Call me"}, `["Call me","é"]`: {"Call me", "é"},
		`[67,97]`: {"Ca"}, `[[67,97],[98]]`: {"Ca", "b"},
		`["a"]`: {"a"},
	} {
		for _, stream := range []bool{false, true} {
			body := fmt.Sprintf(`{"model":"tiny","prompt":%s,"n":2,"seed":7,"max_tokens":20,"stream":%v}`, form, stream)
			got := make([]string, 2*len(prompts))
			ends := make([]string, len(got))
			var answers []openai.Completion
			if stream {
				answers = servetest.Events[openai.Completion](s, "/v1/completions", body)
			} else {
				answers = []openai.Completion{servetest.Post[openai.Completion](s, "/v1/completions", body)}
			}
			for _, a := range answers {
				for _, c := range a.Choices {
					got[c.Index] += c.Text
					if c.Finish != nil {
						ends[c.Index] += *c.Finish
					}
				}
			}
			for i := range got {
				if w := want(prompts[i/2], i%2); got[i] != w || ends[i] != "length" {
					t.Errorf("%s: choice %d is %q, ended by %q, want %q", body, i, got[i], ends[i], w)
				}
			}
		}
	}
}

// TestEchoAndLogprobs checks that the joined events of a stream equal the whole answer: text, tokens, log-probabilities
// and offsets, after the prompt, and that the usage counts what was read, cached and generated.
func TestEchoAndLogprobs(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	body := `{"prompt":"Call me é","max_tokens":30,"temperature":0,"logprobs":2,"echo":true`
	whole := servetest.Post[openai.Completion](s, "/v1/completions", body+"}")
	var text string
	var p openai.CompletionLogprobs
	all := servetest.Events[openai.Completion](s, "/v1/completions",
		body+`,"stream":true,"stream_options":{"include_usage":true}}`)
	for _, a := range all {
		for _, c := range a.Choices {
			text += c.Text
			p.Tokens, p.Values = append(p.Tokens, c.Logprobs.Tokens...), append(p.Values, c.Logprobs.Values...)
			p.Top, p.Offset = append(p.Top, c.Logprobs.Top...), append(p.Offset, c.Logprobs.Offset...)
		}
	}
	c := whole.Choices[0]
	if text != c.Text || !strings.HasPrefix(text, "Call me é") ||
		servetest.Quoted(t, p) != servetest.Quoted(t, c.Logprobs) {
		t.Errorf("the stream has %q and %s\nwant %q and %s", text, servetest.Quoted(t, p), c.Text,
			servetest.Quoted(t, c.Logprobs))
	}
	if len(p.Tokens) != 40 || p.Offset[9] != 8 || p.Offset[10] != 9 {
		t.Errorf("%d tokens with offsets %v, want 40; é is two at 8, and 9 follows", len(p.Tokens), p.Offset)
	}
	want := reply.Usage{Prompt: 10, Completion: 30, Total: 40}
	want.Details.Miss = "no log-probabilities of it are kept"
	if u := all[len(all)-1].Usage; *whole.Usage != want || u == nil || *u != want || all[0].Usage != nil {
		t.Errorf("usage is %+v and %+v, want %+v, in the last event only", whole.Usage, u, want)
	}
	long := servetest.Quoted(t, strings.Repeat("whale ", 100))
	servetest.Post[openai.Completion](s, "/v1/completions", `{"prompt":`+long+`,"max_tokens":1}`)
	again := servetest.Post[openai.Completion](s, "/v1/completions", `{"prompt":`+long+`,"max_tokens":1}`)
	if again.Usage.Details.Cached != 600 {
		t.Errorf("a prompt that was read before has usage %+v", again.Usage)
	}
}

// TestBestOf checks that the returned replies are those with the most probable tokens, the best first.
func TestBestOf(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	mean := func(c openai.CompletionChoice) float64 {
		sum := 0.0
		for _, x := range c.Logprobs.Values {
			sum += *x
		}
		return sum / float64(len(c.Logprobs.Values))
	}
	const body = `{"prompt":"Call","max_tokens":10,"seed":3,"logprobs":0,"temperature":1.5,`
	all := servetest.Post[openai.Completion](s, "/v1/completions", body+`"n":6}`).Choices
	slices.SortFunc(all, func(a, b openai.CompletionChoice) int { return int(math.Copysign(1, mean(b)-mean(a))) })
	best := servetest.Post[openai.Completion](s, "/v1/completions", body+`"n":2,"best_of":6}`)
	if len(best.Choices) != 2 || best.Choices[0].Text != all[0].Text || best.Choices[1].Text != all[1].Text {
		t.Errorf("got %v, want the first two of %v", best.Choices, all)
	}
	if best.Usage.Completion != 60 {
		t.Errorf("usage is %+v, want all that was drawn", best.Usage)
	}
}

// TestStop checks that a reply ends before a stop string, also in a stream, and that the string's tokens are not
// returned.
func TestStop(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	ids := servetest.BytesOf("Call me")
	text := servetest.Direct(t, s.Model, ids, generate.Options{MaxTokens: 40})
	at := len([]rune(text)) / 2
	stop := string([]rune(text)[at : at+2])
	want, _, _ := strings.Cut(text, stop)
	body := fmt.Sprintf(`{"prompt":"Call me","max_tokens":40,"temperature":0,"logprobs":1,"stop":%s`,
		servetest.Quoted(t, stop))
	for _, a := range [][]openai.Completion{
		{servetest.Post[openai.Completion](s, "/v1/completions", body+"}")},
		servetest.Events[openai.Completion](s, "/v1/completions", body+`,"stream":true}`),
	} {
		got, finish, last := "", "", -1
		for _, e := range a {
			c := e.Choices[0]
			got += c.Text
			if c.Finish != nil {
				finish = *c.Finish
			}
			for _, at := range c.Logprobs.Offset {
				last = at
			}
		}
		if got != want || finish != "stop" || last >= len([]rune(want)) {
			t.Errorf("got %q, ended by %q, the last token at %d; want %q", got, finish, last, want)
		}
	}
}

// TestBias checks that a bias of 100 selects a token, and one of -100 excludes it.
func TestBias(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const body = `{"prompt":"Call","max_tokens":8,"temperature":1,"seed":1,"logit_bias":`
	if a := servetest.Post[openai.Completion](s, "/v1/completions",
		body+`{"88":100}}`); a.Choices[0].Text != "XXXXXXXX" {
		t.Errorf("got %q", a.Choices[0].Text)
	}
	var all strings.Builder
	for i := range 256 {
		if i != 65 && i != 66 {
			fmt.Fprintf(&all, `"%d":-100,`, i)
		}
	}
	a := servetest.Post[openai.Completion](s, "/v1/completions", body+"{"+strings.TrimSuffix(all.String(), ",")+"}}")
	if strings.Trim(a.Choices[0].Text, "AB") != "" || len(a.Choices[0].Text) != 8 {
		t.Errorf("got %q, want nothing but A and B", a.Choices[0].Text)
	}
}

// TestChat checks that a chat is rendered by the template, with content in parts or whole, and that its
// log-probabilities are those of its text.
func TestChat(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	o := generate.Options{MaxTokens: 12}
	want := servetest.Direct(t, s.Model, servetest.BytesOf("<system>Be brief.\n<user>Call me\n<assistant>"), o)
	const body = `{"model":"tiny","temperature":0,"max_completion_tokens":12,"logprobs":true,"top_logprobs":3,
		"messages":[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":[{"type":"text","text":"Call "},{"type":"text","text":"me"}]}]`
	a := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", body+"}")
	c := a.Choices[0]
	if *c.Message.Content != want || c.Message.Role != "assistant" || *c.Finish != "length" {
		t.Errorf("got %+v, want %q", c, want)
	}
	if len(c.Logprobs.Content) != 12 {
		t.Fatalf("%d log-probabilities, want 12", len(c.Logprobs.Content))
	}
	for i, p := range c.Logprobs.Content {
		if top := *p.Top; len(top) != 3 || top[0].LogProb != p.LogProb || len(p.Bytes) != 1 {
			t.Errorf("token %d has %s, want itself first of three", i, servetest.Quoted(t, p))
		}
	}
	text, role, finish := "", "", ""
	var tokens []openai.ChatLogprob
	for _, e := range servetest.Events[openai.ChatCompletion](s, "/v1/chat/completions", body+`,"stream":true}`) {
		d := e.Choices[0]
		role += d.Delta.Role
		if d.Delta.Content != nil {
			text += *d.Delta.Content
		}
		if d.Logprobs != nil {
			tokens = append(tokens, d.Logprobs.Content...)
		}
		if d.Finish != nil {
			finish += *d.Finish
		}
	}
	if text != want || role != "assistant" || finish != "length" ||
		servetest.Quoted(t, tokens) != servetest.Quoted(t, c.Logprobs.Content) {
		t.Errorf("the stream has %q of %q, ended by %q, with %s", text, role, finish, servetest.Quoted(t, tokens))
	}
}

// TestWrongFields checks that an invalid request gets the right status, parameter and code, and that unknown fields are
// ignored.
func TestWrongFields(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{MaxPrompt: 50, MaxTokens: 100, MaxBody: 20000})
	completions, chats := "/v1/completions", "/v1/chat/completions"
	for _, c := range []struct {
		path, body  string
		status      int
		param, code string
	}{
		{completions, `{"prompt":"a","max_tokens":1,"user":"x","metadata":{"a":[1]},"stop":null}`, 200, "", ""},
		{completions, `{`, 400, "", ""},
		{completions, `[]`, 400, "", ""},
		{completions, `{}`, 400, "prompt", ""},
		{completions, `{"prompt":[]}`, 400, "prompt", ""},
		{completions, `{"prompt":5}`, 400, "prompt", ""},
		{completions, `{"prompt":[1,"a"]}`, 400, "prompt", ""},
		{completions, `{"prompt":[[]]}`, 400, "prompt", ""},
		{completions, `{"prompt":[256]}`, 400, "prompt", ""},
		{completions, `{"prompt":[-1]}`, 400, "prompt", ""},
		{completions, `{"prompt":[1.5]}`, 400, "prompt", ""},
		{completions, `{"prompt":""}`, 400, "prompt", ""},
		{completions, `{"prompt":"` + strings.Repeat("a", 51) + `"}`, 400, "prompt", ""},
		{completions, `{"prompt":"` + strings.Repeat("a", 20000) + `"}`, 413, "", "request_too_large"},
		{completions, `{"prompt":"a","model":"gpt"}`, 404, "model", "model_not_found"},
		{completions, `{"prompt":"a","temperature":"x"}`, 400, "temperature", ""},
		{completions, `{"prompt":"a","temperature":-1}`, 400, "temperature", ""},
		{completions, `{"prompt":"a","max_tokens":101}`, 400, "max_tokens", ""},
		{completions, `{"prompt":"a","max_tokens":1.5}`, 400, "max_tokens", ""},
		{completions, `{"prompt":"a","top_p":2}`, 400, "top_p", ""},
		{completions, `{"prompt":"a","n":0}`, 400, "n", ""},
		{completions, `{"prompt":"a","n":1000}`, 400, "n", ""},
		{completions, `{"prompt":"a","n":3,"best_of":2}`, 400, "best_of", ""},
		{completions, `{"prompt":"a","best_of":2,"stream":true}`, 400, "best_of", ""},
		{completions, `{"prompt":"a","logprobs":21}`, 400, "logprobs", ""},
		{completions, `{"prompt":"a","suffix":"b"}`, 400, "suffix", ""},
		{completions, `{"prompt":"a","stop":[""]}`, 400, "stop", ""},
		{completions, `{"prompt":"a","stop":{}}`, 400, "stop", ""},
		{completions, `{"prompt":"a","logit_bias":{"x":1}}`, 400, "logit_bias", ""},
		{completions, `{"prompt":"a","logit_bias":{"256":1}}`, 400, "logit_bias", ""},
		{completions, `{"prompt":"a","logit_bias":{"1":101}}`, 400, "logit_bias", ""},
		{completions, `{"prompt":"a","presence_penalty":3}`, 400, "presence_penalty", ""},
		{completions, `{"prompt":"a","stream_options":{"include_usage":1}}`, 400, "stream_options", ""},
		{chats, `{"messages":[]}`, 400, "messages", ""},
		{chats, `{"messages":"x"}`, 400, "messages", ""},
		{chats, `{"messages":[{"content":"x"}]}`, 400, "messages", ""},
		{chats, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "messages", ""},
		{chats, `{"messages":[{"role":"user","content":"x"}],"tools":[{}]}`, 400, "tools", ""},
		{chats, `{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"xml"}}`, 400,
			"response_format", ""},
		{chats, `{"messages":[{"role":"user","content":"x"}],"top_logprobs":1}`, 400, "top_logprobs", ""},
		{chats, `{"messages":[{"role":"user","content":"x"}],"max_tokens":0}`, 400, "max_tokens", ""},
		{"/tokenize", `{}`, 400, "prompt", ""},
		{"/detokenize", `{"tokens":[-5]}`, 400, "tokens", ""},
		{"/v1/nothing", `{}`, 404, "", "unknown_url"},
		{"/v1/models", `{}`, 405, "", ""},
	} {
		status, _, data := s.Do(http.MethodPost, c.path, c.body)
		var got struct {
			Error struct{ Message, Type, Param, Code string }
		}
		if status != http.StatusOK {
			got = servetest.Decode[struct {
				Error struct{ Message, Type, Param, Code string }
			}](t, data)
		}
		e := got.Error
		if status != c.status || e.Param != c.param || e.Code != c.code {
			t.Errorf("%s %.80s: got %d, %s\nwant %d, the parameter %q and the code %q", c.path, c.body, status, data,
				c.status, c.param, c.code)
		}
		if status >= 400 && (e.Message == "" || e.Type != "invalid_request_error") {
			t.Errorf("%s %.80s: the error is %s", c.path, c.body, data)
		}
	}
}

// TestModels checks the list and descriptions of models.
func TestModels(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	_, _, data := s.Do(http.MethodGet, "/v1/models", "")
	list := servetest.Decode[struct {
		Object string
		Data   []openai.Model
	}](t, data)
	if list.Object != "list" || len(list.Data) != 1 || list.Data[0].ID != "tiny" {
		t.Errorf("got %s", data)
	}
	if _, _, data := s.Do(http.MethodGet, "/v1/models/tiny", ""); servetest.Decode[openai.Model](t,
		data) != list.Data[0] {
		t.Errorf("got %s", data)
	}
	if status, _, data := s.Do(http.MethodGet, "/v1/models/org/none", ""); status != http.StatusNotFound {
		t.Errorf("got %d, %s", status, data)
	}
}
