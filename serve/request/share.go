package request

import (
	"context"
	"sync"
)

// Share describes a client's claim to a limited resource, such as the places of running requests.
type Share struct {
	Client string
	Most   int // maximum number of running requests, 0 for no limit of the client
	// Others is true if other clients may come. Then a part of each resource is reserved for them.
	Others bool
	Last   bool // the request, a line of a batch, waits until the client has no others
	Rank   int  // order among the requests of the client: lower ones are first
}

// ShareOf returns the share of a context's request. Without a request, the share has no limit.
func ShareOf(ctx context.Context) Share {
	if t := TrackOf(ctx); t != nil {
		return t.Share
	}
	return Share{}
}

// shares divides a number of places among clients. If others may come, a client may have at most three times as many
// places as are free, and may take the last place only as its first. So of 64 places one client takes at most 48, two
// take 27 each, and a client that comes later finds a place at once. These are the dynamic thresholds of Choudhury and
// Hahne (1998). The caller must synchronize access.
type shares struct {
	places int64
	taken  int64
	by     map[string]int64
}

// newShares returns shares with the given number of free places.
func newShares(places int64) shares { return shares{places: places, by: map[string]int64{}} }

// perFree is the number of places that a client may have for each free one.
const perFree = 3

// open reports whether a client may take n places.
func (s *shares) open(who Share, n int64) bool {
	free, own := s.places-s.taken, s.by[who.Client]
	return free >= n && (own == 0 || !who.Others || free > n && own+n <= perFree*free)
}

// take takes n places. what describes them in errors, such as "requests are waiting".
func (s *shares) take(who Share, n int64, what string) error {
	own := s.by[who.Client]
	if !s.open(who, n) {
		if own == s.taken {
			return Busy("%d %s, as many as may of one client", own, what)
		}
		return Busy("%d %s, and %d of them are this client's, as many as may", s.taken, what, own)
	}
	s.taken += n
	s.by[who.Client] += n
	return nil
}

// give returns n places.
func (s *shares) give(client string, n int64) {
	s.taken -= n
	if s.by[client] -= n; s.by[client] == 0 {
		delete(s.by, client)
	}
}

// Places are shares with their own lock.
type Places struct {
	mu sync.Mutex
	shares
}

// NewPlaces returns Places with n free places.
func NewPlaces(n int64) *Places { return &Places{shares: newShares(n)} }

// Enter takes a place. The function leave frees it. what is as in shares.take.
func (p *Places) Enter(who Share, what string) (leave func(), err error) {
	if err := p.add(who, 1, what); err != nil {
		return nil, err
	}
	return func() { p.free(who.Client, 1) }, nil
}

func (p *Places) add(who Share, n int64, what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(who, n, what)
}

func (p *Places) free(client string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.give(client, n)
}

// Taken returns the number of taken places.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.taken)
}
