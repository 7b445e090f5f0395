package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestBatchesAnswerAsRequestsDo checks that each line of a batch has the same answer as the request alone, for each
// endpoint, and an invalid line its error.
func TestBatchesAnswerAsRequestsDo(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	for endpoint, bodies := range map[string][]string{
		"/v1/completions": {
			`{"prompt":"Call me","max_tokens":8,"seed":1}`,
			`{"prompt":"海は","max_tokens":0,"echo":true,"logprobs":2}`,
			`{"prompt":"Call me","temperature":-1}`,
		},
		"/v1/chat/completions": {
			`{"messages":[{"role":"user","content":"Call"}],"max_tokens":5,"seed":2}`, `{"messages":[]}`,
		},
		"/v1/embeddings": {`{"input":["a","b"]}`, `{"input":"a","encoding_format":"base64"}`, `{"input":[]}`},
	} {
		var file strings.Builder
		for i, body := range bodies {
			fmt.Fprintf(&file, `{"custom_id":"%d","method":"POST","url":%q,"body":%s}`+"\n", i, endpoint, body)
		}
		b := s.Batched(endpoint, file.String())
		n := len(bodies)
		if b.Status != batch.Completed || b.Counts != (batch.Counts{Total: n, Completed: n - 1, Failed: 1}) ||
			b.Metadata["k"] != "v" || b.InProgress == nil || b.Finalizing == nil {
			t.Fatalf("got %+v", b)
		}
		answers := append(s.Output(b.Output), s.Output(b.ErrorFile)...)
		if len(answers) != n {
			t.Fatalf("got %+v", answers)
		}
		for i, a := range answers {
			status, _, data := s.Do(http.MethodPost, endpoint, bodies[i])
			got, want := a.Response.Body, json.RawMessage(bytes.TrimSpace(data))
			if a.CustomID != fmt.Sprint(i) || a.Response.Status != status ||
				!strings.HasPrefix(a.Response.RequestID, "batch_req_") || !sameAnswer(t, got, want) {
				t.Errorf("%s: got %s, and alone %s", bodies[i], got, want)
			}
		}
	}
}

// sameAnswer compares two answers except for fields that always differ.
func sameAnswer(t *testing.T, a, b []byte) bool {
	x, y := servetest.Decode[map[string]any](t, a), servetest.Decode[map[string]any](t, b)
	for _, m := range []map[string]any{x, y} {
		delete(m, "id")
		delete(m, "created")
		if u, ok := m["usage"].(map[string]any); ok {
			delete(u, "prompt_tokens_details")
		}
	}
	return servetest.Quoted(t, x) == servetest.Quoted(t, y)
}

// TestFilesOfKeys checks that files and batches belong to a key, and that a batch has the permissions of its key.
func TestFilesOfKeys(t *testing.T) {
	alice, secretA := serve.NewKey("alice", serve.ScopeFiles, serve.ScopeCompletions)
	bob, secretB := serve.NewKey("bob", serve.ScopeFiles)
	eve, secretE := serve.NewKey("eve", serve.ScopeCompletions)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob, eve}})
	s.Key = secretA
	b := s.Batched("/v1/embeddings", `{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"input":"x"}}`)
	if b.Counts.Completed != 1 {
		t.Fatalf("got %+v", b)
	}
	s.Key = secretB
	for _, path := range []string{
		"/v1/files/" + b.Input, "/v1/files/" + *b.Output + "/content", "/v1/batches/" + b.ID,
		"/v1/files?after=" + b.Input,
	} {
		if status, _, data := s.Do(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: status %d: %s", path, status, data)
		}
	}
	if status, _, _ := s.Do(http.MethodDelete, "/v1/files/"+b.Input, ""); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
	own := s.Sent("{}")
	status, _, data := s.Do(http.MethodPost, "/v1/batches",
		`{"input_file_id":"`+own+`","endpoint":"/v1/embeddings","completion_window":"24h"}`)
	if status != http.StatusBadRequest || !strings.Contains(string(data), `does not have the scope \"completions\"`) {
		t.Errorf("status %d: %s", status, data)
	}
	s.Key = secretE
	if status, _, _ := s.Do(http.MethodGet, "/v1/files", ""); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	s.Key = secretA
	if status, _, _ := s.Do(http.MethodDelete, "/v1/files/"+b.Input, ""); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// ranks is a Runner that records priorities.
type ranks struct{ seen []int }

func (r *ranks) Run(_ context.Context, q *session.Request) error {
	r.seen = append(r.seen, q.Priority)
	return nil
}

// TestBatchesComeLast checks that batches have a lower priority than interactive requests.
func TestBatchesComeLast(t *testing.T) {
	r := &ranks{}
	m := host.NewModel(host.ModelOptions{Name: "m", Net: servetest.Language(t), Tokenizer: tokenizer.Bytes(),
		Runner: r})
	for _, ctx := range []context.Context{
		t.Context(), host.WithPriority(t.Context(), serve.BatchPriority),
	} {
		if err := m.Runner.Run(ctx, &session.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(r.seen, []int{0, serve.BatchPriority}) {
		t.Errorf("got %v", r.seen)
	}
}

// TestFilesRefuse checks that errors describe what is wrong with a file or a list.
func TestFilesRefuse(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Files: batch.Options{MaxFile: 1000, MaxTotal: 2000}})
	purpose := map[string]string{"purpose": "batch"}
	for _, c := range []struct {
		fields map[string]string
		size   int
		status int
		want   string
	}{
		{nil, 10, http.StatusBadRequest, "purpose"},
		{map[string]string{"purpose": "fine-tune"}, 10, http.StatusBadRequest, "fine-tune"},
		{map[string]string{"purpose": "batch", "file": "again"}, 10, http.StatusBadRequest, "two"},
		{purpose, 1001, http.StatusRequestEntityTooLarge, "1000 bytes"},
		{purpose, 3 << 20, http.StatusRequestEntityTooLarge, "bytes"},
		{purpose, 1000, http.StatusOK, "batch"},
		{purpose, 1000, http.StatusOK, "requests.jsonl"},
		{purpose, 1, http.StatusRequestEntityTooLarge, "limit"},
	} {
		if status, data := s.Upload(c.fields, strings.Repeat("x", c.size)); status != c.status ||
			!strings.Contains(string(data), c.want) {
			t.Errorf("%v, %d bytes: status %d: %s", c.fields, c.size, status, data)
		}
	}
	for path, status := range map[string]int{
		"/v1/files?limit=0": 400, "/v1/files?limit=x": 400, "/v1/files?order=up": 400, "/v1/files?after=x": 404,
		"/v1/files?purpose=none": 200, "/v1/batches?limit=101": 400, "/v1/batches": 200, "/v1/files/x": 404,
		"/v1/files/..%2f..%2fetc%2fpasswd/content": 404, "/v1/batches/x": 404,
	} {
		if got, _, data := s.Do(http.MethodGet, path, ""); got != status {
			t.Errorf("%s: status %d: %s", path, got, data)
		}
	}
	for _, body := range []string{"", "{}", "--x\r\n"} {
		if status, _, data := s.Do(http.MethodPost, "/v1/files", body); status != http.StatusBadRequest {
			t.Errorf("%q: status %d: %s", body, status, data)
		}
	}
	for body, param := range map[string]string{
		`{}`: "input_file_id", `{"input_file_id":"x","endpoint":"/v1/files"}`: "endpoint",
		`{"input_file_id":"x","endpoint":"/v1/embeddings","completion_window":"1"}`: "completion_window",
		`{"input_file_id":7}`: "input_file_id", `{"metadata":[]}`: "metadata",
	} {
		status, _, data := s.Do(http.MethodPost, "/v1/batches", body)
		if e := servetest.Decode[struct{ Error struct{ Param string } }](t, data); status != http.StatusBadRequest ||
			e.Error.Param != param {
			t.Errorf("%s: status %d: %s", body, status, data)
		}
	}
}

// TestStalledUpload checks that an upload that stalls, or whose client disconnects, is aborted and leaves nothing.
func TestStalledUpload(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{ReadTimeout: 50 * time.Millisecond})
	for _, goes := range []bool{false, true} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"+
			"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"+
			"Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"+
			strings.Repeat("x", 50000)); err != nil {
			t.Fatal(err)
		}
		if goes {
			conn.Close()
		} else if answer, err := io.ReadAll(conn); !bytes.Contains(answer, []byte(" 408 ")) || err != nil ||
			bytes.Contains(answer, []byte("127.0.0.1")) {
			t.Errorf("got %s (%v)", answer, err)
		}
	}
	servetest.WaitUntil(t, func() bool {
		f, err := s.Hippo.Files.Store.AddFile("", func(io.Writer) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		files, _, err := s.Hippo.Files.Store.Files("", "", batch.Page{Limit: 9})
		if err != nil || len(files) != 1 {
			t.Fatalf("%v are kept (%v)", files, err)
		}
		return s.Hippo.Files.Store.DeleteFile("", f.ID) == nil && s.Hippo.Files.Store.Used() == 0
	})
}

// TestBatchSurvivesTheServer checks that a batch continues on the next server of a folder without repeating requests.
func TestBatchSurvivesTheServer(t *testing.T) {
	const n = 40
	dir := t.TempDir()
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, `{"custom_id":"%d","method":"POST","url":"/v1/completions",`+
			`"body":{"prompt":"Call","max_tokens":20,"seed":%d,"ignore_eos":true}}`+"\n", i, i)
	}
	m := servetest.Model(t, "tiny")
	id, sizes := "", []int{}
	for range 200 {
		server, err := serve.New(serve.Options{Files: batch.Options{Dir: dir, Together: 2}}, m)
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			f, err := server.Files.Store.AddFile("", func(w io.Writer) (string, error) {
				_, err := io.WriteString(w, file.String())
				return "", err
			})
			if err != nil {
				t.Fatal(err)
			}
			b, err := server.Files.Store.AddBatch("", batch.Wish{Input: f.ID, Endpoint: "/v1/completions",
				Window: "1h"})
			if err != nil {
				t.Fatal(err)
			}
			id = b.ID
		}
		b, before := batch.Batch{}, 0
		if len(sizes) > 0 {
			before = sizes[len(sizes)-1]
		}
		for b.Status != batch.Completed && b.Counts.Completed <= before { // it stops while others run
			if b, err = server.Files.Store.Batch("", id, false); err != nil {
				t.Fatal(err)
			}
		}
		server.Close()
		if b, err = server.Files.Store.Batch("", id, false); err != nil {
			t.Fatal(err)
		}
		if sizes = append(sizes, b.Counts.Completed); b.Status == batch.Completed {
			break
		}
	}
	if last := sizes[len(sizes)-1]; last != n || !slices.IsSorted(sizes) {
		t.Errorf("after each server %v are done, want more each time up to %d", sizes, n)
	}
}
