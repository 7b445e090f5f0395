package sessions_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// TestSessionsTakeMessages checks that messages after a reply give the template's text of the whole chat. If there is
// no reply before them, or the template changes text already read, they are refused and the session does not change.
func TestSessionsTakeMessages(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	x := servetest.Post[sessions.Session](s, "/v1/sessions", `{"messages":[{"role":"system","content":"Wale"},
		{"role":"user","content":"Größe?"}]}`)
	path := "/v1/sessions/" + x.ID
	more := `{"messages":[{"role":"user","content":"Und dann?"}]}`
	refused := func(path, body, want string) {
		t.Helper()
		status, _, data := s.Do(http.MethodPost, path+"/append", body)
		e := servetest.Decode[servetest.ErrorAnswer](t, data)
		if status != http.StatusBadRequest || !strings.Contains(e.Error.Message, want) {
			t.Errorf("got %d, %s, want %q", status, data, want)
		}
	}
	refused(path, more, "does not end by a reply")
	servetest.Post[sessions.Session](s, path+"/append", `{"text":"Groß."}`)
	refused(path, `{"messages":[{"role":"assistant","content":"a"}]}`, "want another")
	refused(path, `{"messages":[{"role":"user","content":"a"}],"text":"b"}`, "found 2 of text, messages and ids")
	got := servetest.Post[sessions.Session](s, path+"/append", more)
	want, err := reply.ChatText(t.Context(), s.Model, "",
		servetest.Decode[[]reply.Message](t, []byte(`[{"role":"system","content":"Wale"},
		{"role":"user","content":"Größe?"},{"role":"assistant","content":"Groß."},
		{"role":"user","content":"Und dann?"}]`)))
	if err != nil || got.Position != len(want) {
		t.Errorf("the session has %d bytes, want %d: %v", got.Position, len(want), err)
	}
	y := servetest.Post[sessions.Session](s, "/v1/sessions", `{}`)
	if got := servetest.Post[sessions.Session](s, "/v1/sessions/"+y.ID+"/append", more); got.Position == 0 {
		t.Errorf("the empty session has %+v", got)
	}
	z := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me Ishmael."}`)
	refused("/v1/sessions/"+z.ID, more, "does not end by a reply")
	servetest.Post[sessions.Session](s, path+"/append", `{"text":"Ja."}`)
	s.Speak(`{% for m in messages %}<{{ m.role }}>{% if loop.last or m.role == "user" %}{{ m.content }}{% endif %}
{% endfor %}<assistant>`)
	refused(path, more, "changes the text")
}
