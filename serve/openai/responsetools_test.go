package openai_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

const plotTools = `"tools":[{"type":"function","name":"plot","description":"plots","strict":true,"parameters":` +
	point + `},{"type":"function","name":"halt"}],"max_output_tokens":400`

// TestResponseTools checks that in every form of calls, a response calls a required function with arguments of its
// schema, whole and in a stream. The function's output gives the same prompt after previous_response_id and with the
// call in the input.
func TestResponseTools(t *testing.T) {
	for name, source := range servetest.ToolTemplates {
		t.Run(name, func(t *testing.T) {
			s := servetest.NewSite(t, serve.Options{})
			s.Speak(source)
			body := `{"input":"Aye","seed":3,` + plotTools + `,"tool_choice":{"type":"function","name":"plot"}`
			a := servetest.Post[openai.Response](s, "/v1/responses", body+"}")
			if len(a.Output) != 1 || a.Output[0].Type != openai.ItemCall || a.Status != openai.ResponseCompleted {
				t.Fatalf("got %s", servetest.Quoted(t, a))
			}
			call := a.Output[0]
			checkPoint(t, *call.Arguments)
			if call.Name != "plot" || !strings.HasPrefix(call.CallID, servetest.CallPrefix(name, "plot")) ||
				!strings.HasPrefix(call.ID, "fc_") ||
				call.Status != openai.ResponseCompleted || len(a.Tools) != 2 ||
				!strings.Contains(string(a.ToolChoice), "plot") {
				t.Errorf("got %s", servetest.Quoted(t, a))
			}
			kinds, text := responseEvents(s, body+`,"stream":true}`)
			const want = "created in_progress output_item.added function_call_arguments.delta " +
				"function_call_arguments.done output_item.done completed"
			if got := strings.Join(kinds, " "); got != want || text != *call.Arguments {
				t.Errorf("the stream has %s with %q, want %s with %q", got, text, want, *call.Arguments)
			}
			rest := `,"seed":3,"tool_choice":"none",` + plotTools + "}"
			output := `{"type":"function_call_output","call_id":"` + call.CallID + `","output":"42 é"}]`
			behind := servetest.Post[openai.Response](s, "/v1/responses", `{"previous_response_id":"`+a.ID+
				`","input":[`+output+rest)
			whole := servetest.Post[openai.Response](s, "/v1/responses", `{"input":[{"role":"user","content":"Aye"},`+
				servetest.Quoted(t, call)+","+output+rest)
			if got, want := behind.Output[0].Content[0].Text, whole.Output[0].Content[0].Text; got != want ||
				behind.Usage.Input != whole.Usage.Input {
				t.Errorf("behind the response: %q (%+v), with the call %q (%+v)", got, behind.Usage, want, whole.Usage)
			}
			items := servetest.Fetch[struct{ Data []openai.ResponseItem }](s, http.MethodGet, "/v1/responses/"+whole.ID+
				"/input_items?order=asc")
			if d := items.Data; len(d) != 3 || d[1].Type != openai.ItemCall || d[1].Name != "plot" ||
				d[1].CallID != call.CallID || d[2].Type != openai.ItemOutput || *d[2].Output != "42 é" {
				t.Errorf("the input is listed as %s", servetest.Quoted(t, items))
			}
		})
	}
}

// responseEvents returns the types of a stream's events, with consecutive deltas counted once, and the joined deltas.
func responseEvents(s *servetest.Site, body string) (kinds []string, deltas string) {
	s.T.Helper()
	_, _, data := s.Do(http.MethodPost, "/v1/responses", body)
	number := 0
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		head, json, _ := strings.Cut(block, "\ndata: ")
		e := servetest.Decode[openai.ResponseEvent](s.T, []byte(json))
		if "event: "+e.Type != head || e.Number != number {
			s.T.Errorf("event %d: got %s", number, block)
		}
		number++
		kind := strings.TrimPrefix(e.Type, "response.")
		if e.Delta != nil {
			deltas += *e.Delta
			if kinds[len(kinds)-1] == kind {
				continue
			}
		}
		kinds = append(kinds, kind)
	}
	return kinds, deltas
}

// TestResponseThoughts checks that reasoning is a separate item and is counted, that a template sees it when the
// response is continued, and that there is none without an effort.
func TestResponseThoughts(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(`{% for m in messages %}<{{ m.role }}>{{ "[" + m.reasoning_content + "]" if m.reasoning_content }}` +
		`{{ m.content }}
{% endfor %}<assistant>{% if reasoning_effort == "low" %}<think>{% endif %}`)
	const body = `{"input":"a","max_output_tokens":20,"seed":2,"reasoning":{"effort":"low"}`
	a := servetest.Post[openai.Response](s, "/v1/responses", body+"}")
	if len(a.Output) != 1 || a.Output[0].Type != openai.ItemReasoning || a.Output[0].Status != openai.ResponseCut ||
		a.Output[0].Content[0].Text == "" || a.Output[0].Content[0].Type != openai.PartReasoning {
		t.Fatalf("got %s", servetest.Quoted(t, a))
	}
	if a.Usage.OutputDetails.Reasoning != 20 || *a.Reasoning.Effort != "low" {
		t.Errorf("%+v", a.Usage)
	}
	kinds, text := responseEvents(s, body+`,"stream":true}`)
	const want = "created in_progress output_item.added content_part.added reasoning_text.delta reasoning_text.done " +
		"content_part.done output_item.done incomplete"
	if got := strings.Join(kinds, " "); got != want || text != a.Output[0].Content[0].Text {
		t.Errorf("the events are %s\nwant %s", got, want)
	}
	b := servetest.Post[openai.Response](s, "/v1/responses",
		`{"input":"b","max_output_tokens":5,"previous_response_id":"`+a.ID+
			`"}`)
	c := servetest.Post[openai.Response](s, "/v1/responses",
		`{"input":[{"role":"user","content":"a"},`+servetest.Quoted(t, a.Output[0])+
			`,{"role":"assistant","content":""},{"role":"user","content":"b"}],"max_output_tokens":5,
		"include":["reasoning.encrypted_content"]}`)
	without := servetest.Post[openai.Response](s, "/v1/responses", `{"input":[{"role":"user","content":"a"},
		{"role":"assistant","content":""},{"role":"user","content":"b"}],"max_output_tokens":5}`)
	if b.Usage.Input != c.Usage.Input || b.Output[0].Type != openai.ItemMessage ||
		without.Usage.Input >= b.Usage.Input {
		t.Errorf("behind the response %s, with its items %s", servetest.Quoted(t, b), servetest.Quoted(t, c))
	}
}

// TestResponsesWithToolsGoOnFromTheState checks that with a template that writes calls as the model does, a response is
// continued without reading them again. With other tools, the text is read as a chat.
func TestResponsesWithToolsGoOnFromTheState(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(`{% if tools %}{{ tools | tojson }}<TOOLCALL>{% endif %}{% for m in messages %}<{{ m.role }}>` +
		`{% if m.tool_calls %}<TOOLCALL>[{% for c in m.tool_calls %}{"name":"{{ c.function.name }}","arguments":` +
		`{"x":{{ c.function.arguments.x }},"color":"{{ c.function.arguments.color }}"}}{% endfor %}]</TOOLCALL>` +
		`{% endif %}{{ m.content }}
{% endfor %}<assistant>`)
	const tools = `"tools":[{"type":"function","name":"plot","parameters":{"type":"object",
		"properties":{"x":{"enum":[1,2]},"color":{"enum":["red"]}},"required":["x","color"],
		"additionalProperties":false}}],
		"max_output_tokens":400,
		"tool_choice":"required","parallel_tool_calls":false`
	long := strings.Repeat("über das Meer ", 30)
	went := 0
	for seed := range 12 {
		a := servetest.Post[openai.Response](s, "/v1/responses",
			fmt.Sprintf(`{"input":%q,"seed":%d,%s}`, long, seed, tools))
		b := servetest.Post[openai.Response](s, "/v1/responses",
			fmt.Sprintf(`{"previous_response_id":%q,"input":[{"type":
			"function_call_output","call_id":%q,"output":"42"}],%s}`, a.ID, a.Output[0].CallID, tools))
		if b.Usage.InputDetails.Cached == a.Usage.Total-1 {
			went++
		}
		other := servetest.Post[openai.Response](s, "/v1/responses",
			fmt.Sprintf(`{"previous_response_id":%q,"input":[{"type":
			"function_call_output","call_id":%q,"output":"42"}],"max_output_tokens":3}`, a.ID, a.Output[0].CallID))
		if other.Usage.InputDetails.Cached >= a.Usage.Total-1 {
			t.Errorf("without tools %d tokens of %d were there", other.Usage.InputDetails.Cached, a.Usage.Total)
		}
	}
	if went == 0 {
		t.Error("no response went on from the state")
	}
}

// TestResponseItemsRefused checks that invalid items are refused with their place and the expected value.
func TestResponseItemsRefused(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for item, want := range map[string]string{
		`{"type":"function_call","name":"f","arguments":"{}"}`:                 "0: call_id: found none",
		`{"type":"function_call","call_id":"a","name":"a b","arguments":"{}"}`: `0: name: found`,
		`{"type":"function_call","call_id":"a","name":"f","arguments":"[1"}`:   "0: arguments: found [1, want",
		`{"type":"function_call_output","call_id":"a","output":"x"}`:           `want one of a call before it`,
		`{"type":"function_call_output","call_id":"a","output":{}}`:            "0: output: found {}",
		`{"type":"function_call_output","output":"x"}`:                         "0: call_id: found none",
		`{"type":"reasoning","content":[{"type":"summary_text"}]}`:             "want reasoning_text",
		`{"type":"reasoning","content":7}`:                                     "0: content: found a JSON number",
		`{"type":"reasoning","summary":[]}`:                                    "found nothing",
	} {
		status, _, data := s.Do(http.MethodPost, "/v1/responses", `{"input":[`+item+`]}`)
		e := servetest.Decode[servetest.ErrorAnswer](t, data)
		if status != http.StatusBadRequest || e.Error.Param != "input" || !strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: got %d, %s, want %q", item, status, data, want)
		}
	}
	kinds, _ := responseEvents(s, `{"input":"a","max_output_tokens":3,"stream":true}`)
	if !slices.Contains(kinds, "incomplete") {
		t.Errorf("got %q", kinds)
	}
}

// TestResponseFormats checks that the text of a response matches the schema in text.format, which is returned.
func TestResponseFormats(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	a := servetest.Post[openai.Response](s, "/v1/responses",
		`{"input":"Größe?","max_output_tokens":80,"seed":4,"text":{"format":{
		"type":"json_schema","name":"p","strict":true,"schema":`+point+`}}}`)
	checkPoint(t, a.Output[0].Content[0].Text)
	if a.Status != openai.ResponseCompleted || !strings.Contains(string(a.Text.Format), `"maximum":9`) {
		t.Errorf("got %s", servetest.Quoted(t, a))
	}
	a = servetest.Post[openai.Response](s, "/v1/responses", `{"input":"a","max_output_tokens":30,"text":{"format":
		{"type":"json_object"}}}`)
	if text := a.Output[0].Content[0].Text; !strings.HasPrefix(strings.TrimSpace(text), "{") {
		t.Errorf("got %q, want an object", text)
	}
}
