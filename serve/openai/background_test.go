package openai_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/records"
)

const behind = `{"input":"Call me","seed":4,"max_output_tokens":12,"ignore_eos":true,"background":true`

// awaited waits for the end of a background response and returns it.
func awaited(s *servetest.Site, id string) openai.Response {
	s.T.Helper()
	for {
		a := servetest.Fetch[openai.Response](s, http.MethodGet, "/v1/responses/"+id)
		if a.Status != openai.ResponseQueued && a.Status != "in_progress" {
			return a
		}
		time.Sleep(time.Millisecond)
	}
}

// TestBackground checks that a background response has the same text as another, and that its events can be followed
// from any event, while it is generated and afterwards, also on the next server with the folder.
func TestBackground(t *testing.T) {
	folder := t.TempDir()
	s := servetest.NewSite(t, serve.Options{Store: folder})
	want := servetest.Post[openai.Response](s, "/v1/responses", strings.Replace(behind, `,"background":true`, "}", 1))
	a := servetest.Post[openai.Response](s, "/v1/responses", behind+"}")
	if a.Status != openai.ResponseQueued || !a.Background || len(a.Output) != 0 {
		t.Errorf("at first it is %s", servetest.Quoted(t, a))
	}
	a = awaited(s, a.ID)
	if got := a.Output[0].Content[0].Text; a.Status != openai.ResponseCut || got != want.Output[0].Content[0].Text ||
		a.Usage.Output != 12 {
		t.Errorf("got %s, want %s", servetest.Quoted(t, a), servetest.Quoted(t, want))
	}
	after := servetest.Post[openai.Response](s, "/v1/responses",
		fmt.Sprintf(`{"input":"And","max_output_tokens":1,"previous_response_id":%q}`, a.ID))
	if after.Usage.Input <= a.Usage.Total-1 {
		t.Errorf("the next one has %+v behind %+v", after.Usage, a.Usage)
	}
	_, _, all := s.Do(http.MethodPost, "/v1/responses", behind+`,"stream":true}`)
	blocks := strings.SplitAfter(string(all), "\n\n")
	blocks = blocks[:len(blocks)-1]
	for i, kind := range map[int]string{
		0: "created", 1: "queued", 2: "in_progress", 3: "output_item.added", len(blocks) - 1: "incomplete",
	} {
		if !strings.HasPrefix(blocks[i], "event: response."+kind+"\n") ||
			!strings.Contains(blocks[i], fmt.Sprintf(`"sequence_number":%d,`, i)) {
			t.Errorf("event %d is %s, want %s", i, blocks[i], kind)
		}
	}
	first := servetest.Decode[openai.ResponseEvent](t, []byte(strings.TrimPrefix(
		strings.SplitN(blocks[0], "\n", 2)[1], "data: ")))
	path := "/v1/responses/" + first.Response.ID + "?stream=true"
	restarted := servetest.NewSite(t, serve.Options{Store: folder})
	for _, s := range []*servetest.Site{s, restarted} {
		for from := -1; from <= len(blocks); from += 3 {
			at := path
			if from >= 0 {
				at += fmt.Sprint("&starting_after=", from)
			}
			_, _, got := s.Do(http.MethodGet, at, "")
			if string(got) != strings.Join(blocks[min(from+1, len(blocks)):], "") {
				t.Errorf("after %d the events are %s", from, got)
			}
		}
	}
}

// TestBackgroundStored checks that a response is shown as ended only when it is stored, so that it can be continued at
// once.
func TestBackgroundStored(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	a := servetest.Post[openai.Response](s, "/v1/responses", strings.Replace(behind, `,"background":true`, "}", 1))
	stored := s.Hippo.Responses.Ending("all", a)
	shown := make(chan string)
	go func() {
		shown <- servetest.Fetch[openai.Response](s, http.MethodGet, "/v1/responses/"+a.ID).Status
	}()
	select {
	case status := <-shown:
		t.Errorf("before it is stored it is %s", status)
		stored()
	case <-time.After(50 * time.Millisecond):
		stored()
		if status := <-shown; status != openai.ResponseCut {
			t.Errorf("after it is stored it is %s", status)
		}
	}
}

// TestBackgroundCancelled checks that a cancelled response ends at once with its text so far, as do its events, and
// that a deleted one is gone. A client that follows gets all events to the last, wherever it began. Nothing can
// continue from either, and other keys cannot see them.
func TestBackgroundCancelled(t *testing.T) {
	alice, a := serve.NewKey("alice", serve.ScopeAll)
	bob, b := serve.NewKey("bob", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob}})
	step, _ := servetest.Stepped(s)
	s.Key = a
	q := s.Request(http.MethodPost, "/v1/responses", strings.NewReader(behind+`,"stream":true}`))
	events, err := s.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]byte, 1<<16)
	n, _ := events.Body.Read(lines)
	id := regexp.MustCompile("resp_[A-Z0-9]+").FindString(string(lines[:n]))
	events.Body.Close() // the response continues
	step <- true
	step <- true
	path := "/v1/responses/" + id
	followed := make(chan string)
	go func() {
		_, _, data := s.Do(http.MethodGet, path+"?stream=true&starting_after=1", "")
		followed <- string(data)
	}()
	for len(servetest.Fetch[openai.Response](s, http.MethodGet, path).Output) == 0 {
		time.Sleep(time.Millisecond)
	}
	want := func(what string, status int, method, path, body, text string) {
		t.Helper()
		if got, _, data := s.Do(method, path, body); got != status || !strings.Contains(string(data), text) {
			t.Errorf("%s: status %d: %s, want %d and %q", what, got, data, status, text)
		}
	}
	next := fmt.Sprintf(`{"input":"x","previous_response_id":%q}`, id)
	want("going on", 400, http.MethodPost, "/v1/responses", next, "found a response that is in_progress")
	s.Key = b
	want("show another's", 404, http.MethodGet, path, "", "no response")
	want("follow another's", 404, http.MethodGet, path+"?stream=true", "", "no response")
	want("cancel another's", 404, http.MethodPost, path+"/cancel", "{}", "no response")
	want("delete another's", 404, http.MethodDelete, path, "", "no response")
	s.Key = a
	for range 2 {
		want("cancel", 200, http.MethodPost, path+"/cancel", "{}", `"status":"cancelled"`)
	}
	if data := <-followed; !strings.HasPrefix(data, "event: response.in_progress\n") ||
		!strings.Contains(data, `"delta":"a"`) || !strings.Contains(data, "event: response.cancelled\n") {
		t.Errorf("the events are %s", data)
	}
	want("show", 200, http.MethodGet, path, "", `"status":"incomplete","role":"assistant",`+
		`"content":[{"type":"output_text","text":"a`)
	want("going on", 400, http.MethodPost, "/v1/responses", next, "found a response that is cancelled")
	r := servetest.Post[openai.Response](s, "/v1/responses", behind+"}")
	want("no stream", 400, http.MethodGet, "/v1/responses/"+r.ID+"?stream=true", "", `"param":"stream"`)
	want("a wrong number", 400, http.MethodGet, "/v1/responses/"+r.ID+"?stream=true&starting_after=-1", "",
		`"param":"starting_after"`)
	want("delete", 200, http.MethodDelete, "/v1/responses/"+r.ID, "", `"deleted":true`)
	want("the deleted", 404, http.MethodGet, "/v1/responses/"+r.ID, "", "no response")
	want("not stored", 400, http.MethodPost, "/v1/responses", behind+`,"store":false}`, `"param":"background"`)
	want("wrong", 400, http.MethodPost, "/v1/responses", `{"input":"x","background":7}`, `"param":"background"`)
}

// TestBackgroundLimits checks that their number is limited per client, and that one in a conversation locks it once it
// has begun. They end with the server, which stores the reason.
func TestBackgroundLimits(t *testing.T) {
	folder := t.TempDir()
	s := servetest.NewSite(t, serve.Options{Store: folder, Concurrent: 2})
	servetest.Stepped(s)
	talk := servetest.Post[openai.Conversation](s, "/v1/conversations", `{}`).ID
	in := fmt.Sprintf(`,"conversation":%q}`, talk)
	ids := []string{servetest.Post[openai.Response](s, "/v1/responses", behind+in).ID}
	if status, _, data := s.Do(http.MethodPost, "/v1/responses", behind+in); status != http.StatusConflict {
		t.Errorf("status %d: %s", status, data)
	}
	for len(ids) < openai.MaxTasks {
		ids = append(ids, servetest.Post[openai.Response](s, "/v1/responses", behind+"}").ID)
	}
	free := servetest.Post[openai.Conversation](s, "/v1/conversations", `{}`).ID
	status, _, data := s.Do(http.MethodPost, "/v1/responses", behind+fmt.Sprintf(`,"conversation":%q}`, free))
	if status != http.StatusTooManyRequests {
		t.Errorf("status %d: %s", status, data)
	}
	if status, _, data := s.Do(http.MethodDelete, "/v1/conversations/"+free, ""); status != http.StatusOK {
		t.Errorf("one that has not begun holds its conversation: status %d: %s", status, data)
	}
	other := servetest.NewSite(t, serve.Options{Store: folder}) // it sees that they are in progress
	path := "/v1/responses/" + ids[9]
	if a := servetest.Fetch[openai.Response](other, http.MethodGet, path); a.Status != openai.ResponseQueued {
		t.Errorf("the other server says %s", servetest.Quoted(t, a))
	}
	if status, _, data := other.Do(http.MethodPost, path+"/cancel", "{}"); status != http.StatusConflict {
		t.Errorf("status %d: %s", status, data)
	}
	s.Hippo.Close()
	for _, id := range ids {
		if a := servetest.Fetch[openai.Response](other, http.MethodGet, "/v1/responses/"+id); a.Status != "failed" ||
			a.Error.Code != "shutting_down" {
			t.Fatalf("after the end of the server: %s", servetest.Quoted(t, a))
		}
	}
	servetest.Post[openai.Response](other, "/v1/responses", `{"input":"x","max_output_tokens":1`+in)
}

// TestBackgroundOfAKilledServer checks that a response whose server was killed has failed, with the reason.
func TestBackgroundOfAKilledServer(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Store: t.TempDir()})
	id := servetest.Post[openai.Response](s, "/v1/responses", behind+"}").ID
	awaited(s, id)
	s.Hippo.Responses.Wait(t.Context()) // until the server no longer owns it
	name, left := openai.ResponseName("all", id), openai.ResponseRecord{}
	if err := records.Get(s.Hippo.Responses.Store(), name, &left); err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{openai.ResponseQueued, "in_progress"} {
		left.Response.Status = status
		if _, err := records.Put(s.Hippo.Responses.Store(), name, &left); err != nil {
			t.Fatal(err)
		}
		a := servetest.Fetch[openai.Response](s, http.MethodGet, "/v1/responses/"+id)
		if a.Status != "failed" || a.Error.Code != "server_stopped" {
			t.Errorf("got %s", servetest.Quoted(t, a))
		}
	}
}
