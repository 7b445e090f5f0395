package sessions_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// FuzzKept checks that any body of a request for a response or a session is answered without a server error.
func FuzzKept(f *testing.F) {
	for _, body := range []string{
		`{"input":"a","max_output_tokens":2}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"é"}]}]}`,
		`{"input":[{"type":"item_reference","id":"msg_ABCDEFGHIJKLMNOPQRSTUVWXYZ_o0"},{"id":"fc_"}]}`,
		`{"text":"a"}`, `{"ids":[1,2]}`, `{"messages":[{"role":"user","content":"a"}]}`, `{"name":"a","remove":true}`,
		`{"endings":["a",""]}`, `{"mark":"a"}`, `{"position":1}`, `{"max_tokens":2,"stream":true,"logprobs":true}`,
		`{"metadata":{"a":"b"},"previous_response_id":"resp_x","include":["x"]}`, `null`, `[`, "",
	} {
		f.Add(body)
	}
	o := serve.Options{MaxTokens: 4, MaxPrompt: 100, MaxSessions: 2, StateMemory: 1 << 20}
	server, err := serve.New(o, servetest.Model(f, "tiny"))
	if err != nil {
		f.Fatal(err)
	}
	ask := func(t *testing.T, method, path, body string) []byte {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError && w.Code != http.StatusInsufficientStorage {
			t.Errorf("%s %s: status %d: %s", method, path, w.Code, w.Body)
		}
		return w.Body.Bytes()
	}
	f.Fuzz(func(t *testing.T, body string) {
		one := servetest.Decode[sessions.Session](t, ask(t, http.MethodPost, "/v1/sessions", `{"text":"Call"}`))
		path := "/v1/sessions/" + one.ID
		for _, what := range []string{"/append", "/generate", "/mark", "/rewind", "/score", "/fork"} {
			ask(t, http.MethodPost, path+what, body)
		}
		for _, path := range []string{"/v1/responses", "/v1/sessions", "/v1/sessions/import"} {
			ask(t, http.MethodPost, path, body)
		}
		all := servetest.Decode[struct{ Data []sessions.Session }](t, ask(t, http.MethodGet, "/v1/sessions", ""))
		for _, x := range all.Data {
			ask(t, http.MethodDelete, "/v1/sessions/"+x.ID, "")
		}
	})
}
