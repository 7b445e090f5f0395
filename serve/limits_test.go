package serve_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
)

// TestKeyLimits checks that a key's requests and tokens per minute are counted, including those of replies in progress.
// Beyond a limit, the error has a time to retry after. Other keys are not affected, and new keys keep the counts.
func TestKeyLimits(t *testing.T) {
	few, fewSecret := serve.NewKey("few", serve.ScopeAll)
	few.Requests = 2
	small, smallSecret := serve.NewKey("small", serve.ScopeAll)
	small.Tokens = 10
	free, freeSecret := serve.NewKey("free", serve.ScopeAll)
	old, oldSecret := serve.NewKey("old", serve.ScopeAll)
	old.Expires = time.Now().Add(-time.Hour)
	keys, err := serve.ParseKeys([]byte(few.String() + "\n" + small.String() + "\n" + free.String() + "\n" +
		old.String()))
	if err != nil {
		t.Fatal(err)
	}
	s := servetest.NewSite(t, serve.Options{Keys: keys})
	ask := func(key, body string) (int, http.Header) {
		t.Helper()
		s.Key = key
		status, h, data := s.Do(http.MethodPost, "/v1/completions", body)
		if status == http.StatusTooManyRequests && (h.Get("Retry-After") == "" ||
			!strings.Contains(string(data), `"rate_limit_exceeded"`)) {
			t.Errorf("turned away with %v, %s", h, data)
		}
		return status, h
	}
	for i, want := range []int{200, 200, 429, 429} {
		status, h := ask(fewSecret, servetest.Short)
		left := []string{"1", "0", "0", "0"}[i]
		if status != want || h.Get("X-Ratelimit-Remaining-Requests") != left ||
			h.Get("X-Ratelimit-Limit-Requests") != "2" || h.Get("X-Ratelimit-Reset-Requests") == "" {
			t.Errorf("request %d: status %d, %v, want %d with %s left", i, status, h, want, left)
		}
	}
	if status, h := ask(smallSecret, `{"prompt":"abcdefgh","max_tokens":8,"ignore_eos":true}`); status != 200 {
		t.Errorf("within the limit: status %d, %v", status, h)
	}
	if status, h := ask(smallSecret, servetest.Short); status != 429 || h.Get("X-Ratelimit-Remaining-Tokens") != "0" {
		t.Errorf("16 of 10 tokens are taken, and the status is %d, %v", status, h)
	}
	if status, _ := ask(freeSecret, servetest.Short); status != 200 {
		t.Errorf("another key has the status %d", status)
	}
	if status, _ := ask(oldSecret, servetest.Short); status != http.StatusUnauthorized {
		t.Errorf("an expired key has the status %d", status)
	}
	if err := s.Hippo.SetKeys(keys[:1]); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(fewSecret, servetest.Short); status != 429 {
		t.Errorf("after a reload the status is %d", status)
	}
	if status, _ := ask(freeSecret, servetest.Short); status != http.StatusUnauthorized {
		t.Errorf("a key that was taken back has the status %d", status)
	}
	if err := s.Hippo.SetKeys(nil); err == nil {
		t.Error("a server with keys takes an empty list of them, which lets everybody in")
	}
}

// TestTokensOfCanceledRequests checks that tokens of a request whose client disconnects are counted.
func TestTokensOfCanceledRequests(t *testing.T) {
	key, secret := serve.NewKey("a", serve.ScopeAll)
	key.Tokens = 20
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{key}, MaxTokens: 1 << 30})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/completions",
		strings.NewReader(`{"prompt":"a","max_tokens":1000000000,"stream":true,"ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	a, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(a.Body, make([]byte, 10000))
	a.Body.Close()
	s.Key = secret
	if status, _, _ := s.Do(http.MethodPost, "/v1/completions", servetest.Short); status != http.StatusTooManyRequests {
		t.Errorf("the status is %d", status)
	}
}
