package openai_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/reply"
)

// point is a schema without strings, which a model could extend forever.
const point = `{"type":"object","properties":{"x":{"type":"integer","minimum":-9,"maximum":9},` +
	`"color":{"enum":["red","green"]},"on":{"type":"boolean"}},"required":["x","color"],"additionalProperties":false}`

type pointValue struct {
	X     *int   `json:"x"`
	Color string `json:"color"`
	On    bool   `json:"on"`
}

func checkPoint(t *testing.T, text string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var p pointValue
	err := d.Decode(&p)
	if err != nil || p.X == nil || *p.X < -9 || *p.X > 9 || p.Color != "red" && p.Color != "green" {
		t.Errorf("got %q (%v), want a point", text, err)
	}
}

// TestResponseFormat checks that a reply is JSON of the request's schema, whole and in a stream, equal for the same
// seed alone and beside others, and that a truncated one says so.
func TestResponseFormat(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const path = "/v1/chat/completions"
	format := `"response_format":{"type":"json_schema","json_schema":{"name":"p","strict":true,"schema":` + point + `}}`
	body := `{"messages":[{"role":"user","content":"Aye"}],"seed":4,"max_tokens":80,` + format
	one := servetest.Post[openai.ChatCompletion](s, path, body+"}").Choices[0]
	checkPoint(t, *one.Message.Content)
	if *one.Finish != "stop" {
		t.Errorf("it ends by %s", *one.Finish)
	}
	many := servetest.Post[openai.ChatCompletion](s, path, body+`,"n":8}`)
	texts := map[string]bool{}
	for _, c := range many.Choices {
		checkPoint(t, *c.Message.Content)
		texts[*c.Message.Content] = true
	}
	if len(texts) < 2 || *many.Choices[0].Message.Content != *one.Message.Content {
		t.Errorf("of 8 replies %d differ, and the first is %q, want %q", len(texts), *many.Choices[0].Message.Content,
			*one.Message.Content)
	}
	var text strings.Builder
	for _, e := range servetest.Events[openai.ChatCompletion](s, path,
		body+`,"stream":true,"logprobs":true,"top_logprobs":2}`) {
		if c := e.Choices[0].Delta.Content; c != nil {
			text.WriteString(*c)
		}
	}
	if text.String() != *one.Message.Content {
		t.Errorf("the stream has %q, want %q", text.String(), *one.Message.Content)
	}
	cut := servetest.Post[openai.ChatCompletion](s, path,
		`{"messages":[{"role":"user","content":"Aye"}],"max_tokens":5,`+format+"}")
	if *cut.Choices[0].Finish != "length" {
		t.Errorf("one of 5 tokens ends by %s", *cut.Choices[0].Finish)
	}
	object := servetest.Post[openai.ChatCompletion](s, path,
		`{"messages":[{"role":"user","content":"Aye"}],"max_tokens":30,
		"response_format":{"type":"json_object"}}`)
	if c := *object.Choices[0].Message.Content; !strings.HasPrefix(strings.TrimSpace(c), "{") {
		t.Errorf("got %q, want an object", c)
	}
	for _, format := range []string{`{"type":"regex","pattern":"[ab]{9}c"}`,
		`{"type":"grammar","grammar":"root ::= [ab]{9} \"c\""}`, `{"type":"choice","choice":["aaaaaaaaac"]}`} {
		ruled := servetest.Post[openai.ChatCompletion](s, path,
			`{"messages":[{"role":"user","content":"Aye"}],"response_format":`+format+`}`)
		said := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Aye","text":{"format":`+format+`}}`)
		for _, c := range []string{*ruled.Choices[0].Message.Content, said.Output[0].Content[0].Text} {
			if len(c) != 10 || strings.Trim(c, "ab") != "c" {
				t.Errorf("%s: got %q", format, c)
			}
		}
	}
	for format, want := range map[string]string{
		`{"type":"xml"}`:         "response_format: found the type",
		`{"type":"choice"}`:      "choices: found 0 texts",
		`{"type":"regex"}`:       "response_format: found regex without a pattern",
		`{"type":"grammar"}`:     "response_format: found grammar without a grammar",
		`{"type":"json_schema"}`: "without a schema",
		`{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"not":5}}}}}`: `#/properties/a/not`,
	} {
		status, _, data := s.Do(http.MethodPost, path,
			`{"messages":[{"role":"user","content":"a"}],"response_format":`+format+`}`)
		e := servetest.Decode[servetest.ErrorAnswer](t, data)
		if status != http.StatusBadRequest || !strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: got %d, %s", format, status, data)
		}
	}
}

// TestOllamaFormat checks that Ollama's format can be "json" or a schema, for texts and for chats.
func TestOllamaFormat(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const options = `"stream":false,"options":{"num_predict":80,"seed":1}`
	a := servetest.Post[ollama.Response](s, "/api/generate", `{"prompt":"a","format":`+point+`,`+options+`}`)
	checkPoint(t, *a.Response)
	a = servetest.Post[ollama.Response](s, "/api/generate", `{"prompt":"a","raw":true,"format":`+point+`,`+options+`}`)
	checkPoint(t, *a.Response)
	a = servetest.Post[ollama.Response](s, "/api/chat",
		`{"messages":[{"role":"user","content":"a"}],"format":`+point+`,`+options+`}`)
	checkPoint(t, a.Message.Content)
	a = servetest.Post[ollama.Response](s, "/api/generate", `{"prompt":"a","format":"json",`+options+`}`)
	if !strings.HasPrefix(strings.TrimSpace(*a.Response), "{") {
		t.Errorf("got %q, want an object", *a.Response)
	}
}

// TestTools checks that a required call is made in every form, with arguments of the function's schema, whole and in a
// stream, and that it can be sent back through the template with its result.
func TestTools(t *testing.T) {
	for name, source := range servetest.ToolTemplates {
		t.Run(name, func(t *testing.T) {
			s := servetest.NewSite(t, serve.Options{})
			s.Speak(source)
			tools := `"tools":[{"type":"function","function":{"name":"plot","parameters":` + point + `}},
				{"type":"function","function":{"name":"halt"}}],"seed":3,"max_tokens":400`
			const path = "/v1/chat/completions"
			head := `{"messages":[{"role":"user","content":"Aye"}],` + tools
			body := head + `,"tool_choice":{"type":"function","function":{"name":"plot"}}`
			one := servetest.Post[openai.ChatCompletion](s, path, body+"}").Choices[0]
			if len(one.Message.Calls) != 1 || *one.Finish != "tool_calls" || one.Message.Content != nil {
				t.Fatalf("got %s", servetest.Quoted(t, one))
			}
			call := one.Message.Calls[0]
			checkPoint(t, call.Function.Arguments)
			if call.Function.Name != "plot" || call.Type != "function" ||
				!strings.HasPrefix(call.ID, servetest.CallPrefix(name, "plot")) || call.Index != nil {
				t.Errorf("got %+v", call)
			}
			var all []reply.ToolCall
			finish := ""
			for _, e := range servetest.Events[openai.ChatCompletion](s, path, body+`,"stream":true}`) {
				all = append(all, e.Choices[0].Delta.Calls...)
				if f := e.Choices[0].Finish; f != nil {
					finish = *f
				}
			}
			if len(all) != 1 || all[0].Function != call.Function || *all[0].Index != 0 || finish != "tool_calls" {
				t.Errorf("the stream has %+v, %s, want %+v", all, finish, call)
			}
			any := servetest.Post[openai.ChatCompletion](s, path,
				head+`,"tool_choice":"required","parallel_tool_calls":false,"n":4}`)
			for _, c := range any.Choices {
				if len(c.Message.Calls) != 1 {
					t.Errorf("got %s", servetest.Quoted(t, c))
				}
			}
			call.Index = nil
			again := `{"messages":[{"role":"user","content":"Aye"},{"role":"assistant","content":null,"tool_calls":[` +
				servetest.Quoted(t, call) + `]},{"role":"tool","tool_call_id":"` + call.ID + `","content":"42"}],` +
				tools
			if a := servetest.Post[openai.ChatCompletion](s, path,
				again+`,"tool_choice":"none"}`); len(a.Choices[0].Message.Calls) != 0 {
				t.Errorf("got %s", servetest.Quoted(t, a))
			}
			ollama := servetest.Post[ollama.Response](s, "/api/chat", strings.Replace(body, `"seed":3,"max_tokens":400`,
				`"stream":false,"options":{"num_predict":400}`, 1)+"}")
			if len(ollama.Message.Calls) != 1 {
				t.Fatalf("Ollama's answer is %s", servetest.Quoted(t, ollama))
			}
			checkPoint(t, string(ollama.Message.Calls[0].Function.Arguments))
		})
	}
}

// TestToolsRefused checks that impossible requests are refused with their field.
func TestToolsRefused(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",
		"properties":{"a":{"not":{"const":1}}}}}}]`
	check := func(body, param, want string) {
		t.Helper()
		status, _, data := s.Do(http.MethodPost, "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"a"}],`+body+`}`)
		if e := servetest.Decode[servetest.ErrorAnswer](t, data); status != http.StatusBadRequest ||
			e.Error.Param != param ||
			!strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: got %d, %s", body, status, data)
		}
	}
	check(tools, "tools", "knows no tools")
	s.Speak(`{{ tools }}` + servetest.ChatTemplate)
	check(tools, "tools", "in what form")
	s.Speak(servetest.ToolTemplates["objects"])
	check(tools+`,"tool_choice":"required"`, "tools", "tools.f.parameters#/properties/a/not")
	check(tools+`,"tool_choice":"sometimes"`, "tool_choice", "sometimes")
	check(tools+`,"tool_choice":{"type":"function","function":{"name":"g"}}`, "tool_choice", "the function g,")
	check(`"tool_choice":"required"`, "tool_choice", "tools with it")
	check(`"tools":[{"type":"web_search"}]`, "tools", "web_search")
	check(`"tools":[{"function":{"name":"a b"}}]`, "tools", `"a b"`)
	check(`"tools":[5]`, "tools", "want an object")
}

// TestReasoning checks that thoughts are separated from the reply, and that a format applies to the text after them.
func TestReasoning(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(servetest.ChatTemplate +
		`{% if enable_thinking is not defined or enable_thinking %}<think>{% else %}<think></think>{% endif %}`)
	const body = `{"messages":[{"role":"user","content":"a"}],"max_tokens":40,"seed":2`
	a := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", body+"}").Choices[0].Message
	if a.Reasoning == "" || *a.Content != "" {
		t.Errorf("got %s, want thoughts alone", servetest.Quoted(t, a))
	}
	b := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions",
		body+`,"reasoning_effort":"none"}`).Choices[0].Message
	if b.Reasoning != "" || *b.Content == "" {
		t.Errorf("got %s, want no thoughts", servetest.Quoted(t, b))
	}
	show := servetest.Post[struct{ Capabilities []string }](s, "/api/show", `{}`)
	if !slices.Contains(show.Capabilities, "thinking") || slices.Contains(show.Capabilities, "tools") {
		t.Errorf("the model is shown to have %v", show.Capabilities)
	}
	o := servetest.Post[ollama.Response](s, "/api/chat",
		`{"messages":[{"role":"user","content":"a"}],"think":true,"stream":false,
		"options":{"num_predict":20}}`)
	if o.Message.Thinking == "" || o.Message.Content != "" {
		t.Errorf("got %s, want thoughts alone", servetest.Quoted(t, o))
	}
	c := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions",
		body+`,"reasoning_effort":"none","response_format":
		{"type":"json_schema","json_schema":{"schema":`+point+`}}}`).Choices[0].Message
	checkPoint(t, *c.Content)
}

// TestToolMessages checks that the template sees arguments as an object and content as a string, and that for a
// template that does not write calls, they are part of the content.
func TestToolMessages(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for source, want := range map[string]string{
		servetest.ToolTemplates["objects"]: "<assistant>[plot 7]\n<tool>42\n<assistant>",
		servetest.ToolTemplates["python"]: "<assistant><|tool_call_start|>[plot(x=7, on=True)]<|tool_call_end|>\n" +
			"<tool>42\n<assistant>",
		"{% if tools %}<function_calls>{% endif %}" + servetest.ChatTemplate: "<assistant><function_calls>" +
			"plot(x=7, on=true)</function_calls>\n<tool>42\n<assistant>",
		"{% if tools %}<|tool_calls_section_begin|>{% endif %}" + servetest.ChatTemplate: "<assistant>" +
			"<|tool_calls_section_begin|><|tool_call_begin|>functions.plot:0<|tool_call_argument_begin|>" +
			`{"x":7,"on":true}` + "<|tool_call_end|><|tool_calls_section_end|>\n<tool>42\n<assistant>",
	} {
		s.Speak(source)
		messages := servetest.Decode[[]reply.Message](t, []byte(`[{"role":"assistant","content":null,"tool_calls":[
			{"id":"a","type":"function","function":{"name":"plot","arguments":"{\"x\": 7, \"on\": true}"}}]},
			{"role":"tool","tool_call_id":"a","content":"42"}]`))
		d, err := reply.Converse(t.Context(), s.Model, "messages", &reply.Chat{Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.Model.Tokenizer.Decode(nil, d.IDs)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
