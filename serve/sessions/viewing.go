package sessions

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hippo-ssm/hippo/serve/request"
)

// viewing has views computed one at a time, and one of each client: so a client that asks for many of them keeps nobody
// else from the next. A view that waits has no place among the requests that run and no session. It reads its tokens by
// itself, and not in the scheduler's steps.
type viewing struct {
	clients locks
	turns   chan struct{}
	all     atomic.Int64 // that wait or are computed
	most    int64
	wait    time.Duration
}

func newViewing(queue int, wait time.Duration) *viewing {
	return &viewing{turns: make(chan struct{}, 1), most: int64(queue), wait: wait}
}

// alone waits until a client has no other view, until free is called.
func (v *viewing) alone(ctx context.Context, client string) (free func(), err error) {
	if n := v.all.Add(1); n > v.most {
		v.all.Add(-1)
		return nil, request.Busy("%d views are being computed or wait for that, as many as may", n-1)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.wait,
		request.Busy("another view of this client was being computed for %v", v.wait))
	defer cancel()
	release := v.clients.lock(ctx, client)
	if release == nil {
		v.all.Add(-1)
		return nil, context.Cause(ctx)
	}
	return func() { v.all.Add(-1); release() }, nil
}

// turn waits until no other view is computed, until done is called. Those that come first are let in first.
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

// polite is the context of work that gives way to others: who asks whether it is over rests there while others are
// served, three times as long as has been worked since. So the work has a quarter of the time, and all of it when there
// is nobody else. What is being worked at asks at each layer, and within layers.
type polite struct {
	context.Context
	others func() bool

	mu    sync.Mutex
	since time.Time // that it rested
}

// How a polite context rests.
const (
	leastWork = 5 * time.Millisecond // between rests
	restParts = 3                    // of the time that was worked
	mostRest  = time.Second
	restStep  = 2 * time.Millisecond // after which it looks whether others are still there
)

// Err is that of the context, after a rest.
func (p *polite) Err() error {
	p.rest()
	return p.Context.Err()
}

func (p *polite) rest() {
	p.mu.Lock() // the other goroutines of the work rest, too
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
