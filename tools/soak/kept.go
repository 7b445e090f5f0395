package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// mostKept is the maximum number of stored responses. It is low enough that the server does not remove old ones.
const mostKept = 800

// response is a response of /v1/responses.
type response struct {
	ID     string
	Status string
	Output []struct {
		Content []struct{ Text string }
	}
}

// text returns the text of the response.
func (r *response) text() (text string) {
	for _, o := range r.Output {
		for _, c := range o.Content {
			text += c.Text
		}
	}
	return text
}

// leave makes the server store a response, and returns the response's text and id.
func (s *soak) leave(ctx context.Context, prompt string) (text, id string, err error) {
	body, err := json.Marshal(map[string]any{"input": prompt, "max_output_tokens": s.tokens, "temperature": 1})
	if err != nil {
		return "", "", err
	}
	a, err := s.post(ctx, "/v1/responses", body)
	if err != nil {
		return "", "", errNoAnswer
	}
	defer a.Body.Close()
	var r response
	if json.NewDecoder(a.Body).Decode(&r) != nil || a.StatusCode != http.StatusOK {
		return "", "", errNoAnswer
	}
	return r.text(), r.ID, nil
}

// keep makes the server store a response, and records it when it has arrived completely.
func (s *soak) keep(ctx context.Context, prompt string) {
	text, id, err := s.leave(ctx, prompt)
	if err != nil {
		s.did("no answer")
		return
	}
	s.did("kept")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[id] = text
}

// wantStored checks that the server has all responses that keep recorded.
func (s *soak) wantStored(ctx context.Context) {
	s.mu.Lock()
	noted := make(map[string]string, len(s.stored))
	for id, text := range s.stored {
		noted[id] = text
	}
	s.mu.Unlock()
	for id, want := range noted {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/v1/responses/"+id, nil)
		if err != nil {
			return
		}
		a, err := s.http.Do(r)
		if err != nil {
			return // the server was killed again, or the time is over
		}
		data, err := io.ReadAll(a.Body)
		a.Body.Close()
		var found response
		if err != nil || a.StatusCode == http.StatusTooManyRequests {
			continue
		}
		if json.Unmarshal(data, &found) != nil || a.StatusCode != http.StatusOK || found.text() != want {
			s.problem("of what was kept under %s there is status %d, %.200s, want %q", id, a.StatusCode, data, want)
			continue
		}
		s.did("found again")
	}
}
