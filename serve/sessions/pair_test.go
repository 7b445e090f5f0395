package sessions_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"

	fig "github.com/hippo-ssm/hippo/explain/figure"
)

// pairViews has a view of two sessions, which shows the tokens of both.
var pairViews = []sessions.View{{Name: "paths", Title: "Two", Tokens: []int{64, 20}, Pair: true,
	Show: func(_ context.Context, x *sessions.Viewed) (*fig.Page, error) {
		text := func(ids []int32) string { return string(x.Tokenizer.Decode(nil, ids)) }
		return servetest.TokenPage("two", []string{text(x.IDs), text(x.Other.IDs)}), nil
	}}}

// fork returns a fork of a session with an appended text.
func fork(s *servetest.Site, path, text string) string {
	s.T.Helper()
	made := servetest.Post[sessions.Session](s, path+"/fork", "{}")
	if text != "" {
		servetest.Post[sessions.Session](s, "/v1/sessions/"+made.ID+"/append", `{"text":"`+text+`"}`)
	}
	return "/v1/sessions/" + made.ID
}

// idOf returns the id in a path.
func idOf(path string) string { return strings.TrimPrefix(path, "/v1/sessions/") }

// TestPairsAreForks checks that a session is shown with a fork of it that diverges, else with its origin, else with
// another fork of the origin, or with the requested session.
func TestPairsAreForks(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Views: pairViews})
	origin := startSession(s)
	a, b := fork(s, origin, " Al"), fork(s, origin, " Bo")
	pair := func(path, query, other, first, second string) {
		t.Helper()
		got := s.Explain(path, query)
		texts := got.Figures[0].Frames[0].Panels[0].Text.Tokens
		if got.Other.ID != idOf(other) || texts[0] != first || texts[1] != second {
			t.Errorf("found %q beside %s, want %q beside %s", texts, got.Other.ID, []string{first, second}, idOf(other))
		}
	}
	pair(a, "", b, "Call me Al", "Call me Bo") // the origin has not been extended
	servetest.Post[sessions.Session](s, origin+"/append", `{"text":" Cy"}`)
	pair(a, "", origin, "Call me Al", "Call me Cy")
	pair(a, "?other="+idOf(b), b, "Call me Al", "Call me Bo")
	c := fork(s, a, "")
	servetest.Post[sessions.Session](s, a+"/append", `{"text":" or"}`)
	servetest.Post[sessions.Session](s, c+"/append", `{"text":" and"}`)
	pair(a, "", c, "Call me Al or", "Call me Al and")
	pair(c, "", a, "Call me Al and", "Call me Al or")
	alone := startSession(s)
	servetest.Post[sessions.Session](s, alone+"/append", `{"text":"!"}`)
	pair(alone, "?other="+idOf(c), c, "Call me!", "Call me Al and")
}

// TestWhatIsNoPair checks the errors for invalid pairs, including sessions of other clients.
func TestWhatIsNoPair(t *testing.T) {
	alice, secretA := serve.NewKey("alice", serve.ScopeCompletions)
	bob, secretB := serve.NewKey("bob", serve.ScopeCompletions)
	s := servetest.NewSite(t, serve.Options{Views: pairViews, Keys: []serve.Key{alice, bob}})
	s.Key = secretB
	foreign := startSession(s)
	servetest.Post[sessions.Session](s, foreign+"/append", `{"text":"!"}`)
	s.Key = secretA
	path := startSession(s)
	asks := func(query string, want int, says string) {
		t.Helper()
		status, _, data := s.Do(http.MethodGet, path+"/explain"+query, "")
		if status != want || !strings.Contains(string(data), says) {
			t.Errorf("%s: status %d: %s, want %d and %q", query, status, data, want, says)
		}
	}
	asks("", http.StatusBadRequest, "found no fork")
	asks("?other="+idOf(path), http.StatusBadRequest, "the session itself")
	asks("?other=sess_none", http.StatusNotFound, "no session that this server keeps")
	asks("?other=../../keys", http.StatusNotFound, "no session that this server keeps")
	asks("?other="+idOf(foreign), http.StatusNotFound, "no session that this server keeps")
	fork := fork(s, path, " Al")
	asks("", http.StatusBadRequest, "of 7 tokens and "+idOf(fork)+" of 10, of which the first 7 are the same")
	if status, _, data := s.Do(http.MethodDelete, fork, ""); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, data)
	}
	asks("?other="+idOf(fork), http.StatusNotFound, idOf(fork))
}

// TestPairsBothWays checks that when many clients view two sessions in either order while both are written, all are
// answered.
func TestPairsBothWays(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Views: pairViews})
	origin := startSession(s)
	a, b := fork(s, origin, " Al"), fork(s, origin, " Bo")
	var all sync.WaitGroup
	for range 4 {
		for first, second := range map[string]string{a: b, b: a} {
			all.Go(func() {
				status, _, data := s.Do(http.MethodGet, first+"/explain?other="+idOf(second), "")
				if status != http.StatusOK {
					t.Errorf("status %d: %s", status, data)
				}
			})
			all.Go(func() {
				if status, _, data := s.Do(http.MethodPost, first+"/append", `{"text":"."}`); status != http.StatusOK {
					t.Errorf("status %d: %s", status, data)
				}
			})
		}
	}
	all.Wait()
}

// TestPairIsGone checks that nothing is shown of a session that is deleted during a view of two.
func TestPairIsGone(t *testing.T) {
	v, views := newSlowView()
	views[0].Pair = true
	s := servetest.NewSite(t, serve.Options{Views: views})
	origin := startSession(s)
	a, b := fork(s, origin, " Al"), fork(s, origin, " Bo")
	answer := begin(s, t.Context(), a+"/explain")
	<-v.begun
	if status, _, data := s.Do(http.MethodDelete, b, ""); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, data)
	}
	close(v.end)
	if status := <-answer; status != http.StatusNotFound {
		t.Errorf("found the status %d, want 404", status)
	}
}
