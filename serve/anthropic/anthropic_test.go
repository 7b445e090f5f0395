package anthropic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/session"
)

const messages, count = "/v1/messages", "/v1/messages/count_tokens"

// thinker is a template with tools, results and reasoning.
const thinker = `{% if tools %}{{ tools | tojson }}call as <tool_call>{"name": ..., "arguments": ...}</tool_call>
{% endif %}{% for m in messages %}<{{ m.role }}{{ " " + m.name if m.name }}>` +
	`{{ "[" + m.reasoning_content + "]" if m.reasoning_content }}` +
	`{% for c in m.tool_calls %}{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }} {% endfor %}` +
	`{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>` +
	`{% if enable_thinking %}<think>{{ reasoning_effort }}<think>{% endif %}{% endif %}`

// end ends a reply of script.
const end = "\x00"

// script makes the model of a site write a text, and returns a pointer to its last prompt.
func script(s *servetest.Site, text string) *string {
	prompt := new(string)
	s.Model.Texts, s.Model.Settings.Stop = nil, []string{end}
	s.Model.Runner = servetest.RunnerFunc(func(ctx context.Context, r *session.Request) error {
		if r.Next == nil {
			*prompt = string(s.Model.Tokenizer.Decode(nil, r.Segments[0].IDs))
			return session.Direct{}.Run(ctx, r)
		}
		for _, b := range []byte(text + end) {
			logits := make([]float32, 256)
			logits[b] = 1000
			if _, more, err := r.Next(logits); err != nil || !more {
				return err
			}
		}
		return nil
	})
	return prompt
}

// event has the fields of an event that the tests read.
type event struct {
	Type    string
	Message anthropic.Message
	Index   int
	Block   anthropic.Block `json:"content_block"`
	Delta   struct {
		Type, Text, Thinking, Signature string
		Input                           string  `json:"partial_json"`
		StopReason                      *string `json:"stop_reason"`
		StopSequence                    *string `json:"stop_sequence"`
	}
	Usage anthropic.Usage
}

// gathered returns the message of a stream. It fails unless the events are in order.
func gathered(s *servetest.Site, body string) (m anthropic.Message) {
	s.T.Helper()
	status, h, data := s.Do(http.MethodPost, messages, body)
	if status != http.StatusOK || h.Get("Content-Type") != "text/event-stream" {
		s.T.Fatalf("%s: status %d: %s", body, status, data)
	}
	open, before := false, ""
	for text := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		head, rest, _ := strings.Cut(text, "\ndata: ")
		e := servetest.Decode[event](s.T, []byte(rest))
		fits := head == "event: "+e.Type
		switch e.Type {
		case "ping":
			continue
		case "message_start":
			fits, m = fits && before == "" && len(e.Message.Content) == 0 && e.Message.StopReason == nil, e.Message
		case "content_block_start":
			fits, open = fits && !open && e.Index == len(m.Content), true
			m.Content = append(m.Content, e.Block)
		case "content_block_delta":
			fits = fits && open && e.Index == len(m.Content)-1
			b, d := &m.Content[e.Index], e.Delta
			switch d.Type {
			case "text_delta":
				*b.Text += d.Text
			case "thinking_delta":
				*b.Thinking += d.Thinking
			case "signature_delta":
				*b.Signature += d.Signature
			case "input_json_delta":
				fits, b.Input = fits && string(b.Input) == "{}", json.RawMessage(d.Input)
			}
		case "content_block_stop":
			fits, open = fits && open, false
		case "message_delta":
			u := e.Usage // the prompt's counts are known from the start
			fits = fits && !open && u.Input == m.Usage.Input && u.CacheRead == m.Usage.CacheRead &&
				u.CacheCreation == m.Usage.CacheCreation
			m.Usage = u
			m.StopReason, m.StopSequence = e.Delta.StopReason, e.Delta.StopSequence
		case "message_stop":
			fits = fits && before == "message_delta"
		}
		if !fits || before == "message_stop" {
			s.T.Errorf("after %q: got %s", before, text)
		}
		before = e.Type
	}
	if before != "message_stop" {
		s.T.Errorf("the stream ends with %q", before)
	}
	return m
}

const weather = `"tools":[{"name":"weather","description":"tells it","input_schema":{"type":"object","properties":` +
	`{"city":{"type":"string"}}}},{"type":"custom","name":"stop","input_schema":{"type":"object"}}]`

// TestMessages checks that a reply consists of blocks, has the right stop reason, and counts its tokens, whole and in a
// stream.
func TestMessages(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(thinker)
	const calls = `<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>` +
		`<tool_call>{"name": "stop", "arguments": {}}</tool_call>`
	const called, stopped = `tool_use weather {"city":"Oslo"}; `, `tool_use stop {}; `
	for _, c := range []struct {
		text, fields     string
		want, reason     string
		output, thoughts int
	}{
		{"Hello.", `"max_tokens":20`, "text Hello.; ", "end_turn", 7, 0},
		{"Hello.", `"max_tokens":3`, "text Hel; ", "max_tokens", 3, 0},
		{"Hello.", `"max_tokens":99999999`, "text Hello.; ", "end_turn", 7, 0},
		{"Hello.", `"max_tokens":0`, "", "max_tokens", 0, 0},
		{"Hello.", `"max_tokens":20,"stop_sequences":["x","lo"]`, "text Hel; ", "stop_sequence lo", 5, 0},
		{"", `"max_tokens":20`, "", "end_turn", 1, 0},
		{"Hm.</think>Yes.", `"max_tokens":50,"thinking":{"type":"enabled","budget_tokens":10}`,
			"thinking Hm.; text Yes.; ", "end_turn", 16, 11},
		{"Hm.</think>Yes.", `"max_tokens":50,"thinking":{"type":"adaptive","display":"omitted"}`,
			"thinking ; text Yes.; ", "end_turn", 16, 11},
		{"Hm", `"max_tokens":2,"thinking":{"type":"adaptive"}`, "thinking Hm; ", "max_tokens", 2, 2},
		{"I look.\n" + calls, `"max_tokens":200,` + weather, "text I look.\n; " + called + stopped, "tool_use", 138, 0},
		{calls, `"max_tokens":200,"tool_choice":{"type":"auto","disable_parallel_tool_use":true},` + weather, called,
			"tool_use", 130, 0},
		{"I look.\n" + calls, `"max_tokens":200,"tool_choice":{"type":"none"},` + weather,
			"text I look.\n" + calls + "; ", "end_turn", 138, 0},
	} {
		prompt := script(s, c.text)
		body := `{` + c.fields + `,"messages":[{"role":"user","content":"Aye"}],"metadata":{"user_id":"a"}`
		whole := servetest.Post[anthropic.Message](s, messages, body+"}")
		var got strings.Builder
		for _, b := range whole.Content {
			switch {
			case b.Text != nil:
				fmt.Fprintf(&got, "%s %s; ", b.Type, *b.Text)
			case b.Thinking != nil && *b.Signature != "":
				fmt.Fprintf(&got, "%s %s; ", b.Type, *b.Thinking)
			case strings.HasPrefix(b.ID, "call_"):
				fmt.Fprintf(&got, "%s %s %s; ", b.Type, b.Name, b.Input)
			}
		}
		reason := *whole.StopReason
		if whole.StopSequence != nil {
			reason += " " + *whole.StopSequence
		}
		u := whole.Usage
		if got.String() != c.want || reason != c.reason || u.Output != c.output || u.Details.Thinking != c.thoughts ||
			u.Input != len(*prompt) || u.CacheRead+u.CacheCreation != 0 {
			t.Errorf("%s: got %s, %s, %+v, want %s, %s, %d, %d", body, &got, reason, u, c.want, c.reason, c.output,
				c.thoughts)
		}
		if !strings.HasPrefix(whole.ID, "msg_") || whole.Type != "message" || whole.Role != "assistant" ||
			whole.Model != "tiny" {
			t.Errorf("got %s", servetest.Quoted(t, whole))
		}
		stream := gathered(s, body+`,"stream":true}`)
		for _, m := range []*anthropic.Message{&whole, &stream} { // each has its own id
			m.ID = ""
			for i := range m.Content {
				m.Content[i].ID = ""
			}
		}
		if a, b := servetest.Quoted(t, stream), servetest.Quoted(t, whole); a != b {
			t.Errorf("the stream has  %s\nwant %s", a, b)
		}
	}
}

// TestSampled checks that with the same seed, a reply equals that of /v1/chat/completions, and that a required tool is
// called.
func TestSampled(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const body = `{"max_tokens":20,"seed":3,"temperature":0.7,"top_p":0.9,"top_k":50,"messages":` +
		`[{"role":"user","content":"Call me"}]}`
	chat := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", body)
	got := servetest.Post[anthropic.Message](s, messages, body)
	if want := *chat.Choices[0].Message.Content; *got.Content[0].Text != want {
		t.Errorf("got %q, want %q", *got.Content[0].Text, want)
	}
	s = servetest.NewSite(t, serve.Options{}) // the first site's model reads ahead
	s.Speak(thinker)
	for choice, want := range map[string]string{
		`{"type":"any","disable_parallel_tool_use":true}`: "", `{"type":"tool","name":"stop"}`: "stop",
	} {
		m := servetest.Post[anthropic.Message](s, messages,
			`{"max_tokens":400,"seed":3,"messages":[{"role":"user","content":"a"}],`+
				`"tool_choice":`+choice+`,"tools":[`+tool("f")+`,`+tool("stop")+`]}`)
		if b := m.Content[0]; b.Type != "tool_use" || want != "" && b.Name != want ||
			string(b.Input) != `{"x":true}` || *m.StopReason != "tool_use" {
			t.Errorf("%s: got %s", choice, servetest.Quoted(t, m))
		}
	}
	m := servetest.Post[anthropic.Message](s, messages, `{"max_tokens":400,"messages":[{"role":"user","content":"a"}],`+
		`"output_config":{"format":{"type":"json_schema","schema":{"const":7}}}}`)
	if text := strings.TrimSpace(*m.Content[0].Text); text != "7" {
		t.Errorf("got %q, want 7", text)
	}
}

// tool returns a tool whose only argument is x, true.
func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"input_schema":{"type":"object","properties":{"x":{"const":true}},"required":["x"],`+
		`"additionalProperties":false}}`, name)
}

// TestPrompt checks the template's input for a request, and the number of tokens.
func TestPrompt(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(thinker)
	const user = `{"role":"user","content":"Hi"}`
	for _, c := range []struct{ fields, want string }{
		{`"messages":[` + user + `]`, "<user>Hi\n<assistant>"},
		{`"system":"Be.","messages":[` + user + `]`, "<system>Be.\n<user>Hi\n<assistant>"},
		{`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1; cch=7f2ab;"},` +
			`{"type":"text","text":"Be."},{"type":"text","text":"Do.",` +
			`"cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[` + user + `]`,
			"<system>Be.\nDo.\n<user>Hi\n<assistant>"},
		{`"messages":[` + user + `,{"role":"user","content":[{"type":"text","text":"there","citations":null}]}]`,
			"<user>Hi\nthere\n<assistant>"},
		{`"messages":[` + user + `,{"role":"assistant","content":[` +
			`{"type":"thinking","thinking":"Hm.","signature":"x"},{"type":"text","text":"I "},` +
			`{"type":"text","text":"look."},` +
			`{"type":"tool_use","id":"a","name":"weather","input":{"city":"Oslo"}},` +
			`{"type":"tool_use","id":"b","name":"stop","input":{}}]},{"role":"user","content":[` +
			`{"type":"tool_result","tool_use_id":"b","is_error":true,"content":"no"},` +
			`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"wet"},` +
			`{"type":"text","text":"cold","cache_control":{"type":"ephemeral"}}]},{"type":"text","text":"And?"}]}]`,
			"<user>Hi\n<assistant>[Hm.]" + `a weather {"city": "Oslo"} b stop {} I look.` + "\n" +
				"<tool stop>Error:\nno\n<tool weather>wet\ncold\n<user>And?\n<assistant>"},
		{`"messages":[` + user + `,{"role":"assistant","content":"Wel"}]`, "<user>Hi\n<assistant>Wel"},
		{`"thinking":{"type":"enabled","budget_tokens":2},"messages":[` + user + `]`,
			"<user>Hi\n<assistant><think>medium<think>"},
		{`"thinking":{"type":"adaptive"},"output_config":{"effort":"max"},"messages":[` + user + `]`,
			"<user>Hi\n<assistant><think>max<think>"},
		{`"thinking":{"type":"disabled"},"output_config":{"effort":"max"},"messages":[` + user + `]`,
			"<user>Hi\n<assistant>"},
		{`"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},` +
			`"cache_control":{"type":"ephemeral"},"eager_input_streaming":true}],"messages":[` + user + `]`,
			`[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]` +
				`call as <tool_call>{"name": ..., "arguments": ...}</tool_call>` + "\n<user>Hi\n<assistant>"},
	} {
		prompt := script(s, "")
		servetest.Post[anthropic.Message](s, messages, `{"max_tokens":5,`+c.fields+`}`)
		if *prompt != c.want {
			t.Errorf("%s\ngot  %q\nwant %q", c.fields, *prompt, c.want)
		}
		n := servetest.Post[map[string]int](s, count, `{`+c.fields+`}`)
		if n["input_tokens"] != len(c.want) {
			t.Errorf("%s: counted %v, want %d", c.fields, n, len(c.want))
		}
	}
}

// TestRefused checks that invalid requests are refused, with the place of the error.
func TestRefused(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(thinker)
	const user = `{"role":"user","content":"Hi"}`
	const hi = `,"messages":[` + user + `]`
	inside := func(block string) string {
		return `"messages":[` + user + `,{"role":"user","content":[` + block + `]}]`
	}
	of := func(block string) string {
		return `"messages":[` + user + `,{"role":"assistant","content":[` + block + `]}]`
	}
	const call = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`
	for fields, want := range map[string]string{
		`"system":"a"`:                 "messages: found none",
		`"messages":[]`:                "messages: found none",
		`"messages":{}`:                "messages: found {}, want a list of messages",
		`"messages":[{"role":"user"}]`: "messages: 0: content: found none",
		`"messages":[` + user + `,{"role":"tool","content":"a"}]`:           `messages: 1: role: found \"tool\"`,
		`"messages":[{"role":"user","content":7}]`:                          "messages: 0: found 7, want a string or a",
		`"messages":[{"role":"user","content":[{"type":"text","text":7}]}]`: "block 0: text: found a JSON number",
		inside(`{"type":"image","source":{"type":"url","url":"http://a"}}`): `messages: 1: content: block 0: found ` +
			`the type \"image\", which the models do not read: want text or tool_result`,
		inside(`{"type":"document","source":{}}`):                               `found the type \"document\"`,
		inside(`{"type":"thinking","thinking":"a"}`):                            `found the type \"thinking\"`,
		of(`{"type":"redacted_thinking","data":"a"}`):                           `want text, thinking or tool_use`,
		of(`{"type":"server_tool_use","id":"a"}`):                               `found the type \"server_tool_use\"`,
		inside(`{"type":"text","text":"a","citations":[{}]}`):                   "citations",
		inside(`{"type":"text","text":"a","cache_control":{"type":"forever"}}`): "cache_control: found",
		inside(`{"type":"tool_result","tool_use_id":"x"}`):                      `found an output of the call \"x\"`,
		inside(`{"type":"tool_result"}`):                                        "tool_use_id: found none",
		`"messages":[` + user + `,` + call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",` +
			`"content":[{"type":"image"}]}]}]`: `block 0: content: block 0: found the type \"image\"`,
		of(`{"type":"tool_use","id":"a","name":"f","input":[]}`): "input: found []",
		of(`{"type":"tool_use","id":"a","name":"","input":{}}`):  "name: found",
		of(`{"type":"tool_use","name":"f","input":{}}`):          "id: found none",
		`"messages":[` + user + `,` + call + `]`:                 "found an assistant's message",
		`"thinking":{"type":"between_tools"}` + hi:               `found the type \"between_tools\"`,
		`"thinking":{"type":"enabled"}` + hi:                     "budget_tokens: found 0",
		`"thinking":{"type":"enabled","budget_tokens":9}` + hi:   "budget_tokens: found 9, want fewer",
		`"thinking":{"type":"adaptive","display":"all"}` + hi:    "display: found",
		`"tools":[{"name":"f"}]` + hi:                            "tools: element 0: input_schema: found",
		`"tools":[{"type":"web_search_20260209","name":"web_search"}]` + hi: `tools: element 0: ` +
			`found the type \"web_search_20260209\"`,
		`"tools":[{"name":"f","input_schema":{},"defer_loading":true}]` + hi: "defer_loading: found",
		`"tool_choice":{"type":"tool"}` + hi:                                 "tool_choice: found",
		`"tool_choice":{"type":"tool","name":"g"},` + weather + `` + hi:      "tool_choice: found",
		`"tool_choice":{"type":"any"}` + hi:                                  "tool_choice: found",
		`"output_config":{"format":{"type":"xml"}}` + hi:                     "output_config: format",
		`"stop_sequences":[""]` + hi:                                         "stop_sequences: found",
		`"temperature":-1` + hi:                                              "temperature: found",
		`"max_tokens":-1` + hi:                                               "max_tokens: found",
		`"max_tokens":null` + hi:                                             "max_tokens: found none",
		`"container":"c"` + hi:                                               "container: found",
		`"mcp_servers":[{"type":"url"}]` + hi:                                "mcp_servers: found",
	} {
		if !strings.Contains(fields, "max_tokens\"") {
			fields = `"max_tokens":5,` + fields
		}
		status, _, data := s.Do(http.MethodPost, messages, `{`+fields+`}`)
		if status != http.StatusBadRequest || !strings.Contains(string(data), want) ||
			!strings.Contains(string(data), `{"type":"error","error":{"type":"invalid_request_error","message":"`) {
			t.Errorf("%s: status %d, %s, want %s", fields, status, data, want)
		}
	}
	s.Speak(servetest.ChatTemplate)
	status, _, data := s.Do(http.MethodPost, count, `{"thinking":{"type":"enabled","budget_tokens":2000},"messages":[`+
		user+`]}`)
	if status != http.StatusBadRequest || !strings.Contains(string(data), "tiny does not think before it replies") {
		t.Errorf("got %d, %s", status, data)
	}
	servetest.Post[map[string]int](s, count, `{"thinking":{"type":"adaptive"},"messages":[`+user+`]}`)
}

// TestPings checks that pings keep the connection open while a prompt is read.
func TestPings(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Hippo.Anthropic.Ping = time.Millisecond
	read := make(chan struct{})
	s.Model.Texts = nil
	s.Model.Runner = servetest.RunnerFunc(func(ctx context.Context, r *session.Request) error {
		if r.Next == nil {
			<-read
		}
		return session.Direct{}.Run(ctx, r)
	})
	a, err := http.Post(s.URL+messages, "application/json",
		strings.NewReader(`{"max_tokens":3,"stream":true,"messages":[{"role":"user","content":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	got := make([]byte, len(ping))
	if _, err := a.Body.Read(got[:1]); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(got); {
		m, err := a.Body.Read(got[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	close(read)
	if string(got) != ping {
		t.Errorf("got %q, want %q", got, ping)
	}
}
