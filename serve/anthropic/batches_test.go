package anthropic_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/batch"
)

const batches = "/v1/messages/batches"

// ended waits for the end of a batch.
func ended(s *servetest.Site, id string) anthropic.Batch {
	s.T.Helper()
	for {
		b := servetest.Fetch[anthropic.Batch](s, http.MethodGet, batches+"/"+id)
		if b.Status == "ended" {
			return b
		}
		time.Sleep(time.Millisecond)
	}
}

// outcome is a line of results.
type outcome struct {
	ID     string `json:"custom_id"`
	Result struct {
		Type    string
		Message *anthropic.Message
		Error   *struct {
			Type  string
			Error struct{ Type, Message string }
		}
	}
}

// outcomes returns the results of a batch by id.
func outcomes(s *servetest.Site, b anthropic.Batch) map[string]outcome {
	s.T.Helper()
	status, h, data := s.Do(http.MethodGet, *b.Results, "")
	if status != http.StatusOK || h.Get("Content-Type") != "application/x-jsonl" {
		s.T.Fatalf("status %d: %s", status, data)
	}
	all := map[string]outcome{}
	for line := range bytes.Lines(data) {
		o := servetest.Decode[outcome](s.T, line)
		all[o.ID] = o
	}
	return all
}

// aye has the messages of a request.
const aye = `"messages":[{"role":"user","content":"a"}]`

func hello(id, more string) string {
	return fmt.Sprintf(`{"custom_id":%q,"params":{"max_tokens":5,"seed":1,%s%s}}`, id, aye, more)
}

// TestBatches checks that each request of a batch has the same message as alone, or its error. Batches are listed in
// pages, belong to their key, do not appear among OpenAI's, have no listed files, and are deleted with their files.
func TestBatches(t *testing.T) {
	alice, a := serve.NewKey("alice", serve.ScopeAll)
	bob, b := serve.NewKey("bob", serve.ScopeAll)
	reader, r := serve.NewKey("reader", serve.ScopeFiles)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob, reader}, Files: batch.Options{MaxLines: 4}})
	s.Key = a
	made := servetest.Post[anthropic.Batch](s, batches, `{"requests":[`+hello("one", "")+","+
		hello("bad", `,"temperature":-1`)+","+hello("two", `,"stream":false`)+`]}`)
	if made.Type != "message_batch" || made.Status != "in_progress" || made.Counts.Processing != 3 ||
		made.Results != nil {
		t.Errorf("at first it is %s", servetest.Quoted(t, made))
	}
	at := batches + "/" + made.ID
	done := ended(s, made.ID)
	if c := done.Counts; c.Succeeded != 2 || c.Errored != 1 || c.Processing+c.Canceled+c.Expired != 0 ||
		done.Ended == nil || !done.Expires.After(done.Created) {
		t.Errorf("got %s", servetest.Quoted(t, done))
	}
	alone := servetest.Post[anthropic.Message](s, messages, `{"max_tokens":5,"seed":1,`+aye+`}`)
	all := outcomes(s, done)
	for _, id := range []string{"one", "two"} {
		if o := all[id].Result; o.Type != "succeeded" || *o.Message.Content[0].Text != *alone.Content[0].Text {
			t.Errorf("%s: got %s", id, servetest.Quoted(t, o))
		}
	}
	if o := all["bad"].Result; len(all) != 3 || o.Type != "errored" || o.Error.Type != "error" ||
		o.Error.Error.Type != "invalid_request_error" || !strings.Contains(o.Error.Error.Message, "temperature") {
		t.Errorf("got %s", servetest.Quoted(t, all))
	}
	second := servetest.Post[anthropic.Batch](s, batches, `{"requests":[`+hello("one", "")+`]}`)
	ended(s, second.ID)
	want := func(what string, status int, method, path, body, text string) {
		t.Helper()
		if got, _, data := s.Do(method, path, body); got != status || !strings.Contains(string(data), text) {
			t.Errorf("%s: status %d: %s, want %d and %q", what, got, data, status, text)
		}
	}
	page := `"first_id":%q,"last_id":%[1]q,"has_more":%t`
	want("list", 200, http.MethodGet, batches+"?limit=1", "", fmt.Sprintf(page, second.ID, true))
	want("after", 200, http.MethodGet, batches+"?after_id="+second.ID, "", fmt.Sprintf(page, made.ID, false))
	want("before", 200, http.MethodGet, batches+"?before_id="+made.ID, "", fmt.Sprintf(page, second.ID, false))
	want("both", 400, http.MethodGet, batches+"?before_id=a&after_id=b", "", "before_id: found")
	want("no such", 404, http.MethodGet, batches+"?after_id=a", "", `"not_found_error"`)
	want("limit", 400, http.MethodGet, batches+"?limit=1001", "", "limit: found")
	want("OpenAI's", 200, http.MethodGet, "/v1/batches", "", `"data":[]`)
	want("one of OpenAI's", 404, http.MethodGet, "/v1/batches/"+made.ID, "", "not found")
	want("files", 200, http.MethodGet, "/v1/files", "", `"data":[]`)
	want("cancel the ended", 200, http.MethodPost, at+"/cancel", "", `"processing_status":"ended"`)
	s.Key = b
	want("another's", 404, http.MethodGet, at, "", `"not_found_error"`)
	want("another's results", 404, http.MethodGet, at+"/results", "", "not found")
	want("cancel another's", 404, http.MethodPost, at+"/cancel", "", "not found")
	want("delete another's", 404, http.MethodDelete, at, "", "not found")
	want("another's list", 200, http.MethodGet, batches, "", `"data":[]`)
	s.Key = r
	want("no scope", 400, http.MethodPost, batches, `{"requests":[`+hello("one", "")+`]}`, "does not have the scope")
	s.Key = a
	used := s.Hippo.Files.Store.Used()
	want("delete", 200, http.MethodDelete, at, "", `"type":"message_batch_deleted"`)
	want("the deleted", 404, http.MethodGet, at, "", "not found")
	want("delete", 200, http.MethodDelete, batches+"/"+second.ID, "", second.ID)
	if left := s.Hippo.Files.Store.Used(); used == 0 || left != 0 {
		t.Errorf("%d bytes before, %d after all are deleted", used, left)
	}
	for body, text := range map[string]string{
		`{}`:                           "requests: found none",
		`{"requests":7}`:               "requests: found a JSON number",
		`{"requests":[7]}`:             "requests: 0: found a JSON number",
		`{"requests":[{"params":{}}]}`: `requests: 0: custom_id: found \"\"`,
		`{"requests":[` + hello("a b", "") + "]}":                      `custom_id: found \"a b\"`,
		`{"requests":[{"custom_id":"a"}]}`:                             "requests: 0: params: found",
		`{"requests":[{"custom_id":"a","params":[]}]}`:                 "params: found []",
		`{"requests":[` + hello("a", "") + "," + hello("a", "") + "]}": "custom_id: found a for the second time",
		`{"requests":[` + hello("a", `,"stream":true`) + "]}":          "params: stream: found true",
		`{"": 1}`: "requests: found none",
	} {
		want(body, 400, http.MethodPost, batches, body, text)
	}
	want("too many", 413, http.MethodPost, batches, `{"requests":[`+hello("a", "")+
		strings.Repeat(","+hello("b", ""), 4)+`]}`, "request_too_large")
	if n := s.Hippo.Files.Store.Used(); n != 0 {
		t.Errorf("%d bytes are left of what was refused", n)
	}
}

// TestBatchCancelled checks that requests of a cancelled batch that were not run are reported, and that a batch cannot
// be deleted before it has ended.
func TestBatchCancelled(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Files: batch.Options{Together: 1}})
	var all []string
	for i := range 40 {
		all = append(all, strings.Replace(hello(fmt.Sprint("q", i), ""), `"max_tokens":5`, `"max_tokens":4000`, 1))
	}
	b := servetest.Post[anthropic.Batch](s, batches, `{"requests":[`+strings.Join(all, ",")+`]}`)
	if status, _, data := s.Do(http.MethodDelete, batches+"/"+b.ID, ""); status != http.StatusConflict {
		t.Errorf("status %d: %s", status, data)
	}
	if status, _, data := s.Do(http.MethodGet, batches+"/"+b.ID+"/results", ""); status != http.StatusConflict {
		t.Errorf("status %d: %s", status, data)
	}
	b = servetest.Post[anthropic.Batch](s, batches+"/"+b.ID+"/cancel", "")
	if b.Status != "canceling" || b.Cancelled == nil {
		t.Errorf("got %s", servetest.Quoted(t, b))
	}
	b = ended(s, b.ID)
	kinds := map[string]int{}
	for _, o := range outcomes(s, b) {
		kinds[o.Result.Type]++
	}
	if kinds["canceled"] == 0 || kinds["canceled"]+kinds["succeeded"] != 40 || kinds["canceled"] != b.Counts.Canceled ||
		kinds["succeeded"] != b.Counts.Succeeded {
		t.Errorf("got %v, %+v", kinds, b.Counts)
	}
}

// TestNoNames checks that a field with an empty name is ignored, like any unknown field.
func TestNoNames(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for path, body := range map[string]string{
		messages: `{"":true,"max_tokens":1,"messages":[{"role":"user","content":"a"}]}`,
		count:    `{"":true,"messages":[{"role":"user","content":"a"}]}`,
	} {
		if status, _, data := s.Do(http.MethodPost, path, body); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, status, data)
		}
	}
}
