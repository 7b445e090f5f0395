package ollama_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
)

// TestCopy checks that a copy is another name of a model that is loaded once, and that deleting the copy keeps the
// model.
func TestCopy(t *testing.T) {
	lib := servetest.NewLibrary(t, "a", "b")
	s := lib.Serve(t, serve.Options{})
	ask := func(status int, method, path, body, text string) {
		t.Helper()
		got, data := servetest.Ask(t.Context(), s, method, path, body)
		if got != status || !strings.Contains(data, text) {
			t.Errorf("%s %.200s: status %d: %.300s, want %d and %q", path, body, got, data, status, text)
		}
	}
	cp := func(status int, from, to, text string) {
		t.Helper()
		ask(status, http.MethodPost, "/api/copy", `{"source":"`+from+`","destination":"`+to+`"}`, text)
	}
	cp(200, "b", "gpt-4o", "{}")
	cp(200, "gpt-4o", "org/x:latest", "{}")
	want := lib.Alone(t, "b", "Call", 8)
	for _, name := range []string{"gpt-4o", "org/x", "GPT-4O:latest", "b"} {
		if status, got := servetest.Complete(t.Context(), s, name, "Call"); status != 200 ||
			!strings.Contains(got, servetest.Quoted(t, want)) {
			t.Errorf("%s: status %d: %s, want %q", name, status, got, want)
		}
	}
	if n := lib.Count("b"); n != 1 {
		t.Errorf("the model was loaded %d times", n)
	}
	ask(200, http.MethodGet, "/api/tags", "", `"name":"gpt-4o"`)
	ask(200, http.MethodGet, "/v1/models", "", `"id":"org/x"`)
	for _, bad := range []string{"", "two words", "line\\nend", "\\u202e", strings.Repeat("n", 201)} {
		cp(400, "a", bad, "destination: found")
	}
	cp(409, "a", "b", "which is a model")
	cp(409, "a", "B:latest", "which is a model")
	cp(404, "none", "c", "model: found")
	cp(400, "", "c", "source: found nothing")
	cp(200, "a", "gpt-4o", "{}") // the name now means another model
	if status, got := servetest.Complete(t.Context(), s, "gpt-4o", "Call"); status != 200 ||
		!strings.Contains(got, servetest.Quoted(t, lib.Alone(t, "a", "Call", 8))) {
		t.Errorf("got %d, %s", status, got)
	}
	ask(200, http.MethodDelete, "/api/delete", `{"model":"gpt-4o"}`, "{}")
	ask(404, http.MethodPost, "/api/show", `{"model":"gpt-4o"}`, "")
	ask(200, http.MethodPost, "/api/show", `{"model":"a"}`, "")
	ask(200, http.MethodDelete, "/api/delete", `{"model":"b"}`, "{}")
	ask(404, http.MethodPost, "/api/show", `{"model":"org/x"}`, "") // removed with the model
}

// TestCopiesAreAdmins checks that only an admin's key can name models or add adapters.
func TestCopiesAreAdmins(t *testing.T) {
	key, secret := serve.NewKey("client", serve.ScopeCompletions, serve.ScopeModels, serve.ScopeFiles)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{key}})
	s.Key = secret
	for _, path := range []string{"/api/copy", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters"} {
		if status, _, data := s.Do(http.MethodPost, path, `{"source":"tiny","destination":"x"}`); status != 403 {
			t.Errorf("%s: status %d: %s", path, status, data)
		}
	}
}
