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

// quota is an amount per minute, of which at most one minute's worth can accumulate. A request may take more than is
// left. Then nothing can be taken until enough time has passed to make up for it.
type quota struct {
	perMinute int // 0 for no limit
	left      float64
	at        time.Time // when left was computed
}

// fill adds what has accumulated.
func (a *quota) fill(now time.Time) {
	most := float64(a.perMinute)
	if a.at.IsZero() {
		a.left = most
	}
	a.left, a.at = min(most, a.left+now.Sub(a.at).Minutes()*most), now
}

// until returns the time until an amount is left, or until the quota is full.
func (a *quota) until(want float64) time.Duration {
	want = min(want, float64(a.perMinute))
	if a.perMinute == 0 || a.left >= want {
		return 0
	}
	return time.Duration((want - a.left) / float64(a.perMinute) * float64(time.Minute))
}

// limits are the quotas of one key.
type limits struct {
	mu       sync.Mutex
	requests quota
	tokens   quota
}

// set changes the limits to those of a key. Used amounts stay used.
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

// TakeTokens counts tokens that a request of the key has read or generated.
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

// Pause returns the time until the key may read another token.
func (l *limits) Pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens.fill(time.Now())
	return l.tokens.until(1)
}

// takeRequest counts a request, or returns the error of a limit. Only requests that use tokens check the token limit: a
// client without tokens can still inspect and cancel a batch. The response gets the limit headers of OpenAI.
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

// exceeded returns an error if nothing is left.
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

// headers sets the headers that report what is left.
func (a *quota) headers(h http.Header, name string) {
	if a.perMinute == 0 {
		return
	}
	h.Set("X-Ratelimit-Limit-"+name, strconv.Itoa(a.perMinute))
	h.Set("X-Ratelimit-Remaining-"+name, strconv.Itoa(int(math.Floor(max(0, a.left)))))
	h.Set("X-Ratelimit-Reset-"+name, a.until(float64(a.perMinute)).Round(time.Millisecond).String())
}

// keyring holds the keys of a server and their limits.
type keyring struct {
	keys   []Key
	limits map[string]*limits // by name
}

// SetKeys replaces the keys of the clients. Requests in flight continue, and the used amounts of a key stay used. If
// the server had keys, at least one is needed: without keys every request would be admitted.
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
