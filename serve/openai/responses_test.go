package openai_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/serve/reply"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// TestResponsesGoOnFromTheState checks that after a response, the next one reads only what is new, also on a restarted
// server with the same folder, and gives the same reply after its states were lost.
func TestResponsesGoOnFromTheState(t *testing.T) {
	dir := t.TempDir()
	tok := servetest.ByteBPE(t)
	begin := func() *servetest.Site { return servetest.Tokenized(t, tok, dir) }
	s := begin()
	id, total := "", 0
	var last, body string
	for turn := range 4 {
		body = fmt.Sprintf(`{"seed":5,"ignore_eos":true,"max_output_tokens":40,
			"instructions":"Sprich von Walen.","input":%q,
			"previous_response_id":%q}`, fmt.Sprint("Frage ", turn, " über das Meer"), id)
		a := servetest.Post[openai.Response](s, "/v1/responses", body)
		if a.Status != openai.ResponseCut || a.Incomplete.Reason != "max_output_tokens" || a.Usage.Output != 40 {
			t.Fatalf("turn %d: %+v", turn, a)
		}
		read := a.Usage.Input - a.Usage.InputDetails.Cached
		if turn > 0 && (a.Usage.InputDetails.Cached != total-1 || read > 60) {
			t.Errorf("turn %d reads %d tokens of %d, %d were there before: %s", turn, read, a.Usage.Input, total,
				a.Usage.InputDetails.Miss)
		}
		last, total = a.Output[0].Content[0].Text, a.Usage.Total
		if turn < 3 {
			id = a.ID
		}
	}
	again := func(what string, cached bool) {
		s := begin()
		a := servetest.Post[openai.Response](s, "/v1/responses", body)
		if got := a.Output[0].Content[0].Text; got != last || a.Usage.InputDetails.Cached > 0 != cached {
			t.Errorf("%s: got %q with %+v, want %q", what, got, a.Usage, last)
		}
	}
	if err := s.Model.Texts.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	again("after a restart", true)
	if err := os.RemoveAll(filepath.Join(dir, "texts")); err != nil {
		t.Fatal(err)
	}
	again("without the states", false)
}

// TestResponsesBelongToTheirClients checks that a response can be seen, listed, continued and deleted by the key that
// created it, and by no other.
func TestResponsesBelongToTheirClients(t *testing.T) {
	alice, a := serve.NewKey("alice", serve.ScopeAll)
	bob, b := serve.NewKey("bob", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob}})
	s.Key = a
	r := servetest.Post[openai.Response](s, "/v1/responses",
		`{"input":[{"role":"user","content":"Call"},{"type":"message",
		"role":"user","content":[{"type":"input_text","text":"me"}]}],"metadata":{"a":"b"},"max_output_tokens":3}`)
	path := "/v1/responses/" + r.ID
	want := func(what string, status int, method, path, body, text string) {
		t.Helper()
		if got, _, data := s.Do(method, path, body); got != status || !strings.Contains(string(data), text) {
			t.Errorf("%s: status %d: %s, want %d and %q", what, got, data, status, text)
		}
	}
	want("show", 200, http.MethodGet, path, "", `"metadata":{"a":"b"}`)
	want("items", 200, http.MethodGet, path+"/input_items?order=asc&limit=1", "", `"text":"Call"}]}],`)
	want("cancel", 200, http.MethodPost, path+"/cancel", "{}", `"status":"incomplete"`)
	s.Key = b
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		want("of another", 404, method, path, "", "no response")
	}
	want("after another's", 404, http.MethodPost, "/v1/responses",
		fmt.Sprintf(`{"input":"x","previous_response_id":%q}`, r.ID), `"param":"previous_response_id"`)
	s.Key = a
	want("delete", 200, http.MethodDelete, path, "", `"deleted":true`)
	want("show the deleted", 404, http.MethodGet, path, "", "no response")
	want("no id", 404, http.MethodGet, "/v1/responses/..%2f..%2fkeys", "", "no response")
	for body, text := range map[string]string{
		`{}`:            `"param":"input"`,
		`{"input":[5]}`: `input: 0: found a JSON number`,
		`{"input":[{"type":"item_reference","id":"a"}]}`: `input: 0: id: found \"a\", which is no item`,
		`{"input":[{"type":"reference"}]}`:               `custom_tool_call_output, item_reference or compaction`,
		`{"input":[{"type":"reasoning"}]}`:               `input: found nothing`,
		`{"input":[{"role":"user"}]}`:                    `want a string or a list of parts`,
		`{"input":"x","max_output_tokens":0}`:            `"param":"max_output_tokens"`,
		`{"input":"x","tools":[{}]}`:                     `"param":"tools"`,
		`{"input":"x","tools":[{"type":"web_search"}]}`:  `found the type \"web_search\", want function or custom`,
		`{"input":"x","tools":[7]}`:                      `element 0: found a JSON number`,
		`{"input":"x","text":{"format":{"type":"xml"}}}`: `"param":"text"`,
	} {
		want(body, 400, http.MethodPost, "/v1/responses", body, text)
	}
	q := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"x","store":false,"max_output_tokens":1}`)
	want("not kept", 404, http.MethodGet, "/v1/responses/"+q.ID, "", "no response")
}

// TestOldResponsesMakeRoom checks that the oldest responses of a client are removed when there are too many, or too
// many bytes.
func TestOldResponsesMakeRoom(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{StateMemory: 60 << 10, MaxResponses: 20})
	var ids []string
	for range 100 {
		a := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Call me","max_output_tokens":1}`)
		if !a.Store || a.StoreError != "" {
			t.Fatalf("not kept: %s", a.StoreError)
		}
		ids = append(ids, a.ID)
	}
	first, _, _ := s.Do(http.MethodGet, "/v1/responses/"+ids[0], "")
	last, _, _ := s.Do(http.MethodGet, "/v1/responses/"+ids[99], "")
	if first != http.StatusNotFound || last != http.StatusOK {
		t.Errorf("the first has status %d, the last %d", first, last)
	}
}

// TestResponseBehindStopString checks that a reply ended by a stop string is continued as a text without that string.
func TestResponseBehindStopString(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	one := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Call me","max_output_tokens":30,"seed":2}`)
	text := one.Output[0].Content[0].Text
	stop := string([]rune(text)[9:11])
	cut, _, _ := strings.Cut(text, stop)
	two := servetest.Post[openai.Response](s, "/v1/responses",
		`{"input":"Call me","max_output_tokens":30,"seed":2,"stop":`+
			servetest.Quoted(t, stop)+`}`)
	if got := two.Output[0].Content[0].Text; got != cut || two.Status != openai.ResponseCompleted {
		t.Fatalf("got %q (%s), want %q", got, two.Status, cut)
	}
	three := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"go on","max_output_tokens":30,"seed":2,
		"previous_response_id":"`+two.ID+`"}`)
	chat := servetest.Post[openai.ChatCompletion](s, "/v1/chat/completions",
		`{"seed":2,"max_tokens":30,"messages":[{"role":"user","content":
		"Call me"},{"role":"assistant","content":`+servetest.Quoted(t, cut)+`},{"role":"user","content":"go on"}]}`)
	if got, want := three.Output[0].Content[0].Text, *chat.Choices[0].Message.Content; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestResponsePlansAreTheirTexts checks that after a reply ended by the template's token, the next response continues
// with the template's text, so that the text read is that of the whole conversation.
func TestResponsePlansAreTheirTexts(t *testing.T) {
	s := servetest.Tokenized(t, servetest.ByteBPE(t), "")
	const ends = 2 // <|im_end|>
	s.Model.Settings.EndIDs = []int32{ends}
	previous := ""
	for turn := range 3 {
		body := fmt.Sprintf(`{"input":"Frage über das Meer","max_output_tokens":300,"previous_response_id":%q,
			"seed":%d,"logit_bias":{"%d":4,"0":-100,"1":-100}}`, previous, turn, ends)
		a := servetest.Post[openai.Response](s, "/v1/responses", body)
		if a.Status != openai.ResponseCompleted || turn > 0 && a.Usage.InputDetails.Cached == 0 {
			t.Fatalf("turn %d: %s with %+v", turn, a.Status, a.Usage)
		}
		previous = a.ID
		var r openai.ResponseRecord
		if err := records.Get(s.Hippo.Responses.Store(), openai.ResponseName("all", a.ID), &r); err != nil {
			t.Fatal(err)
		}
		last := r.Messages[len(r.Messages)-1].Content()
		want, err := reply.ChatText(t.Context(), s.Model, "input", r.Messages[:len(r.Messages)-1])
		if err != nil {
			t.Fatal(err)
		}
		// If a reply ends inside a character, its text has U+FFFD for that part.
		got := request.Text(s.Model.Tokenizer.Decode(nil, records.PlanIDs(records.PlanSegments(r.Plan))))
		if want = request.Text([]byte(want + last)); got != want {
			t.Errorf("turn %d: read was %q, want %q", turn, got, want)
		}
	}
}

// TestDamagedRecordsAreSeen checks that a response with a flipped bit is quarantined and cannot be continued, and that
// the server reports a damaged record of a session.
func TestDamagedRecordsAreSeen(t *testing.T) {
	dir := t.TempDir()
	s := servetest.Tokenized(t, servetest.ByteBPE(t), dir)
	a := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Call me","max_output_tokens":3}`)
	b := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	for _, name := range []string{openai.ResponseName("all", a.ID), "sessions/all/" + b.ID + ".json"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		data, err := os.ReadFile(path)
		if err == nil {
			data[len(data)/2] ^= 1
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	body := `{"input":"x","previous_response_id":"` + a.ID + `"}`
	if status, _, data := s.Do(http.MethodPost, "/v1/responses", body); status != http.StatusNotFound {
		t.Errorf("status %d: %s", status, data)
	}
	if aside, _ := filepath.Glob(filepath.Join(dir, "responses", "all", "*.damaged")); len(aside) != 1 {
		t.Errorf("set aside: %q", aside)
	}
	status, _, data := s.Do(http.MethodGet, "/v1/sessions/"+b.ID, "")
	if status != http.StatusInternalServerError || !strings.Contains(string(data), "log") {
		t.Errorf("status %d: %s", status, data)
	}
	servetest.Fetch[map[string]any](s, http.MethodDelete, "/v1/sessions/"+b.ID)
	if left, _ := filepath.Glob(filepath.Join(dir, "sessions", "all", "*.session")); len(left) != 0 {
		t.Errorf("after the deletion: %q", left)
	}
}
