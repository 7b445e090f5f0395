package sessions_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// TestSessionsAreExplained checks that a view gets the current session after each change, only for its client, and that
// errors report what does not exist.
func TestSessionsAreExplained(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Views: servetest.TestViews})
	made := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call"}`)
	path := "/v1/sessions/" + made.ID
	tokens := func() string {
		t.Helper()
		got := s.Explain(path, "")
		if got.View != "state" || len(got.Views) != len(servetest.TestViews) || got.Views[1].Title != "None" ||
			got.Head.Title != "tokens" || got.Position != len(got.Text()) {
			t.Errorf("found %+v", got)
		}
		return got.Text()
	}
	if text := tokens(); text != "Call" {
		t.Errorf("found the text %q, want Call", text)
	}
	servetest.Post[sessions.Session](s, path+"/append", `{"text":" me"}`)
	if text := tokens(); text != "Call me" {
		t.Errorf("found the text %q, want Call me", text)
	}
	for query, want := range map[string]string{
		path + "/explain?view=nothing":                   `found \"nothing\", want one of [\"state\" \"broken\"`,
		"/v1/sessions/sess_none/explain":                 "no session that this server keeps",
		"/v1/sessions/sess_none/explain?view=influence":  "no session that this server keeps",
		path + "/explain?view=broken":                    "nothing to see",
		path + "/explain?view=influence&tokens=65":       "want an integer from 1 to 64",
		path + "/explain?view=influence&tokens=0":        "want an integer from 1 to 64",
		path + "/explain?view=influence&tokens=many":     `found \"many\"`,
		path + "/explain?view=influence&measure=largest": `want one of [\"share\" \"mean\"]`,
	} {
		if status, _, data := s.Do(http.MethodGet, query, ""); status < 400 || !strings.Contains(string(data), want) {
			t.Errorf("%s: status %d: %s, want %q", query, status, data, want)
		}
	}
	bare := servetest.NewSite(t, serve.Options{})
	made = servetest.Post[sessions.Session](bare, "/v1/sessions", `{"text":"Call"}`)
	status, _, data := bare.Do(http.MethodGet, "/v1/sessions/"+made.ID+"/explain", "")
	if status != http.StatusBadRequest {
		t.Errorf("status %d: %s", status, data)
	}
	if _, err := serve.New(serve.Options{Views: []sessions.View{{Name: "none"}}},
		servetest.Model(t, "tiny")); err == nil {
		t.Error("found no error for a view of no tokens")
	}
}

// TestViewsAreOfTheEnd checks that a view has the requested number of last tokens, and the requested options.
func TestViewsAreOfTheEnd(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Views: servetest.TestViews})
	path := "/v1/sessions/" + servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me Ishmael"}`).ID
	for query, want := range map[string]string{
		"?view=influence": "mael", "?view=influence&tokens=8": " Ishmael", "?view=influence&tokens=3": "ael",
	} {
		got := s.Explain(path, query)
		if got.Text() != want || got.Position != 15 || got.Tokens != len(want) || got.Options["measure"] != "share" {
			t.Errorf("%s: found %+v, want the text %q", query, got, want)
		}
	}
	if got := s.Explain(path, "?view=influence&measure=mean"); got.Options["measure"] != "mean" {
		t.Errorf("found the options %v", got.Options)
	}
	v := s.Explain(path, "").Views[2]
	if len(v.Tokens) != 3 || len(v.Options) != 1 || v.Options[0].Values[1] != "mean" {
		t.Errorf("found the view %+v, want its numbers of tokens and its options", v)
	}
}

// TestSessionOfAReplyThatGoesOn checks that a session can end in the middle of a reply.
func TestSessionOfAReplyThatGoesOn(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	const chat = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`
	for body, want := range map[string]string{
		chat + `}`:                               "<user>a\n<assistant>b\n<assistant>",
		chat + `,"continue_final_message":true}`: "<user>a\n<assistant>b",
	} {
		made := servetest.Post[sessions.Session](s, "/v1/sessions", body)
		got := struct{ Text string }{}
		_, _, data := s.Do(http.MethodGet, "/v1/sessions/"+made.ID+"?text=true", "")
		if err := json.Unmarshal(data, &got); err != nil || got.Text != want {
			t.Errorf("%s: found %s, want the text %q", body, data, want)
		}
	}
	for _, body := range []string{`{"text":"a","continue_final_message":true}`,
		`{"messages":[{"role":"user","content":"a"}],"continue_final_message":true}`} {
		if status, _, data := s.Do(http.MethodPost, "/v1/sessions", body); status != http.StatusBadRequest ||
			!strings.Contains(string(data), "continue_final_message") {
			t.Errorf("%s: status %d: %s", body, status, data)
		}
	}
}
