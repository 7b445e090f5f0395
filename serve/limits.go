package serve

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/serve/request"
)

// quota is so much a minute, of which a minute's worth can be saved up. What is taken may be more than there is:
// then nothing is left until the time has paid for it.
type quota struct {
	perMinute int // 0 for any
	left      float64
	at        time.Time // of left
}

// fill brings what is left up to date.
func (a *quota) fill(now time.Time) {
	most := float64(a.perMinute)
	if a.at.IsZero() {
		a.left = most
	}
	a.left, a.at = min(most, a.left+now.Sub(a.at).Minutes()*most), now
}

// until is how long it takes until there is so much, at most as much as there can be.
func (a *quota) until(want float64) time.Duration {
	want = min(want, float64(a.perMinute))
	if a.perMinute == 0 || a.left >= want {
		return 0
	}
	return time.Duration((want - a.left) / float64(a.perMinute) * float64(time.Minute))
}

// limits are what one key may take.
type limits struct {
	mu       sync.Mutex
	requests quota
	tokens   quota
}

// set takes over the limits of a key. What was taken before stays taken.
func (l *limits) set(k *Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, to := range []struct {
		a         *quota
		perMinute int
	}{{&l.requests, k.Requests}, {&l.tokens, k.Tokens}} {
		if to.a.perMinute != to.perMinute {
			*to.a = quota{perMinute: to.perMinute}
		}
		to.a.fill(now)
	}
}

// TakeTokens counts tokens that a request of the key has read or written.
func (l *limits) TakeTokens(n int) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens.perMinute > 0 {
		l.tokens.fill(time.Now())
		l.tokens.left -= float64(n)
	}
}

// Pause is how long it takes until a token may be read for the key.
func (l *limits) Pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens.fill(time.Now())
	return l.tokens.until(1)
}

// takeRequest counts a request, or returns why it is too much; too many tokens are for one that asks for some: who has
// taken them can still look at a batch, and cancel it. It tells a client where it stands, in the headers that
// OpenAI has for that.
func (l *limits) takeRequest(h http.Header, asks bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var err error
	for _, what := range []struct {
		name string
		a    *quota
	}{{request.LimitRequests, &l.requests}, {request.LimitTokens, &l.tokens}} {
		if what.a.perMinute == 0 {
			continue
		}
		what.a.fill(now)
		if err == nil && (asks || what.a == &l.requests) {
			err = what.a.exceeded(what.name)
		}
	}
	if err == nil && l.requests.perMinute > 0 {
		l.requests.left--
	}
	l.requests.headers(h, request.LimitRequests)
	l.tokens.headers(h, request.LimitTokens)
	return err
}

// HasTokens returns an error if the key has no tokens left.
func (l *limits) HasTokens() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens.fill(time.Now())
	return l.tokens.exceeded(request.LimitTokens)
}

// exceeded returns an error if there is nothing left.
func (a *quota) exceeded(name string) error {
	wait := a.until(1)
	if wait <= 0 {
		return nil
	}
	e := request.Busy("found more than %d %s a minute, the limit of the API key, want a pause of %v", a.perMinute, name,
		wait.Round(time.Millisecond))
	e.Limit, e.Retry = name, wait
	return e
}

// headers tells how much is left.
func (a *quota) headers(h http.Header, name string) {
	if a.perMinute == 0 {
		return
	}
	h.Set("X-Ratelimit-Limit-"+name, strconv.Itoa(a.perMinute))
	h.Set("X-Ratelimit-Remaining-"+name, strconv.Itoa(int(math.Floor(max(0, a.left)))))
	h.Set("X-Ratelimit-Reset-"+name, a.until(float64(a.perMinute)).Round(time.Millisecond).String())
}

// keyring is the keys of a server with what is left to each of them.
type keyring struct {
	keys   []Key
	limits map[string]*limits // by name
}

// SetKeys replaces the keys of the clients. Requests that run are not stopped, and what a key has taken of its limits
// stays taken. A server that had keys needs at least one, else everybody would be let in.
func (s *Server) SetKeys(keys []Key) error {
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	old := s.keys.Load()
	if len(keys) == 0 && old != nil && len(old.keys) > 0 {
		return fmt.Errorf("serve: found no key, want at least one")
	}
	ring := &keyring{keys: keys, limits: map[string]*limits{}}
	for i := range keys {
		k := &keys[i]
		if k.Requests == 0 && k.Tokens == 0 {
			continue
		}
		var l *limits
		if old != nil {
			l = old.limits[k.Name]
		}
		if l == nil {
			l = &limits{}
		}
		l.set(k)
		ring.limits[k.Name] = l
	}
	s.keys.Store(ring)
	return nil
}
