package serve

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// admission bounds how many requests run, and how many wait for that.
type admission struct {
	places  chan struct{} // of those that run
	waiting atomic.Int64
	most    int64
	wait    time.Duration
}

// newAdmission lets a number of requests run, and others wait for some time.
func newAdmission(run, queue int, wait time.Duration) *admission {
	return &admission{places: make(chan struct{}, run), most: int64(queue), wait: wait}
}

// running is the number of requests that run.
func (a *admission) running() int { return len(a.places) }

// queued is the number of requests that wait.
func (a *admission) queued() int { return int(max(0, a.waiting.Load())) }

// enter waits for a place, which leave gives back. Those that come first are let in first.
func (a *admission) enter(ctx context.Context) error {
	select {
	case a.places <- struct{}{}:
		return nil
	default:
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > a.most {
		return busy("%d requests are running and %d are waiting, as many as may", cap(a.places), a.most)
	}
	timer := time.NewTimer(a.wait)
	defer timer.Stop()
	select {
	case a.places <- struct{}{}:
		return nil
	case <-timer.C:
		return busy("%d requests are running, and none has ended in %v", cap(a.places), a.wait)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *admission) leave() { <-a.places }

// enter waits until the request may run. The admission's leave gives its place back.
func (c *call) enter(a *admission) error {
	if err := c.draining(); err != nil {
		return err
	}
	ended, begun := c.begin(c.r.Context(), PhaseQueue), time.Now()
	err := a.enter(c.r.Context())
	took := time.Since(begun)
	c.track.queued.Store(int64(took))
	c.Counters.Queued(took)
	ended(PhaseEnd{Err: err})
	if err != nil {
		return fmt.Errorf("waiting for a place: %w", err)
	}
	return nil
}
