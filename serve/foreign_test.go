package serve_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// foreignBodies returns minimal valid requests of endpoints.
func foreignBodies() map[string]string {
	return map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"a"}],"max_completion_tokens":1`,
		"/v1/completions":      `"prompt":"a","max_tokens":1`,
		"/v1/responses":        `"input":"a","max_output_tokens":1`,
		"/v1/messages":         `"max_tokens":1,"messages":[{"role":"user","content":"a"}]`,
		"/v1/embeddings":       `"input":"a"`,
		"/tokenize":            `"prompt":"a"`,
		"/api/chat":            `"messages":[{"role":"user","content":"a"}],"options":{"num_predict":1},"stream":false`,
		"/api/generate":        `"prompt":"a","options":{"num_predict":1},"stream":false`,
		"/api/embed":           `"input":"a"`,
		"/api/pull":            `"model":"org/model"`,
		"/api/show":            `"model":"tiny"`,
		"/api/embeddings":      `"prompt":"a"`,
		"/apply-template":      `"messages":[{"role":"user","content":"a"}]`,
		"options of /api":      `"num_predict":1`,
		"/v1/sessions":         `"text":"a"`,

		"/v1/responses/compact":      `"input":"a"`,
		"/v1/responses/input_tokens": `"input":"a"`,

		"/v1/messages/count_tokens":  `"messages":[{"role":"user","content":"a"}]`,
		"/v1/sessions/{id}/generate": `"max_tokens":1`,
	}
}

// foreignOf returns the tables of foreign fields by endpoint, from the declared bodies.
func foreignOf(s *serve.Server) map[string]request.Foreign {
	type foreign interface{ Foreign() request.Foreign }
	tables := map[string]request.Foreign{}
	for pattern, form := range s.Forms() {
		path, posted := strings.CutPrefix(pattern, "POST ")
		if form.Body == nil || !posted {
			continue
		}
		body := reflect.New(reflect.TypeOf(form.Body))
		if of, ok := body.Interface().(foreign); ok {
			tables[path] = of.Foreign()
		}
		if options := body.Elem().FieldByName("Options"); options.IsValid() && strings.HasPrefix(path, "/api/") {
			if of, ok := options.Addr().Interface().(foreign); ok {
				tables["options of /api"] = of.Foreign()
			}
		}
	}
	return tables
}

// TestForeignFields checks that a foreign field is refused by name, that it is accepted with a value that has no
// effect, and that a hint is accepted with any value.
func TestForeignFields(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Library: &servetest.NewLibrary(t, "org/model").Library})
	session := servetest.Post[struct{ ID string }](s, "/v1/sessions", `{"text":"a"}`).ID
	bodies, tables := foreignBodies(), foreignOf(s.Hippo)
	for _, path := range slices.Sorted(maps.Keys(tables)) {
		send := func(name, value string) (int, string) {
			field := fmt.Sprintf("%q:%s", name, value)
			at, body := strings.ReplaceAll(path, "{id}", session), "{"+field+","+bodies[path]+"}"
			if path == "options of /api" {
				at, body = "/api/generate", `{"model":"tiny","prompt":"a","stream":false,"options":`+body+"}"
			}
			status, _, data := s.Do(http.MethodPost, at, body)
			return status, string(data)
		}
		if bodies[path] == "" {
			t.Errorf("%s has no body here", path)
		}
		seen := map[string]bool{}
		for _, r := range tables[path].Refused {
			if seen[r.Name()] {
				continue
			}
			seen[r.Name()] = true
			for _, value := range append(strings.Fields(r[1]), "null") {
				if status, data := send(r.Name(), value); status != http.StatusOK {
					t.Errorf("%s, %s %s: status %d, %s, want none", path, r.Name(), value, status, data)
				}
			}
			status, data := send(r.Name(), `"no such value"`)
			if status != http.StatusBadRequest || !strings.Contains(data, r.Name()+": found ") ||
				!strings.Contains(data, "want "+quoted(r.Want())) {
				t.Errorf("%s, %s: status %d, %s", path, r.Name(), status, data)
			}
		}
		for _, name := range strings.Fields(tables[path].Hints) {
			if seen[name] {
				t.Errorf("%s: %s is a hint, and refused", path, name)
			}
			value := `{"k":"v"}`
			if status, data := send(name, value); status != http.StatusOK {
				t.Errorf("%s, %s: status %d, %s, want none", path, name, status, data)
			}
		}
	}
}

// quoted returns a text as encoded in JSON, without quotes.
func quoted(text string) string {
	data, _ := json.Marshal(text) // of a string
	return strings.Trim(string(data), `"`)
}

// TestForeignInside checks the same for fields inside other fields, and for those of messages.
func TestForeignInside(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const chat = `{"messages":[{"role":"user","content":"a"%s}],"max_completion_tokens":1%s}`
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", fmt.Sprintf(chat, `,"images":["aGk="]`, ""), "images: found"},
		{"/v1/chat/completions", fmt.Sprintf(chat, `,"images":[]`, ""), ""},
		{"/api/chat", `{"messages":[{"role":"user","content":"a","images":["aGk="]}]}`, "images: found"},
		{"/api/chat", `{"prompt":"a"}`, "prompt: found"},
		{"/api/generate", `{"messages":[{"role":"user","content":"a"}]}`, "messages: found"},
		{"/api/embed", `{"prompt":"a"}`, "prompt: found"},
		{"/api/embeddings", `{"input":"a"}`, "input: found"},
		{"/v1/chat/completions", fmt.Sprintf(chat, `,"audio":{"id":"a"}`, ""), "audio: found"},
		{"/v1/chat/completions", fmt.Sprintf(chat, "", `,"stream_options":{"continuous_usage_stats":true}`),
			"stream_options.continuous_usage_stats: found"},
		{"/v1/chat/completions", fmt.Sprintf(chat, "", `,"stream_options":{"include_obfuscation":false}`), ""},
		{"/v1/chat/completions", fmt.Sprintf(chat, "", `,"structured_outputs":{"grammar":"root ::= x"}`),
			`structured_outputs.grammar: line 1: found the rule`},
		{"/v1/chat/completions", fmt.Sprintf(chat, "", `,"structured_outputs":{"grammar":"start: start \"a\"|\"b\""}`),
			""},
		{"/v1/completions", `{"prompt":"a","guided_grammar":"start: a{b}"}`, "guided_grammar: line 1, column 8: found"},
		{"/v1/completions", `{"prompt":"a","grammar":"root ::= root \"a\" | \"b\""}`, "grammar: line 1: found left"},
		{"/v1/completions", `{"prompt":"a","grammar":"root ::= \"a\"","guided_grammar":"root ::= \"a\""}`,
			"guided_grammar: found it beside grammar"},
		{"/v1/completions", `{"prompt":"a","max_tokens":60,"grammar":"root ::= \"a\" root \"b\" | \"a\" root \"c\""}`,
			"without any text"},
		{"/v1/completions", `{"prompt":"a","grammar":["root"]}`, "grammar"},
		{"/v1/chat/completions", fmt.Sprintf(chat, "", `,"add_generation_prompt":false`),
			"add_generation_prompt: found"},
		{"/v1/responses", `{"input":"a","max_output_tokens":1,"text":{"verbosity":"low"}}`, "text.verbosity: found"},
		{"/v1/chat/completions", fmt.Sprintf(chat, "", `,"model":""`), "model: found"},
		{"/api/chat", `{"model":""}`, "model: found"},
		{"/api/show", `{"model":"","name":"tiny"}`, ""},
		{"/v1/completions", `{"prompt":"a","max_tokens":2,"min_tokens":3}`, "min_tokens: found 3"},
		{"/v1/completions", `{"prompt":"a","stop_token_ids":[-1]}`, "stop_token_ids: found -1"},
		{"/v1/completions", `{"prompt":"a","guided_regex":"a","guided_choice":["b"]}`, "guided_choice: found"},
		{"/v1/completions", `{"prompt":"a","guided_regex":"a("}`, "guided_regex: found"},
		{"/v1/completions", `{"prompt":"a","guided_json":"{"}`, "guided_json: found"},
	} {
		status, _, data := s.Do(http.MethodPost, c.path, c.body)
		want := http.StatusBadRequest
		if c.want == "" {
			want = http.StatusOK
		}
		if status != want || !strings.Contains(string(data), c.want) {
			t.Errorf("%s: status %d, %s, want %d, %q", c.body, status, data, want, c.want)
		}
	}
}

// TestGuided checks that guided_regex, guided_choice and json_schema of vLLM and llama.cpp constrain a reply, in chats
// and completions.
func TestGuided(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	type answer struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
	}
	is := func(want string) func(text string) bool {
		return func(text string) bool { return strings.TrimSpace(text) == want }
	}
	for field, want := range map[string]func(text string) bool{
		`"guided_regex":"[ab]{3}-x"`: func(text string) bool {
			return len(text) == 5 && strings.Trim(text[:3], "ab") == "" && text[3:] == "-x"
		},
		`"grammar":"root ::= \"(\" root \")\" | [xy]{2}"`: func(text string) bool {
			inner := strings.Trim(text, "()")
			return len(inner) == 2 && strings.Trim(inner, "xy") == "" &&
				strings.Count(text, "(") == strings.Count(text, ")")
		},
		`"guided_grammar":"root ::= \"7\""`:               is("7"),
		`"structured_outputs":{"grammar":"root ::= [7]"}`: is("7"),
		`"guided_choice":["yes","no"]`: func(text string) bool {
			return text == "yes" || text == "no"
		},
		`"structured_outputs":{"choice":["yes"]}`:                       is("yes"),
		`"guided_json":{"const":7}`:                                     is("7"),
		`"guided_json":"{\"const\":7}"`:                                 is("7"),
		`"json_schema":{"const":7}`:                                     is("7"),
		`"structured_outputs":{"json":{"enum":[7]}}`:                    is("7"),
		`"response_format":{"type":"json_object","schema":{"const":7}}`: is("7"),
	} {
		for path, body := range map[string]string{
			"/v1/completions":      `{"prompt":"a","max_tokens":40,` + field + `}`,
			"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"max_tokens":40,` + field + `}`,
		} {
			got := servetest.Post[answer](s, path, body).Choices[0]
			if text := got.Text + got.Message.Content; !want(text) {
				t.Errorf("%s %s: %q", path, field, text)
			}
		}
	}
}

// TestMinTokens checks that a reply does not end before min_tokens, by a stop string or by stop_token_ids. After that,
// these end it, without their text.
func TestMinTokens(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	type answer struct {
		Choices []struct {
			Text   string
			Finish string `json:"finish_reason"`
		}
		Usage struct {
			Completion int `json:"completion_tokens"`
		}
	}
	const body = `{"prompt":"a","max_tokens":40,"guided_regex":"x{30}",`
	for fields, want := range map[string]int{
		`"stop":"x"`: 1, `"stop":"x","min_tokens":7`: 8, `"stop_token_ids":[120]`: 1,
		`"stop_token_ids":[120],"ignore_eos":true`: 1,
	} {
		a := servetest.Post[answer](s, "/v1/completions", body+fields+`}`)
		text := strings.Repeat("x", want-1)
		if a.Usage.Completion != want || a.Choices[0].Text != text || a.Choices[0].Finish != "stop" {
			t.Errorf("%s: %+v, want %d tokens", fields, a, want)
		}
	}
	// With stop_token_ids, the token itself is excluded until then.
	a := servetest.Post[answer](s, "/v1/completions",
		`{"prompt":"a","max_tokens":20,"guided_regex":"[xy]{30}","stop_token_ids":[120],"min_tokens":9,"seed":1}`)
	if text := a.Choices[0].Text; !strings.HasPrefix(text, "yyyyyyyyy") {
		t.Errorf("got %q", text)
	}
}

// TestManyItemsWithin checks that too many items inside a field are refused before they are decoded: an empty item
// takes a hundred times its size in memory.
func TestManyItemsWithin(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	many := func(item string) string { return strings.Repeat(item+",", 1<<18) + item }
	for body, param := range map[string]string{
		`{"messages":[{"role":"assistant","content":"a","tool_calls":[` + many("{}") + `]}]}`: "messages",
		`{"messages":[{"role":"user","content":[` + many(`{"type":"text"}`) + `]}]}`:          "messages",
		`{"messages":[{"role":"user",` + many(`"a":0`) + `}]}`:                                "messages",
		`{"messages":[],"structured_outputs":{"choice":[` + many(`"a"`) + `]}}`:               "structured_outputs",
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			if path == "/v1/messages" && param == "structured_outputs" {
				continue
			}
			status, _, data := s.Do(http.MethodPost, path, body)
			if status != http.StatusBadRequest || !strings.Contains(string(data), param+": found ") ||
				!strings.Contains(string(data), "want at most 262144") {
				t.Errorf("%s %.60s: status %d, %s", path, body, status, data)
			}
		}
	}
}

// TestForeignOnThePage checks that docs/fields.md lists the fields.
func TestForeignOnThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := foreignOf(servetest.NewSite(t, serve.Options{}).Hippo)
	tables["all replies"] = reply.SamplingForeign
	shared, hints := map[request.Refusal]bool{}, map[string]bool{}
	for _, r := range reply.SamplingForeign.Refused {
		shared[r] = true
	}
	for _, name := range strings.Fields(reply.SamplingForeign.Hints) {
		hints[name] = true
	}
	for _, path := range slices.Sorted(maps.Keys(tables)) {
		var wants, plain []string
		names, seen := map[string][]string{}, map[string]bool{}
		for _, r := range tables[path].Refused {
			if seen[r.Name()] || shared[r] && path != "all replies" {
				continue
			}
			seen[r.Name()] = true
			if names[r.Want()] == nil {
				wants = append(wants, r.Want())
			}
			names[r.Want()] = append(names[r.Want()], "`"+r.Name()+"`")
		}
		var b strings.Builder
		for _, want := range wants {
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names[want], ", "), want)
		}
		for _, name := range strings.Fields(tables[path].Hints) {
			if !hints[name] || path == "all replies" {
				plain = append(plain, "`"+name+"`")
			}
		}
		if len(plain) > 0 {
			fmt.Fprintf(&b, "| %s | ignored: without effect on a reply |\n", strings.Join(plain, ", "))
		}
		if !strings.Contains(string(page), b.String()) {
			t.Errorf("docs/fields.md lacks this table of %s:\n## %s\n\n| field | instead |\n|---|---|\n%s", path,
				path, b.String())
		}
	}
}
