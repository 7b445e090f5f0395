package openai_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// wanted sends a request, and fails unless the response has a status and a text.
func wanted(s *servetest.Site, status int, method, path, body, text string) {
	s.T.Helper()
	if got, _, data := s.Do(method, path, body); got != status || !strings.Contains(string(data), text) {
		s.T.Errorf("%s %s %.200s: status %d: %.400s, want %d and %q", method, path, body, got, data, status, text)
	}
}

type itemList struct{ Data []openai.ResponseItem }

// TestConversations checks that responses in a conversation equal those to the same items without one, continue from
// the state, and store their items, also on the next server, and that items added or deleted in between are read.
func TestConversations(t *testing.T) {
	dir, tok := t.TempDir(), servetest.ByteBPE(t)
	s := servetest.Tokenized(t, tok, dir)
	const greet = `{"role":"user","content":"Hallo Wal"},{"role":"assistant","content":"Hallo Boot"}`
	conv := servetest.Post[openai.Conversation](s, "/v1/conversations", `{"items":[`+greet+`],"metadata":{"a":"b"}}`)
	path := "/v1/conversations/" + conv.ID
	items := func() []openai.ResponseItem {
		t.Helper()
		return servetest.Fetch[itemList](s, http.MethodGet, path+"/items?order=asc&limit=100").Data
	}
	said := []string{}
	for _, item := range items() {
		said = append(said, servetest.Quoted(t, item))
	}
	last := openai.Response{} // the last response made without the conversation
	ask := func(text, more string) openai.Response {
		t.Helper()
		body := fmt.Sprintf(`,"seed":5,"ignore_eos":true,"max_output_tokens":40%s}`, more)
		a := servetest.Post[openai.Response](s, "/v1/responses", fmt.Sprintf(`{"input":%q,"conversation":`, text)+
			servetest.Quoted(t, map[string]string{"id": conv.ID})+body)
		said = append(said, fmt.Sprintf(`{"role":"user","content":%q}`, text))
		input := strings.Join(said, ",")
		if last.ID != "" {
			input = said[len(said)-1]
		}
		b := servetest.Post[openai.Response](s, "/v1/responses", `{"input":[`+input+`]`+
			strings.TrimSuffix(strings.Replace(body, `"store":false`, `"store":true`, 1), "}")+
			`,"previous_response_id":"`+last.ID+`"}`)
		said, last = append(said, servetest.Quoted(t, a.Output[0])), b
		if got, want := a.Output[0].Content[0].Text, b.Output[0].Content[0].Text; got != want ||
			a.Usage.Input != b.Usage.Input || a.Conversation.ID != conv.ID {
			t.Errorf("%s: got %q of %d tokens, want %q of %d", text, got, a.Usage.Input, want, b.Usage.Input)
		}
		return a
	}
	first := ask("Eins über das Meer", "")
	if second := ask("Zwei über das Meer", ""); second.Usage.InputDetails.Cached != first.Usage.Total-1 {
		t.Errorf("of %d tokens before, %d are cached", first.Usage.Total, second.Usage.InputDetails.Cached)
	}
	s = servetest.Tokenized(t, tok, dir)
	ask("Drei nach dem Neustart", `,"store":false`)
	added := servetest.Post[itemList](s, path+"/items", `{"items":[{"role":"user","content":"Dazwischen"}]}`).Data
	said, last = append(said, servetest.Quoted(t, added[0])), openai.Response{}
	ask("Vier nach einem weiteren", "")
	all := items()
	if n := len(all); n != len(said) || n != 11 {
		t.Fatalf("found %d items, want %d", n, len(said))
	}
	wanted(s, 200, http.MethodDelete, path+"/items/"+all[1].ID, "", conv.ID)
	said, last = append(said[:1], said[2:]...), openai.Response{}
	ask("Fünf ohne einen", "")
	wanted(s, 200, http.MethodGet, path+"/items/"+all[2].ID, "", "Eins über das Meer")
	wanted(s, 404, http.MethodGet, path+"/items/"+all[1].ID, "", "no item")
	for _, item := range items() { // an emptied conversation can be continued
		wanted(s, 200, http.MethodDelete, path+"/items/"+item.ID, "", conv.ID)
	}
	said, last = nil, openai.Response{}
	ask("Sechs allein", "")
	wanted(s, 200, http.MethodPost, path, `{"metadata":{"c":"d"}}`, `"metadata":{"c":"d"}`)
	wanted(s, 200, http.MethodGet, path, "", `"metadata":{"c":"d"}`)
	wanted(s, 200, http.MethodDelete, path, "", `"object":"conversation.deleted"`)
	wanted(s, 404, http.MethodGet, path, "", "no conversation")
}

// TestAttacksOnConversations checks that a conversation belongs to its key, is used by one request at a time, and that
// invalid items are refused with their place and change nothing.
func TestAttacksOnConversations(t *testing.T) {
	alice, a := serve.NewKey("alice", serve.ScopeAll)
	bob, b := serve.NewKey("bob", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob}, Store: t.TempDir()})
	s.Key = a
	conv := servetest.Post[openai.Conversation](s, "/v1/conversations", `{"items":[{"role":"user","content":"a"}]}`)
	path, item := "/v1/conversations/"+conv.ID, `{"role":"user","content":"x"}`
	use := fmt.Sprintf(`{"input":"x","max_output_tokens":1,"conversation":%q}`, conv.ID)
	compact := `{"type":"compaction","encrypted_content":"resp_A"}`
	for _, c := range []struct{ method, path, body, text string }{
		{"POST", "/items", `{"items":[` + strings.Repeat(item+",", 20) + item + `]}`, "items: found 21, want at most"},
		{"POST", "/items", `{"items":[]}`, "items: found nothing"},
		{"POST", "/items", `{"items":[{"role":"king","content":"x"}]}`, "items: 0: role: found"},
		{"POST", "/items", `{"items":[` + item + `,{"type":"image"}]}`, "items: 1: found an item of the type"},
		{"POST", "/items", `{"items":[` + compact + `]}`, "items: 0: found an item of the type"},
		{"POST", "/items", `{"items":[{"type":"function_call_output","call_id":"c","output":"x"}]}`,
			"items: found an output of the call"},
		{"POST", "/items", `{"items":[{"type":"function_call","call_id":"c","name":"f","arguments":"["}]}`,
			"items: 0: arguments: found"},
		{"POST", "/items", `{"items":[{"type":"item_reference","id":"msg_A"}]}`, "items: 0: id: found"},
		{"POST", "", `{"metadata":{"a":1}}`, "metadata: found a JSON number"},
		{"POST", "", `{"metadata":{"a":"` + strings.Repeat("x", 513) + `"}}`, "metadata: found"},
		{"GET", "/items?limit=0", "", "limit: found"},
		{"GET", "/items?after=msg_A", "", "after: found"},
	} {
		wanted(s, 400, c.method, path+c.path, c.body, c.text)
	}
	deep := `{"items":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`
	wanted(s, 400, http.MethodPost, path+"/items", deep, "")
	wanted(s, 400, http.MethodPost, "/v1/responses", `{"input":"x","conversation":7}`, "conversation: found 7, want")
	wanted(s, 400, http.MethodPost, "/v1/responses",
		fmt.Sprintf(`{"input":"x","conversation":%q,"previous_response_id":"resp_A"}`, conv.ID), "want one of the two")
	for _, id := range []string{
		"conv_../../x", strings.Replace(conv.ID, "conv_", "resp_", 1), "conv_" + strings.Repeat("A", 26),
	} {
		wanted(s, 404, http.MethodPost, "/v1/responses", fmt.Sprintf(`{"input":"x","conversation":%q}`, id),
			`"param":"conversation"`)
	}
	s.Key = b
	for _, c := range []struct{ method, path, body string }{
		{"GET", path, ""}, {"POST", path, `{"metadata":{}}`}, {"DELETE", path, ""}, {"GET", path + "/items", ""},
		{"POST", path + "/items", `{"items":[` + item + `]}`}, {"DELETE", path + "/items/msg_A", ""},
		{"POST", "/v1/responses", use}, {"POST", "/v1/responses/input_tokens", use},
	} {
		wanted(s, 404, c.method, c.path, c.body, "no conversation that this server keeps for this client")
	}
	s.Key = a
	if got := servetest.Fetch[itemList](s, http.MethodGet, path+"/items").Data; len(got) != 1 {
		t.Errorf("found %d items, want the first alone", len(got))
	}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/responses", strings.NewReader(
		strings.Replace(use, `"max_output_tokens":1`, `"max_output_tokens":16000,"stream":true,"ignore_eos":true`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a)
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := bufio.NewReader(answer.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	wanted(s, 409, http.MethodPost, "/v1/responses", use, "conversation_locked")
	wanted(s, 409, http.MethodPost, path+"/items", `{"items":[`+item+`]}`, "conversation_locked")
	wanted(s, 409, http.MethodDelete, path, "", "conversation_locked")
	wanted(s, 200, http.MethodPost, "/v1/responses/input_tokens", use, `"object":"response.input_tokens"`)
	leave()
	servetest.WaitUntil(t, func() bool {
		status, _, _ := s.Do(http.MethodPost, "/v1/responses", use)
		return status == http.StatusOK
	})
}

// TestCompaction checks that a compacted conversation continues like the whole one, by an item of a few bytes that
// belongs to its key and may occur once.
func TestCompaction(t *testing.T) {
	alice, a := serve.NewKey("alice", serve.ScopeAll)
	bob, b := serve.NewKey("bob", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob}})
	s.Key = a
	const past = `{"role":"system","content":"Be brief."},{"role":"user","content":"Call"},` +
		`{"role":"assistant","content":"Ishmael"},{"role":"user","content":"Why?"}`
	const rest = `{"role":"assistant","content":"So"},{"role":"user","content":"And?"}],"seed":1,"max_output_tokens":9}`
	type compacted struct {
		ID     string
		Output []openai.ResponseItem
		Usage  struct {
			Input int `json:"input_tokens"`
		}
	}
	c := servetest.Post[compacted](s, "/v1/responses/compact", `{"input":[`+past+`]}`)
	n := servetest.Post[map[string]any](s, "/v1/responses/input_tokens", `{"input":[`+past+`]}`)["input_tokens"]
	if len(c.Output) != 3 || c.Output[1].Content[0].Text != "Why?" || c.Output[2].Type != "compaction" ||
		n != float64(c.Usage.Input) {
		t.Fatalf("got %s, of %v tokens", servetest.Quoted(t, c), n)
	}
	window := servetest.Quoted(t, c.Output)
	window = window[1:len(window)-1] + ","
	want := servetest.Post[openai.Response](s, "/v1/responses", `{"input":[`+past+","+rest)
	for _, input := range []string{window, servetest.Quoted(t, c.Output[2]) + ","} {
		got := servetest.Post[openai.Response](s, "/v1/responses", `{"input":[`+input+rest)
		if got.Output[0].Content[0].Text != want.Output[0].Content[0].Text || got.Usage.Input != want.Usage.Input {
			t.Errorf("got %s, want %s", servetest.Quoted(t, got), servetest.Quoted(t, want))
		}
	}
	// New items before a compaction are kept, and another compaction includes all of it.
	again := servetest.Post[compacted](s, "/v1/responses/compact",
		`{"input":[{"role":"system","content":"Longer."},`+strings.TrimSuffix(window, ",")+`]}`)
	if d := again.Usage.Input - c.Usage.Input; d != len("<system>Longer.\n") {
		t.Errorf("%d tokens more, want those of the new message", d)
	}
	wanted(s, 400, http.MethodPost, "/v1/responses", `{"input":[`+window+window+rest, "found a second compaction")
	wanted(s, 400, http.MethodPost, "/v1/responses", `{"input":[{"type":"compaction","encrypted_content":"AAA"},`+rest,
		"input: 0: encrypted_content: found")
	// After a stored response, the input may be empty. With nothing at all, there is nothing to count.
	after := `{"previous_response_id":"` + want.ID + `"}`
	n = servetest.Post[map[string]any](s, "/v1/responses/input_tokens", after)["input_tokens"]
	behind := servetest.Post[compacted](s, "/v1/responses/compact", after)
	if n != float64(behind.Usage.Input) || behind.Usage.Input <= want.Usage.Input || len(behind.Output) != 4 {
		t.Errorf("found %v tokens, and %s after %d", n, servetest.Quoted(t, behind), want.Usage.Input)
	}
	wanted(s, 400, http.MethodPost, "/v1/responses/input_tokens", `{}`, "input: found nothing")
	s.Key = b
	wanted(s, 400, http.MethodPost, "/v1/responses", `{"input":[`+window+rest, "no response that this server keeps")
	s.Key = a
	wanted(s, 200, http.MethodDelete, "/v1/responses/"+c.ID, "", `"deleted":true`)
	wanted(s, 400, http.MethodPost, "/v1/responses", `{"input":[`+window+rest, "encrypted_content: found")
}

// TestAllowedTools checks that a reply calls only functions of allowed_tools, in chats and responses, while the model
// sees all of them.
func TestAllowedTools(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Speak(servetest.ToolTemplates["objects"])
	flat, deep := `{"type":"function","name":"%s"}`, `{"type":"function","function":{"name":"%s"}}`
	list := func(form string, names ...string) string {
		for i, name := range names {
			names[i] = fmt.Sprintf(form, name)
		}
		return "[" + strings.Join(names, ",") + "]"
	}
	tools := func(form string) string { return list(form, "plot", "halt", "sail", "dive") }
	chat := `{"messages":[{"role":"user","content":"Aye"}],"max_tokens":200,"tools":` + tools(deep)
	respond := `{"input":"Aye","max_output_tokens":200,"tools":` + tools(flat)
	called := map[string]bool{}
	for seed := range 3 {
		for mode, must := range map[string]bool{"required": true, "auto": false} {
			a := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions", fmt.Sprintf(
				`%s,"seed":%d,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":%q,"tools":%s}}}`,
				chat, seed, mode, list(deep, "halt", "dive"))).Choices[0].Message
			b := servetest.Post[openai.Response](s, "/v1/responses", fmt.Sprintf(`%s,"seed":%d,"tool_choice":
				{"type":"allowed_tools","mode":%q,"tools":%s}}`, respond, seed, mode, list(flat, "halt", "dive")))
			if must && (len(a.Calls) == 0 || b.Output[0].Type != openai.ItemCall) {
				t.Errorf("seed %d: no call in %s, %s", seed, servetest.Quoted(t, a), servetest.Quoted(t, b.Output))
			}
			for _, c := range a.Calls {
				called[c.Function.Name] = true
			}
			for _, item := range b.Output {
				called[item.Name] = called[item.Name] || item.Type == openai.ItemCall
			}
		}
	}
	if delete(called, ""); called["plot"] || called["sail"] || len(called) == 0 {
		t.Errorf("called were %v, want halt and dive", called)
	}
	for choice, text := range map[string]string{
		`{"type":"allowed_tools","mode":"auto","tools":[]}`:                            "found 0, want 1 to 128",
		`{"type":"allowed_tools","mode":"none","tools":` + list(flat, "halt") + `}`:    "found the mode",
		`{"type":"allowed_tools","mode":"auto","tools":` + list(flat, "fly") + `}`:     "one of tools",
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"image_generation"}]}`: "0: found the type",
		`{"type":"allowed_tools","mode":"auto","tools":7}`:                             "tool_choice: found",
		`{"type":"allowed_tools"}`:                                                     "found the mode",
		`{"type":"custom","name":"halt"}`:                                              "tool_choice: found",
	} {
		wanted(s, 400, http.MethodPost, "/v1/responses", respond+`,"tool_choice":`+choice+"}", text)
	}
}

// TestConversationIsFreeAtOnce checks that when a client has a response in a conversation, whole or as the last event
// of a stream, the conversation accepts its next request.
func TestConversationIsFreeAtOnce(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	use := `{"input":"x","max_output_tokens":1,"conversation":"` +
		servetest.Post[openai.Conversation](s, "/v1/conversations", `{}`).ID + `"`
	for _, stream := range []string{"}", `,"stream":true}`} {
		w := &nextRequest{ResponseRecorder: httptest.NewRecorder(), ask: func() {
			wanted(s, 200, http.MethodPost, "/v1/responses", use+"}", "")
		}}
		s.Hippo.ServeHTTP(w, httptest.NewRequest(http.MethodPost, s.URL+"/v1/responses",
			strings.NewReader(use+stream)))
		if w.ask != nil {
			t.Errorf("the response is %s", w.Body)
		}
	}
}

// nextRequest makes a request when a response has ended.
type nextRequest struct {
	*httptest.ResponseRecorder
	ask func()
}

func (w *nextRequest) Write(data []byte) (int, error) {
	if ask := w.ask; ask != nil && strings.Contains(string(data), `"incomplete_details":{`) {
		w.ask = nil
		ask()
	}
	return w.ResponseRecorder.Write(data)
}
