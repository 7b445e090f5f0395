package sessions

import (
	"context"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/serve/request"
)

// viewing computes views one at a time, and one for each client, so that a client with many requests does not delay
// others. A queued view does not lock its session and does not count as a running request. It reads its tokens
// directly, not in the scheduler's steps.
type viewing struct {
	clients locks
	turns   chan struct{}
	all     *request.Places // views that are queued or being computed
	wait    time.Duration
}

func newViewing(queue int, wait time.Duration) *viewing {
	return &viewing{turns: make(chan struct{}, 1), all: request.NewPlaces(int64(queue)), wait: wait}
}

// alone waits until the client has no other view. It reserves that place until free is called.
func (v *viewing) alone(ctx context.Context, who request.Share) (free func(), err error) {
	leave, err := v.all.Enter(who, "views are being computed or wait for that")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.wait,
		request.Busy("another view of this client was being computed for %v", v.wait))
	defer cancel()
	release := v.clients.lock(ctx, who.Client)
	if release == nil {
		leave()
		return nil, context.Cause(ctx)
	}
	return func() { leave(); release() }, nil
}

// turn waits until no other view is being computed, first come, first served. The turn lasts until done is called.
func (v *viewing) turn(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.wait, request.Busy("other views were being computed for %v", v.wait))
	defer cancel()
	select {
	case v.turns <- struct{}{}:
		return func() { <-v.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// polite is a context for background work that yields to requests. While requests are running, Err sleeps three times
// as long as the work since the last sleep took. So the work takes a quarter of the time, and all of it on an idle
// server. The work calls Err at each layer, and within layers.
type polite struct {
	context.Context
	others func() bool

	mu    sync.Mutex
	since time.Time // time of the last sleep
}

// Durations of sleeps in a polite context.
const (
	leastWork = 5 * time.Millisecond // between sleeps
	restParts = 3                    // multiple of the working time
	mostRest  = time.Second
	restStep  = 2 * time.Millisecond // between checks for running requests
)

// Err sleeps if needed, and returns the error of the context.
func (p *polite) Err() error {
	p.rest()
	return p.Context.Err()
}

func (p *polite) rest() {
	p.mu.Lock() // so that the other goroutines of the work wait, too
	defer p.mu.Unlock()
	worked := time.Since(p.since)
	if worked < leastWork {
		return
	}
	timer := time.NewTimer(restStep)
	defer timer.Stop()
	for end := time.Now().Add(min(restParts*worked, mostRest)); p.others() && time.Now().Before(end); {
		select {
		case <-timer.C:
			timer.Reset(restStep)
		case <-p.Done():
			return
		}
	}
	p.since = time.Now()
}
