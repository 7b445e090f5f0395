package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
)

// point is a schema without texts that a model could write for ever.
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

// speak gives the site's model a chat template.
func (s *site) speak(source string) {
	s.t.Helper()
	parsed, err := template.Parse(source)
	if err != nil {
		s.t.Fatal(err)
	}
	s.model.settings = &chat.Settings{Source: source, Template: parsed}
}

// TestResponseFormat: a reply is JSON of the schema that the request has, whole and in a stream, the same for the same
// seed alone and beside others; one that is cut says so.
func TestResponseFormat(t *testing.T) {
	s := newSite(t, Options{})
	const path = "/v1/chat/completions"
	format := `"response_format":{"type":"json_schema","json_schema":{"name":"p","strict":true,"schema":` + point + `}}`
	body := `{"messages":[{"role":"user","content":"Aye"}],"seed":4,"max_tokens":80,` + format
	one := post[chatAnswer](s, path, body+"}").Choices[0]
	checkPoint(t, *one.Message.Content)
	if *one.Finish != "stop" {
		t.Errorf("it ends by %s", *one.Finish)
	}
	many := post[chatAnswer](s, path, body+`,"n":8}`)
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
	for _, e := range events[chatAnswer](s, path, body+`,"stream":true,"logprobs":true,"top_logprobs":2}`) {
		if c := e.Choices[0].Delta.Content; c != nil {
			text.WriteString(*c)
		}
	}
	if text.String() != *one.Message.Content {
		t.Errorf("the stream has %q, want %q", text.String(), *one.Message.Content)
	}
	cut := post[chatAnswer](s, path, `{"messages":[{"role":"user","content":"Aye"}],"max_tokens":5,`+format+"}")
	if *cut.Choices[0].Finish != "length" {
		t.Errorf("one of 5 tokens ends by %s", *cut.Choices[0].Finish)
	}
	object := post[chatAnswer](s, path, `{"messages":[{"role":"user","content":"Aye"}],"max_tokens":30,
		"response_format":{"type":"json_object"}}`)
	if c := *object.Choices[0].Message.Content; !strings.HasPrefix(strings.TrimSpace(c), "{") {
		t.Errorf("got %q, want an object", c)
	}
	for format, want := range map[string]string{
		`{"type":"xml"}`:         "response_format: found the type",
		`{"type":"json_schema"}`: "without a schema",
		`{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"not":{}}}}}}`: `#/properties/a/not`,
	} {
		status, _, data := s.do(http.MethodPost, path,
			`{"messages":[{"role":"user","content":"a"}],"response_format":`+format+`}`)
		e := decode[errorAnswer](t, data)
		if status != http.StatusBadRequest || !strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: got %d, %s", format, status, data)
		}
	}
}

// errorAnswer is an error in OpenAI's form.
type errorAnswer struct {
	Error struct{ Message, Param string }
}

// TestOllamaFormat: Ollama's format is "json" or a schema, for texts and for chats.
func TestOllamaFormat(t *testing.T) {
	s := newSite(t, Options{})
	const options = `"stream":false,"options":{"num_predict":80,"seed":1}`
	a := post[ollamaAnswer](s, "/api/generate", `{"prompt":"a","format":`+point+`,`+options+`}`)
	checkPoint(t, *a.Response)
	a = post[ollamaAnswer](s, "/api/generate", `{"prompt":"a","raw":true,"format":`+point+`,`+options+`}`)
	checkPoint(t, *a.Response)
	a = post[ollamaAnswer](s, "/api/chat",
		`{"messages":[{"role":"user","content":"a"}],"format":`+point+`,`+options+`}`)
	checkPoint(t, a.Message.Content)
	a = post[ollamaAnswer](s, "/api/generate", `{"prompt":"a","format":"json",`+options+`}`)
	if !strings.HasPrefix(strings.TrimSpace(*a.Response), "{") {
		t.Errorf("got %q, want an object", *a.Response)
	}
}

// toolTemplates are small templates that know tools, each with a form of calls.
var toolTemplates = map[string]string{
	"objects": `{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}` + calling,
	"list":    `{% if tools %}{{ tools | tojson }}<TOOLCALL>{% endif %}` + calling,
	"granite": `{% if tools %}{{ tools | tojson }}<|tool_call|>{% endif %}` + calling,
	"jamba":   `{% if tools %}{{ tools | tojson }}<tool_calls>{% endif %}` + calling,
	"tags":    `{% if tools %}{{ tools | tojson }}<tool_call><function=f>{% endif %}` + calling,
	"python":  `{% if tools %}{{ tools | tojson }}<|tool_list_start|>{% endif %}` + chatTemplate,
}

const calling = `{% for m in messages %}<{{ m.role }}>{% for c in m.tool_calls %}` +
	`[{{ c.function.name }} {{ c.function.arguments.x }}]{% endfor %}{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// TestTools: a reply that must be a call is one, in every form, with arguments of the function's schema, whole and in a
// stream; and it goes back through the template with its answer.
func TestTools(t *testing.T) {
	for name, source := range toolTemplates {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, Options{})
			s.speak(source)
			tools := `"tools":[{"type":"function","function":{"name":"plot","parameters":` + point + `}},
				{"type":"function","function":{"name":"halt"}}],"seed":3,"max_tokens":400`
			const path = "/v1/chat/completions"
			head := `{"messages":[{"role":"user","content":"Aye"}],` + tools
			body := head + `,"tool_choice":{"type":"function","function":{"name":"plot"}}`
			one := post[chatAnswer](s, path, body+"}").Choices[0]
			if len(one.Message.Calls) != 1 || *one.Finish != "tool_calls" || one.Message.Content != nil {
				t.Fatalf("got %s", quoted(t, one))
			}
			call := one.Message.Calls[0]
			checkPoint(t, call.Function.Arguments)
			if call.Function.Name != "plot" || call.Type != "function" || !strings.HasPrefix(call.ID, "call_") ||
				call.Index != nil {
				t.Errorf("got %+v", call)
			}
			var all []toolCall
			finish := ""
			for _, e := range events[chatAnswer](s, path, body+`,"stream":true}`) {
				all = append(all, e.Choices[0].Delta.Calls...)
				if f := e.Choices[0].Finish; f != nil {
					finish = *f
				}
			}
			if len(all) != 1 || all[0].Function != call.Function || *all[0].Index != 0 || finish != "tool_calls" {
				t.Errorf("the stream has %+v, %s, want %+v", all, finish, call)
			}
			any := post[chatAnswer](s, path, head+`,"tool_choice":"required","parallel_tool_calls":false,"n":4}`)
			for _, c := range any.Choices {
				if len(c.Message.Calls) != 1 {
					t.Errorf("got %s", quoted(t, c))
				}
			}
			call.Index = nil
			again := `{"messages":[{"role":"user","content":"Aye"},{"role":"assistant","content":null,"tool_calls":[` +
				quoted(t, call) + `]},{"role":"tool","tool_call_id":"` + call.ID + `","content":"42"}],` + tools
			if a := post[chatAnswer](s, path, again+`,"tool_choice":"none"}`); len(a.Choices[0].Message.Calls) != 0 {
				t.Errorf("got %s", quoted(t, a))
			}
			ollama := post[ollamaAnswer](s, "/api/chat", strings.Replace(body, `"seed":3,"max_tokens":400`,
				`"stream":false,"options":{"num_predict":400}`, 1)+"}")
			if len(ollama.Message.Calls) != 1 {
				t.Fatalf("Ollama's answer is %s", quoted(t, ollama))
			}
			checkPoint(t, string(ollama.Message.Calls[0].Function.Arguments))
		})
	}
}

// TestToolMessages: the template sees arguments as an object and a content that is a text, and a template that does not
// write calls has them in the content.
func TestToolMessages(t *testing.T) {
	s := newSite(t, Options{})
	for source, want := range map[string]string{
		toolTemplates["objects"]: "<assistant>[plot 7]\n<tool>42\n<assistant>",
		toolTemplates["python"]: "<assistant><|tool_call_start|>[plot(x=7, on=True)]<|tool_call_end|>\n" +
			"<tool>42\n<assistant>",
	} {
		s.speak(source)
		messages := decode[[]message](t, []byte(`[{"role":"assistant","content":null,"tool_calls":[
			{"id":"a","type":"function","function":{"name":"plot","arguments":"{\"x\": 7, \"on\": true}"}}]},
			{"role":"tool","tool_call_id":"a","content":"42"}]`))
		d, err := converse(t.Context(), s.model, "messages", &conversation{messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.model.tok.Decode(nil, d.ids)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestToolsRefused: what cannot be kept to is said with its field.
func TestToolsRefused(t *testing.T) {
	s := newSite(t, Options{})
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",
		"properties":{"a":{"not":{}}}}}}]`
	check := func(body, param, want string) {
		t.Helper()
		status, _, data := s.do(http.MethodPost, "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"a"}],`+body+`}`)
		if e := decode[errorAnswer](t, data); status != http.StatusBadRequest || e.Error.Param != param ||
			!strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: got %d, %s", body, status, data)
		}
	}
	check(tools, "tools", "knows no tools")
	s.speak(`{{ tools }}` + chatTemplate)
	check(tools, "tools", "in what form")
	s.speak(toolTemplates["objects"])
	check(tools+`,"tool_choice":"required"`, "tools", "tools.f.parameters#/properties/a/not")
	check(tools+`,"tool_choice":"sometimes"`, "tool_choice", "sometimes")
	check(tools+`,"tool_choice":{"type":"function","function":{"name":"g"}}`, "tool_choice", `"g"`)
	check(`"tool_choice":"required"`, "tool_choice", "tools with it")
	check(`"tools":[{"type":"web_search"}]`, "tools", "web_search")
	check(`"tools":[{"function":{"name":"a b"}}]`, "tools", `"a b"`)
	check(`"tools":[5]`, "tools", "want an object")
}

// TestSplit: however a reply is cut into pieces, thoughts, text and calls are told apart.
func TestSplit(t *testing.T) {
	forms := map[callStyle]*callForm{}
	for i := range callForms {
		forms[callForms[i].style] = &callForms[i]
	}
	granite := &callForms[slices.IndexFunc(callForms, func(f callForm) bool { return f.open == "<|tool_call|>" })]
	var typed tool
	typed.Function.Name = "f"
	typed.Function.Parameters = json.RawMessage(`{"properties":{"s":{"type":"string"},"n":{"type":"integer"}}}`)
	for _, c := range []struct {
		name, text, reasoning, content, calls string
		d                                     dialog
	}{
		{"plain", "a <b> é", "", "a <b> é", "", dialog{}},
		{"thoughts", "\n<think>\nhm </thin\n</think>\n\nyes", "hm </thin\n", "yes", "", dialog{reasoning: true}},
		{"no thoughts", " <thing>", "", " <thing>", "", dialog{reasoning: true}},
		{"begun", "hm</think>yes", "hm", "yes", "", dialog{reasoning: true, begun: true}},
		{"thoughts that are cut", "hm</thi", "hm</thi", "", "", dialog{reasoning: true, begun: true}},
		{"objects", "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}\n</tool_call>\n" +
			`<tool_call>{"name":"g","arguments":"{\"b\":1}"}</tool_call>`,
			"", "Sure.\n", `f{"a": "</tool_call>"} g{"b":1} `, dialog{calls: forms[callObjects]}},
		{"no object", "<tool_call>nothing</tool_call>!", "", "<tool_call>nothing</tool_call>!", "",
			dialog{calls: forms[callObjects]}},
		{"an object that is cut", `<tool_call>{"name":`, "", `<tool_call>{"name":`, "",
			dialog{calls: forms[callObjects]}},
		{"a list", `<|tool_call|>[{"name":"f","arguments":{"a":[1]}},{"name":"g","parameters":{}}]`, "", "",
			`f{"a":[1]} g{} `, dialog{calls: granite}},
		{"python", `<|tool_call_start|>[f(a=1, b='x"\'é', c=[True, None, {'k': -2.5}]), g()]<|tool_call_end|>Done`,
			"", "Done",
			`f{"a": 1, "b": "x\"'é", "c": [true, null, {"k": -2.5}]} g{} `, dialog{calls: forms[callPython]}},
		{"JSON for python", `<|tool_call_start|>[{"name": "f", "arguments": {"a": 1}, "id": "x"}]<|tool_call_end|>`,
			"", "", `f{"a": 1} `, dialog{calls: forms[callPython]}},
		{"tags", "<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n" +
			"</function>\n</tool_call>",
			"", "", `f{"s": "12", "n": 12} `, dialog{calls: forms[callTags], tools: []tool{typed}}},
	} {
		for size := 1; size < len(c.text)+1; size += 1 + size/3 {
			d := c.d
			s := d.split()
			var all said
			for rest := c.text; rest != ""; {
				n := min(size, len(rest))
				all.add(s.push(rest[:n], n == len(rest)))
				rest = rest[n:]
			}
			calls := ""
			for _, call := range all.calls {
				calls += fmt.Sprint(call.Function.Name, call.Function.Arguments, " ")
			}
			if all.reasoning != c.reasoning || all.content != c.content || calls != c.calls {
				t.Errorf("%s in pieces of %d: got %q, %q, %q, want %q, %q, %q", c.name, size, all.reasoning,
					all.content, calls, c.reasoning, c.content, c.calls)
			}
		}
	}
}

// TestReasoning: thoughts are told apart from the reply, and a format holds for what stands behind them.
func TestReasoning(t *testing.T) {
	s := newSite(t, Options{})
	s.speak(chatTemplate +
		`{% if enable_thinking is not defined or enable_thinking %}<think>{% else %}<think></think>{% endif %}`)
	const body = `{"messages":[{"role":"user","content":"a"}],"max_tokens":40,"seed":2`
	a := post[chatAnswer](s, "/v1/chat/completions", body+"}").Choices[0].Message
	if a.Reasoning == "" || *a.Content != "" {
		t.Errorf("got %s, want thoughts alone", quoted(t, a))
	}
	b := post[chatAnswer](s, "/v1/chat/completions", body+`,"reasoning_effort":"none"}`).Choices[0].Message
	if b.Reasoning != "" || *b.Content == "" {
		t.Errorf("got %s, want no thoughts", quoted(t, b))
	}
	show := post[struct{ Capabilities []string }](s, "/api/show", `{}`)
	if !slices.Contains(show.Capabilities, "thinking") || slices.Contains(show.Capabilities, "tools") {
		t.Errorf("the model is shown to have %v", show.Capabilities)
	}
	o := post[ollamaAnswer](s, "/api/chat", `{"messages":[{"role":"user","content":"a"}],"think":true,"stream":false,
		"options":{"num_predict":20}}`)
	if o.Message.Thinking == "" || o.Message.Content != "" {
		t.Errorf("got %s, want thoughts alone", quoted(t, o))
	}
	c := post[chatAnswer](s, "/v1/chat/completions", body+`,"reasoning_effort":"none","response_format":
		{"type":"json_schema","json_schema":{"schema":`+point+`}}}`).Choices[0].Message
	checkPoint(t, *c.Content)
}
