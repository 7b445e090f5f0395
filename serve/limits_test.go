package serve

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestKeyLimits: a key's requests and tokens a minute are counted, those of replies on the way too; who has taken too
// much is told when to come again; nobody else notices, and new keys forget nothing.
func TestKeyLimits(t *testing.T) {
	few, fewSecret := NewKey("few", ScopeAll)
	few.Requests = 2
	small, smallSecret := NewKey("small", ScopeAll)
	small.Tokens = 10
	free, freeSecret := NewKey("free", ScopeAll)
	old, oldSecret := NewKey("old", ScopeAll)
	old.Expires = time.Now().Add(-time.Hour)
	keys, err := ParseKeys([]byte(few.String() + "\n" + small.String() + "\n" + free.String() + "\n" + old.String()))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, Options{Keys: keys})
	ask := func(key, body string) (int, http.Header) {
		t.Helper()
		s.key = key
		status, h, data := s.do(http.MethodPost, "/v1/completions", body)
		if status == http.StatusTooManyRequests && (h.Get("Retry-After") == "" ||
			!strings.Contains(string(data), `"rate_limit_exceeded"`)) {
			t.Errorf("turned away with %v, %s", h, data)
		}
		return status, h
	}
	for i, want := range []int{200, 200, 429, 429} {
		status, h := ask(fewSecret, short)
		left := []string{"1", "0", "0", "0"}[i]
		if status != want || h.Get("X-Ratelimit-Remaining-Requests") != left ||
			h.Get("X-Ratelimit-Limit-Requests") != "2" || h.Get("X-Ratelimit-Reset-Requests") == "" {
			t.Errorf("request %d: status %d, %v, want %d with %s left", i, status, h, want, left)
		}
	}
	if status, h := ask(smallSecret, `{"prompt":"abcdefgh","max_tokens":8,"ignore_eos":true}`); status != 200 {
		t.Errorf("within the limit: status %d, %v", status, h)
	}
	if status, h := ask(smallSecret, short); status != 429 || h.Get("X-Ratelimit-Remaining-Tokens") != "0" {
		t.Errorf("16 of 10 tokens are taken, and the status is %d, %v", status, h)
	}
	if status, _ := ask(freeSecret, short); status != 200 {
		t.Errorf("another key has the status %d", status)
	}
	if status, _ := ask(oldSecret, short); status != http.StatusUnauthorized {
		t.Errorf("an expired key has the status %d", status)
	}
	if err := s.server.SetKeys(keys[:1]); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(fewSecret, short); status != 429 {
		t.Errorf("after a reload the status is %d", status)
	}
	if status, _ := ask(freeSecret, short); status != http.StatusUnauthorized {
		t.Errorf("a key that was taken back has the status %d", status)
	}
	if err := s.server.SetKeys(nil); err == nil {
		t.Error("a server with keys takes an empty list of them, which lets everybody in")
	}
}

// TestAllowance: what is left comes back with the time, up to a minute's worth, also after more was taken than there
// was.
func TestAllowance(t *testing.T) {
	now := time.Now()
	a := quota{perMinute: 60}
	for _, c := range []struct {
		after      time.Duration
		take, left float64
		wait       time.Duration
	}{
		{0, 0, 60, 0}, {0, 100, -40, 41 * time.Second}, {41 * time.Second, 0, 1, 0}, {time.Hour, 0, 60, 0},
	} {
		now = now.Add(c.after)
		a.fill(now)
		a.left -= c.take
		if wait := a.until(1).Round(time.Millisecond); a.left-c.left > 1e-6 || c.left-a.left > 1e-6 || wait != c.wait {
			t.Errorf("left %v after a wait of %v, want %v and %v", a.left, wait, c.left, c.wait)
		}
	}
}

// TestTokensOfCanceledRequests: tokens of a request whose client goes are taken all the same.
func TestTokensOfCanceledRequests(t *testing.T) {
	key, secret := NewKey("a", ScopeAll)
	key.Tokens = 20
	s := newSite(t, Options{Keys: []Key{key}, MaxTokens: 1 << 30})
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
	s.key = secret
	if status, _, _ := s.do(http.MethodPost, "/v1/completions", short); status != http.StatusTooManyRequests {
		t.Errorf("the status is %d", status)
	}
}
