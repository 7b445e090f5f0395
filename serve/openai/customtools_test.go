package openai_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// patchTools are a custom tool with a grammar, and a function.
const patchTools = `"tools":[{"type":"custom","name":"patch","description":"patches","format":{"type":"grammar",
	"syntax":"regex","definition":"(add|cut) \"[a-c]{1,3}\"\\n\\\\?"}},
	{"type":"function","name":"halt"}],"max_output_tokens":400`

var isPatch = regexp.MustCompile(`^(add|cut) "[a-c]{1,3}"\n\\?$`)

// TestCustomTools checks that in every form of calls, a response calls a required custom tool with a text of its
// grammar, whole and in a stream. The tool's output gives the same prompt after previous_response_id, with the call in
// the input, and in a conversation.
func TestCustomTools(t *testing.T) {
	for name, source := range servetest.ToolTemplates {
		t.Run(name, func(t *testing.T) {
			s := servetest.NewSite(t, serve.Options{})
			s.Speak(strings.ReplaceAll(source, "arguments.x", "arguments.input"))
			talk := servetest.Post[openai.Conversation](s, "/v1/conversations", `{}`).ID
			body := `{"input":"Aye","seed":3,` + patchTools + `,"tool_choice":{"type":"custom","name":"patch"}`
			a := servetest.Post[openai.Response](s, "/v1/responses", body+`,"conversation":"`+talk+`"}`)
			if len(a.Output) != 1 || a.Output[0].Type != openai.ItemCustom || a.Status != openai.ResponseCompleted {
				t.Fatalf("got %s", servetest.Quoted(t, a))
			}
			call := a.Output[0]
			if call.Name != "patch" || call.Arguments != nil || !isPatch.MatchString(*call.Input) ||
				!strings.HasPrefix(call.CallID, servetest.CallPrefix(name, "patch")) ||
				!strings.HasPrefix(call.ID, "ctc_") {
				t.Errorf("got %s", servetest.Quoted(t, a))
			}
			kinds, text := responseEvents(s, body+`,"stream":true}`)
			const want = "created in_progress output_item.added custom_tool_call_input.delta " +
				"custom_tool_call_input.done output_item.done completed"
			if got := strings.Join(kinds, " "); got != want || text != *call.Input {
				t.Errorf("the stream has %s with %q, want %s with %q", got, text, want, *call.Input)
			}
			rest := `,"seed":3,"tool_choice":"none",` + patchTools + "}"
			output := `{"type":"custom_tool_call_output","call_id":"` + call.CallID + `","output":"42 é"}]`
			behind := servetest.Post[openai.Response](s, "/v1/responses", `{"previous_response_id":"`+a.ID+
				`","input":[`+output+rest)
			whole := servetest.Post[openai.Response](s, "/v1/responses", `{"input":[{"role":"user","content":"Aye"},`+
				servetest.Quoted(t, call)+","+output+rest)
			said := servetest.Post[openai.Response](s, "/v1/responses",
				`{"conversation":"`+talk+`","input":[`+output+rest)
			for _, other := range []openai.Response{behind, said} {
				if got, want := other.Output[0].Content[0].Text, whole.Output[0].Content[0].Text; got != want ||
					other.Usage.Input != whole.Usage.Input {
					t.Errorf("got %q (%+v), with the call in the input %q (%+v)", got, other.Usage, want, whole.Usage)
				}
			}
			for path, at := range map[string]int{
				"/v1/responses/" + whole.ID + "/input_items?order=asc": 1,
				"/v1/conversations/" + talk + "/items?order=asc":       1,
			} {
				d := servetest.Fetch[struct{ Data []openai.ResponseItem }](s, http.MethodGet, path).Data
				if len(d) < 3 || d[at].Type != openai.ItemCustom || *d[at].Input != *call.Input ||
					d[at+1].Type != openai.ItemAnswer || *d[at+1].Output != "42 é" {
					t.Errorf("%s lists %s", path, servetest.Quoted(t, d))
				}
			}
		})
	}
}

// TestCustomToolsOfChats checks that chats also have custom tools, with a grammar in GBNF or Lark, together with a
// function that is not strict.
func TestCustomToolsOfChats(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(servetest.ToolTemplates["list"])
	type answer struct {
		Choices []struct {
			Message json.RawMessage
			Finish  string `json:"finish_reason"`
		}
	}
	type message struct {
		Calls []struct {
			ID, Type string
			Function *struct{}
			Custom   struct{ Name, Input string }
		} `json:"tool_calls"`
	}
	const tools = `"tools":[{"type":"function","function":{"name":"halt"}},{"type":"custom","custom":{"name":"say",
		"format":{"type":"grammar","grammar":{"syntax":"gbnf","definition":"root ::= \"<\" root \">\" | [\"\\n]"}}}},
		{"type":"custom","custom":{"name":"shout",
		"format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"<\" start \">\" | /[\"\\n]/"}}}}],`
	const begin = `{"max_completion_tokens":300,` + tools + `"messages":[{"role":"user","content":"a"}`
	for _, name := range []string{"say", "shout"} {
		a := servetest.Post[answer](s, "/v1/chat/completions", begin+
			`],"tool_choice":{"type":"custom","custom":{"name":"`+name+`"}}}`).Choices[0]
		calls := servetest.Decode[message](t, a.Message).Calls
		if len(calls) != 1 || calls[0].Type != "custom" || calls[0].Function != nil ||
			calls[0].Custom.Name != name || a.Finish != "tool_calls" ||
			!slices.Contains([]string{`"`, "\n"}, strings.Trim(calls[0].Custom.Input, "<>")) ||
			strings.Count(calls[0].Custom.Input, "<") != strings.Count(calls[0].Custom.Input, ">") {
			t.Fatalf("got %s", a.Message)
		}
		rendered := servetest.Post[struct{ Prompt string }](s, "/apply-template",
			`{"messages":[{"role":"user","content":"a"},`+string(a.Message)+
				`,{"role":"tool","tool_call_id":"x","content":"b"}]}`).Prompt
		if want := "<assistant>[" + name + " ]"; !strings.Contains(rendered, want) {
			t.Errorf("the template writes %q, want %q in it", rendered, want)
		}
	}
}

// TestCustomToolsRefused checks that invalid custom tools are refused with their place.
func TestCustomToolsRefused(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(servetest.ToolTemplates["list"])
	for tool, want := range map[string]string{
		`"name":"f","format":{"type":"grammar","syntax":"yacc","definition":"start: x"}`: `element 0: format: found ` +
			`the syntax \"yacc\", want lark, regex, or gbnf`,
		`"name":"f","format":{"type":"grammar","syntax":"lark","definition":"start: x"}`: `tools.f.parameters#/` +
			`properties/input/x-lark: line 1, column 8: found the rule \"x\"`,
		`"name":"f","format":{"type":"grammar"}`: `found the syntax \"\"`,
		`"name":"f","format":{"type":"json"}`:    `found the type \"json\", want text or grammar`,
		`"name":"f","format":7`:                  `element 0`,
		`"name":"a b"`:                           `found the name \"a b\"`,
		`"description":"x"`:                      `found the name \"\"`,
		`"name":"f","format":{"type":"grammar","syntax":"regex","definition":"("}`: `tools.f.parameters#/properties/` +
			`input/pattern`,
		`"name":"f","format":{"type":"grammar","syntax":"gbnf","definition":"x ::= y"}`: `tools.f.parameters#/` +
			`properties/input/x-gbnf`,
		`"name":"f","format":{"type":"grammar","syntax":"gbnf","definition":"root ::= root"}`: `line 1: found left`,
	} {
		status, _, data := s.Do(http.MethodPost, "/v1/responses", `{"input":"a","tools":[{"type":"custom",`+tool+`}]}`)
		if status != http.StatusBadRequest || !strings.Contains(string(data), want) {
			t.Errorf("%s: got %d, %s, want %q", tool, status, data, want)
		}
	}
	for item, want := range map[string]string{
		`{"type":"custom_tool_call","name":"f","input":"x"}`:              "0: call_id: found none",
		`{"type":"custom_tool_call","call_id":"a","name":"f","input":7}`:  "0: input: found a JSON number",
		`{"type":"custom_tool_call","call_id":"a","name":"","input":"x"}`: "0: name: found",
		`{"type":"custom_tool_call_output","call_id":"a","output":"x"}`:   "want one of a call before it",
		`{"type":"custom_tool_call_output","call_id":"a","output":[{}]}`:  "0: content: found a part",
	} {
		status, _, data := s.Do(http.MethodPost, "/v1/responses", `{"input":[`+item+`]}`)
		if status != http.StatusBadRequest || !strings.Contains(string(data), want) {
			t.Errorf("%s: got %d, %s, want %q", item, status, data, want)
		}
	}
}
