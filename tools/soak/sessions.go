package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Limits on the sessions that the clients use.
const (
	mostSessions  = 40  // fewer than a server allows one client
	mostOfSession = 400 // tokens; a longer session is rewound to fewOfSession tokens
	fewOfSession  = 20
)

// talk is a session on the server that clients use in turn.
type talk struct {
	mu  sync.Mutex
	id  string  // "" before the session is created
	ids []int32 // tokens of the text that the server last reported as stored
	// may reports whether the session may have the text found in place of ids, after a request without a response. It
	// is nil if the text must be ids.
	may func(found []int32) bool
}

// begins reports whether a text begins with another.
func begins(text, with []int32) bool {
	return len(text) >= len(with) && slices.Equal(text[:len(with)], with)
}

// ask sends a request about sessions and decodes the response. The error is errNoAnswer if there is no response, or if
// the server refuses the request for now.
func (s *soak) ask(ctx context.Context, method, path string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	a, err := s.send(ctx, method, path, data)
	if err != nil {
		return errNoAnswer
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return errNoAnswer
	case a.StatusCode == http.StatusOK:
		return json.Unmarshal(text, into)
	case slices.Contains([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusConflict,
		http.StatusForbidden}, a.StatusCode):
		s.did(fmt.Sprint("session: status ", a.StatusCode))
		return errNoAnswer
	}
	return fmt.Errorf("%s %s: status %d: %.200s", method, path, a.StatusCode, text)
}

// converse changes one of the sessions, and records the text that it must have then.
func (s *soak) converse(ctx context.Context, prompt string, r *rand.Rand) {
	t := &s.talks[r.IntN(len(s.talks))]
	if !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	if err := s.change(ctx, t, prompt, r); err != nil && err != errNoAnswer {
		s.problem("session %s: %v", t.id, err)
	}
}

// change makes one change of a session.
func (s *soak) change(ctx context.Context, t *talk, prompt string, r *rand.Rand) error {
	if t.id == "" {
		var made struct{ ID string }
		if err := s.ask(ctx, http.MethodPost, "/v1/sessions", map[string]any{"text": prompt}, &made); err != nil {
			return err
		}
		t.id, t.may = made.ID, func([]int32) bool { return true }
	}
	if t.may != nil { // an earlier request had no response
		if err := s.reread(ctx, t); err != nil {
			return err
		}
	}
	before := t.ids
	path := "/v1/sessions/" + t.id
	switch what := r.IntN(4); {
	case len(before) > mostOfSession:
		to := before[:fewOfSession]
		t.may = func(found []int32) bool { return slices.Equal(found, to) }
		err := s.ask(ctx, http.MethodPost, path+"/rewind", map[string]any{"position": len(to)}, &struct{}{})
		return t.settle(to, err)
	case what == 0:
		to := slices.Concat(before, before[:min(len(before), 5)])
		t.may = func(found []int32) bool { return slices.Equal(found, to) }
		err := s.ask(ctx, http.MethodPost, path+"/append", map[string]any{"ids": to[len(before):]}, &struct{}{})
		return t.settle(to, err)
	}
	// Some clients disconnect in the middle of the reply, which ends there.
	patience := time.Duration(10+r.IntN(3000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.may = func(found []int32) bool { return begins(found, before) }
	var reply struct{ IDs []int32 }
	err := s.ask(ctx, http.MethodPost, path+"/generate", map[string]any{
		"max_tokens": s.tokens, "ignore_eos": true, "temperature": 2,
	}, &reply)
	if err == nil {
		s.did("session: changed")
	}
	return t.settle(slices.Concat(before, reply.IDs), err)
}

// settle records the text after a change, if the server has confirmed the change.
func (t *talk) settle(ids []int32, err error) error {
	if err == nil {
		t.ids, t.may = ids, nil
	}
	return err
}

// reread requests the text of a session, and checks that the session may have this text.
func (s *soak) reread(ctx context.Context, t *talk) error {
	var found struct {
		IDs   []int32
		Error string `json:"store_error"`
	}
	if err := s.ask(ctx, http.MethodGet, "/v1/sessions/"+t.id+"?text=true", nil, &found); err != nil {
		return err
	}
	if !slices.Equal(found.IDs, t.ids) && (t.may == nil || !t.may(found.IDs)) {
		return fmt.Errorf("there are %d tokens %v, want the %d that were stored, %v", len(found.IDs), found.IDs,
			len(t.ids), t.ids)
	}
	if found.Error != "" {
		return fmt.Errorf("store_error: %s", found.Error)
	}
	t.ids, t.may = found.IDs, nil
	s.did("session: found again")
	return nil
}

// wantSessions checks that every session exists and has its stored text.
func (s *soak) wantSessions(ctx context.Context) {
	for i := range s.talks {
		t := &s.talks[i]
		t.mu.Lock()
		if t.id != "" {
			if err := s.reread(ctx, t); err != nil && err != errNoAnswer {
				s.problem("session %s: %v", t.id, err)
			}
		}
		t.mu.Unlock()
	}
}
