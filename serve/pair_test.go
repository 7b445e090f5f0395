package serve

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	fig "github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// pairViews are one of two sessions, which shows the tokens of both.
var pairViews = []View{{Name: "paths", Title: "Two", Tokens: []int{64, 20}, Pair: true,
	Show: func(_ context.Context, x *Viewed) (*fig.Page, error) {
		text := func(ids []int32) string { return string(x.Tokenizer.Decode(nil, ids)) }
		return tokenPage("two", []string{text(x.IDs), text(x.Other.IDs)}), nil
	}}}

// fork makes a fork of a session, with a text behind.
func (s *site) fork(path, text string) string {
	s.t.Helper()
	made := post[sessionObject](s, path+"/fork", "{}")
	if text != "" {
		post[sessionObject](s, "/v1/sessions/"+made.ID+"/append", `{"text":"`+text+`"}`)
	}
	return "/v1/sessions/" + made.ID
}

// idOf is the id in a path.
func idOf(path string) string { return strings.TrimPrefix(path, "/v1/sessions/") }

// TestPairsAreForks: beside a session stands a fork of it that parts from it, else its origin, else another fork of
// that; or the one that is asked for.
func TestPairsAreForks(t *testing.T) {
	s := newSite(t, Options{Views: pairViews})
	origin := s.newSession()
	a, b := s.fork(origin, " Al"), s.fork(origin, " Bo")
	pair := func(path, query, other, first, second string) {
		t.Helper()
		got := s.explain(path, query)
		texts := got.Figures[0].Frames[0].Panels[0].Text.Tokens
		if got.Other.ID != idOf(other) || texts[0] != first || texts[1] != second {
			t.Errorf("found %q beside %s, want %q beside %s", texts, got.Other.ID, []string{first, second}, idOf(other))
		}
	}
	pair(a, "", b, "Call me Al", "Call me Bo") // the origin has not gone on
	post[sessionObject](s, origin+"/append", `{"text":" Cy"}`)
	pair(a, "", origin, "Call me Al", "Call me Cy")
	pair(a, "?other="+idOf(b), b, "Call me Al", "Call me Bo")
	c := s.fork(a, "")
	post[sessionObject](s, a+"/append", `{"text":" or"}`)
	post[sessionObject](s, c+"/append", `{"text":" and"}`)
	pair(a, "", c, "Call me Al or", "Call me Al and")
	pair(c, "", a, "Call me Al and", "Call me Al or")
	alone := s.newSession()
	post[sessionObject](s, alone+"/append", `{"text":"!"}`)
	pair(alone, "?other="+idOf(c), c, "Call me!", "Call me Al and")
}

// idsOf are the tokens of a text.
func idsOf(text string) (ids []int32) {
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids
}

// recordOf is the record of a session with a text.
func recordOf(id, text string) *sessionRecord {
	return &sessionRecord{sessionObject: sessionObject{ID: id}, Plan: planParts([]session.Segment{{IDs: idsOf(text)}})}
}

// TestPairsAreOfTheirEnds: of long sessions both have the last tokens, from the same place on, with some before they
// part; what there is behind is left out.
func TestPairsAreOfTheirEnds(t *testing.T) {
	const lead = "0123456789" // half of what is asked for
	for _, of := range []struct {
		common, a, b  string
		before        int
		first, second string
	}{
		{"xx" + lead, "A", "B", 0, "xx" + lead + "A", "xx" + lead + "B"},
		{strings.Repeat("x", 40) + lead, "A", "Bb", 32, "xxxxxxxx" + lead + "A", "xxxxxxxx" + lead + "Bb"},
		{strings.Repeat("x", 40) + lead, "Aa", strings.Repeat("B", 30), 40, lead + "Aa", lead + "BBBBBBBBBB"},
		{"", strings.Repeat("A", 30), strings.Repeat("B", 10), 0, strings.Repeat("A", 20), strings.Repeat("B", 10)},
	} {
		x := &Viewed{IDs: idsOf(of.common + of.a), LogProbs: make([]float32, len(of.common)+len(of.a))}
		first := &sessionRecord{sessionObject: sessionObject{ID: "a"}}
		second := recordOf("b", of.common+of.b)
		if err := x.beside(first, second, 20); err != nil {
			t.Fatal(err)
		}
		tok := tokenizer.Bytes()
		a, b := string(tok.Decode(nil, x.IDs)), string(tok.Decode(nil, x.Other.IDs))
		if a != of.first || b != of.second || x.Before != of.before || len(x.LogProbs) != len(x.IDs) ||
			x.Before+len(x.IDs)+x.Behind != len(of.common)+len(of.a) || x.Other.Position != len(of.common)+len(of.b) {
			t.Errorf("%+v: found %q and %q from %d on", of, a, b, x.Before)
		}
	}
}

// TestWhatIsNoPair: each error says what was found, and sessions of another client are none.
func TestWhatIsNoPair(t *testing.T) {
	alice, secretA := NewKey("alice", ScopeCompletions)
	bob, secretB := NewKey("bob", ScopeCompletions)
	s := newSite(t, Options{Views: pairViews, Keys: []Key{alice, bob}})
	s.key = secretB
	foreign := s.newSession()
	post[sessionObject](s, foreign+"/append", `{"text":"!"}`)
	s.key = secretA
	path := s.newSession()
	asks := func(query string, want int, says string) {
		t.Helper()
		status, _, data := s.do(http.MethodGet, path+"/explain"+query, "")
		if status != want || !strings.Contains(string(data), says) {
			t.Errorf("%s: status %d: %s, want %d and %q", query, status, data, want, says)
		}
	}
	asks("", http.StatusBadRequest, "found no fork")
	asks("?other="+idOf(path), http.StatusBadRequest, "the session itself")
	asks("?other=sess_none", http.StatusNotFound, "no session that this server keeps")
	asks("?other=../../keys", http.StatusNotFound, "no session that this server keeps")
	asks("?other="+idOf(foreign), http.StatusNotFound, "no session that this server keeps")
	fork := s.fork(path, " Al")
	asks("", http.StatusBadRequest, "of 7 tokens and "+idOf(fork)+" of 10, of which the first 7 are the same")
	if status, _, data := s.do(http.MethodDelete, fork, ""); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, data)
	}
	asks("?other="+idOf(fork), http.StatusNotFound, idOf(fork))
	err := (&Viewed{IDs: idsOf("ab")}).beside(&sessionRecord{Identity: "1"}, recordOf("b", "ac"), 20)
	if err == nil || !strings.Contains(err.Error(), "want two of one model with the same weights") {
		t.Errorf("found the error %v for a session of another model", err)
	}
}

// TestPairsBothWays: while many ask for two sessions, each as the first one, and both are written, everyone is
// answered.
func TestPairsBothWays(t *testing.T) {
	s := newSite(t, Options{Views: pairViews})
	origin := s.newSession()
	a, b := s.fork(origin, " Al"), s.fork(origin, " Bo")
	var all sync.WaitGroup
	for range 4 {
		for first, second := range map[string]string{a: b, b: a} {
			all.Go(func() {
				status, _, data := s.do(http.MethodGet, first+"/explain?other="+idOf(second), "")
				if status != http.StatusOK {
					t.Errorf("status %d: %s", status, data)
				}
			})
			all.Go(func() {
				if status, _, data := s.do(http.MethodPost, first+"/append", `{"text":"."}`); status != http.StatusOK {
					t.Errorf("status %d: %s", status, data)
				}
			})
		}
	}
	all.Wait()
}

// TestPairIsGone: of a session that is deleted while it is shown beside another nothing is told.
func TestPairIsGone(t *testing.T) {
	v, views := newSlowView()
	views[0].Pair = true
	s := newSite(t, Options{Views: views})
	origin := s.newSession()
	a, b := s.fork(origin, " Al"), s.fork(origin, " Bo")
	answer := s.begin(t.Context(), a+"/explain")
	<-v.begun
	if status, _, data := s.do(http.MethodDelete, b, ""); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, data)
	}
	close(v.end)
	if status := <-answer; status != http.StatusNotFound {
		t.Errorf("found the status %d, want 404", status)
	}
}
