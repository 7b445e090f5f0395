package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	fig "github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/session"
)

// testViews are one that shows the tokens of a session, and one that cannot.
var testViews = []View{{"state", "Its tokens", func(_ context.Context, _ *session.Session, tokens []string) (*fig.Page,
	error) {
	return &fig.Page{Title: "tokens", Figures: []*fig.Figure{{Name: "one", Frames: []fig.Frame{{Panels: []fig.Panel{{
		Text: &fig.Text{Tokens: tokens, Mark: -1}}}}}}}}, nil
}}, {"broken", "None", func(context.Context, *session.Session, []string) (*fig.Page, error) {
	return nil, errors.New("nothing to see")
}}}

// TestSessionsAreExplained: a view gets the session as it is after each change, of the client that has it alone; what
// there is not is said.
func TestSessionsAreExplained(t *testing.T) {
	s := newSite(t, Options{Views: testViews})
	made := post[sessionObject](s, "/v1/sessions", `{"text":"Call"}`)
	path := "/v1/sessions/" + made.ID
	tokens := func() string {
		t.Helper()
		status, _, data := s.do(http.MethodGet, path+"/explain", "")
		var got struct {
			View     string
			Views    []struct{ Name, Title string }
			Position int
			Head     struct{ Title string }
			Figures  []*fig.Figure
		}
		if err := json.Unmarshal(data, &got); err != nil || status != http.StatusOK {
			t.Fatalf("status %d: %s (%v)", status, data, err)
		}
		if got.View != "state" || len(got.Views) != 2 || got.Views[1].Title != "None" || got.Head.Title != "tokens" {
			t.Errorf("found %+v", got)
		}
		all := got.Figures[0].Frames[0].Panels[0].Text.Tokens
		if got.Position != len(all) {
			t.Errorf("found the position %d of %d tokens", got.Position, len(all))
		}
		return strings.Join(all, "")
	}
	if text := tokens(); text != "Call" {
		t.Errorf("found the text %q, want Call", text)
	}
	post[sessionObject](s, path+"/append", `{"text":" me"}`)
	if text := tokens(); text != "Call me" {
		t.Errorf("found the text %q, want Call me", text)
	}
	for query, want := range map[string]string{
		path + "/explain?view=nothing":   `found \"nothing\", want one of [\"state\" \"broken\"]`,
		"/v1/sessions/sess_none/explain": "no session that this server keeps",
		path + "/explain?view=broken":    "nothing to see",
	} {
		if status, _, data := s.do(http.MethodGet, query, ""); status < 400 || !strings.Contains(string(data), want) {
			t.Errorf("%s: status %d: %s, want %q", query, status, data, want)
		}
	}
	bare := newSite(t, Options{})
	made = post[sessionObject](bare, "/v1/sessions", `{"text":"Call"}`)
	status, _, data := bare.do(http.MethodGet, "/v1/sessions/"+made.ID+"/explain", "")
	if status != http.StatusBadRequest {
		t.Errorf("status %d: %s", status, data)
	}
}
