package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// TestItemReferences checks that an input item may be the id of an item of an earlier response, or of its input, in any
// order, with the same reply as for the items themselves. Items of other keys, or that are not stored, cannot be used.
func TestItemReferences(t *testing.T) {
	alice, a := serve.NewKey("alice", serve.ScopeAll)
	bob, b := serve.NewKey("bob", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob}})
	s.Key = a
	s.Speak(servetest.ToolTemplates["granite"])
	const rest = `,"seed":3,"max_output_tokens":12`
	first := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Größe?"`+rest+"}")
	called := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Aye","seed":3,`+plotTools+
		`,"tool_choice":{"type":"function","name":"plot"}}`)
	asked := servetest.Fetch[struct{ Data []openai.ResponseItem }](s, http.MethodGet,
		"/v1/responses/"+first.ID+"/input_items").Data
	reply, call := first.Output[0], called.Output[0]
	more := []string{
		`{"role":"user","content":"Und dann?"}`,
		`{"type":"function_call_output","call_id":"` + call.CallID + `","output":"42"}`,
	}
	refer := func(item openai.ResponseItem) string {
		return fmt.Sprintf(`{"type":"item_reference","id":%q}`, item.ID)
	}
	text := func(items ...string) string {
		t.Helper()
		r := servetest.Post[openai.Response](s, "/v1/responses", `{"input":[`+strings.Join(items, ",")+"]"+rest+"}")
		return fmt.Sprint(r.Usage.Input, " ", r.Output[0].Content[0].Text)
	}
	want := text(servetest.Quoted(t, asked[0]), servetest.Quoted(t, reply), more[0], servetest.Quoted(t, call), more[1])
	got := text(refer(asked[0]), fmt.Sprintf(`{"id":%q}`, reply.ID), more[0], refer(call), more[1])
	if got != want {
		t.Errorf("by references: %s, want %s", got, want)
	}
	s.Key = b
	refused := func(item, why string) {
		t.Helper()
		status, _, data := s.Do(http.MethodPost, "/v1/responses", `{"input":[`+more[0]+","+item+"]}")
		if status != http.StatusBadRequest || !strings.Contains(string(data), why) {
			t.Errorf("%s: status %d: %s, want %q", item, status, data, why)
		}
	}
	refused(refer(reply), "input: 1: id: found")
	s.Key = a
	refused(refer(openai.ResponseItem{ID: "msg_../../keys"}), "which is no item")
	refused(refer(openai.ResponseItem{ID: strings.Replace(reply.ID, "o0", "o1", 1)}), "which is no item")
	unkept := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"a","store":false`+rest+"}")
	refused(refer(unkept.Output[0]), "which is no item")
	var many []string
	for range openai.MaxReferred + 1 {
		one := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"a","max_output_tokens":1}`)
		many = append(many, refer(one.Output[0]))
	}
	refused(strings.Join(many, ","), "101: found references to items of more than 100 responses")
}
