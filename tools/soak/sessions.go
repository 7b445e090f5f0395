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

// Of the sessions that the clients use.
const (
	mostSessions  = 40  // fewer than a server lets one client have
	mostOfSession = 400 // tokens; a session that has more is rewound to a few
	fewOfSession  = 20
)

// talk is a session that clients use in turn.
type talk struct {
	mu  sync.Mutex
	id  string  // "" before there is one
	ids []int32 // of its text, as the server has last said it is stored
	// may tells whether a text can be there in place of ids, after a request that had no answer; nil where only ids
	// can.
	may func(found []int32) bool
}

// begins tells whether a text begins with another.
func begins(text, with []int32) bool {
	return len(text) >= len(with) && slices.Equal(text[:len(with)], with)
}

// ask sends a request about sessions and reads the answer. Where there is none, or none of a server that is well, the
// error is errNoAnswer.
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

// converse changes one of the sessions, and notes what must be there then.
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
	if t.may != nil { // an earlier request had no answer
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
	// Some clients go in the middle of the reply, which then ends where it is.
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

// settle notes the text behind a change that was answered.
func (t *talk) settle(ids []int32, err error) error {
	if err == nil {
		t.ids, t.may = ids, nil
	}
	return err
}

// reread asks for the text of a session, and checks that it is one that can be there.
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

// wantSessions checks that every session is there, with all that was stored of it.
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
