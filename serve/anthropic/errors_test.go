package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/session"
)

const short = `{"max_tokens":1,"messages":[{"role":"user","content":"a"}]}`

// wantFailure sends a request, and checks the form of its error.
func wantFailure(t *testing.T, s *servetest.Site, method, path, body string, header http.Header, status int,
	kind string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	a, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	if status == http.StatusOK && a.StatusCode == status {
		return
	}
	e := servetest.Decode[struct {
		Type      string
		Error     struct{ Type, Message string }
		RequestID string `json:"request_id"`
	}](t, data)
	if a.StatusCode != status || e.Type != "error" || e.Error.Type != kind || e.Error.Message == "" ||
		e.RequestID == "" || e.RequestID != a.Header.Get("Request-Id") {
		t.Errorf("%s %s: got %d, %v, %s, want %d, %s", method, path, a.StatusCode, a.Header, data, status, kind)
	}
}

// TestErrors checks that an error has Anthropic's form, status and type, and the request's id.
func TestErrors(t *testing.T) {
	all, secret := serve.NewKey("alice", serve.ScopeAll)
	some, limited := serve.NewKey("bob", serve.ScopeModels)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{all, some}, MaxBody: 1000})
	key := func(secret string) http.Header { return http.Header{"X-Api-Key": {secret}} }
	const named = `{"model":"claude","max_tokens":1,"messages":[{"role":"user","content":"a"}]}`
	for _, path := range []string{messages, count} {
		wantFailure(t, s, http.MethodPost, path, short, key(secret), 200, "")
		wantFailure(t, s, http.MethodPost, path, short, http.Header{"Authorization": {"Bearer " + secret}}, 200, "")
		wantFailure(t, s, http.MethodPost, path, short, nil, 401, "authentication_error")
		wantFailure(t, s, http.MethodPost, path, short, key("hippo-X"), 401, "authentication_error")
		wantFailure(t, s, http.MethodPost, path, short, key(limited), 403, "permission_error")
		wantFailure(t, s, http.MethodPost, path, named, key(secret), 404, "not_found_error")
		wantFailure(t, s, http.MethodGet, path, "", key(secret), 405, "invalid_request_error")
		wantFailure(t, s, http.MethodPost, path, strings.Repeat(" ", 2000), key(secret), 413, "request_too_large")
		with := key(secret)
		with.Set("Anthropic-Version", "2023-06-01")
		wantFailure(t, s, http.MethodPost, path, short, with, 200, "")
		with.Set("Anthropic-Version", "2026-10-21") // npm's client
		wantFailure(t, s, http.MethodPost, path, short, with, 200, "")
		with.Set("Anthropic-Version", "2099-01-01")
		wantFailure(t, s, http.MethodPost, path, short, with, 400, "invalid_request_error")
		foreign := key(secret)
		foreign.Set("Origin", "https://evil.example")
		wantFailure(t, s, http.MethodPost, path, short, foreign, 403, "permission_error")
	}
	with := key(secret)
	with.Set("Anthropic-Version", "2023-06-01")
	wantFailure(t, s, http.MethodGet, "/v1/models/claude", "", with, 404, "not_found_error")
	s.Hippo.Drain()
	wantFailure(t, s, http.MethodPost, messages, short, key(secret), 503, "overloaded_error")
}

// TestErrorsLater checks that an error of the model is not reported as the client's, and is the last event of a stream.
func TestErrorsLater(t *testing.T) {
	s := servetest.NewSiteOf(t, serve.Options{}, func(ctx context.Context, r *session.Request) error {
		if r.Next == nil {
			return session.Direct{}.Run(ctx, r)
		}
		if _, _, err := r.Next(r.Session.Logits(0)); err != nil {
			return err
		}
		return errors.New("the sea is empty")
	})
	body := strings.Replace(short, "1", "9", 1)
	wantFailure(t, s, http.MethodPost, messages, body, nil, 500, "api_error")
	status, _, data := s.Do(http.MethodPost, messages, strings.Replace(body, "{", `{"stream":true,`, 1))
	events := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	last := events[len(events)-1]
	const failed = "event: error\ndata: " + `{"type":"error","error":{"type":"api_error"`
	if status != http.StatusOK || !strings.HasPrefix(last, failed) || strings.Contains(string(data), "sea") ||
		!strings.HasPrefix(events[0], "event: message_start\n") {
		t.Errorf("got %d, %s", status, data)
	}
}

// TestModels checks that the list of models also has the fields of Anthropic's clients.
func TestModels(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	list := servetest.Fetch[struct {
		Data  []openai.Model
		First string `json:"first_id"`
		Last  string `json:"last_id"`
		More  *bool  `json:"has_more"`
	}](s, http.MethodGet, "/v1/models")
	if len(list.Data) != 1 || list.First != "tiny" || list.Last != "tiny" || list.More == nil || *list.More {
		t.Fatalf("got %+v", list)
	}
	one := servetest.Fetch[openai.Model](s, http.MethodGet, "/v1/models/tiny")
	if m := list.Data[0]; m != one || m.Type != "model" || m.DisplayName != "tiny" || m.CreatedAt.Unix() != m.Created {
		t.Errorf("got %+v and %+v", m, one)
	}
}
